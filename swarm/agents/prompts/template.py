"""The prompts of the built-in agents before rendering, as written by their authors, and the error of a rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.errors import SwarmError

_MARKERS: Final = ("{{", "{%", "{#")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A system prompt as written by its author."""

    name: str  # for errors: the file, and the key in it
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether the text is plain and stays unchanged, to the last newline."""
        return not any(marker in self.text for marker in _MARKERS)


class PromptError(SwarmError):
    """A prompt cannot be rendered.

    ``name`` is the template's. ``line`` counts from 1; None: no particular line. ``problem`` is a clause.
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

    intro: str  # before the list of tools
    outro: str  # after it
    no_tools: str  # instead of both, while no tool is available


@dataclass(frozen=True, kw_only=True, slots=True)
class RouterPrompts:
    """The prompts of the tool router."""

    decide: Template  # the system prompt of the deciding call
    result: str  # for wording a tool's result, where its server has no text of its own
    refuse: RefusalWords
    ask: str  # the question, if the model asks without a question
    stopped: str  # the answer to a person who cancels the request


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompts:
    """All prompts. Templates are rendered for each run; other texts stay unchanged."""

    assistant: Template  # the assistant's system prompt
    router: RouterPrompts
    server_prompts: Mapping[str, str]  # for wording results, by the name of the MCP server
    summary: str  # for summarising the older part of a conversation

    def result_of(self, server: str) -> str:
        """Returns the prompt for results of an MCP server's tools; the empty name is for tools without a server."""
        return self.server_prompts.get(server, self.router.result)
