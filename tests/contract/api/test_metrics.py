"""What Prometheus reads, and who may."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics

from swarm.clock import ManualClock
from swarm.domain.errors import Unavailable
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.services.operate.overview import FigureReader
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from tests.support.doors import OPERATOR_TOKEN, Visitor
from tests.support.slack import is_busy, refuses, takes_but_the_answer_is_lost
from tests.support.telemetry import METRICS_TOKEN, Access, WatchedDoors, watched_doors
from tests.support.world import BOT, World, delete, edit

pytestmark = pytest.mark.req("OPS-06")


@pytest.fixture
async def doors(sqlite_url: str) -> AsyncIterator[WatchedDoors]:
    async with watched_doors(sqlite_url) as opened:
        yield opened


@pytest.fixture
async def lea(doors: WatchedDoors) -> Visitor:
    """A lead that is there."""
    return await doors.lead()


async def answered(doors: WatchedDoors, lea: Visitor, text: str = "hello") -> None:
    """A message on its whole way."""
    await doors.world.says(f"{BOT} {text}")
    trigger = await lea.only()
    await lea.uses(
        "slack-reply",
        trigger["lease"]["token"],
        inbox_message_id=trigger["inbox_messages"][0]["id"],
        message="hi",
    )
    await doors.world.send()


async def test_a_message_on_its_way_is_counted_once_at_every_station(doors: WatchedDoors, lea: Visitor) -> None:
    await answered(doors, lea)
    seen = await doors.readings()
    assert seen.value("swarm_slack_events_total", kind="message", outcome="stored") == 1
    assert seen.value("swarm_slack_event_seconds_count") == 1
    assert seen.value("swarm_messages_routed_total", outcome="mention") == 1
    assert seen.value("swarm_changes_total", change="inbox.store") == 1
    assert seen.value("swarm_changes_total", change="inbox.claim") == 1
    assert seen.value("swarm_changes_total", change="inbox.respond") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="slack_inbox_message") == 1
    assert seen.value("swarm_trigger_wait_seconds_count", kind="slack_inbox_message") == 1
    assert seen.value("swarm_leases_ended_total", how="resolved") == 1
    assert seen.value("swarm_tool_calls_total", tool="slack-reply", result="ok") == 1
    assert seen.value("swarm_deliveries_total", kind="post", outcome="sent") == 1
    assert seen.value("swarm_deliveries_total", kind="reaction", outcome="sent") == 2
    assert seen.value("swarm_delivery_seconds_count", kind="post") == 1
    assert seen.value("swarm_build_info", version="1.2.3", database="sqlite", python=platform.python_version()) == 1


async def test_the_same_event_again_is_heard_again_and_changes_no_count(doors: WatchedDoors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    await doors.world.hears(message)
    seen = await doors.readings()
    assert seen.value("swarm_slack_events_total", kind="message", outcome="stored") == 2
    assert seen.value("swarm_messages_routed_total", outcome="mention") == 1
    assert seen.value("swarm_changes_total", change="inbox.store") == 1


async def test_edits_and_deletes_are_counted_apart_and_hand_out_notices(doors: WatchedDoors, lea: Visitor) -> None:
    message = await doors.world.says(f"{BOT} hello")
    await lea.only()
    await doors.world.ingest.handle(edit(message, f"{BOT} hello there"))
    await doors.world.ingest.handle(delete(message))
    await lea.poll()
    seen = await doors.readings()
    assert seen.value("swarm_slack_events_total", kind="edit", outcome="stored") == 1
    assert seen.value("swarm_slack_events_total", kind="delete", outcome="stored") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="message_changed") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="message_deleted") == 1


async def test_waiting_times_are_measured_by_the_database_clock(doors: WatchedDoors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    doors.world.clock.advance(7)
    await lea.only()
    doors.world.clock.advance(2)
    await doors.world.send()  # 👀, nine seconds after it was wanted
    seen = await doors.readings()
    assert seen.value("swarm_trigger_wait_seconds_sum", kind="slack_inbox_message") == 7
    assert seen.value("swarm_delivery_seconds_sum", kind="reaction") == 9


async def test_a_lost_lease_is_counted_and_a_second_claim_is_no_first_wait(doors: WatchedDoors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    token = (await lea.only())["lease"]["token"]
    await doors.world.later(LEASE_SECONDS + 1)
    assert (await lea.post("/leases/renew", {"tokens": [token]}))["lost"] == [token]
    assert (await lea.post("/leases/release", {"tokens": [token]}))["lost"] == [token]
    tokens = [token, (await lea.only())["lease"]["token"]]
    refused = await lea.ask("POST", "/leases/finish", json={"tokens": tokens, "outcome": "done"})
    assert refused.json()["error"]["code"] == "unresolved", "nothing has changed, and the caller repeats it"
    seen = await doors.readings()
    assert seen.value("swarm_leases_ended_total", how="expired") == 1
    assert seen.value("swarm_leases_refused_total") == 2
    assert seen.value("swarm_changes_total", change="inbox.lose") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="slack_inbox_message") == 2
    assert seen.value("swarm_trigger_wait_seconds_count", kind="slack_inbox_message") == 1


async def test_tool_calls_are_counted_by_error_code_and_only_under_names_of_tools(
    doors: WatchedDoors, lea: Visitor
) -> None:
    await lea.tool("slack-reply", inbox_message_id="nothing", message="hi")
    await lea.tool("no-such-tool-" + "x" * 50)
    seen = await doors.readings()
    assert seen.value("swarm_tool_calls_total", tool="slack-reply", result="not_found") == 1
    assert seen.value("swarm_tool_calls_total", tool="(unknown)", result="invalid") == 1
    assert "no-such-tool" not in str(seen.all("swarm_tool_calls_total"))


async def test_what_slack_did_not_take_at_once_is_counted_by_why(doors: WatchedDoors, lea: Visitor) -> None:
    doors.world.slack.script.extend([is_busy(3), takes_but_the_answer_is_lost])
    await answered(doors, lea)
    for _ in range(2):
        doors.world.clock.advance(100)
        await doors.world.send()
    await doors.world.is_here(await doors.world.services.agents.credentials.identify(lea.token))
    doors.world.slack.script.append(refuses("restricted_action"))
    await answered(doors, lea, "and again")
    seen = await doors.readings()
    assert seen.value("swarm_delivery_retries_total", kind="post", why="postpone") == 1
    assert seen.value("swarm_delivery_retries_total", kind="post", why="doubt") == 1
    assert seen.value("swarm_deliveries_total", kind="post", outcome="sent") == 2  # and what tells the asker
    assert seen.value("swarm_deliveries_total", kind="post", outcome="failed") == 1


async def test_requests_are_counted_by_the_template_of_their_route(doors: WatchedDoors, lea: Visitor) -> None:
    await lea.poll()
    await lea.get("/me")
    await lea.uses("tray")
    await lea.ask("GET", "/nowhere/in/particular")
    await lea.ask("FROB", "/me")
    await doors.operator.ask("GET", "/threads/some-id")
    await doors.operator.ask("GET", "/threads/another-id")
    await lea.ask("POST", "/poll")
    await doors.http.get(f"{doors.base}/me")
    seen = await doors.readings()
    assert seen.value("swarm_http_requests_total", method="GET", route="/poll", status="200") == 1
    assert seen.value("swarm_http_requests_total", method="POST", route="/poll", status="405") == 1
    assert seen.value("swarm_http_requests_total", method="GET", route="/me", status="200") == 1
    assert seen.value("swarm_http_requests_total", method="GET", route="/me", status="401") == 1
    assert seen.value("swarm_http_requests_total", method="GET", route="/threads/{thread_id}", status="404") == 2
    assert seen.value("swarm_http_requests_total", method="GET", route="(none)", status="404") == 1
    assert seen.value("swarm_http_requests_total", method="POST", route="/mcp", status="200") >= 1
    assert "FROB" not in str(seen.all("swarm_http_requests_total"))
    assert seen.value("swarm_http_request_seconds_count", route="/threads/{thread_id}") == 2


async def test_polls_that_wait_are_seen_while_they_wait(doors: WatchedDoors, lea: Visitor) -> None:
    polls = [asyncio.create_task(lea.poll(wait_seconds=30)) for _ in range(3)]
    await doors.wakeups.until(3)
    assert (await doors.readings()).value("swarm_polls_waiting") == 3
    polls[0].cancel()  # its client goes away
    await doors.wakeups.until(2)
    await doors.world.says(f"{BOT} hello")
    await asyncio.wait(polls[1:], return_when=asyncio.FIRST_COMPLETED)
    seen = await doors.readings()
    assert seen.value("swarm_polls_waiting") == 1
    assert seen.value("swarm_http_requests_total", method="GET", route="/poll", status="gone") == 1
    doors.wakeups.close()
    await asyncio.gather(*polls[1:])
    assert (await doors.readings()).value("swarm_polls_waiting") == 0


async def test_database_calls_are_counted_by_what_became_of_them(doors: WatchedDoors) -> None:
    def fail(tx: Transaction) -> None:
        raise RuntimeError("no")

    before = await doors.readings()
    with pytest.raises(RuntimeError):
        await doors.world.database.write(fail)
    await asyncio.gather(*(doors.world.database.write(lambda tx: None) for _ in range(5)))
    seen = await doors.readings()

    def more(name: str, **labels: str) -> float:
        return seen.value(name, **labels) - before.value(name, **labels)

    assert more("swarm_database_calls_total", operation="write", result="ok") == 5
    assert more("swarm_database_calls_total", operation="write", result="failed") == 1
    assert more("swarm_database_call_seconds_count", operation="write") == 6
    assert more("swarm_database_group_size_sum") == 6
    assert more("swarm_database_calls_total", operation="read", result="ok") > 0


async def test_a_transaction_that_is_rolled_back_counts_nothing(doors: WatchedDoors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    answer = await lea.ask("POST", "/leases/finish", json={"tokens": [trigger["lease"]["token"]], "outcome": "done"})
    assert answer.json()["error"]["code"] == "unresolved"
    seen = await doors.readings()
    assert seen.all("swarm_leases_ended_total") == {}
    assert seen.value("swarm_database_calls_total", operation="write", result="refused") == 1


async def test_the_backlog_is_read_from_the_database(doors: WatchedDoors, lea: Visitor) -> None:
    await doors.worker()
    await doors.world.says(f"{BOT} one")
    doors.world.clock.advance(20)
    await doors.world.is_here(await doors.world.services.agents.credentials.identify(lea.token))
    await doors.world.says(f"{BOT} two")
    seen = await doors.readings()
    assert seen.value("swarm_inbox_unread") == 2
    assert seen.value("swarm_inbox_oldest_unread_seconds") == 20
    assert seen.value("swarm_inbox_dead") == 0
    assert seen.value("swarm_deliveries_open", status="queued") == 2
    assert seen.value("swarm_agents", role="lead", state="online") == 1
    assert seen.value("swarm_agents", role="worker", state="offline") == 0
    assert seen.value("swarm_tasks", status="pending") == 0
    assert seen.value("swarm_elected", role="upkeep") == 1
    assert seen.value("swarm_ready", part="slack") == 1
    doors.world.clock.advance(3600)
    assert (await doors.readings()).value("swarm_agents", role="worker", state="offline") == 1


async def test_delegated_work_is_counted_as_what_it_is(doors: WatchedDoors, lea: Visitor) -> None:
    wim = await doors.worker()
    await doors.world.says(f"{BOT} build it")
    trigger = await lea.only()
    await lea.uses(
        "inbox-delegate", trigger["lease"]["token"],
        inbox_message_id=trigger["id"], agent="wim", title="build", task="Build it.",
    )  # fmt: skip
    assert (await doors.readings()).value("swarm_tasks", status="pending") == 1
    assert (await wim.only())["kind"] == "task_assigned"
    seen = await doors.readings()
    assert seen.value("swarm_tasks", status="in_progress") == 1
    assert seen.value("swarm_triggers_claimed_total", kind="task_assigned") == 1
    assert seen.value("swarm_changes_total", change="inbox.delegate") == 1
    assert seen.value("swarm_changes_total", change="task.claim") == 1


async def test_without_a_database_everything_else_is_still_there(doors: WatchedDoors) -> None:
    await doors.world.database.close()
    doors.ready["slack"] = False
    seen = await doors.readings()
    assert "swarm_inbox_unread" not in seen.families
    assert seen.families["swarm_ready"].samples
    assert seen.value("swarm_ready", part="database") == 0
    assert seen.value("swarm_ready", part="slack") == 0
    assert seen.value("swarm_database_calls_total", operation="read", result="unavailable") == 0  # it was not called
    assert seen.families["process_resident_memory_bytes"].samples


async def test_the_figures_are_read_once_in_a_while_however_often_they_are_asked_for(database: Database) -> None:
    now = 100.0
    world = World(database, ManualClock())
    reader = FigureReader(database, world.operating_policy, kept_seconds=5, monotonic=lambda: now)
    assert (await reader.figures()).inbox_unread == 0
    await world.lead()
    await world.says(f"{BOT} hello")
    assert (await reader.figures()).inbox_unread == 0
    now += 5
    figures = await reader.figures()
    assert (figures.inbox_unread, figures.deliveries["queued"], figures.inbox_dead) == (1, 1, 0)
    await world.change("UPDATE inbox_messages SET status = 'dead'")
    assert (await reader.figures()).inbox_dead == 0
    now += 5
    figures = await reader.figures()
    assert (figures.inbox_unread, figures.oldest_unread_seconds, figures.inbox_dead) == (0, 0, 1)
    await database.close()
    now += 5
    with pytest.raises(Unavailable):
        await reader.figures()


@pytest.mark.parametrize(
    ("token", "status"), [(METRICS_TOKEN, 200), (OPERATOR_TOKEN, 200), ("somebody", 401), ("", 401)]
)
async def test_the_page_is_for_the_operator_and_the_scraper(doors: WatchedDoors, token: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    assert (await doors.http.get(f"{doors.base}/metrics", headers=headers)).status_code == status


async def test_an_agent_may_not_read_the_metrics_nor_the_scraper_anything_else(
    doors: WatchedDoors, lea: Visitor
) -> None:
    assert (await lea.ask("GET", "/metrics")).status_code == 403
    for path in ("/agents", "/inbox", "/poll"):
        assert (await doors.visitor(METRICS_TOKEN).ask("GET", path)).status_code == 401, path


@pytest.mark.parametrize(("access", "status"), [(Access(token=None), 401), (Access(open_to_all=True), 200)])
async def test_without_a_token_the_page_is_closed_unless_it_was_opened(
    sqlite_url: str, access: Access, status: int
) -> None:
    async with watched_doors(sqlite_url, access=access) as doors:
        assert (await doors.http.get(f"{doors.base}/metrics")).status_code == status


@pytest.mark.parametrize(
    "accept", ["", "text/plain; version=x", "application/openmetrics-text; version=1.x.y", "\x01", "image/png"]
)
async def test_a_strange_accept_header_gets_the_usual_format(doors: WatchedDoors, accept: str) -> None:
    answer = await doors.operator.ask("GET", "/metrics", headers={"Accept": accept.replace("\x01", ";;,=")})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")


async def test_openmetrics_is_spoken_on_request(doors: WatchedDoors, lea: Visitor) -> None:
    await answered(doors, lea)
    accept = "application/openmetrics-text; version=1.0.0"
    answer = await doors.operator.ask("GET", "/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    parse: Any = openmetrics.text_string_to_metric_families
    families = {family.name for family in parse(answer.text)}
    assert {"swarm_slack_events", "swarm_inbox_unread", "swarm_build"} <= families
