"""``swarm bench loop``: the way of a message from Slack to an agent and back, measured in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from swarm.bench import events, pairs, polls
from swarm.bench.figures import BenchError
from swarm.bench.inside import backlog, store
from swarm.bench.run import Measure

MEASUREMENTS: Final[Mapping[str, Measure]] = {
    "events": events.measure,
    "polls": polls.measure,
    "pairs": pairs.measure,
    "store": store.measure,
    "backlog": backlog.measure,
}
"""In order of execution."""

_INSIDE: Final = frozenset({"store", "backlog"})
"""Measurements of parts within this process, which several coordinators cannot share."""


def chosen(only: str, processes: int = 1) -> dict[str, Measure]:
    """Returns the measurements named in a comma-separated list, or all that apply to ``processes`` coordinators.

    Raises BenchError for an unknown name, and for one that does not apply.
    """
    wanted = {name.strip() for name in only.split(",") if name.strip()}
    if unknown := sorted(wanted - MEASUREMENTS.keys()):
        raise BenchError(f"there is no measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
    barred = _INSIDE if processes > 1 else frozenset()
    if idle := sorted(wanted & barred):
        raise BenchError(f"{', '.join(idle)} has no coordinator process; leave --processes out")
    return {name: measure for name, measure in MEASUREMENTS.items() if name in (wanted or MEASUREMENTS.keys() - barred)}
