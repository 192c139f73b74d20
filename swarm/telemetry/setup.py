"""The watchers of a coordinator together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from swarm.domain.watchers import Watcher, Watchers
from swarm.telemetry.exporting import open_traces
from swarm.telemetry.journal import Journal
from swarm.telemetry.metrics import Metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """The watcher of all events, and the metrics."""

    watcher: Watcher
    metrics: Metrics


@contextmanager
def watching(*, version: str, database: str, traces_endpoint: str | None) -> Iterator[Telemetry]:
    """Metrics and the journal, and traces if there is an endpoint for them. Remaining spans are sent at the end.

    ``database`` is its kind. Raises ConfigurationError if the packages for traces are missing.
    """
    metrics = Metrics(version=version, database=database)
    traces = open_traces(traces_endpoint, version=version) if traces_endpoint else None
    try:
        watchers: list[Watcher] = [metrics, Journal(), *([traces] if traces else [])]
        yield Telemetry(watcher=Watchers(watchers), metrics=metrics)
    finally:
        if traces:
            traces.close()
