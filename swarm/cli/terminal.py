"""Standard output of the commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from swarm.domain.text.characters import for_terminal

_PIPE_COLUMNS: Final = 200
"""The width of tables for other programs, where nobody sees the edge of a window."""

_ANY_COLUMNS: Final = 10_000


class Terminal(Console):
    """A console for any text. Markup and escape sequences in the text are shown as plain characters; styles are passed
    separately.

    Texts, table cells and titles all pass through `render_str`. Code that creates a `Text` must clean its content.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = _PIPE_COLUMNS

    def print_rows(self, table: Table, otherwise: str, *, below: Mapping[str, str] | None = None) -> None:
        """Prints a table, or a sentence in place of a table without rows.

        ``below`` names columns of ids, each with another column. In a window too narrow for the table, the ids stand
        below the text of that column, complete, so that the titles stay readable and the ids can be copied.
        """
        if not table.row_count:
            self.print(otherwise)
        elif below and self.is_terminal and self._width_of(table) > self.width:
            self.print(_with_ids_below(table, below))
        else:
            self.print(table)

    def _width_of(self, table: Table) -> int:
        """Returns how wide a table is if nothing is wrapped."""
        return Measurement.get(self, self.options.update(max_width=_ANY_COLUMNS), table).maximum

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns the cleaned text, without interpreting markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})


def _with_ids_below(table: Table, below: Mapping[str, str]) -> Table:
    """Returns the table with each column of ids below another one, which is wide enough for them."""
    cells = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    moved = {id: above for id, above in below.items() if {id, above} <= cells.keys()}
    columns = {str(column.header): column.copy() for column in table.columns if str(column.header) not in moved}
    for id, above in moved.items():
        columns[above].min_width = max(map(len, cells[id]))
        columns[above].overflow = "fold"  # a window can be narrower than an id, too
        cells[above] = [f"{text}\n{one}" if text else one for text, one in zip(cells[above], cells[id], strict=True)]
    narrow = Table(*columns.values(), box=None, padding=(0, 2, 0, 0))
    for row in zip(*(cells[name] for name in columns), strict=True):
        narrow.add_row(*row)
    return narrow


def write_json_lines(rows: Iterable[Any]) -> None:
    """Writes each row as one line of JSON to standard output, for other programs."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    for row in rows:
        sys.stdout.write(json.dumps(row, ensure_ascii=not is_unicode) + "\n")
