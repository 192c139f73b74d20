"""The command line: one module for each group of commands. Heavy imports are made inside the commands."""

from __future__ import annotations

from swarm.domain.text.characters import line_for_terminal


class NoServer(Exception):
    """No coordinator answers at this address."""


def in_one_line(error: Exception) -> str:
    """Returns an error's message with its hint on one line. Messages from drivers and parsers may have several
    lines."""
    message, hint = str(error), getattr(error, "hint", None) or ""
    return line_for_terminal(f"{message}{'' if not hint or message.endswith(('.', '?', '!')) else '.'} {hint}")
