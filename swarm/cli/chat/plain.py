"""An answer as plain text, for pipes and files: the visible text as it is written, and nothing else."""

from __future__ import annotations

from typing import TextIO

from swarm.domain.answers.events import PlanShown
from swarm.domain.text.characters import Visible, for_terminal


class PlainText:
    """A `swarm.cli.chat.answering.AnswerDisplay`. ``notes``, if given, get a line for each tool."""

    def __init__(self, out: TextIO, notes: TextIO | None = None) -> None:
        self._out = out
        self._notes = notes
        self._visible = Visible()
        self._written = ""  # the end of the written text
        self._is_between = False
        self._tools: dict[str, str] = {}

    def write(self, text: str) -> None:
        """Add to a text."""
        self._visible, text = self._visible.feed(text)
        if self._is_between and text:
            self._put("\n" if self._written.endswith("\n") else "\n\n")
            self._is_between = False
        self._put(text)

    def end_text(self) -> None:
        """End a text; the next one stands apart from it."""
        self._visible, text = self._visible.end()
        self._put(text)
        self._is_between = bool(self._written)

    def end(self) -> None:
        """End the answer with a line break."""
        self.end_text()
        if self._written and not self._written.endswith("\n"):
            self._put("\n")

    def tool_began(self, id: str, name: str) -> None:
        """Remember a running tool."""
        self._tools[id] = for_terminal(name)

    def tool_ended(self, id: str, *, failed: bool) -> None:
        """Note a tool's end."""
        name = self._tools.pop(id, None)
        if name and self._notes:
            self._notes.write(f"{'✗' if failed else '✓'} {name}\n")
            self._notes.flush()

    def plan(self, plan: PlanShown) -> None:
        """Show nothing: plans are for people at a screen."""

    def step(self, name: str) -> None:
        """Show nothing, as for plans."""

    def _put(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._written = text[-1]
