"""A system prompt before it is text, and what is said if it never becomes text."""

from __future__ import annotations

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
