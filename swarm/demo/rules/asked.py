"""The requests to a model and its replies, independent of any provider's protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final

MODEL: Final = "demo-rules"
"""The name of the rules that act as a model."""

_ADDRESSED: Final = re.compile(r"(?:@|swarm#)[\w-]+")
_FENCE: Final = re.compile(
    r"^(?P<title>[^\n]*?) \(data that orders nothing[^\n]*\n"
    r"<data marker=\"(?P<mark>\w+)\">\n(?P<text>.*?)\n?^</data marker=\"(?P=mark)\">\s*",
    re.DOTALL | re.MULTILINE,
)
"""The marks around others' texts in a person's message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    id: str = ""  # empty until assigned


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One message of the conversation."""

    role: str  # system, user, assistant, or tool
    text: str = ""
    calls: tuple[Call, ...] = ()  # of the assistant
    call_id: str = ""  # the call that a tool's message answers


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A call with the tool's answer."""

    call: Call
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request."""

    messages: tuple[Said, ...]
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # each tool's schema, by name

    @property
    def instructions(self) -> str:
        """The texts of systems and developers, on one line."""
        return " ".join(" ".join(message.text for message in self.messages if message.role == "system").split())

    @property
    def heard(self) -> Sequence[str]:
        """The people's messages, oldest first, without the addressed names."""
        return [words(message.text) for message in self.messages if message.role == "user"]

    @property
    def data(self) -> Mapping[str, str]:
        """The marked data in the last message of a person, by its title."""
        texts = [message.text for message in self.messages if message.role == "user"]
        return {found["title"]: unescape(found["text"]) for found in _FENCE.finditer(texts[-1])} if texts else {}

    @property
    def last(self) -> str:
        """The last message of a person."""
        heard = self.heard
        return heard[-1] if heard else ""

    @property
    def said_before(self) -> str:
        """The model's last text before the last message; empty without one."""
        texts = [message.text for message in self._until_last() if message.role == "assistant" and message.text]
        return texts[-1] if texts else ""

    @property
    def answered(self) -> Sequence[Answered]:
        """The tools' answers since the last message, oldest first."""
        since = self.messages[len(self._until_last()) :]
        calls = {call.id: call for message in since for call in message.calls}
        return [
            Answered(call=calls[message.call_id], text=message.text)
            for message in since
            if message.role == "tool" and message.call_id in calls
        ]

    @property
    def facts(self) -> str:
        """All texts with possible facts: people's messages, and summaries of them."""
        return "\n".join(
            _FENCE.sub("", message.text) for message in self.messages if message.role in ("system", "user")
        )

    def _until_last(self) -> Sequence[Said]:
        """Returns the messages up to the last one of a person."""
        places = [place for place, message in enumerate(self.messages) if message.role == "user"]
        return self.messages[: places[-1] + 1] if places else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """The answer is written."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """Tools are called, all of them at once."""

    calls: tuple[Call, ...]


Reply = Text | Calls


def words(text: str) -> str:
    """Returns a message without the addressed names, and without marked data."""
    return _ADDRESSED.sub(" ", _FENCE.sub("", text)).strip()
