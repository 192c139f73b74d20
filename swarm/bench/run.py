"""Make measurements, one after another, and show what they found."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Final

from rich.console import Console

from swarm.bench import report
from swarm.bench.figures import BenchError, Figure, combined
from swarm.bench.plan import Plan, Say

Measure = Callable[[Plan, Say], Awaitable[list[Figure]]]

_OPEN_FILES: Final = 16_384


def main(choose: Callable[[], Mapping[str, Measure]], plan: Plan, repeat: int, json_file: Path | None) -> int:
    """Measure, print the table; 0 when it could be measured, whatever was found."""
    progress = Console(stderr=True, highlight=False, markup=False)
    try:
        found = figures(measure(choose(), plan, repeat, progress.print))
        show(found, json_file)
    except BenchError as error:
        progress.print(f"swarm: {error}")
        return 1
    return 0


def figures(measuring: Coroutine[None, None, list[Figure]]) -> list[Figure]:
    """Run a measurement in a loop of its own."""
    _raise_open_files()
    with asyncio.Runner(loop_factory=_fast_loop) as runner:
        return runner.run(measuring)


def show(found: list[Figure], json_file: Path | None) -> None:
    """Print the table, and write the file if one is wanted. Raises BenchError if that is not possible."""
    report.show(found, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 140))
    if json_file:
        report.write_json(found, json_file)


async def measure(measurements: Mapping[str, Measure], plan: Plan, repeat: int, say: Say) -> list[Figure]:
    """The measurements one after another, each ``repeat`` times, as `combined` sees it."""
    found: list[Figure] = []
    for name, make in measurements.items():
        runs = []
        for turn in range(1, repeat + 1):
            which = f"{name} ({turn} of {repeat})" if repeat > 1 else name
            runs.append(await make(plan, lambda text, which=which: say(f"{which}: {text}")))  # type: ignore[misc]
        found += combined(runs)
    return found


def _raise_open_files() -> None:
    """Thousands of polls are thousands of sockets, here and in the coordinator, which inherits the limit."""
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
