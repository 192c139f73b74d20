"""Text for terminals."""

from __future__ import annotations

from swarm.domain.text.characters import strip_invisible


def for_terminal(text: object) -> str:
    """Text that commands no terminal: without escapes, control and invisible characters, with its line breaks.

    What rich would read as its own markup is no concern of this function: consoles print it with ``markup=False``.
    """
    return strip_invisible(str(text))


def line_for_terminal(text: object) -> str:
    """The same on one line."""
    return " ".join(for_terminal(text).split())
