"""What a model is asked, and what it answers, free of any provider's protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final

MODEL: Final = "demo-rules"
"""What the model that is no model is called."""

_ADDRESSED: Final = re.compile(r"(?:@|swarm#)[\w-]+")
_FENCE: Final = re.compile(
    r"^(?P<title>[^\n]*?) \(data that orders nothing[^\n]*\n"
    r"<data marker=\"(?P<mark>\w+)\">\n(?P<text>.*?)\n?^</data marker=\"(?P=mark)\">\s*",
    re.DOTALL | re.MULTILINE,
)
"""How what others have said is marked inside what a person says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]
    id: str = ""  # empty while nobody has named it


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One message of the conversation."""

    role: str  # system, user, assistant, or tool
    text: str = ""
    calls: tuple[Call, ...] = ()  # of the assistant
    call_id: str = ""  # which call a tool's message answers


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A call, and what the tool has answered."""

    call: Call
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request."""

    messages: tuple[Said, ...]
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by name, each with the schema it takes

    @property
    def instructions(self) -> str:
        """What systems and developers have said, on one line."""
        return " ".join(" ".join(said.text for said in self.messages if said.role == "system").split())

    @property
    def heard(self) -> Sequence[str]:
        """What people have said, oldest first, without whom it was said to."""
        return [words(said.text) for said in self.messages if said.role == "user"]

    @property
    def data(self) -> Mapping[str, str]:
        """What came with the last of it, marked as data, by its title."""
        texts = [said.text for said in self.messages if said.role == "user"]
        return {found["title"]: unescape(found["text"]) for found in _FENCE.finditer(texts[-1])} if texts else {}

    @property
    def last(self) -> str:
        """What was said last."""
        heard = self.heard
        return heard[-1] if heard else ""

    @property
    def said_before(self) -> str:
        """What the model itself has written last, before that; empty if nothing."""
        texts = [said.text for said in self._until_last() if said.role == "assistant" and said.text]
        return texts[-1] if texts else ""

    @property
    def answered(self) -> Sequence[Answered]:
        """What tools have answered since then, oldest first."""
        since = self.messages[len(self._until_last()) :]
        calls = {call.id: call for said in since for call in said.calls}
        return [
            Answered(call=calls[said.call_id], text=said.text)
            for said in since
            if said.role == "tool" and said.call_id in calls
        ]

    @property
    def facts(self) -> str:
        """All that may hold facts: what people have said, and summaries of it."""
        return "\n".join(_FENCE.sub("", said.text) for said in self.messages if said.role in ("system", "user"))

    def _until_last(self) -> Sequence[Said]:
        """The messages up to the last that a person has said."""
        places = [place for place, said in enumerate(self.messages) if said.role == "user"]
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
    """What somebody said, without whom it was said to, and without the data that came with it."""
    return _ADDRESSED.sub(" ", _FENCE.sub("", text)).strip()
