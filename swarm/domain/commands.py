"""The slash command and the Home tab: what people ask, and what they are shown.

Each answer is for one person only. The texts in it are as people and agents wrote them; `swarm.slack.outgoing` makes
them safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from swarm.domain.model.agents import Load, Role
from swarm.domain.policy.channels import Listen


class Subcommand(StrEnum):
    """The first word after the command, with its line in the help."""

    purpose: str
    argument: str  # what may follow, as the help shows it

    def __new__(cls, word: str, purpose: str, argument: str = "") -> Self:
        self = str.__new__(cls, word)
        self._value_, self.purpose, self.argument = word, purpose, argument
        return self

    STATUS = "status", "is everything running, and who answers here?"
    AGENTS = "agents", "the agents, and how to address them"
    TASKS = "tasks", "your open messages and tasks, and the other tasks of this conversation"
    STOP = "stop", "stop what runs for you here"
    EXPLAIN = "explain", "who got a message, and what became of it; without a link, your last one here", "LINK"
    FEEDBACK = "feedback", "tell the people who run the swarm what you think", "TEXT"
    HELP = "help", "this text. Only you see these answers."


@dataclass(frozen=True, kw_only=True, slots=True)
class SlashCommand:
    """A slash command as a person typed it. ``key`` identifies it, so that a repeated delivery counts once."""

    key: str
    command: str  # such as "/swarm"
    text: str  # everything after it
    user_id: str
    channel: str  # the conversation in which it was typed; the app need not be in it
    response_url: str  # for answers after the acknowledgement
    trigger_id: str  # opens a modal within three seconds

    @property
    def word(self) -> str:
        """The first word of the text in lower case; empty without a text."""
        return next(iter(self.text.split(maxsplit=1)), "").lower()

    @property
    def argument(self) -> str:
        """The text after the first word."""
        return "".join(self.text.split(maxsplit=1)[1:]).strip()

    @property
    def subcommand(self) -> Subcommand | None:
        """The subcommand, HELP without a text; None for an unknown one."""
        return _SUBCOMMANDS.get(self.word or Subcommand.HELP)


_SUBCOMMANDS = {one.value: one for one in Subcommand}


@dataclass(frozen=True, kw_only=True, slots=True)
class RemarkSubmitted:
    """A remark about the swarm, entered in the form. ``key`` identifies the form, so that it counts once."""

    key: str
    user_id: str
    channel: str  # the conversation in which the command was typed
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HomeOpened:
    """A person has opened the app's Home tab (``app_home_opened``)."""

    user_id: str
    channel: str  # the person's direct conversation with the app


class WorkState(StrEnum):
    """The state of a piece of open work, as its requester sees it."""

    QUEUED = "queued"  # no agent has begun
    RUNNING = "running"
    ASKING = "asking"  # a person has to decide first
    BLOCKED = "blocked"  # other tasks come first


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenWork:
    """A message or a task that is not finished."""

    thread_id: str
    channel: str
    thread_ts: str
    link: str  # to the thread
    title: str  # the task's title, or the beginning of the message
    state: WorkState
    agent: str | None  # the agent's name
    since: int  # microseconds since 1970 UTC
    requester: str | None  # a Slack user id
    task_id: str | None = None  # None: a message


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentCard:
    """An agent as people see it."""

    name: str
    role: Role
    description: str
    online: bool
    load: Load
    parked_seconds: int = 0  # for so long it takes no work, because a limit of its account is reached


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelListening:
    """Which agent answers in a conversation, and what it hears there without a mention."""

    agent: str | None  # None: no lead is registered
    online: bool
    listen: Listen
    is_direct: bool
    is_visible: bool = True  # False: Slack does not show the conversation to the app


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionWanted:
    """An open request that waits for a person's decision."""

    title: str
    agent: str
    link: str  # to its thread; empty without one
    since: int  # microseconds since 1970 UTC


# --- Answers to the slash command


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandRefused:
    """The person may not use the swarm here now."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandHelp:
    """What one can do."""

    command: str
    unknown: str = ""  # the word that is no subcommand


@dataclass(frozen=True, kw_only=True, slots=True)
class SwarmCondition:
    """Whether the swarm is well."""

    agents: tuple[AgentCard, ...]
    inbox_unread: int
    oldest_unread_seconds: int  # 0 without unread messages
    tasks_open: int
    here: ChannelListening


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentList:
    """The agents that the person may use."""

    agents: tuple[AgentCard, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkList:
    """The person's own open tasks, and those of other people in the conversation, oldest first."""

    own: tuple[OpenWork, ...]
    others: tuple[OpenWork, ...]
    channel: str  # only tasks of this conversation can be stopped from here


@dataclass(frozen=True, kw_only=True, slots=True)
class StopChoice:
    """The person's own work that can be stopped in the conversation, if there is more than one thread with some."""

    work: tuple[OpenWork, ...]  # one for each thread


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkStopped:
    """The result of a stop. ``stopped`` is 0 if nothing was running or waiting."""

    stopped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """How a message was routed, and what became of it, as sentences."""

    lines: tuple[str, ...]
    link: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemarkWanted:
    """A remark about the swarm is asked for in a form."""

    channel: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RemarkStored:
    """The person's remark is stored."""


CommandAnswer = (
    CommandRefused
    | CommandHelp
    | SwarmCondition
    | AgentList
    | WorkList
    | StopChoice
    | WorkStopped
    | Explanation
    | RemarkWanted
    | RemarkStored
)


# --- The Home tab


@dataclass(frozen=True, kw_only=True, slots=True)
class HomeContent:
    """What a person's Home tab shows. ``refused`` replaces everything else."""

    refused: str = ""
    work: tuple[OpenWork, ...] = ()  # the person's own
    decisions: tuple[DecisionWanted, ...] = ()
    mistakes: tuple[str, ...] = ()  # in the settings; for operators
    agents: tuple[AgentCard, ...] = ()
