"""Standard output of the commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from swarm.domain.text.characters import for_terminal

_PIPE_COLUMNS: Final = 200
"""The width of tables for other programs, where nobody sees the edge of a window."""


class Terminal(Console):
    """A console for any text. Markup and escape sequences in the text are shown as plain characters; styles are passed
    separately.

    Texts, table cells and titles all pass through `render_str`. Code that creates a `Text` must clean its content.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, "emoji": False, **options})
        if not self.is_terminal and "width" not in options and "COLUMNS" not in os.environ:
            self.width = _PIPE_COLUMNS

    def print_rows(self, table: Table, otherwise: str) -> None:
        """Prints a table, or a sentence in place of a table without rows."""
        self.print(table if table.row_count else otherwise)

    def render_str(self, text: str, **options: Any) -> Text:
        """Returns the cleaned text, without interpreting markup or emoji codes."""
        return super().render_str(for_terminal(text), **{**options, "markup": False, "emoji": False})


def write_json_lines(rows: Iterable[Any]) -> None:
    """Writes each row as one line of JSON to standard output, for other programs."""
    for row in rows:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
