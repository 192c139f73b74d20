"""Markdown that still grows."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text


def split(text: str) -> tuple[str, str]:
    """The finished part, and the last block, which may grow: a paragraph, a list, a table, a piece of code."""
    starts = [token.map[0] for token in Markdown(text).parsed if token.level == 0 and token.map]
    if len(starts) < 2:
        return "", text
    lines = text.split("\n")
    return "\n".join(lines[: starts[-1]]), "\n".join(lines[starts[-1] :])


class Written:
    """Markdown to be printed; text whose layout fails, which may be of any kind, is printed plain.

    Addresses are written out: not every terminal knows links, and nobody should have to trust one.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            lines = console.render_lines(Markdown(self._text, hyperlinks=False), options, pad=False)
        except Exception:  # noqa: BLE001 - an answer whose layout fails is still the answer
            lines = console.render_lines(Text(self._text), options, pad=False)
        for line in lines:
            yield from line
            yield Segment.line()
