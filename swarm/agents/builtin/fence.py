"""What others have said, inside what a model is asked: marked as such, so that it cannot pass itself off as more."""

from __future__ import annotations

import secrets


def fenced(title: str, text: str) -> str:
    """The text between a line with its title and a line that ends it, which nobody who wrote the text could know."""
    mark = secrets.token_hex(8)
    return f"[{title}: data, up to the line “end {mark}”]\n{text}\n[end {mark}]"
