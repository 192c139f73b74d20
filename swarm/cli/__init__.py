"""The command line: one module for each group of commands. Heavy imports are made inside the commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from swarm_base.errors import on_one_line

COMMANDS: Final[Mapping[str, str]] = {
    "; GET /tasks/{id}/runs lists the runs on one": "",  # `swarm logs` takes a task
    "GET /agents": "`swarm agents list`",
    "POST /agents": "`swarm agents add`",
    "GET /tasks": "`swarm tasks list`",
    "list-tasks": "`swarm tasks list`",
    "Use the id that request-human-input returned.": "`swarm requests list` shows all.",
}
"""What hints say for programs, routes and tools above all, and what a person at a terminal does instead."""

_FOR_PROGRAMS: Final = re.compile("|".join(map(re.escape, COMMANDS)))


class NoServer(Exception):
    """No coordinator answers at this address."""


def in_one_line(error: Exception) -> str:
    """Returns an error's message with its hint on one line, as advice for a person at a terminal. Messages from drivers
    and parsers may have several lines."""
    message, hint = str(error), getattr(error, "hint", None) or fields_hint(getattr(error, "fields", None) or {})
    hint = _FOR_PROGRAMS.sub(lambda found: COMMANDS[found[0]], hint)
    return on_one_line(message, hint)


def fields_hint(fields: Mapping[str, str]) -> str:
    """Returns what the invalid fields of a request must be; empty without any."""
    return "; ".join(f"{name}: {expected}" for name, expected in fields.items()) + "." * bool(fields)
