"""The metrics, and the watcher that updates them.

`docs/operations.md` describes the use of each metric, and a test keeps that page consistent with this module. Names
follow Prometheus: a counter ends in ``_total``, and the name of a quantity contains its unit. Labels have few values:
kinds, states, route templates, Slack's methods; never an id, a channel or a name that a person chose.

`swarm.entrypoints.http.metrics` serves the metrics.
"""

from __future__ import annotations

import platform
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Info,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from swarm.clock import SECOND
from swarm.domain.errors import OutcomeUnknown, SwarmError, Unavailable
from swarm.domain.model.budgets import MICRODOLLARS
from swarm.domain.model.deliveries import DeliveryKind, DeliveryStatus, DeliveryStep
from swarm.domain.watchers import (
    Changed,
    DatabaseCall,
    DeliveryStepped,
    Escalated,
    FeedbackGiven,
    LeaseEnded,
    LeaseRefused,
    MetricEvent,
    ModelsUsed,
    ReactionsExpired,
    SlackCall,
    SlackEventHandled,
    ToolCall,
    TriggerClaimed,
    Watcher,
    WebhookEnded,
)

QUICK_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Buckets for durations that should be a few milliseconds."""

LAG_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1)
"""Buckets for durations that should be close to zero."""

PATIENT_SECONDS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Buckets for durations that depend on agents' work or Slack's limits."""

GROUP_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


_HAS_CREATED: Final = any(
    sample.name.endswith("_created")
    for family in Counter("probe", "", registry=None).collect()
    for sample in family.samples
)
"""Whether prometheus_client reports when each series began, which an environment variable of its own switches off."""


class _EventCounter(Collector):
    """A counter as plain numbers, because prometheus_client's own counters take a lock for each event. All calls are
    made on the event loop's thread."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...]) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._counts: dict[tuple[str, ...], float] = {}
        self._created: dict[tuple[str, ...], float] = {}
        if not labels:
            self.inc(by=0)  # reported from the start

    def inc(self, *labels: str, by: float = 1) -> None:
        """Counts events with these label values."""
        if labels in self._counts:
            self._counts[labels] += by
        else:
            self._counts[labels], self._created[labels] = by, time.time()

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count, created=self._created[labels] if _HAS_CREATED else None)
        yield family


@dataclass(slots=True)
class _Series:
    """The observations of a histogram with the same label values."""

    counts: list[int]  # by bucket; the last one is for all larger values
    total: float = 0.0
    created: float = field(default_factory=time.time)


class _EventHistogram(Collector):
    """A histogram as plain numbers; see `_EventCounter`."""

    def __init__(self, name: str, help: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._buckets = buckets
        self._names = [*(str(float(bound)) for bound in buckets), "+Inf"]
        self._series: dict[tuple[str, ...], _Series] = {}
        if not labels:
            self._begin(())  # reported from the start

    def observe(self, value: float, *labels: str) -> None:
        """Adds a value to the bucket of the smallest bound that is not below it."""
        series = self._series.get(labels) or self._begin(labels)
        series.counts[bisect_left(self._buckets, value)] += 1
        series.total += value

    def _begin(self, labels: tuple[str, ...]) -> _Series:
        series = self._series[labels] = _Series(counts=[0] * len(self._names))
        return series

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, series in self._series.items():
            family.add_metric(labels, list(zip(self._names, accumulate(series.counts), strict=True)), series.total)
            if _HAS_CREATED:
                family.add_sample(f"{self._name}_created", dict(zip(self._labels, labels, strict=True)), series.created)
        yield family


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
        self.silent_runs = self._counter(
            "swarm_silent_runs_total", "Work for which nobody had asked, by the way it ended.", "outcome"
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
        self.polls_waiting = 0  # a plain number, like the counters
        Gauge(
            "swarm_polls_waiting", "Agents' polls that are open in this process.", registry=self._registry
        ).set_function(lambda: self.polls_waiting)
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
        self.feedback = self._counter(
            "swarm_feedback_total", "People's opinions of answers, each counted when it is given or changed.",
            "agent", "value", "reason",
        )  # fmt: skip
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
        self.webhooks = self._counter(
            "swarm_webhooks_total", "Number of completed calls of other services.", "kind", "outcome"
        )
        self.escalations = self._counter(
            "swarm_escalations_total",
            "Requests for a human in a thread; only the first has effects.",
            "door",
            "outcome",
        )
        self.model_tokens = self._counter(
            "swarm_model_tokens_total", "Tokens of models, as reported.", "agent", "direction"
        )
        self.model_cost = self._counter(
            "swarm_model_cost_dollars_total", "Cost of models as far as it is known, in US dollars.", "agent"
        )
        self.database_group_size = self._histogram(
            "swarm_database_group_size", "Number of writes that shared one transaction and commit.", GROUP_SIZES
        )
        self.clock_steps = self._counter(
            "swarm_clock_steps_total", "Number of times that the database's clock was set.", "direction"
        )

    def _counter(self, name: str, help: str, *labels: str) -> _EventCounter:
        counter = _EventCounter(name, help, labels)
        self._registry.register(counter)
        return counter

    def _histogram(self, name: str, help: str, buckets: tuple[float, ...], *labels: str) -> _EventHistogram:
        histogram = _EventHistogram(name, help, labels, buckets)
        self._registry.register(histogram)
        return histogram


_ROUTED: Final = "route."
_SILENT: Final = "silence."
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
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = Info("swarm_build", "What runs here.", registry=self.registry)
        build.info({"version": version, "python": platform.python_version(), "database": database})

    def database_called(self, call: DatabaseCall) -> None:
        operation = "write" if call.writes else "read"
        self.count.database_calls.inc(operation, _result(call.error))
        self.count.database_call_seconds.observe(call.seconds, operation)
        for fact in call.facts:
            self._learn(fact)

    def committed_together(self, count: int) -> None:
        self.count.database_group_size.observe(count)

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        self.count.slack_events.inc(event.kind, "stored" if event.stored else "failed")
        if event.stored:
            self.count.slack_event_seconds.observe(event.seconds)

    def slack_called(self, call: SlackCall) -> None:
        self.count.slack_calls.inc(call.method, call.result)
        self.count.slack_call_seconds.observe(call.seconds, call.method)

    def tool_called(self, call: ToolCall) -> None:
        self.count.tool_calls.inc(call.tool, call.result)
        self.count.tool_call_seconds.observe(call.seconds, call.tool)

    def slack_was_deaf(self) -> None:
        self.count.slack_deaf.inc()

    def caught_up(self, messages: int) -> None:
        self.count.slack_missed.inc(by=messages)

    def clock_stepped(self, seconds: float) -> None:
        self.count.clock_steps.inc("forth" if seconds > 0 else "back")

    def request_answered(self, method: str, route: str, status: str, seconds: float) -> None:
        """Counts an HTTP request that was answered or whose client disconnected."""
        self.count.http_requests.inc(method, route, status)
        self.count.http_request_seconds.observe(seconds, route)

    def _learn(self, fact: MetricEvent) -> None:
        match fact:
            case Changed(change=change) if change.startswith(_ROUTED):
                self.count.messages_routed.inc(change.removeprefix(_ROUTED))
            case Changed(change=change) if change.startswith(_SILENT):
                self.count.silent_runs.inc(change.removeprefix(_SILENT))
            case Changed(change=change):
                self.count.changes.inc(change)
            case TriggerClaimed(kind=kind, waited_us=waited_us):
                self.count.triggers.inc(kind)
                if fact.attempt == 1:
                    self.count.trigger_wait_seconds.observe(max(waited_us, 0) / SECOND, kind)
            case LeaseEnded(how=how):
                self.count.leases_ended.inc(how.value)
            case LeaseRefused():
                self.count.leases_refused.inc()
            case DeliveryStepped():
                self._learn_of_delivery(fact)
            case FeedbackGiven(agent=agent, value=value, reason=reason):
                self.count.feedback.inc(agent, value.value, reason.value if reason else "")
            case WebhookEnded(kind=kind, outcome=outcome):
                self.count.webhooks.inc(kind.value, outcome.value)
            case ModelsUsed(agent=agent):
                self.count.model_tokens.inc(agent, "input", by=fact.input_tokens)
                self.count.model_tokens.inc(agent, "output", by=fact.output_tokens)
                self.count.model_cost.inc(agent, by=fact.cost_microdollars / MICRODOLLARS)
            case Escalated(door=door, outcome=outcome):
                self.count.escalations.inc(door, outcome)
            case ReactionsExpired(count=count):
                self.count.deliveries.inc(DeliveryKind.REACTION.value, DeliveryStatus.EXPIRED.value, by=count)

    def _learn_of_delivery(self, fact: DeliveryStepped) -> None:
        kind = fact.kind.value
        if fact.step in _OVER:
            self.count.deliveries.inc(kind, _OVER[fact.step].value)
        if fact.step is DeliveryStep.CONFIRM:
            self.count.delivery_seconds.observe(max(fact.age_us, 0) / SECOND, kind)
        if fact.step in _AGAIN:
            self.count.delivery_retries.inc(kind, fact.step.value)


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
