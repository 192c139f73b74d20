"""The labelled sentences: a message, the available tools, and the expected decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import yaml

SENTENCES: Final = Path(__file__).with_name("sentences.yaml")


class Expected(StrEnum):
    """The right decision."""

    CALL = "call"
    ASK = "ask"
    REFUSE = "refuse"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTool:
    """A tool of the evaluation, without an implementation."""

    name: str
    server: str
    description: str
    parameters: Mapping[str, Any]
    allowed: bool  # disallowed tools exist for requests that must be refused


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One sentence with its label."""

    id: str
    category: str  # "complete", "missing", "no tool", "small talk", "not allowed", "other languages", "follow-up"
    say: str
    expected: Expected
    tool: str = ""  # the tool to be called
    arguments: Mapping[str, Any] = field(default_factory=dict)  # required arguments of the call; others are allowed
    before: Sequence[tuple[str, str]] = ()  # earlier messages: ("user" or "assistant", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """All sentences, and their tools."""

    tools: tuple[KnownTool, ...]
    cases: tuple[Case, ...]


def load(path: Path = SENTENCES) -> Suite:
    """Reads the sentences of a file in the form of ``sentences.yaml``."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    tools = tuple(
        KnownTool(
            name=name,
            server=tool["server"],
            description=tool["description"],
            parameters={
                "type": "object",
                "properties": tool.get("parameters", {}),
                "required": tool.get("required", []),
            },
            allowed=tool.get("allowed", True),
        )
        for name, tool in document["tools"].items()
    )
    cases = tuple(
        _case(category, number, entry)
        for category, entries in document["sentences"].items()
        for number, entry in enumerate(entries, 1)
    )
    return Suite(tools=tools, cases=cases)


def _case(category: str, number: int, entry: Mapping[str, Any]) -> Case:
    call = entry.get("call")
    return Case(
        id=f"{category} {number}",
        category=category,
        say=entry["say"],
        expected=Expected.CALL if call else Expected(entry["expect"]),
        tool=call or "",
        arguments=entry.get("with", {}),
        before=tuple((speaker, text) for turn in entry.get("before", ()) for speaker, text in turn.items()),
    )
