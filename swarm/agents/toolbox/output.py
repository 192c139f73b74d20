"""What a tool says, cut to what a model should read of it."""

from __future__ import annotations

from dataclasses import replace

from swarm.agents.toolbox.tool import ToolAnswer


def capped(answer: ToolAnswer, most_characters: int) -> ToolAnswer:
    """The answer, its middle left out where it is too long: what a program says first and last tells the most."""
    text = answer.text
    if len(text) <= most_characters:
        return answer
    note = f"\n\n[… {len(text) - most_characters:,} characters left out …]\n\n"
    head = most_characters * 2 // 3
    return replace(answer, text=text[:head] + note + text[len(text) - (most_characters - head) :])
