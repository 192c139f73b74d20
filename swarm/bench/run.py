"""Runs measurements one after another, and shows their figures."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from swarm.bench import report
from swarm.bench.figures import BenchError, Figure, combined
from swarm.bench.plan import Plan, Say
from swarm.cli.terminal import Terminal

Measure = Callable[[Plan, Say], Awaitable[list[Figure]]]

_OPEN_FILES: Final = 16_384


def main(choose: Callable[[], Mapping[str, Measure]], plan: Plan, repeat: int, json_file: Path | None) -> int:
    """Measures and prints the table. Returns 0 if all measurements could be made, whatever their figures."""
    return 1 if _found(lambda say: measure(choose(), plan, repeat, say), json_file) is None else 0


def judged(make: Callable[[Say], Awaitable[list[Figure]]], json_file: Path | None) -> int:
    """Runs one measurement whose figures are a verdict. Returns 0 only if all targets are met."""
    found = _found(make, json_file)
    return 0 if found is not None and all(figure.met is not False for figure in found) else 1


def _found(make: Callable[[Say], Awaitable[list[Figure]]], json_file: Path | None) -> list[Figure] | None:
    """Returns the figures and shows them; None after reporting an error."""
    progress = Terminal(stderr=True)
    try:
        _raise_open_files()
        with asyncio.Runner(loop_factory=_fast_loop) as runner:
            found = runner.run(_awaited(make, progress.print))
        report.show(found, Terminal(width=None if sys.stdout.isatty() else 140))
        if json_file:
            report.write_json(found, json_file)
    except BenchError as error:
        progress.print(f"swarm: {error}")
        return None
    return found


async def _awaited(make: Callable[[Say], Awaitable[list[Figure]]], say: Say) -> list[Figure]:
    """Awaits in a coroutine: a loop's runner takes nothing else."""
    return await make(say)


async def measure(measurements: Mapping[str, Measure], plan: Plan, repeat: int, say: Say) -> list[Figure]:
    """Runs the measurements one after another, each ``repeat`` times, with `combined` figures."""
    found: list[Figure] = []
    for name, make in measurements.items():
        runs = []
        for turn in range(1, repeat + 1):
            which = f"{name} ({turn} of {repeat})" if repeat > 1 else name
            runs.append(await make(plan, lambda text, which=which: say(f"{which}: {text}")))  # type: ignore[misc]
        found += combined(runs)
    return found


def _raise_open_files() -> None:
    """Raises the limit: thousands of polls are thousands of sockets, here and in the coordinator, which inherits it."""
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
