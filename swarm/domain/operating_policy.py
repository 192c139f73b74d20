"""How the swarm behaves: what the operator has decided, defaults filled in, as the use cases need it.

Most of it holds for as long as a process lives. What may change meanwhile, the policies, is one frozen value in a
`PolicyBook`: a reload replaces it as a whole, and whoever asks next gets the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from swarm.domain.access import ChannelPolicy
from swarm.domain.model.agents import MOST_AGENTS, MOST_ENROLLED, OFFLINE_AFTER_SECONDS
from swarm.domain.model.inbox import REACTION_ANSWERED, REACTION_FAILED, REACTION_STOPPED, REACTION_STORED
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.prompts.input import HISTORY_CHARACTERS

MESSAGES_PER_MINUTE: Final = 20

_DIRECT = "D"  # what the ids of direct messages begin with, and no other's


@dataclass(frozen=True, kw_only=True, slots=True)
class Reactions:
    """The emoji that show a message's state; None switches one off."""

    stored: str | None = REACTION_STORED
    answered: str | None = REACTION_ANSWERED
    failed: str | None = REACTION_FAILED
    stopped: str | None = REACTION_STOPPED


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """For how many days the words of what is over are kept."""

    threads_days: int = 90  # after the last activity in a thread
    sessions_days: int = 90  # after the last use of a built-in agent's session
    runs_days: int = 90  # after the end of a run: the answer as it was shown, and what it has used and cost
    agent_messages_days: int = 90
    routing_days: int = 7  # why a message concerned nobody


@dataclass(frozen=True, kw_only=True, slots=True)
class Policies:
    """What the operator may change while coordinators run. ``channels`` is keyed by channel id."""

    default_agent: str | None = None  # a lead's name; None: the oldest lead that is online
    dm_agent: str | None = None  # the name of the agent for direct messages; None: as everywhere
    reactions: Reactions = field(default_factory=Reactions)
    messages_per_minute: int | None = None  # of one person, over all channels, that reach agents; None: no limit
    channels: Mapping[str, ChannelPolicy] = field(default_factory=dict)
    everywhere: ChannelPolicy = field(default_factory=ChannelPolicy)

    def of(self, channel: str) -> ChannelPolicy:
        """What holds in a channel: by its own entry, else as everywhere, direct messages with the agent for them."""
        own = self.channels.get(channel)
        if own is None and self.dm_agent and channel.startswith(_DIRECT):
            return replace(self.everywhere, agent=self.dm_agent)
        return own or self.everywhere


class PolicyBook:
    """Holds the policies that are in force. Replacing them is one assignment, so nobody ever sees half of a change."""

    def __init__(self, policies: Policies) -> None:
        self.current = policies


class _ReactionsInForce(Reactions):
    """Reactions that follow a book: who was handed them once, as the sender is, sees every change."""

    __slots__ = ("_book",)
    _book: PolicyBook

    def __init__(self, book: PolicyBook) -> None:
        object.__setattr__(self, "_book", book)

    @property
    def stored(self) -> str | None:
        return self._book.current.reactions.stored

    @property
    def answered(self) -> str | None:
        return self._book.current.reactions.answered

    @property
    def failed(self) -> str | None:
        return self._book.current.reactions.failed

    @property
    def stopped(self) -> str | None:
        return self._book.current.reactions.stopped


@dataclass(frozen=True, kw_only=True, slots=True, init=False)
class OperatingPolicy:
    """The operator's decisions. Two of one book, as `dataclasses.replace` makes them, follow the same reloads."""

    offline_after_seconds: float
    lease_seconds: float
    most_agents: int
    most_enrolled: int
    started_at: int  # microseconds; when this coordinator began to listen. 0: when it opened the database
    retention: Retention
    history_characters: int | None  # of a thread, told with a prompt or a run; None: all
    book: PolicyBook
    guarded_agents: frozenset[str]  # names of built-in agents whose tools reach the host: see `CallerPolicy`

    def __init__(
        self,
        *,
        offline_after_seconds: float = OFFLINE_AFTER_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        most_agents: int = MOST_AGENTS,
        most_enrolled: int = MOST_ENROLLED,
        started_at: int = 0,
        retention: Retention | None = None,
        history_characters: int | None = HISTORY_CHARACTERS,
        book: PolicyBook | None = None,
        guarded_agents: frozenset[str] = frozenset(),
        default_agent: str | None = None,
        dm_agent: str | None = None,
        reactions: Reactions | None = None,
        messages_per_minute: int | None = None,
        channels: Mapping[str, ChannelPolicy] | None = None,
        everywhere: ChannelPolicy | None = None,
    ) -> None:
        """Without a ``book`` it gets one, with the policies that are given here: see `Policies`."""
        policies = Policies(
            default_agent=default_agent,
            dm_agent=dm_agent,
            reactions=reactions or Reactions(),
            messages_per_minute=messages_per_minute,
            channels=channels or {},
            everywhere=everywhere or ChannelPolicy(),
        )
        for name, value in (
            ("offline_after_seconds", offline_after_seconds),
            ("lease_seconds", lease_seconds),
            ("most_agents", most_agents),
            ("most_enrolled", most_enrolled),
            ("started_at", started_at),
            ("retention", retention or Retention()),
            ("history_characters", history_characters),
            ("book", book or PolicyBook(policies)),
            ("guarded_agents", guarded_agents),
        ):
            object.__setattr__(self, name, value)

    @property
    def default_agent(self) -> str | None:
        """A lead's name; None: the oldest lead that is online."""
        return self.book.current.default_agent

    @property
    def reactions(self) -> Reactions:
        """The emoji in force, now and later."""
        return _ReactionsInForce(self.book)

    @property
    def messages_per_minute(self) -> int | None:
        """So many messages of one person reach agents within a minute; None: no limit."""
        return self.book.current.messages_per_minute

    def policy(self, channel: str) -> ChannelPolicy:
        """What holds in a channel."""
        return self.book.current.of(channel)


KEPT: Final = "The old ones stay."
"""What becomes of the settings when the new ones cannot be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reloaded:
    """What came of reading the settings again; all keys are dotted, and none of it tells a value but agents' names."""

    changed: tuple[str, ...]  # what is in force from now on
    needs_restart: tuple[str, ...]  # what differs from what the process was started with, and waits for the next start
    doubts: tuple[str, ...]  # sentences about what may not be meant, such as a name that no agent has
