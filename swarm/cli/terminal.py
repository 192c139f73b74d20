"""Standard output of the commands."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from swarm.domain.text.characters import for_terminal


class Terminal(Console):
    """A console for any text: markup and escapes in texts are plain characters. Styles are given apart.

    Texts, cells of tables and titles all come through `render_str`; code that makes a `Text` cleans its content.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """The text, clean, without markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})
