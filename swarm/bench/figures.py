"""The figures that a measurement produces, with the targets of the design, and the code that measures and shows
them."""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]
"""Reports progress to the user."""

_OPEN_FILES: Final = 16_384


class BenchError(Exception):
    """A measurement failed. The message is the reason, in one line."""


class Better(StrEnum):
    """The better direction of a figure."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Figure:
    """One result. A figure without a target helps to explain other figures."""

    measurement: str
    what: str
    value: float
    unit: str
    better: Better = Better.LOWER
    target: float | None = None
    ratio: bool = False  # a ratio of two other figures

    @property
    def met(self) -> bool | None:
        """Whether the target is reached, or None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better is Better.LOWER else self.value >= self.target


Measure = Callable[[Say], Awaitable[list[Figure]]]


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least ``share`` (0 to 1) of all values do not exceed.

    Raises BenchError if there are no values.
    """
    if not values:
        raise BenchError("nothing was measured, so there is no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(
    measurement: str, what: str, seconds: Sequence[float], *, p50: float | None = None, p99: float | None = None
) -> list[Figure]:
    """Returns the median and the 99th percentile in milliseconds, with their targets."""
    return [
        Figure(measurement, f"{what}, p50", 1_000 * percentile(seconds, 0.5), "ms", target=p50),
        Figure(measurement, f"{what}, p99", 1_000 * percentile(seconds, 0.99), "ms", target=p99),
    ]


def combined(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Combines each figure over several runs to the best value, since other load on the machine only worsens a figure.

    For a ratio, the median is used, since its best value would come from a run in which the other side had bad luck.
    """
    return [_combined(versions) for versions in zip(*runs, strict=True)]


def _combined(versions: Sequence[Figure]) -> Figure:
    ordered = sorted(versions, key=lambda figure: figure.value, reverse=versions[0].better is Better.HIGHER)
    return ordered[len(ordered) // 2 if ordered[0].ratio else 0]


def main(
    choose: Callable[[], Mapping[str, Measure]], repeat: int, json_file: Path | None, *, verdict: bool = False
) -> int:
    """Measures, and prints the table.

    Returns 0 if all measurements could be made, whatever their figures. With ``verdict``, returns 0 only if all targets
    are met.
    """
    from swarm.cli.terminal import Terminal  # imported late, since simulated agents load this module as well

    progress = Terminal(stderr=True)
    try:
        _raise_open_files()
        with asyncio.Runner(loop_factory=_fast_loop) as runner:
            found = runner.run(measure(choose(), repeat, progress.print))
        _show(found, Terminal(width=None if sys.stdout.isatty() else 140))
        if json_file:
            _write_json(found, json_file)
    except BenchError as error:
        progress.print(f"swarm: {error}")
        return 1
    return 1 if verdict and any(figure.met is False for figure in found) else 0


async def measure(measurements: Mapping[str, Measure], repeat: int, say: Say) -> list[Figure]:
    """Runs the measurements one after another, each ``repeat`` times, with `combined` figures."""
    found: list[Figure] = []
    for name, make in measurements.items():
        runs = []
        for turn in range(1, repeat + 1):
            which = f"{name} ({turn} of {repeat})" if repeat > 1 else name
            runs.append(await make(lambda text, which=which: say(f"{which}: {text}")))  # type: ignore[misc]
        found += combined(runs)
    return found


def _raise_open_files() -> None:
    """Raises the limit of open files. Thousands of polls need thousands of sockets, here and in the coordinator, which
    inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _fast_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _show(figures: Sequence[Figure], console: Console) -> None:
    """Prints the table and the machine."""
    from rich.table import Table

    table = Table("measurement", "figure")
    for heading in ("value", "target"):
        table.add_column(heading, justify="right")
    table.add_column("met")
    last = ""
    for figure in figures:
        if last and figure.measurement != last:
            table.add_section()
        name = figure.measurement if figure.measurement != last else ""
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        table.add_row(name, figure.what, f"{_number(figure.value)} {figure.unit}", _target(figure), met)
        last = figure.measurement
    console.print(table)
    console.print(", ".join(f"{key}: {value}" for key, value in _machine().items()))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if figure.better is Better.LOWER else "≥"
    return f"{sign} {figure.target:,g} {figure.unit}"


def _write_json(figures: Sequence[Figure], path: Path) -> None:
    document = {"machine": _machine(), "figures": [{**asdict(figure), "met": figure.met} for figure in figures]}
    try:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"the figures cannot be written: {error}") from error


def _machine() -> dict[str, str | int]:
    return {
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": _sqlite_version(),
    }


def _sqlite_version() -> str:
    """Returns the version of the coordinator's SQLite, which is that of pysqlite3 if installed."""
    for name in ("pysqlite3", "sqlite3"):
        try:
            return str(import_module(name).sqlite_version)
        except ImportError:
            continue
    return "none"
