"""OpenTelemetry traces, which follow a message from Slack's event to the answer in Slack.

The trace id of an inbox message is the message's own id (a UUID, without its dashes); the same applies to tasks and
notices. The trace can therefore be found by the trigger's id, and processes need not pass on a context. The root span
is the storing of the message; its claims, tool calls and deliveries are the children. Other messages under the same
lease, and the message from which a task was delegated, have their own traces, to which the claim links.

Spans are created after the fact, from watchers' calls; nothing waits for them. They contain ids, kinds and results,
never people's texts.

This module needs the packages of the extra ``otel``; `swarm.telemetry.setup` imports it only if traces are on.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from swarm.clock import SECOND
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.tasks import OPEN_STATUSES
from swarm.domain.watchers import Changed, DatabaseCall, ToolCall, TriggerClaimed, Watcher

STORE_STEPS: Final = frozenset({"inbox.store", *(f"task.{status}" for status in OPEN_STATUSES)})
"""Changes that begin a trace."""

CLOSE_SECONDS: Final = 1.0

_NANOSECONDS: Final = 1_000_000_000
_LOW_64_BITS: Final = (1 << 64) - 1

Value = str | int | float


class Traces(Watcher):
    """A watcher that creates spans from its calls and passes them to ``processor``."""

    def __init__(self, processor: SpanProcessor, *, version: str) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,  # all processes would have to sample alike; a collector can sample complete traces
            resource=Resource.create({"service.name": "swarm", "service.version": version}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("swarm", version)

    def close(self, patience_seconds: float = CLOSE_SECONDS) -> None:
        """Sends the remaining spans, waiting at most ``patience_seconds`` for the collector."""
        closing = threading.Thread(target=self._provider.shutdown, name="swarm-traces-close", daemon=True)
        closing.start()
        closing.join(patience_seconds)

    def database_called(self, call: DatabaseCall) -> None:
        for fact in call.facts:
            if isinstance(fact, Changed) and fact.change in STORE_STEPS:
                self._begin(fact, call.seconds)
            elif isinstance(fact, TriggerClaimed):
                self._claimed(fact, call.seconds)

    def tool_called(self, call: ToolCall) -> None:
        self._span(
            f"tool {call.tool}",
            call.about,
            call.seconds,
            {"swarm.tool": call.tool, "swarm.agent": call.agent, "swarm.result": call.result},
            kind=SpanKind.SERVER,
            error=None if call.result == "ok" else call.result,
        )

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        result, error = _outcome(answer)
        self._span(
            f"deliver {delivery.kind}",
            delivery.inbox_message_id or delivery.id,
            seconds,
            {
                "swarm.delivery_id": delivery.id,
                "swarm.delivery_kind": delivery.kind.value,
                "swarm.attempt": delivery.attempts,
                "swarm.result": result,
            },
            kind=SpanKind.CLIENT,
            error=error,
        )

    def _begin(self, fact: Changed, seconds: float) -> None:
        """Records the root span of a trace, with ids derived from the subject's id."""
        self._ids.next_root = context_of(fact.subject)
        attributes: dict[str, Value] = {"swarm.trigger_id": fact.subject}
        if fact.thread_id:
            attributes["swarm.thread_id"] = fact.thread_id
        if fact.agent_id:
            attributes["swarm.agent_id"] = fact.agent_id
        try:
            self._record(fact.change, Context(), seconds, attributes, kind=SpanKind.CONSUMER)
        finally:
            self._ids.next_root = None

    def _claimed(self, fact: TriggerClaimed, seconds: float) -> None:
        self._span(
            "claim",
            fact.trigger_id,
            seconds,
            {
                "swarm.trigger_kind": fact.kind,
                "swarm.agent_id": fact.agent_id,
                "swarm.attempt": fact.attempt,
                "swarm.waited_seconds": fact.waited_us / SECOND,
            },
            links=tuple(Link(context_of(message_id)) for message_id in fact.also),
        )

    def _span(
        self,
        name: str,
        about: str | None,
        seconds: float,
        attributes: Mapping[str, Value],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: tuple[Link, ...] = (),
        error: str | None = None,
    ) -> None:
        """Records a span in its subject's trace, or in a trace of its own."""
        parent = set_span_in_context(NonRecordingSpan(context_of(about)), Context()) if about else Context()
        also = {"swarm.trigger_id": about} if about else {}
        self._record(name, parent, seconds, {**attributes, **also}, kind=kind, links=links, error=error)

    def _record(
        self,
        name: str,
        context: Context,
        seconds: float,
        attributes: Mapping[str, Value],
        *,
        kind: SpanKind,
        links: tuple[Link, ...] = (),
        error: str | None = None,
    ) -> None:
        ended_ns = time.time_ns()
        span = self._tracer.start_span(
            name,
            context,
            kind=kind,
            attributes=attributes,
            links=links,
            start_time=ended_ns - int(seconds * _NANOSECONDS),
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(ended_ns)


class _Ids(RandomIdGenerator):
    """A generator of random ids, except for a root span with given ids."""

    def __init__(self) -> None:
        self.next_root: SpanContext | None = None

    def generate_trace_id(self) -> int:
        return self.next_root.trace_id if self.next_root else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.next_root.span_id if self.next_root else super().generate_span_id()


def context_of(trigger_id: str) -> SpanContext:
    """Returns the root span of a trigger's trace. The trigger's id is the trace id, and its random half is the span
    id."""
    number = _number(trigger_id)
    return SpanContext(
        trace_id=number,
        span_id=number & _LOW_64_BITS,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _number(trigger_id: str) -> int:
    try:
        return uuid.UUID(trigger_id).int
    except ValueError:  # an agent may pass any id
        return int.from_bytes(hashlib.sha256(trigger_id.encode("utf-8", "replace")).digest()[:16], "big")


def _outcome(answer: Answer) -> tuple[str, str | None]:
    """Returns the kind of Slack's response, and its error, if any."""
    match answer:
        case DeliveryAccepted():
            return "accepted", None
        case DeliveryRefused(error=error):
            return "refused", error
        case NotSent(reason=reason):
            return "not_sent", reason
        case InDoubt(reason=reason):
            return "in_doubt", reason
