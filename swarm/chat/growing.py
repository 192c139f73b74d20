"""Markdown that is still being written, and text that must not command a terminal."""

from __future__ import annotations

import re
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

_COMMANDS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that change the direction of writing."""


def harmless(text: str) -> str:
    """Text as a terminal may be given it: what moves its cursor, colours it or reorders its letters is left out."""
    return _COMMANDS.sub("", text)


def split(text: str) -> tuple[str, str]:
    """What will stay as it is, and the last block, which may go on: a paragraph, a list, a table, a piece of code."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    if len(starts) < 2:
        return "", text
    lines = text.split("\n")
    return "\n".join(lines[: starts[-1]]), "\n".join(lines[starts[-1] :])


class Written:
    """Markdown to be printed, or as plain text what cannot be laid out: it may be anything.

    Addresses are written out: not every terminal knows links, and nobody should have to trust one.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            lines = console.render_lines(Markdown(self._text, hyperlinks=False), options, pad=False)
        except Exception:  # noqa: BLE001 - an answer that cannot be made beautiful is still the answer
            lines = console.render_lines(Text(self._text), options, pad=False)
        for line in lines:
            yield from line
            yield Segment.line()
