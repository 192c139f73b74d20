"""Sets up a coordinator's watchers: the log of changes, the metrics, and optional traces.

The log of changes records failures as warnings and ordinary changes at debug level. Lines contain ids and never
people's texts, not even as a reason; `swarm explain` shows reasons to authorised readers.

This module also reports Slack traffic to a watcher (incoming events, timed until they are stored, and each delivery
attempt), and measures the delay of the event loop.

The packages of the extra ``otel`` are imported only here and in `traces`, and only if traces are on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog

from swarm.clock import until_next
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted
from swarm.domain.model.threads import MessageDeleted, MessageEdited, SlackEvent, SlackMessage
from swarm.domain.ports import SlackSender
from swarm.domain.watchers import Changed, DatabaseCall, SlackEventHandled, ToolCall, Watcher, Watchers
from swarm.telemetry.metrics import Metrics

GRAVE: Final = {
    "delivery.fail": "A delivery to Slack has permanently failed.",
    "inbox.bury": "A message was set aside after its last attempt; redrive it once the cause is fixed.",
    "inbox.lose": "A run lost its message, which is now due again.",
    "notice.drop": "A notice for an agent was dropped.",
    "task.bury": "A task was set aside after its last attempt; redrive it once the cause is fixed.",
    "task.lose": "A run lost its task, which is now due again.",
    "webhook.failed": "A call of another service has permanently failed.",
}
"""Changes that need an operator's attention."""

NOTEWORTHY: Final = {
    "agent.register": "An agent was registered.",
    "agent.revoke": "An agent was removed.",
    "agent.rotate": "An agent has a new token.",
    "silence.deferred": "An agent leaves the answer to others; nothing is shown.",
    "silence.low_confidence": "An agent is not sure of its answer; nothing is shown.",
    "silence.failed": "A silent run has failed; nothing is shown.",
    "silence.stopped": "A silent run was stopped; nothing is shown.",
}
"""Rare changes that people make, and ends of which people see nothing."""

_ALWAYS: Final = frozenset({*GRAVE, *NOTEWORTHY})

_names = logging.getLogger(__name__)
_log = structlog.get_logger(__name__)


class Journal(Watcher):
    """A watcher that logs changes after their commit."""

    def database_called(self, call: DatabaseCall) -> None:
        everything = _names.isEnabledFor(logging.DEBUG)
        for fact in call.facts:
            if isinstance(fact, Changed) and (everything or fact.change in _ALWAYS):
                self._write(fact)

    def tool_called(self, call: ToolCall) -> None:
        if _names.isEnabledFor(logging.DEBUG):
            _log.debug(
                "A tool was called.",
                action="tool_call", tool=call.tool, agent=call.agent, about=call.about, result=call.result,
            )  # fmt: skip

    def _write(self, fact: Changed) -> None:
        ids = {"subject": fact.subject, "thread": fact.thread_id, "agent": fact.agent_id}
        if fact.change in GRAVE:
            _log.warning(GRAVE[fact.change], action=fact.change, **ids)
        elif fact.change in NOTEWORTHY:
            _log.info(NOTEWORTHY[fact.change], action=fact.change, **ids)
        else:
            _log.debug("Something changed.", action=fact.change, **ids)


if TYPE_CHECKING:
    from swarm.telemetry.traces import Traces


TRACES_PATH: Final = "/v1/traces"
TIMEOUT_SECONDS: Final = 3.0
"""The time limit for one export. Shutdown waits for the last export."""

EVERY_SECONDS: Final = 1.0
"""The interval between batches."""


def open_traces(endpoint: str, *, version: str) -> Traces:
    """Returns traces that are sent to an OTLP collector over HTTP, in batches, by a separate thread.

    ``endpoint`` is the collector's address. If it has no path, the usual ``/v1/traces`` is added. Raises
    ConfigurationError if the needed packages are not installed.
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


TICK_SECONDS: Final = 0.1
IDLE_TICK_SECONDS: Final = 1.0
_BUSY_SHARE: Final = 0.02  # of a processor; a process that does nothing needs less


async def watch_loop(learn: Callable[[float], None]) -> None:
    """Sleeps repeatedly, and passes each delay of the event loop in seconds to ``learn``. Runs until cancelled.

    A blocked loop is detected at the next wake-up. The timer itself is about a millisecond late. While the loop's
    thread uses little processor time, it sleeps longer.
    """
    pause, used = TICK_SECONDS, time.thread_time()
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(pause)
        elapsed, before, used = time.perf_counter() - begun, used, time.thread_time()
        learn(max(0.0, elapsed - pause))
        is_busy = used - before > _BUSY_SHARE * elapsed
        pause = TICK_SECONDS if is_busy else until_next(IDLE_TICK_SECONDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Telemetry:
    """The watcher of all events, and the metrics."""

    watcher: Watcher
    metrics: Metrics


@contextmanager
def watching(*, version: str, database: str, traces_endpoint: str | None) -> Iterator[Telemetry]:
    """Yields the metrics and the journal, and also traces if there is an endpoint for them. Remaining spans are sent at
    the end.

    ``database`` is the kind of database. Raises ConfigurationError if the packages for traces are missing.
    """
    metrics = Metrics(version=version, database=database)
    traces = open_traces(traces_endpoint, version=version) if traces_endpoint else None
    try:
        watchers: list[Watcher] = [metrics, Journal(), *([traces] if traces else [])]
        yield Telemetry(watcher=Watchers(watchers), metrics=metrics)
    finally:
        if traces:
            traces.close()


Handle = Callable[[SlackEvent], Awaitable[None]]


def watched_events(handle: Handle, watcher: Watcher) -> Handle:
    """Returns ``handle``, extended to report each event's result and time to ``watcher``."""

    async def watched(event: SlackEvent) -> None:
        begun = time.perf_counter()
        stored = False
        try:
            await handle(event)
            stored = True
        finally:
            seconds = time.perf_counter() - begun
            watcher.slack_event_handled(SlackEventHandled(kind=_kind(event), stored=stored, seconds=seconds))

    return watched


class WatchedSender:
    """A `SlackSender` that reports every attempt to ``watcher``."""

    def __init__(self, slack: SlackSender, watcher: Watcher) -> None:
        self._slack = slack
        self._watcher = watcher

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        return self._slack.expected_wait_seconds(delivery)

    async def ready(self, delivery: Delivery) -> None:
        await self._slack.ready(delivery)

    @property
    def refused_by(self) -> str | None:
        return self._slack.refused_by

    async def token_accepted(self) -> None:
        await self._slack.token_accepted()

    async def deliver(self, delivery: Delivery) -> Answer:
        begun = time.perf_counter()
        answer = await self._slack.deliver(delivery)
        self._watcher.delivery_tried(delivery, answer, time.perf_counter() - begun)
        return answer

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        return await self._slack.find(delivery)


def _kind(event: SlackEvent) -> str:
    match event:
        case SlackMessage():
            return "message"
        case MessageEdited():
            return "edit"
        case MessageDeleted():
            return "delete"
