"""Traces, as the OpenTelemetry SDK exports them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from swarm.domain.watchers import ToolCall
from swarm.telemetry.setup import open_traces
from swarm.telemetry.traces import Traces, context_of
from tests.support.doors import Visitor
from tests.support.slack import refuses
from tests.support.telemetry import WatchedDoors, watched_doors
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT

pytestmark = pytest.mark.req("OPS-06")

WORDS = "nobody-else-may-read-this"


class Spans:
    """What was exported."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def of(self, trigger_id: str) -> dict[str, ReadableSpan]:
        """The spans of a trigger's trace by name."""
        return {span.name: span for span in self.all if span.context.trace_id == uuid.UUID(trigger_id).int}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    return Spans(exporter)


@pytest.fixture
async def doors(sqlite_url: str, exporter: InMemorySpanExporter) -> AsyncIterator[WatchedDoors]:
    traces = Traces(SimpleSpanProcessor(exporter), version="1.2.3")
    async with watched_doors(sqlite_url, watchers=[traces]) as opened:
        yield opened
    traces.close()


@pytest.fixture
async def lea(doors: WatchedDoors) -> Visitor:
    return await doors.lead()


async def answers(lea: Visitor, trigger: dict[str, Any]) -> None:
    inbox_message_id = trigger["inbox_messages"][0]["id"]
    await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=inbox_message_id, message=f"hi, {WORDS}")


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    assert span.attributes is not None
    return span.attributes


def moments(span: ReadableSpan) -> tuple[int, int]:
    """When it began and ended, in nanoseconds."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time, span.end_time


async def test_the_way_of_a_message_is_one_trace_under_the_id_of_its_trigger(
    doors: WatchedDoors, lea: Visitor, spans: Spans
) -> None:
    await doors.world.says(f"{BOT} {WORDS}")
    doors.world.clock.advance(3)
    trigger = await lea.only()
    await answers(lea, trigger)
    await doors.world.send()
    trace = spans.of(trigger["id"])
    assert set(trace) == {"inbox.store", "claim", "tool slack-reply", "deliver post"}
    root = trace.pop("inbox.store")
    assert root.parent is None
    assert root.context.span_id == context_of(trigger["id"]).span_id
    for span in trace.values():
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert attributes(span)["swarm.trigger_id"] == trigger["id"]
        assert moments(span)[0] <= moments(span)[1]
        assert moments(root)[1] <= moments(span)[1]
    assert attributes(trace["claim"])["swarm.waited_seconds"] == 3
    assert attributes(trace["tool slack-reply"])["swarm.agent"] == "lea"
    assert attributes(trace["deliver post"])["swarm.result"] == "accepted"
    assert root.resource.attributes["service.version"] == "1.2.3"


async def test_no_span_holds_what_somebody_wrote(doors: WatchedDoors, lea: Visitor, spans: Spans) -> None:
    await doors.world.says(f"{BOT} {WORDS}")
    await answers(lea, await lea.only())
    await doors.world.send()
    assert len(spans.all) >= 4
    assert [span.name for span in spans.all if WORDS in span.to_json()] == []


async def test_a_claim_links_to_the_messages_that_come_with_the_first(
    doors: WatchedDoors, lea: Visitor, spans: Spans
) -> None:
    first = await doors.world.says(f"{BOT} one")
    await doors.world.says("two", thread=first)
    trigger = await lea.only()
    _, second = trigger["inbox_messages"]
    (link,) = spans.of(trigger["id"])["claim"].links
    assert link.context.trace_id == uuid.UUID(second["id"]).int
    assert link.context.span_id == spans.of(second["id"])["inbox.store"].context.span_id


async def test_a_task_has_a_trace_of_its_own_that_links_to_its_message(
    doors: WatchedDoors, lea: Visitor, spans: Spans
) -> None:
    wim = await doors.worker()
    await doors.world.says(f"{BOT} build it")
    message = await lea.only()
    await lea.uses(
        "inbox-delegate", message["lease"]["token"],
        inbox_message_id=message["id"], agent="wim", title="build", task="Build it.",
    )  # fmt: skip
    task = await wim.only()
    await wim.uses("task-progress", task["lease"]["token"], task_id=task["id"], message="half", percent=50)
    assert set(spans.of(message["id"])) == {"inbox.store", "claim", "tool inbox-delegate"}
    trace = spans.of(task["id"])
    assert set(trace) == {"task.pending", "claim", "tool task-progress"}
    (link,) = trace["claim"].links
    assert link.context.trace_id == uuid.UUID(message["id"]).int


async def test_what_failed_is_an_error_with_its_code(doors: WatchedDoors, lea: Visitor, spans: Spans) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    await lea.tool("slack-reply", "an-old-lease", inbox_message_id=trigger["id"], message="hi")
    refused = spans.of(trigger["id"])["tool slack-reply"]
    assert (refused.status.status_code, refused.status.description) == (StatusCode.ERROR, "lease_lost")
    doors.world.slack.script.append(refuses("restricted_action"))
    await answers(lea, trigger)
    await doors.world.send()
    lost = spans.of(trigger["id"])["deliver post"]
    assert (lost.status.status_code, lost.status.description) == (StatusCode.ERROR, "restricted_action")


async def test_calls_that_are_about_nothing_have_traces_of_their_own(
    doors: WatchedDoors, lea: Visitor, spans: Spans
) -> None:
    await lea.uses("tray")
    await lea.uses("tray")
    first, second = [span for span in spans.all if span.name == "tool tray"]
    assert first.parent is None
    assert first.context.trace_id != second.context.trace_id


async def test_a_message_that_concerns_nobody_has_no_trace(doors: WatchedDoors, lea: Visitor, spans: Spans) -> None:
    await doors.world.says("hello all")
    await doors.world.says(f"{BOT} hello")
    assert [span.name for span in spans.all] == ["inbox.store"]


def test_an_id_that_is_no_uuid_has_a_trace_as_well(exporter: InMemorySpanExporter) -> None:
    traces = Traces(SimpleSpanProcessor(exporter), version="1")
    for _ in range(2):
        traces.tool_called(ToolCall(tool="t", agent="a", about="no-uuid \ud800", result="not_found", seconds=0.1))
    first, second = exporter.get_finished_spans()
    assert first.context.is_valid
    assert first.context.trace_id == second.context.trace_id


class Stuck(SpanExporter):
    """A collector that takes what it gets and does not answer until the test is over."""

    def __init__(self) -> None:
        self.called: Future[int] = Future()
        self.released: Future[None] = Future()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.called.done():
            self.called.set_result(len(spans))
        self.released.result()
        return SpanExportResult.SUCCESS


def test_a_collector_that_does_not_answer_does_not_hold_the_shutdown_up() -> None:
    stuck = Stuck()
    traces = Traces(BatchSpanProcessor(stuck), version="1")
    traces.tool_called(ToolCall(tool="t", agent="a", about=None, result="ok", seconds=0.1))
    try:
        traces.close(patience_seconds=0.01)
        assert stuck.called.result(timeout=PATIENCE_SECONDS) == 1  # it was sent, and nobody waited for the answer
    finally:
        stuck.released.set_result(None)


def in_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_an_endpoint_without_the_packages_stops_the_start_and_says_what_to_install() -> None:
    code = """
import sys
sys.modules["opentelemetry.exporter"] = None
from swarm.domain.errors import ConfigurationError
from swarm.telemetry.setup import open_traces
try:
    open_traces("http://127.0.0.1:4318", version="1")
except ConfigurationError as error:
    print(error.message, error.hint)
"""
    said = in_python(code)
    assert "SWARM_TRACES_ENDPOINT" in said
    assert "swarm[otel]" in said


@pytest.mark.parametrize(
    ("endpoint", "whole"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector.example/otlp/v1/traces", "https://collector.example/otlp/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_gets_the_usual_one(
    endpoint: str, whole: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.exporter.otlp.proto.http import trace_exporter

    asked: list[str] = []

    class Exporter(InMemorySpanExporter):
        def __init__(self, *, endpoint: str, timeout: float) -> None:
            super().__init__()
            asked.append(endpoint)

    monkeypatch.setattr(trace_exporter, "OTLPSpanExporter", Exporter)
    open_traces(endpoint, version="1").close()
    assert asked == [whole]
