"""The metrics, and the watcher that updates them.

`docs/operations.md` describes the use of each metric, and a test keeps that page consistent with this module. Names
follow Prometheus: a counter ends in ``_total``, and the name of a quantity contains its unit. Labels have few values:
kinds, states, route templates, Slack's methods; never an id, a channel or a name that a person chose.

`swarm.entrypoints.http.metrics` serves the metrics.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
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

QUICK_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Buckets for durations that should be a few milliseconds."""

LAG_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1)
"""Buckets for durations that should be close to zero."""

PATIENT_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Buckets for durations that depend on agents' work or Slack's limits."""

GROUP_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class _Instruments:
    """All counters, gauges and histograms that events update, in a separate registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._slack()
        self._work()
        self._deliveries()
        self._doors()
        self._database()
        self.event_loop_lag_seconds = self._histogram(
            "swarm_event_loop_lag_seconds", "Delay of the event loop.", LAG_SECONDS
        )

    def _slack(self) -> None:
        self.slack_events = self._counter(
            "swarm_slack_events_total", "Messages, edits and deletions in events from Slack.", "kind", "outcome"
        )
        self.slack_event_seconds = self._histogram(
            "swarm_slack_event_seconds", "Time from an event's arrival to its commit.", QUICK_SECONDS
        )
        self.messages_routed = self._counter(
            "swarm_messages_routed_total", "Messages by routing decision, each counted once.", "outcome"
        )
        self.slack_deaf = self._counter(
            "swarm_slack_deaf_total", "Connections to Slack that brought no events and were replaced."
        )
        self.slack_missed = self._counter(
            "swarm_slack_missed_total",
            "Messages, edits and deletions that were missed as events and read from Slack later.",
        )
        self.slack_calls = self._counter(
            "swarm_slack_calls_total", "Calls of Slack's Web API by result.", "method", "result"
        )
        self.slack_call_seconds = self._histogram(
            "swarm_slack_call_seconds", "Duration of calls of Slack's Web API, without waiting for their turn.",
            PATIENT_SECONDS, "method",
        )  # fmt: skip

    def _work(self) -> None:
        self.polls_waiting = Gauge(
            "swarm_polls_waiting", "Agents' polls that are open in this process.", registry=self._registry
        )
        self.triggers = self._counter("swarm_triggers_claimed_total", "Claimed triggers by kind.", "kind")
        self.trigger_wait_seconds = self._histogram(
            "swarm_trigger_wait_seconds",
            "Time from the storing of a trigger to its first claim.",
            PATIENT_SECONDS,
            "kind",
        )
        self.leases_ended = self._counter("swarm_leases_ended_total", "Ended leases by the way they ended.", "how")
        self.leases_refused = self._counter(
            "swarm_leases_refused_total", "Renewals, releases and finishes with a lease that is no longer valid."
        )
        self.changes = self._counter(
            "swarm_changes_total", "Changes of state as timelines record them, for example inbox.respond.", "change"
        )

    def _deliveries(self) -> None:
        self.deliveries = self._counter(
            "swarm_deliveries_total", "Finished deliveries to Slack, by outcome.", "kind", "outcome"
        )
        self.delivery_seconds = self._histogram(
            "swarm_delivery_seconds", "Time from the storing of a delivery until Slack has it.",
            PATIENT_SECONDS, "kind",
        )  # fmt: skip
        self.delivery_retries = self._counter(
            "swarm_delivery_retries_total", "Deliveries that must be retried or looked up again.", "kind", "why"
        )

    def _doors(self) -> None:
        self.http_requests = self._counter(
            "swarm_http_requests_total", "HTTP requests by route template and status.", "method", "route", "status"
        )
        self.http_request_seconds = self._histogram(
            "swarm_http_request_seconds", "Duration of HTTP requests by route template; /poll includes its wait.",
            PATIENT_SECONDS, "route",
        )  # fmt: skip
        self.tool_calls = self._counter(
            "swarm_tool_calls_total", "MCP tool calls by result, ok or an error code.", "tool", "result"
        )
        self.tool_call_seconds = self._histogram("swarm_tool_call_seconds", "MCP tool calls.", QUICK_SECONDS, "tool")

    def _database(self) -> None:
        self.database_calls = self._counter(
            "swarm_database_calls_total", "Database calls by result.", "operation", "result"
        )
        self.database_call_seconds = self._histogram(
            "swarm_database_call_seconds", "Duration of database calls, including time in the queue.",
            QUICK_SECONDS, "operation",
        )  # fmt: skip
        self.database_group_size = self._histogram(
            "swarm_database_group_size", "Number of writes that shared one transaction and commit.", GROUP_SIZES
        )
        self.clock_steps = self._counter(
            "swarm_clock_steps_total", "Number of times that the database's clock was set.", "direction"
        )

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, registry=self._registry)

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, help, labels, registry=self._registry, buckets=buckets)


_ROUTED: Final = "route."
_OVER: Final = {
    DeliveryStep.CONFIRM: DeliveryStatus.SENT,
    DeliveryStep.FAIL: DeliveryStatus.FAILED,
    DeliveryStep.EXPIRE: DeliveryStatus.EXPIRED,
}
_AGAIN: Final = frozenset({DeliveryStep.POSTPONE, DeliveryStep.DOUBT, DeliveryStep.RESEND})


class Metrics(Watcher):
    """A watcher that counts calls in a registry of its own, so that two instances in one process stay separate."""

    def __init__(self, *, version: str, database: str) -> None:
        self.registry = CollectorRegistry()
        self.count = _Instruments(self.registry)
        # The metric for each set of labels; looking it up in its family would take a lock each time.
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
        """Counts an HTTP request that was answered or whose client disconnected."""
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
            return "refused"  # a domain rule refused the call, as intended
        case _:
            return "failed"
