"""Who may use the swarm, and where: the one place that every entry point asks.

Who somebody is: a member of our workspace or of its organisation, a guest, or a stranger.

Fails closed: who is not known to be a member is none. The event itself shows people of other workspaces, as long as
ours belongs to no Enterprise Grid organisation; in one, only ``users.info`` tells a colleague of a sister workspace
from a stranger. Guests are told by ``users.info`` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import TaskDisplay
from swarm.domain.model.agents import Agent, Role, check_name
from swarm.domain.model.threads import Author, AuthorKind, Standing


class Listen(StrEnum):
    """Which messages of a channel concern its agent without a mention."""

    MENTION = "mention"  # none
    ALL = "all"  # people's root messages
    BOTS = "bots"  # allowed bots' posts, and no person's


class External(StrEnum):
    """What strangers may do in a channel: guests, people of other workspaces, authors whom Slack does not know."""

    DENY = "deny"
    ALLOW = "allow"  # they reach agents; tools that write stay closed to what they alone have said


BOT_MESSAGES_PER_HOUR: Final = 10
"""So many messages of bots are routed per thread and hour, so that two bots cannot talk for ever."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelPolicy:
    """What the operator has configured for one channel, defaults filled in."""

    agent: str | None = None  # an agent's name; None: the default lead
    enabled: bool = True
    listen: Listen = Listen.MENTION
    allowed_users: frozenset[str] | None = None  # user ids; None: everybody
    allowed_bots: frozenset[str] = frozenset()  # bot ids (B…) or their users' ids (U…)
    bot_messages_per_hour: int = BOT_MESSAGES_PER_HOUR  # that are routed in one thread
    display: TaskDisplay = TaskDisplay.PLAN
    client_context: Mapping[str, object] = field(default_factory=dict, hash=False)  # its own keys, JSON values
    external: External = External.DENY
    share_email: bool = False  # whether the agent is told the e-mail address of who asks


OPERATOR: Final = "operator"
"""What the operator is called where callers have names; no agent that calls may be called so."""

GROUPS: Final = {"leads": Role.LEAD, "workers": Role.WORKER}
"""The words of a list of callers that stand for all agents of a role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerPolicy:
    """Who may call a built-in agent over AG-UI."""

    callers: frozenset[str] = frozenset({OPERATOR})  # groups and agents' names
    reaches_host: bool = True  # its tools touch the host or the operator's documents, or are of MCP servers
    tool_details: bool = False  # callers are told with which arguments it calls its tools, and what these answer

    def allows(self, caller: Agent | None) -> bool:
        """Whether an agent may, or, if None, the operator, who always may.

        Whoever has an enrolment key chooses the names of workers; so these never reach the host, however listed.
        """
        if caller is None:
            return True
        if caller.enrolled and self.reaches_host:
            return False
        by_role = any(caller.role is role for group, role in GROUPS.items() if group in self.callers)
        return by_role or caller.name in self.callers - GROUPS.keys()


def check_callers(callers: Collection[str]) -> None:
    """Raises Invalid for a list of callers with a word that is neither a group nor an agent's name."""
    for caller in callers:
        if caller != OPERATOR and caller not in GROUPS:
            check_name(caller)


_STRANGERS: Final[Mapping[Standing | None, str]] = {
    Standing.GUEST: "this person is a guest of the workspace",
    Standing.EXTERNAL: "this person belongs to another workspace",
    Standing.UNVERIFIED: "Slack does not say who this person is, or the account is deactivated",
    None: "Slack has not said yet who this person is",
}
_HOW_TO_ALLOW: Final = "strangers are heard only where the channel says external: allow"


def denial(author: Author, policy: ChannelPolicy) -> str | None:
    """Why this author may not use the swarm in a channel with this policy; None if they may."""
    if not policy.enabled:
        return "the channel is switched off"
    if author.kind is AuthorKind.BOT:
        known_as = {author.id, author.bot_id}
        return None if known_as & policy.allowed_bots else "this bot is not on the channel's list of allowed bots"
    if author.standing in _STRANGERS and policy.external is not External.ALLOW:
        return f"{_STRANGERS[author.standing]}; {_HOW_TO_ALLOW}"
    if policy.allowed_users is not None and author.id not in policy.allowed_users:
        return "this person is not on the list of allowed users"
    return None


def standing_in(author: Author, policy: ChannelPolicy) -> Standing:
    """How a message of this author is marked in the context of a channel with this policy."""
    if author.kind is AuthorKind.AGENT:
        return Standing.MEMBER
    if author.kind is AuthorKind.USER and author.standing is not Standing.MEMBER:
        return author.standing or Standing.UNVERIFIED
    return Standing.NOT_ALLOWED if policy.enabled and denial(author, policy) else Standing.MEMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class Me:
    """The Slack identity of this app's bot, from ``auth.test``."""

    team: str
    user_id: str
    bot_id: str
    url: str = ""  # of the workspace, for permalinks
    enterprise: str = ""  # the Enterprise Grid organisation's id; empty: the workspace belongs to none

    @property
    def homes(self) -> frozenset[str]:
        """Whose people are colleagues. An installation for the whole organisation has its id as ``team``."""
        return frozenset(filter(None, (self.team, self.enterprise)))

    def wrote(self, author: Author) -> bool:
        return author.id in (self.user_id, self.bot_id) or author.bot_id == self.bot_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """A user as ``users.info`` describes them."""

    id: str
    name: str  # the display name; the id where there is none
    email: str | None = None  # needs the scope users:read.email
    teams: tuple[str, ...] = ()  # workspaces and organisation that they belong to
    is_guest: bool = False
    is_stranger: bool = False  # Slack says so: known through a shared channel only
    is_known: bool = True  # False: Slack has no such user, shows none to us, or the account is deactivated


def standing_by_event(author: Author, me: Me) -> Standing | None:
    """What needs no question to Slack. None: it has to be asked. Bots are judged by the channels' lists alone."""
    if author.kind is not AuthorKind.USER:
        return Standing.MEMBER
    is_foreign = bool(set(author.teams) - me.homes)
    return Standing.EXTERNAL if is_foreign and not me.enterprise else None


def standing_of(person: Person, me: Me) -> Standing:
    """How somebody stands to our workspace by Slack's answer."""
    if not person.is_known or not person.teams:
        return Standing.UNVERIFIED
    if person.is_stranger or not me.homes & set(person.teams):
        return Standing.EXTERNAL
    return Standing.GUEST if person.is_guest else Standing.MEMBER
