"""Standard output of the commands, and errors in one line."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from swarm.domain.text.characters import for_terminal, line_for_terminal


class NoServer(Exception):
    """No coordinator answers at this address."""


def in_one_line(error: Exception) -> str:
    """Returns an error's message with its hint on one line. Messages from drivers and parsers may have several
    lines."""
    return line_for_terminal(f"{error} {getattr(error, 'hint', None) or ''}")


class Terminal(Console):
    """A console for any text. Markup and escape sequences in the text are shown as plain characters; styles are passed
    separately.

    Texts, table cells and titles all pass through `render_str`. Code that creates a `Text` must clean its content.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns the cleaned text, without interpreting markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})
