"""What a tool says, cut to what a model should read of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from swarm.agents.toolbox.tool import ToolAnswer
from swarm.domain.model.sessions import storable

_NOTE_CHARACTERS: Final = 60
"""So long may the note be that something was left out."""


def capped(answer: ToolAnswer, most_characters: int) -> ToolAnswer:
    """The answer in at most so many characters, the note included, if that leaves room for anything else.

    Where it is too long, its middle is left out: what a program says first and last tells the most. Halves of
    characters, which no provider takes, are replaced.
    """
    return replace(answer, text=shortened(storable(answer.text), most_characters))


def shortened(text: str, most_characters: int) -> str:
    """The text, without its middle if it is too long."""
    if len(text) <= most_characters:
        return text
    kept = max(most_characters - _NOTE_CHARACTERS, most_characters // 2)
    head = kept * 2 // 3
    note = f"\n\n[… {len(text) - kept:,} characters left out …]\n\n"
    return text[:head] + note + text[len(text) - (kept - head) :]
