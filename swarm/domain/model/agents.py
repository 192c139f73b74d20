"""Agents: programs with a token and a role, their load, and the messages between them.

An agent message goes to one agent or into a named internal channel, which is not a Slack channel.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter
from typing import Annotated, Final

from swarm.domain.errors import Invalid
from swarm.domain.text.slack_text import preview
from swarm.domain.views import JsonView, Key, Time
from swarm_base.characters import strip_invisible

MOST_AGENTS: Final = 2_000
"""The maximum number of registered agents."""

MOST_ENROLLED: Final = 100
"""The maximum number of workers registered with an enrolment key, so that a stolen key cannot register more."""

OFFLINE_AFTER_SECONDS: Final = 120
SEEN_EVERY_SECONDS: Final = 30
"""The shortest interval between two writes of ``last_seen_at``."""

LONGEST_NAME: Final = 32
NEVER_NAMES: Final = frozenset({"all", "swarm"})  # swarm#all addresses all agents; swarm is the coordinator
_NAME = re.compile(rf"[a-z0-9-]{{1,{LONGEST_NAME}}}")
RESERVED_NAMES: Final = frozenset(
    {"all", "channel", "coordinator", "everyone", "here", "leads", "operator", "slack", "slackbot", "swarm", "system"}
    | {"workers"}
)
"""Names that mean somebody else where people and agents read them. No new agent gets one, also not with hyphens at its
ends; agents registered before keep theirs.
"""


class Role(StrEnum):
    """A lead reads, answers and delegates; a worker works on tasks."""

    LEAD = "lead"
    WORKER = "worker"


class Reach(StrEnum):
    """How an agent gets its work."""

    POLLING = "polling"  # the agent polls with a token
    AGUI = "agui"  # the coordinator calls the agent over AG-UI
    BUILTIN = "builtin"  # the agent runs inside the coordinator


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentProfile:
    """What the other agents see of an agent."""

    id: str
    name: str
    role: Role
    description: str
    capabilities: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentFacts(AgentProfile):
    """The fields shared by an agent and its view for the operator."""

    created_at: Time
    last_seen_at: Time | None
    parked_until: Time | None = None  # a limit of its account is reached, so it takes no work until then
    reach: Reach = Reach.POLLING
    enrolled: bool = False  # registered with an enrolment key


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRow(AgentFacts, JsonView):
    """An agent in the operator's view."""

    status: Annotated[str, Key(after="capabilities")]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedAgentRow(AgentRow):
    """An agent in the list of all."""

    # why tools of the agent's MCP servers are not offered, by server/tool
    unoffered: Annotated[Mapping[str, str], Key(is_optional=True)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent(AgentFacts):
    """A registered agent, without its token."""

    token_hash: str | None = field(default=None, repr=False, compare=False)  # for the token that identified the agent

    def online(self, offline_since: int) -> bool:
        """Whether the agent is online; see `is_online`."""
        return is_online(self.last_seen_at, offline_since)


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """The program that serves an agent, by the id that it has chosen; times in microseconds since 1970 UTC."""

    instance_id: str
    began_at: int
    seen_at: int
    called_at: int  # when its last call began; ``seen_at`` is also advanced by a poll that waits


def is_online(last_seen_at: int | None, offline_since: int) -> bool:
    """Whether an agent has polled or renewed after ``offline_since``, the moment since which coordinators have listened
    for so long that the silence counts. An agent never seen is offline.
    """
    return last_seen_at is not None and last_seen_at > offline_since


def listened_since(spans: Iterable[tuple[int, int]], wanted_us: int) -> int:
    """Returns the latest moment since which coordinators have listened for ``wanted_us`` in total; 1, which is before
    every moment, if they have listened for less.

    ``spans``: when each process has listened, from and to. They may overlap.
    """
    left, earliest = wanted_us, None
    for begins, ends in sorted(spans, key=itemgetter(1), reverse=True):
        latest = ends if earliest is None else min(ends, earliest)
        if latest - begins >= left:
            return latest - left
        if latest > begins:
            left, earliest = left - (latest - begins), begins
    return 1


def check_name(name: str) -> str:
    """Returns the name. Raises Invalid for a malformed name, and for one that no agent can have."""
    if not _NAME.fullmatch(name) or name in NEVER_NAMES:
        raise _bad_name(name)
    return name


def check_new_name(name: str) -> str:
    """Returns the name of a new agent. Raises Invalid also for a reserved name, and for hyphens alone."""
    bare = check_name(name).strip("-")
    if not bare or bare in RESERVED_NAMES:
        raise _bad_name(name)
    return name


def _bad_name(name: str) -> Invalid:
    return Invalid(
        f"'{name}' cannot be an agent's name. Choose another one: 1 to 32 of a-z, 0-9 and '-'.",
        hint=f"These are reserved, also with hyphens at the ends: {', '.join(sorted(RESERVED_NAMES))}.",
        fields={"name": "1 to 32 characters of a-z, 0-9 and '-', and no reserved name"},
    )


def new_agent_token() -> str:
    """Returns a bearer token: 256 random bits, shown once."""
    return "swarm_" + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Returns the stored form of a token. A fast hash is sufficient for a random token and keeps polls cheap."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Load(JsonView):
    """The current load of an agent."""

    open_tasks: int = 0
    threads_owned: int = 0
    running: int = 0  # leases on work, each held by a run


IDLE: Final = Load()


MAX_TEXT_CHARACTERS: Final = 40_000
MAX_PER_MINUTE: Final = 30
"""The maximum number of messages an agent sends per minute. It slows down two agents that answer each other."""

SAME_WITHIN_SECONDS: Final = 60
"""A text repeated in the same place within this time counts as one message sent twice by mistake."""

_CHANNEL = re.compile(r"[a-z0-9-]{1,32}")
# An address such as bob@example.org or Slack's own <@U1> does not name an agent.
_MENTION = re.compile(r"(?:(?<![\w@#.<-])@|(?<![\w#])swarm#)([a-z0-9-]++)(?!\w)", re.IGNORECASE)
_EVERYBODY: Final = "all"
_MAX_UNKNOWN: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class UserView(JsonView):
    """The author of a message."""

    id: str
    name: str


# A message between agents, as seen by one of them. The contract describes it by its keys alone.
@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMessage(JsonView):
    id: str  # ordered by time
    sender: Annotated[UserView, Key("from")]
    recipient: Annotated[str | None, Key("to")]  # the recipient's name; None in a channel
    channel: str | None  # with the leading #; None for a direct message
    text: str
    created_at: Annotated[Time, Key("sent_at")]
    for_reader: Annotated[bool, Key("for_you")]  # sent to the reader, or mentions the reader
    unread: bool  # not yet read by the reader


# The beginning of an unread message from another agent. The contract describes it by its keys alone.
@dataclass(frozen=True, kw_only=True, slots=True)
class TrayMessage(JsonView):
    message_id: str
    sender: Annotated[str, Key("from")]
    channel: str | None  # None for a direct message
    preview: str
    sent_at: Time


def tray_message(message: AgentMessage) -> TrayMessage:
    """Returns the beginning of a message."""
    return TrayMessage(
        message_id=message.id,
        sender=message.sender.name,
        channel=message.channel,
        preview=preview(message.text),
        sent_at=message.created_at,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Mentions:
    """The agents mentioned in a text. ``unknown`` contains the first few names without an agent."""

    agents: tuple[Agent, ...]
    everybody: bool
    unknown: tuple[str, ...]


def check_text(text: str) -> str:
    """Returns the text without invisible characters. Raises Invalid for an empty text or a text that is too long."""
    clean = strip_invisible(text)
    if not clean.strip():
        raise Invalid("The message is empty.", fields={"text": "what to say"})
    if len(clean) > MAX_TEXT_CHARACTERS:
        raise Invalid(
            f"The message has {len(clean)} characters.",
            hint="Summarise it, and say where the rest can be found.",
            fields={"text": f"at most {MAX_TEXT_CHARACTERS} characters"},
        )
    return clean


def check_channel(channel: str) -> str:
    """Returns the channel's name without the leading #. Raises Invalid for a malformed name."""
    name = channel.removeprefix("#")
    if not _CHANNEL.fullmatch(name):
        raise Invalid(
            f"'{channel}' cannot be a channel's name.",
            hint="These channels are internal to agents; use slack-reply to post in Slack.",
            fields={"channel": "1 to 32 characters of a-z, 0-9 and '-', with or without a leading #"},
        )
    return name


def mentions(text: str, team: Sequence[Agent]) -> Mentions:
    """Resolves ``@name``, ``swarm#name`` and ``@all`` in a text; the longest name wins."""
    found: dict[str, Agent] = {}
    unknown: dict[str, None] = {}
    everybody = False
    names = {agent.name: agent for agent in team} | {agent.id: agent for agent in team}
    for word in _MENTION.findall(text):
        name = _longest(word.lower(), names.keys() | {_EVERYBODY})
        if name == _EVERYBODY:
            everybody = True
        elif name is None:
            unknown[word.lower().rstrip("-")] = None
        else:
            found[names[name].id] = names[name]
    return Mentions(agents=tuple(found.values()), everybody=everybody, unknown=tuple(unknown)[:_MAX_UNKNOWN])


def _longest(word: str, names: set[str]) -> str | None:
    """Returns the longest name at the beginning of the word; trailing hyphens may belong to the sentence."""
    bare = word.rstrip("-")
    return next((word[:end] for end in range(len(word), len(bare) - 1, -1) if word[:end] in names), None)
