"""Standard output of the commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from swarm_base.characters import for_terminal

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

        ``below`` names columns, above all of ids, each with another column. In a window too narrow for the table, they
        stand below the text of that column, so that titles stay readable and ids can be copied.
        """
        if not table.row_count:
            self.print(otherwise)
        elif below and self.is_terminal and self._width_of(table) > self.width:
            self.print(self._narrowed(table, below))
        else:
            self.print(table)

    def _width_of(self, table: Table) -> int:
        """Returns how wide a table is if nothing is wrapped."""
        return Measurement.get(self, self.options.update(max_width=_ANY_COLUMNS), table).maximum

    def _narrowed(self, table: Table, below: Mapping[str, str]) -> Table:
        """Returns the table with some columns below others, which give up as much of their width as is missing."""
        narrow = _with_columns_below(table, below)
        missing = self._width_of(narrow) - self.width
        for column in narrow.columns if missing > 0 else ():
            if column.min_width:  # rich would first take this away, and then cut off the columns on the right
                widest = max(cell_len(line) for cell in column.cells for line in str(cell).splitlines() or [""])
                column.width = max(column.min_width, widest - missing)
        return narrow

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns the cleaned text, without interpreting markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})


def _with_columns_below(table: Table, below: Mapping[str, str]) -> Table:
    """Returns the table with some columns below others, which are at least as wide. All texts may be wrapped."""
    cells = {str(column.header): [str(cell) for cell in column.cells] for column in table.columns}
    moved = {name: above for name, above in below.items() if {name, above} <= cells.keys()}
    columns = {str(column.header): column.copy() for column in table.columns if str(column.header) not in moved}
    for column in columns.values():
        column.overflow, column.no_wrap = "fold", False
    for name, above in moved.items():
        columns[above].min_width = max(columns[above].min_width or 0, *map(len, cells[name]))
        columns[above].header = f"{columns[above].header}, {name}"
        cells[above] = ["\n".join(filter(None, pair)) for pair in zip(cells[above], cells[name], strict=True)]
    narrow = Table(*columns.values(), box=None, padding=(0, 2, 0, 0))
    for row in zip(*(cells[name] for name in columns), strict=True):
        narrow.add_row(*row)
    return narrow


def write_json_lines(rows: Iterable[Any]) -> None:
    """Writes each row as one line of JSON to standard output, for other programs."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    for row in rows:
        sys.stdout.write(json.dumps(row, ensure_ascii=not is_unicode) + "\n")
