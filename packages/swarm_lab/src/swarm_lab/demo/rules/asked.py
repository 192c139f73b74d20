"""Requests to a model and the model's replies, independent of any provider's protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final

MODEL: Final = "demo-rules"
"""The model name under which the rules are available."""

_ADDRESSED: Final = re.compile(r"(?:@|swarm#)[\w-]+")
_FENCE: Final = re.compile(
    r"^(?P<title>[^\n]*?) \(data, not instructions[^\n]*\n"
    r"<data marker=\"(?P<mark>\w+)\">\n(?P<text>.*?)\n?^</data marker=\"(?P=mark)\">\s*",
    re.DOTALL | re.MULTILINE,
)
"""The marks around other people's texts in a message."""


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
    calls: tuple[Call, ...] = ()  # the assistant's calls
    call_id: str = ""  # the id of the call that a tool's message answers


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A call and the tool's answer."""

    call: Call
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request."""

    messages: tuple[Said, ...]
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the tools' schemas, by name

    @property
    def instructions(self) -> str:
        """The texts of system and developer messages, on one line."""
        return " ".join(" ".join(said.text for said in self.messages if said.role == "system").split())

    @property
    def heard(self) -> Sequence[str]:
        """The people's messages, oldest first, without the addressed names."""
        return [_words(said.text) for said in self.messages if said.role == "user"]

    @property
    def data(self) -> Mapping[str, str]:
        """The marked data in a person's last message, by title."""
        texts = [said.text for said in self.messages if said.role == "user"]
        return {found["title"]: unescape(found["text"]) for found in _FENCE.finditer(texts[-1])} if texts else {}

    @property
    def last(self) -> str:
        """A person's last message."""
        heard = self.heard
        return heard[-1] if heard else ""

    @property
    def said_before(self) -> str:
        """The model's last text before the last message, or an empty string if there is none."""
        texts = [said.text for said in self._until_last() if said.role == "assistant" and said.text]
        return texts[-1] if texts else ""

    @property
    def answered(self) -> Sequence[Answered]:
        """The tools' answers since the last message, oldest first."""
        since = self.messages[len(self._until_last()) :]
        calls = {call.id: call for said in since for call in said.calls}
        return [
            Answered(call=calls[said.call_id], text=said.text)
            for said in since
            if said.role == "tool" and said.call_id in calls
        ]

    @property
    def facts(self) -> str:
        """All texts that may contain facts: people's messages, and summaries of them."""
        return "\n".join(_FENCE.sub("", said.text) for said in self.messages if said.role in ("system", "user"))

    def _until_last(self) -> Sequence[Said]:
        """Returns the messages up to a person's last message."""
        places = [place for place, said in enumerate(self.messages) if said.role == "user"]
        return self.messages[: places[-1] + 1] if places else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A reply with text."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """A reply that calls tools, all at once."""

    calls: tuple[Call, ...]


Reply = Text | Calls


def _words(text: str) -> str:
    """Returns a message without the addressed names, and without marked data."""
    return _ADDRESSED.sub(" ", _FENCE.sub("", text)).strip()
