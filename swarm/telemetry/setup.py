"""The watchers of a coordinator together, with the traces that are optional, and the watch on the event loop.

The packages of the extra ``otel`` are imported only here and in `traces`, and only if traces are on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from swarm.domain.errors import ConfigurationError
from swarm.domain.watchers import Watcher, Watchers
from swarm.telemetry.journal import Journal
from swarm.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from swarm.telemetry.traces import Traces


TRACES_PATH: Final = "/v1/traces"
TIMEOUT_SECONDS: Final = 3.0
"""For one export; shutdown waits for the last one."""

EVERY_SECONDS: Final = 1.0
"""The interval between batches."""


def open_traces(endpoint: str, *, version: str) -> Traces:
    """Traces sent to an OTLP collector over HTTP, in batches, from a thread of their own.

    ``endpoint`` is the collector's address; without a path the usual ``/v1/traces`` is added. Raises ConfigurationError
    if the needed packages are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from swarm.telemetry.traces import Traces
    except ImportError as error:
        raise ConfigurationError(
            f"traces.endpoint (SWARM_TRACES_ENDPOINT) is set, but {error.name} is not installed.",
            hint="Install swarm with the extra 'otel' (pip install 'swarm[otel]'), or unset the variable.",
        ) from error
    exporter = OTLPSpanExporter(endpoint=_whole(endpoint), timeout=TIMEOUT_SECONDS)
    batches = BatchSpanProcessor(exporter, schedule_delay_millis=EVERY_SECONDS * 1000)
    return Traces(batches, version=version)


def _whole(endpoint: str) -> str:
    return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH


TICK_SECONDS: Final = 0.05


async def watch_loop(learn: Callable[[float], None]) -> None:
    """Sleep again and again, and pass each delay of the event loop in seconds to ``learn``. Runs until cancelled.

    A stuck loop shows at the next wake-up; the timer itself is about a millisecond late.
    """
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        learn(max(0.0, time.perf_counter() - begun - TICK_SECONDS))


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
