"""Figures: how they are measured, compared with the design's targets, and shown. Also measures the lag of event loops:
the coordinator's, from its metrics, and this process's own.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import platform
import re
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

Say = Callable[[str], None]
"""Reports progress to the user."""

_OPEN_FILES: Final = 16_384
_LEGEND: Final = (
    "cpu ms: processor time of the measured process per operation; others: cores used meanwhile by other programs, "
    "PostgreSQL included; open: deliveries open at the end"
)


class BenchError(Exception):
    """A measurement failed. The message is the reason, in one line."""


class Better(StrEnum):
    """The better direction of a figure."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """The conditions under which a figure was measured, which are needed to judge it."""

    others: float  # cores used meanwhile by other programs, PostgreSQL included
    cpu_ms: float | None = None  # processor time of the measured process per operation
    deliveries_open: float | None = None  # at the end


@dataclass(frozen=True, slots=True)
class Figure:
    """One result; of several runs, ``value`` is the median. A figure without a target helps to explain others."""

    measurement: str
    what: str
    value: float
    unit: str
    better: Better = Better.LOWER
    target: float | None = None
    beside: Circumstances | None = None
    runs: tuple[float, ...] = ()  # the values of several runs, in order

    @property
    def minimum(self) -> float:
        return min(self.runs, default=self.value)

    @property
    def maximum(self) -> float:
        return max(self.runs, default=self.value)

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


def largest(measurement: str, what: str, seconds: Sequence[float], target: float | None = None) -> Figure:
    """Returns the largest of several times in milliseconds."""
    return Figure(measurement, f"{what}, max", 1_000 * percentile(seconds, 1), "ms", target=target)


def combined(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Combines each figure over several runs: the value is the median, and so are the circumstances."""
    return [_combined(versions) for versions in zip(*runs, strict=True)]


def _combined(versions: Sequence[Figure]) -> Figure:
    if len(versions) == 1:
        return versions[0]
    values, besides = tuple(version.value for version in versions), [version.beside for version in versions]
    return replace(versions[0], value=median(values), runs=values, beside=_usual([one for one in besides if one]))


def _usual(found: Sequence[Circumstances]) -> Circumstances | None:
    if not found:
        return None
    given = [asdict(one) for one in found]
    kept = {name: [one[name] for one in given if one[name] is not None] for name in given[0]}
    return Circumstances(**{name: median(values) for name, values in kept.items() if values})


def main(
    choose: Callable[[], Mapping[str, Measure]], repeat: int, json_file: Path | None, *, verdict: bool = False
) -> int:
    """Measures, and prints the table.

    Returns 0 if all measurements could be made, whatever their figures. With ``verdict``, returns 0 only if all targets
    are met.
    """
    from swarm.cli.terminal import Terminal  # imported late, since simulated agents load this module as well
    from swarm_base import log
    from swarm_lab.programs import Died

    log.configure("warning")

    progress = Terminal(stderr=True)
    try:
        _raise_open_files()
        with asyncio.Runner(loop_factory=_fast_loop) as runner:
            found = runner.run(measure(choose(), repeat, progress.print))
        _show(found, Terminal(width=None if sys.stdout.isatty() else 140))
        if json_file:
            _write_json(found, json_file)
    except (BenchError, Died) as error:
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

    is_repeated, has_circumstances = any(figure.runs for figure in figures), any(figure.beside for figure in figures)
    table = Table("measurement", "figure")
    for heading in ("median", "min", "max") if is_repeated else ("value",):
        table.add_column(heading, justify="right")
    table.add_column("target", justify="right")
    table.add_column("met")
    for heading in ("cpu ms", "others", "open") if has_circumstances else ():
        table.add_column(heading, justify="right")
    last = ""
    for figure in figures:
        if last and figure.measurement != last:
            table.add_section()
        name = figure.measurement if figure.measurement != last else ""
        beside = _beside(figure.beside) if has_circumstances else []
        table.add_row(name, figure.what, *_values(figure, is_repeated), *_verdict(figure), *beside)
        last = figure.measurement
    console.print(table)
    if has_circumstances:
        console.print(_LEGEND)
    console.print(", ".join(f"{key}: {value}" for key, value in _machine().items()))


def _values(figure: Figure, is_repeated: bool) -> list[str]:
    shown = [f"{_number(figure.value)} {figure.unit}".rstrip()]
    return [*shown, _number(figure.minimum), _number(figure.maximum)] if is_repeated else shown


def _verdict(figure: Figure) -> tuple[str, str]:
    met = {True: "yes", False: "NO", None: ""}[figure.met]
    if figure.target is None:
        return "", met
    sign = "≤" if figure.better is Better.LOWER else "≥"
    return f"{sign} {figure.target:,g} {figure.unit}".rstrip(), met


def _beside(found: Circumstances | None) -> list[str]:
    if found is None:
        return ["", "", ""]
    return ["" if value is None else _number(value) for value in (found.cpu_ms, found.others, found.deliveries_open)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.{2 if abs(value) >= 0.1 else 3}f}"


def _write_json(figures: Sequence[Figure], path: Path) -> None:
    found = [
        {**asdict(figure), "minimum": figure.minimum, "maximum": figure.maximum, "met": figure.met}
        for figure in figures
    ]
    document = {"machine": _machine(), "figures": found}
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
    """Returns the version of the SQLite library that the coordinator uses: pysqlite3's if it is installed, otherwise
    Python's own.
    """
    for name in ("pysqlite3", "sqlite3"):
        try:
            return str(import_module(name).sqlite_version)
        except ImportError:
            continue
    return "none"


_TICK_SECONDS: Final = 0.05
"""The interval of the coordinator's own checks of its loop."""

_BUCKET: Final = re.compile(r'^swarm_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """The number of checks with at most a given lag, by upper bound in seconds."""

    within: Mapping[float, float]

    def since(self, before: Lag) -> Lag:
        """Returns the checks made after ``before``."""
        return Lag(within={bound: count - before.within.get(bound, 0) for bound, count in self.within.items()})

    def percentile(self, share: float) -> float:
        """Returns a percentile in seconds, interpolated linearly between two bounds. Returns the last bound for larger
        values, and 0 without checks."""
        wanted = share * max(self.within.values(), default=0)
        low, below = 0.0, 0.0
        for bound, count in sorted(self.within.items()):
            if count >= wanted and count > below:
                return low if math.isinf(bound) else low + (bound - low) * (wanted - below) / (count - below)
            low, below = bound, count
        return 0.0


def lag_on(pages: str) -> Lag:
    """Reads the histogram on pages of metrics, and adds up those of several coordinators."""
    within = dict[float, float]()
    for bound, count in _BUCKET.findall(pages):
        within[float(bound)] = within.get(float(bound), 0.0) + float(count)
    return Lag(within=within)


@asynccontextmanager
async def own_lag() -> AsyncIterator[list[float]]:
    """Collects the lag of this process's loop in seconds."""
    found = list[float]()
    watching = asyncio.create_task(_watch(found))
    try:
        yield found
    finally:
        watching.cancel()


async def _watch(found: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(_TICK_SECONDS)
        found.append(max(0.0, time.perf_counter() - begun - _TICK_SECONDS))
