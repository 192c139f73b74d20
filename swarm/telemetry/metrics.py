"""The watcher with the metrics, which `swarm.entrypoints.http.metrics` serves."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Info,
    PlatformCollector,
    ProcessCollector,
)

from swarm.clock import SECOND
from swarm.domain.errors import OutcomeUnknown, SwarmError, Unavailable
from swarm.domain.model.deliveries import DeliveryKind, DeliveryStatus, DeliveryStep
from swarm.domain.watchers import (
    Changed,
    DatabaseCall,
    DeliveryStepped,
    LeaseEnded,
    LeaseRefused,
    MetricEvent,
    ReactionsExpired,
    SlackCall,
    SlackEventHandled,
    ToolCall,
    TriggerClaimed,
    Watcher,
)
from swarm.telemetry.instruments import Instruments

_ROUTED: Final = "route."
_OVER: Final = {
    DeliveryStep.CONFIRM: DeliveryStatus.SENT,
    DeliveryStep.FAIL: DeliveryStatus.FAILED,
    DeliveryStep.EXPIRE: DeliveryStatus.EXPIRED,
}
_AGAIN: Final = frozenset({DeliveryStep.POSTPONE, DeliveryStep.DOUBT, DeliveryStep.RESEND})


class Metrics(Watcher):
    """Counts watchers' calls, in a registry of its own, so that two in one process do not mix."""

    def __init__(self, *, version: str, database: str) -> None:
        self.registry = CollectorRegistry()
        self.count = Instruments(self.registry)
        # A family's member by its labels; the family itself would take a lock and a search each time.
        self._of: Callable[..., Any] = functools.cache(lambda family, *labels: family.labels(*labels))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Info("swarm_build", "What runs here.", registry=self.registry)
        build.info({"version": version, "python": platform.python_version(), "database": database})

    def database_called(self, call: DatabaseCall) -> None:
        operation = "write" if call.writes else "read"
        self._of(self.count.database_calls, operation, _result(call.error)).inc()
        self._of(self.count.database_call_seconds, operation).observe(call.seconds)
        for fact in call.facts:
            self._learn(fact)

    def committed_together(self, count: int) -> None:
        self.count.database_group_size.observe(count)

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        self._of(self.count.slack_events, event.kind, "stored" if event.stored else "failed").inc()
        if event.stored:
            self.count.slack_event_seconds.observe(event.seconds)

    def slack_called(self, call: SlackCall) -> None:
        self._of(self.count.slack_calls, call.method, call.result).inc()
        self._of(self.count.slack_call_seconds, call.method).observe(call.seconds)

    def tool_called(self, call: ToolCall) -> None:
        self._of(self.count.tool_calls, call.tool, call.result).inc()
        self._of(self.count.tool_call_seconds, call.tool).observe(call.seconds)

    def slack_was_deaf(self) -> None:
        self.count.slack_deaf.inc()

    def caught_up(self, messages: int) -> None:
        self.count.slack_missed.inc(messages)

    def clock_stepped(self, seconds: float) -> None:
        self._of(self.count.clock_steps, "forth" if seconds > 0 else "back").inc()

    def request_answered(self, method: str, route: str, status: str, seconds: float) -> None:
        """Count an HTTP request that was answered, or whose client had gone."""
        self._of(self.count.http_requests, method, route, status).inc()
        self._of(self.count.http_request_seconds, route).observe(seconds)

    def _learn(self, fact: MetricEvent) -> None:
        match fact:
            case Changed(change=change) if change.startswith(_ROUTED):
                self._of(self.count.messages_routed, change.removeprefix(_ROUTED)).inc()
            case Changed(change=change):
                self._of(self.count.changes, change).inc()
            case TriggerClaimed(kind=kind, waited_us=waited_us):
                self._of(self.count.triggers, kind).inc()
                if fact.attempt == 1:
                    self._of(self.count.trigger_wait_seconds, kind).observe(max(waited_us, 0) / SECOND)
            case LeaseEnded(how=how):
                self._of(self.count.leases_ended, how.value).inc()
            case LeaseRefused():
                self.count.leases_refused.inc()
            case DeliveryStepped():
                self._learn_of_delivery(fact)
            case ReactionsExpired(count=count):
                self._of(self.count.deliveries, DeliveryKind.REACTION.value, DeliveryStatus.EXPIRED.value).inc(count)

    def _learn_of_delivery(self, fact: DeliveryStepped) -> None:
        kind = fact.kind.value
        if fact.step in _OVER:
            self._of(self.count.deliveries, kind, _OVER[fact.step].value).inc()
        if fact.step is DeliveryStep.CONFIRM:
            self._of(self.count.delivery_seconds, kind).observe(max(fact.age_us, 0) / SECOND)
        if fact.step in _AGAIN:
            self._of(self.count.delivery_retries, kind, fact.step.value).inc()


def _result(error: BaseException | None) -> str:
    match error:
        case None:
            return "ok"
        case OutcomeUnknown():
            return "unknown"
        case Unavailable():
            return "unavailable"
        case SwarmError() if error.status < 500:
            return "refused"  # a rule of the domain refused the call, as intended
        case _:
            return "failed"
