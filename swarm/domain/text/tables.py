"""Tables in Markdown: where they stand in a text, and the parts of a text that Slack takes as blocks.

https://docs.slack.dev/reference/block-kit/blocks/table-block, https://github.github.com/gfm/#tables-extension-
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

MAX_ROWS: Final = 100  # with the header
MAX_COLUMNS: Final = 20
MAX_CELL_CHARACTERS: Final = 10_000
_MAX_REPEATED: Final = 400
"""A longer header is not repeated, because a message has room for 12,000 characters."""

_MAX_PARTS: Final = 20
"""A message has at most 50 blocks, and some of them are not text."""

_TABLE = re.compile(
    r"^(?P<header>[^\n|]*+\|[^\n]*+)\n"
    r"(?P<rule>[ \t>]*+(?=[^\n|]*+\|)\|?+(?:[ \t]*+:?+-++:?+[ \t]*+\|)*+(?:[ \t]*+:?+-++:?+[ \t]*+)?+)$"
    r"(?P<rows>(?:\n[^\n|]*+\|[^\n]*+)*+)",
    re.MULTILINE,
)
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+")  # the beginning of a list's item
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, by positions in the text."""

    begin: int
    inside: int  # the first row after the header, or the end
    end: int  # after the last row, without its line break
    head: str  # the header and the line below it
    rows: list[str]

    @property
    def is_refused(self) -> bool:
        """Whether Slack would refuse the table, or its header is too long to be repeated."""
        if len(_cells(self.head.partition("\n")[0])) > MAX_COLUMNS:
            return True
        is_long = len(self.rows) >= MAX_ROWS and len(self.head) > _MAX_REPEATED
        return is_long or any(len(cell) > MAX_CELL_CHARACTERS for row in self.rows for cell in _cells(row))


def tables_in(text: str, code: Iterable[tuple[int, int]]) -> Iterator[Table]:
    """Yields the tables outside ``code``, which are positions in order."""
    at = 0
    for begin, end in (*code, (len(text), len(text))):
        for found in _TABLE.finditer(text, at, begin):
            headers = (found["header"], _ITEM.sub("", found["header"], count=1))
            if len(_cells(found["rule"])) in map(len, map(_cells, headers)):
                yield Table(
                    begin=found.start(),
                    inside=min(found.end("rule") + 1, found.end()),
                    end=found.end(),
                    head=f"{found['header']}\n{found['rule']}",
                    rows=found["rows"].split("\n")[1:],
                )
        at = end


def with_one_table(text: str, tables: Iterable[Table]) -> list[str]:
    """Returns a text in parts with at most one table, each of a size that Slack takes.

    A longer table continues in the next part, under its header. A table that is too wide, or has too long a cell, is
    shown as code.
    """
    parts, at, has_table = [""], 0, False
    for table in tables:
        before, at = text[at : table.begin], table.end
        if table.is_refused or len(parts) >= _MAX_PARTS:
            parts[-1] += before + _as_code(text[table.begin : table.end])
            continue
        for start in range(0, len(table.rows) or 1, MAX_ROWS - 1):
            if has_table:
                parts.append("")
            parts[-1] += "\n".join([before + table.head, *table.rows[start : start + MAX_ROWS - 1]])
            before, has_table = "", True
    parts[-1] += text[at:]
    return [part.strip("\n") if len(parts) > 1 else part for part in parts]


def reopened_line(begun: str, *, is_row: bool) -> str:
    """Returns the beginning of a line that goes on where ``begun`` ends: its marks of quotation, and empty cells."""
    cells = begun.lstrip(" \t>")
    marks = begun[: len(begun) - len(cells)]
    return marks + "| " * len(_PIPE.split(cells.removeprefix("|"))) if is_row else marks if ">" in marks else ""


def _cells(row: str) -> list[str]:
    return _PIPE.split(row.lstrip(" \t>").rstrip().removeprefix("|").removesuffix("|"))


def _as_code(text: str) -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 0)
    return f"{fence}\n{text}\n{fence}"
