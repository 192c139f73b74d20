"""Messages between agents: to one of them, or in a named channel of their own, which is not one of Slack's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.errors import Invalid
from swarm.domain.model.agents import Agent
from swarm.domain.text.characters import strip_invisible

MAX_TEXT_CHARACTERS: Final = 40_000
MAX_PER_MINUTE: Final = 30
"""So many messages may one agent send in a minute: two that answer each other for ever are slowed down."""

SAME_WITHIN_SECONDS: Final = 60
"""The same words to the same place within so many seconds are one message that was sent again by mistake."""

_CHANNEL = re.compile(r"[a-z0-9-]{1,32}")
# An address such as bob@example.org or Slack's own <@U1> names no agent.
_MENTION = re.compile(r"(?:(?<![\w@#.<-])@|(?<![\w#])swarm#)([a-z0-9-]++)(?!\w)", re.IGNORECASE)
_EVERYBODY: Final = "all"
_MAX_UNKNOWN: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentMessage:
    """A message as one of the agents reads it."""

    id: str  # in the order of time
    sender_id: str
    sender: str
    recipient: str | None  # the name; None in a channel
    channel: str | None  # without its #; None for a direct message
    text: str
    created_at: int  # microseconds since 1970 UTC
    for_reader: bool  # sent to the reader, or mentions it
    unread: bool  # and the reader has not read it yet


@dataclass(frozen=True, kw_only=True, slots=True)
class Mentions:
    """Whom a text mentions. ``unknown`` are names that nobody has, the first few of them."""

    agents: tuple[Agent, ...]
    everybody: bool
    unknown: tuple[str, ...]


def check_text(text: str) -> str:
    """The text without invisible characters; raises Invalid if nothing is left, or too much."""
    clean = strip_invisible(text)
    if not clean.strip():
        raise Invalid("The message is empty.", fields={"text": "what to say"})
    if len(clean) > MAX_TEXT_CHARACTERS:
        raise Invalid(
            f"The message has {len(clean)} characters.",
            hint="Say the essence, and where the rest can be found.",
            fields={"text": f"at most {MAX_TEXT_CHARACTERS} characters"},
        )
    return clean


def check_channel(channel: str) -> str:
    """The channel's name without its #; raises Invalid for what cannot be one."""
    name = channel.removeprefix("#")
    if not _CHANNEL.fullmatch(name):
        raise Invalid(
            f"'{channel}' cannot be a channel's name.",
            hint="These are channels among agents; what you say in Slack goes through slack-reply.",
            fields={"channel": "1 to 32 characters of a-z, 0-9 and '-', with or without a leading #"},
        )
    return name


def mentions(text: str, team: Sequence[Agent]) -> Mentions:
    """Whom ``@name``, ``swarm#name`` and ``@all`` in a text mean; the longest name wins."""
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
    """The name that the word is; trailing hyphens may belong to the sentence."""
    bare = word.rstrip("-")
    return next((word[:end] for end in range(len(word), len(bare) - 1, -1) if word[:end] in names), None)
