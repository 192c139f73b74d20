"""``swarm bench loop``: the way of a message from Slack to an agent and back, measured piece by piece."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from swarm.bench import events, pairs, polls, report
from swarm.bench.figures import BenchError, Figure, combined
from swarm.bench.inside import backlog, store
from swarm.bench.plan import Plan, Say

Measure = Callable[[Plan, Say], Awaitable[list[Figure]]]

MEASUREMENTS: Final[Mapping[str, Measure]] = {
    "events": events.measure,
    "polls": polls.measure,
    "pairs": pairs.measure,
    "store": store.measure,
    "backlog": backlog.measure,
}
"""In the order in which they are made."""

_OPEN_FILES: Final = 16_384


def main(plan: Plan, only: str, repeat: int, json_file: Path | None) -> int:
    """Measure, print the table; 0 when it could be measured, whatever was found. ``only`` is a list with commas."""
    progress = Console(stderr=True, highlight=False, markup=False)
    try:
        names = chosen(only)
        _raise_open_files()
        with asyncio.Runner(loop_factory=_fast_loop) as runner:
            figures = runner.run(measure(plan, names, repeat, progress.print))
        report.show(figures, Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 140))
        if json_file:
            report.write_json(figures, json_file)
    except BenchError as error:
        progress.print(f"swarm: {error}")
        return 1
    return 0


def chosen(only: str) -> list[str]:
    """The measurements that a list with commas names, all for an empty one. Raises BenchError for an unknown name."""
    wanted = {name.strip() for name in only.split(",") if name.strip()}
    if unknown := sorted(wanted - MEASUREMENTS.keys()):
        raise BenchError(f"there is no measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    return [name for name in MEASUREMENTS if not wanted or name in wanted]


async def measure(plan: Plan, names: Sequence[str], repeat: int, say: Say) -> list[Figure]:
    """The named measurements one after another, each ``repeat`` times, as `combined` sees it."""
    found: list[Figure] = []
    for name in names:
        runs = []
        for turn in range(1, repeat + 1):
            which = f"{name} ({turn} of {repeat})" if repeat > 1 else name
            runs.append(await MEASUREMENTS[name](plan, lambda text, which=which: say(f"{which}: {text}")))  # type: ignore[misc]
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
