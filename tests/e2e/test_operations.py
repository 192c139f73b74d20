"""A run as its operator sees it: could one say what happened? Real processes, real scrapes, a real log."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.support.collector import Collector, collecting
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.processes import Processes
from tests.support.stage import OPERATOR_TOKEN, Stage
from tests.support.telemetry import Readings, read_metrics
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

WORDS = "the-merger-is-off"
REASON = "my-model-quoted-the-merger"

pytestmark = [pytest.mark.req("OPS-06"), pytest.mark.long]


def lines_of(stage: Stage) -> list[dict[str, Any]]:
    """The coordinator's log, every line of which is a JSON object."""
    return [json.loads(line) for line in stage.coordinator.output.splitlines() if line]


async def takes(lea: Visitor) -> dict[str, Any]:
    (trigger,) = await lea.poll(wait_seconds=20)
    return trigger


async def answers(lea: Visitor, trigger: dict[str, Any], text: str) -> None:
    inbox_message_id = trigger["inbox_messages"][0]["id"]
    await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=inbox_message_id, message=text)


async def eventful_run(twin: TwinClient, lea: Visitor) -> str:
    """A run that fails once, a lease that is used too late, a post whose answer is lost; the trigger's id."""
    assert await lea.poll() == []
    ts = await twin.say(f"@swarm {WORDS}")
    first = await takes(lea)
    failed = {"tokens": [first["lease"]["token"]], "outcome": "failed", "reason": REASON}
    await lea.post("/leases/finish", failed)
    again = await takes(lea)
    late = await lea.tool("slack-reply", first["lease"]["token"], inbox_message_id=first["id"], message=WORDS)
    assert late.is_error
    await twin.fault("cut_after_accept", method="chat.postMessage", times=1)
    await answers(lea, again, WORDS)
    await twin.until(ts, lambda seen: ANSWERED in seen.emoji)
    return str(first["id"])


async def test_metrics_log_and_traces_of_a_run_tell_what_happened_and_not_what_was_said(processes: Processes) -> None:
    stage = Stage(processes)
    async with collecting() as collector, http_client(timeout=30) as http:
        stage.settings |= {"SWARM_TRACES_ENDPOINT": collector.base, "SWARM_METRICS_TOKEN": "scraper-of-this-run"}
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        trigger_id = await eventful_run(stage.person(http), lea)
        check_metrics(await read_metrics(stage.base, http, "scraper-of-this-run"))
        await check_traces(collector, trigger_id.replace("-", ""))
        stage.coordinator.send(signal.SIGTERM)
        assert await stage.coordinator.exit_code(30) == 0
        check_log(lines_of(stage), trigger_id)
        check_secrets(stage, lea)


def check_metrics(seen: Readings) -> None:
    assert seen.value("swarm_slack_events_total", kind="message", outcome="stored") >= 1
    assert seen.value("swarm_messages_routed_total", outcome="mention") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="slack_inbox_message") == 2
    assert seen.value("swarm_leases_ended_total", how="failed") == 1
    assert seen.value("swarm_tool_calls_total", tool="slack-reply", result="lease_lost") == 1
    assert seen.value("swarm_tool_calls_total", tool="slack-reply", result="ok") == 1
    assert seen.value("swarm_slack_calls_total", method="chat.postMessage", result="in_doubt") == 1
    assert seen.value("swarm_slack_calls_total", method="auth.test", result="ok") == 1
    assert seen.value("swarm_delivery_retries_total", kind="post", why="doubt") == 1
    assert seen.value("swarm_deliveries_total", kind="post", outcome="sent") == 1
    assert seen.value("swarm_elected", role="upkeep") == 1
    assert seen.value("swarm_ready", part="slack") == 1
    assert seen.value("swarm_agents", role="lead", state="online") == 1
    assert seen.value("swarm_http_requests_total", method="GET", route="/poll", status="200") >= 3
    assert sum(seen.all("swarm_build_info").values()) == 1


def check_log(lines: list[dict[str, Any]], trigger_id: str) -> None:
    by_action = {line["action"]: line for line in lines}
    assert {"start", "stop", "slack_connected", "agent.register", "inbox.lose", "deliver"} <= set(by_action)
    assert by_action["inbox.lose"]["subject"] == trigger_id
    assert by_action["inbox.lose"]["level"] == "warning"
    assert by_action["inbox.lose"]["thread"]
    assert "InDoubt" in by_action["deliver"]["answer"]
    assert all({"action", "level", "timestamp", "logger", "event"} <= line.keys() for line in lines)


def check_secrets(stage: Stage, lea: Visitor) -> None:
    said = stage.coordinator.output
    hidden = [WORDS, REASON, lea.token, OPERATOR_TOKEN, "scraper-of-this-run", *list(stage.tokens.values())[:2]]
    assert [secret for secret in hidden if secret in said] == []


async def check_traces(collector: Collector, trace_id: str) -> None:
    async def names() -> set[str]:
        return collector.names_in(trace_id)

    expected = {"inbox.store", "claim", "tool slack-reply", "deliver post"}
    await wait_until(names, lambda seen: seen >= expected, what="the spans of the message")
    assert WORDS not in str(collector.spans)


async def test_a_log_at_debug_tells_each_change_and_still_no_secret(processes: Processes) -> None:
    stage = Stage(processes)
    stage.settings["SWARM_LOG_LEVEL"] = "debug"
    async with http_client(timeout=30) as http:
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        trigger_id = await eventful_run(stage.person(http), lea)
        told = [line["action"] for line in lines_of(stage) if line.get("subject") == trigger_id]
        assert told == ["inbox.store", "inbox.claim", "inbox.lose", "inbox.claim", "inbox.respond"]
        above_debug = [line for line in lines_of(stage) if line["level"] != "debug"]
        assert WORDS not in json.dumps(above_debug)
        assert lea.token not in stage.coordinator.output
        assert stage.tokens["SLACK_BOT_TOKEN"] not in stage.coordinator.output
