"""Standard output as the commands write to it."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from swarm.domain.text.characters import for_terminal


class Terminal(Console):
    """A console to which any text may be given: markup and escapes in it are text. Styles are given beside it.

    Texts, cells of tables and titles all come through `render_str`; who makes a `Text` cleans what stands in it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """The text, clean, without markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})
