"""Fixed texts of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MARK: Final = "❯ "
"""Stands before people's input."""

QUIT: Final = "/quit"

COMMANDS: Final[Mapping[str, str]] = {
    "/help": "what can be done here",
    "/new": "begin a new session",
    "/sessions": "the sessions there are",
    "/resume": "go on with another one: /resume, /resume 2, /resume ID",
    "/history": "what was said in this session",
    "/usage": "what this session has used",
    QUIT: "leave; so does Ctrl-D",
}

KEYS: Final = (
    "Enter sends. Alt-Enter or Ctrl-J begins a new line; several lines can be pasted. ↑ brings back what you wrote. "
    "Ctrl-C stops an answer, or clears the line; twice, it leaves."
)
