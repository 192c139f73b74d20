"""The prompts of the built-in agents before rendering, as written by their authors, and the error of a rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.errors import SwarmError

_MARKERS: Final = ("{{", "{%", "{#")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A system prompt as its author wrote it."""

    name: str  # for errors: its file, and the key in it
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether it is plain text, which stays as it is, to the last newline."""
        return not any(marker in self.text for marker in _MARKERS)


class PromptError(SwarmError):
    """A prompt cannot be rendered.

    ``name`` is the template's. ``line`` counts from 1 in its text; None: it is about no line. ``problem`` is a clause.
    """

    def __init__(self, name: str, problem: str, *, line: int | None = None) -> None:
        place = f"{name}, line {line}" if line else name
        super().__init__(f"The prompt {place} cannot be rendered: {problem}.")
        self.name = name
        self.line = line
        self.problem = problem


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalWords:
    """The fixed parts of a refusal, around the tools' descriptions."""

    intro: str  # before the list of what can be done
    outro: str  # after it
    no_tools: str  # instead of all that, while there is no tool


@dataclass(frozen=True, kw_only=True, slots=True)
class RouterPrompts:
    """The prompts of the tool router."""

    decide: Template  # the system prompt of the call that decides
    result: str  # how the result of a tool is worded, where its server has no text of its own
    refuse: RefusalWords
    ask: str  # the question, if the model wants to ask and does not say what
    stopped: str  # the answer to somebody who no longer wants it


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """All prompts. Templates are rendered for each run; other texts stay as they are."""

    assistant: Template  # the assistant's system prompt
    router: RouterPrompts
    server_prompts: Mapping[str, str]  # how results are worded, by the name of the MCP server
    summary: str  # how the older part of a conversation is put into a few words

    def result_of(self, server: str) -> str:
        """The prompt for results of tools of an MCP server; the empty name is for tools without a server."""
        return self.server_prompts.get(server, self.router.result)
