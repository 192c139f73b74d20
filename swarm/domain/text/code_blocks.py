"""Code blocks in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE_LINE = re.compile(r"^(?P<fence>[ \t]*(?P<run>`{3,}|~{3,}))(?P<rest>[^\n]*)$", re.MULTILINE)
# Bounded, so that unpaired backticks in a very long line cost only linear time.
INLINE_CODE = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)[^\n]{0,1000}?(?<!`)(?P=ticks)(?!`)")


@dataclass(frozen=True, kw_only=True)
class CodeBlock:
    """A fenced code block, by positions in the text."""

    begin: int  # the first character of the opening line
    inside: int  # the first character after the opening line
    close: int  # the first character of the closing line, or the text's end without a closing line
    end: int  # after the closing fence
    opening: str  # the opening line with its info string
    fence: str  # the fence with its indentation


def code_blocks(text: str) -> list[CodeBlock]:
    """Returns the fenced blocks of a text in order; an unclosed block extends to the end."""
    blocks: list[CodeBlock] = []
    opening: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opening is None:
            opening = line if _opens(line) else None
        elif _closes(line, opening):
            blocks.append(_block(text, opening, line.start(), line.start("rest")))
            opening = None
    if opening is not None:
        blocks.append(_block(text, opening, len(text), len(text)))
    return blocks


def after_line(line: str, opening: str | None) -> tuple[str | None, bool]:
    """Advances by one line. Returns the opening line of the block that is open after the line, and whether the line is
    code.

    Equivalent to ``code_blocks`` for a text in lines. ``line`` is passed without its line break.
    """
    found = _FENCE_LINE.fullmatch(line)
    if opening is None:
        opens = found is not None and _opens(found)
        return (line if opens else None), opens
    begun = _FENCE_LINE.fullmatch(opening)
    assert begun is not None  # this line has opened a block
    return (None if found and _closes(found, begun) else opening), True


def open_at_end(text: str) -> CodeBlock | None:
    """Returns the code block left open at the end of a text, if any."""
    blocks = code_blocks(text)
    return blocks[-1] if blocks and blocks[-1].close == blocks[-1].end == len(text) else None


def _opens(line: re.Match[str]) -> bool:
    return line["run"][0] == "~" or "`" not in line["rest"]


def _closes(line: re.Match[str], opening: re.Match[str]) -> bool:
    return line["run"].startswith(opening["run"]) and not line["rest"].strip()


def _block(text: str, opening: re.Match[str], close: int, end: int) -> CodeBlock:
    inside = min(opening.end() + 1, len(text))
    return CodeBlock(
        begin=opening.start(), inside=inside, close=close, end=end, opening=opening.group(), fence=opening["fence"]
    )
