"""The figures of a run, as a table for people and as JSON for records."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from swarm.bench.figures import BenchError, Better, Figure


def machine() -> dict[str, str | int]:
    """Describes the machine of the figures."""
    return {
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": _sqlite_version(),
    }


def show(figures: Sequence[Figure], console: Console) -> None:
    """Prints the table and the machine."""
    table = Table("measurement", "figure")
    for heading in ("value", "target"):
        table.add_column(heading, justify="right")
    table.add_column("met")
    last = ""
    for figure in figures:
        if last and figure.measurement != last:
            table.add_section()
        name = figure.measurement if figure.measurement != last else ""
        table.add_row(name, figure.what, f"{_number(figure.value)} {figure.unit}", _target(figure), _met(figure))
        last = figure.measurement
    console.print(table)
    console.print(", ".join(f"{key}: {value}" for key, value in machine().items()))


def write_json(figures: Sequence[Figure], path: Path) -> None:
    """Writes everything into a file. Raises BenchError on failure."""
    document = {"machine": machine(), "figures": [{**asdict(figure), "met": figure.met} for figure in figures]}
    try:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"the figures cannot be written: {error}") from error


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.better is Better.LOWER else "≥"
    return f"{sign} {figure.target:,g} {figure.unit}"


def _met(figure: Figure) -> str:
    return {True: "yes", False: "NO", None: ""}[figure.met]


def _sqlite_version() -> str:
    """Returns the version of the coordinator's SQLite: pysqlite3's where installed."""
    for name in ("pysqlite3", "sqlite3"):
        try:
            return str(import_module(name).sqlite_version)
        except ImportError:
            continue
    return "none"
