"""Runs that agents report over HTTP, and the logs of runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swarm.domain.model.runs import MOST_LOG_BYTES
from swarm.services.inbox.run_logs import FULL_NOTE
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.support.doors import Doors, Visitor
from tests.support.world import BOT

pytestmark = pytest.mark.req("RUN-03")


async def asked(doors: Doors, agent: Visitor) -> dict[str, Any]:
    await doors.world.says(f"{BOT} hello")
    return await agent.only(hold="true")


async def task_without_thread(doors: Doors) -> tuple[Visitor, dict[str, Any]]:
    wim = await doors.worker()
    await doors.operator.post("/tasks", {"description": "Count the lines.", "agent": wim.name})
    return wim, await wim.only(hold="true")


async def started(agent: Visitor, trigger: dict[str, Any], lease: str | None = None, **about: str) -> Any:
    headers = {"X-Swarm-Lease": lease or trigger["lease"]["token"]}
    return await agent.ask("POST", "/runs", json=about, headers=headers)


async def run_of(doors: Doors, run_id: str) -> Run:
    found = await doors.world.database.read(runs.get, run_id)
    assert found is not None
    return found


async def test_a_task_without_a_thread_gets_one_run_per_lease(doors: Doors) -> None:
    wim, trigger = await task_without_thread(doors)
    first, again = [await started(wim, trigger, task_id=trigger["task"]["id"]) for _ in range(2)]
    assert first.json() == again.json()
    run = await run_of(doors, first.json()["id"])
    assert (run.agent_id, run.thread_id, run.task_id) == (wim.id, None, trigger["task"]["id"])
    await wim.post("/leases/finish", {"tokens": [trigger["lease"]["token"]], "outcome": "failed", "reason": "hm"})
    doors.world.clock.advance(2)  # a failed attempt is followed by a pause
    await doors.world.sweep()
    next_try = await wim.only(hold="true")
    second = await started(wim, next_try, task_id=trigger["task"]["id"])
    assert second.is_success, second.text
    assert second.json() != first.json()


async def test_work_that_is_streamed_keeps_the_id_of_its_stream(doors: Doors, lea: Visitor) -> None:
    trigger = await asked(doors, lea)
    opened = await lea.uses(
        "slack-stream", trigger["lease"]["token"], action="open", inbox_message_id=trigger["inbox_messages"][0]["id"]
    )
    run = await started(lea, trigger, inbox_message_id=trigger["inbox_messages"][0]["id"])
    assert run.json() == {"id": opened["turn_id"], "answers": 0}


async def test_a_reported_run_does_not_stand_in_the_way_of_a_stream_nor_of_the_end(doors: Doors, lea: Visitor) -> None:
    trigger = await asked(doors, lea)
    about, lease = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
    run = await started(lea, trigger, inbox_message_id=about)
    assert (await run_of(doors, run.json()["id"])).inbox_message_ids == (about,)
    opened = await lea.uses("slack-stream", lease, action="open", inbox_message_id=about)
    await lea.uses("slack-stream", lease, action="close", turn_id=opened["turn_id"], text="Good morning.")
    assert (await lea.post("/leases/finish", {"tokens": [lease], "outcome": "done"}))["finished"] == [lease]


async def test_only_the_holder_of_the_lease_gets_a_run(doors: Doors, lea: Visitor) -> None:
    wim, trigger = await task_without_thread(doors)
    task_id = trigger["task"]["id"]
    assert (await started(lea, trigger, task_id=task_id)).status_code == 404
    assert (await started(wim, trigger, lease="nothing", task_id=task_id)).json()["error"]["code"] == "lease_lost"
    for about in ({}, {"task_id": task_id, "inbox_message_id": "x"}):
        assert (await started(wim, trigger, **about)).status_code == 422
    await wim.post("/leases/release", {"tokens": [trigger["lease"]["token"]]})
    assert (await started(wim, trigger, task_id=task_id)).json()["error"]["code"] == "lease_lost"
    assert (await doors.operator.ask("POST", "/runs", json={"task_id": task_id})).status_code == 403


async def test_work_that_is_settled_gets_no_run(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    about, lease = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
    await lea.uses("slack-reply", lease, inbox_message_id=about, message="Hello.")
    assert (await started(lea, trigger, inbox_message_id=about)).json()["error"]["code"] == "lease_lost"


# Logs


async def working(doors: Doors) -> tuple[Visitor, dict[str, Any], str]:
    """A worker with a task without a thread: its trigger, and the id of its run."""
    wim, trigger = await task_without_thread(doors)
    run = await started(wim, trigger, task_id=trigger["task"]["id"])
    return wim, trigger, run.json()["id"]


async def sent(agent: Visitor, run_id: str, offset: object, chunk: bytes) -> Any:
    headers = {"X-Swarm-Log-Offset": str(offset), "Content-Type": "text/plain; charset=utf-8"}
    return await agent.ask("POST", f"/runs/{run_id}/log", content=chunk, headers=headers)


async def log_of(reader: Visitor, run_id: str, after: int = 0, wait_seconds: float = 0) -> Any:
    return await reader.get(f"/runs/{run_id}/log?after={after}&wait_seconds={wait_seconds}")


async def test_a_log_is_kept_in_order_and_what_is_sent_again_counts_once(doors: Doors) -> None:
    wim, _, run_id = await working(doors)
    assert (await sent(wim, run_id, 0, b"one\n")).json() == {"next": 4, "limit": MOST_LOG_BYTES}
    assert (await sent(wim, run_id, 4, "zwö\n".encode())).json() == {"next": 9, "limit": MOST_LOG_BYTES}
    assert (await sent(wim, run_id, 0, b"one\n")).json() == {"next": 9, "limit": MOST_LOG_BYTES}
    assert (await sent(wim, run_id, 4, "zwö\nthree\n".encode())).json() == {
        "next": 15,
        "limit": MOST_LOG_BYTES,
    }  # more than the last time
    assert (await sent(wim, run_id, 15, b"")).json() == {"next": 15, "limit": MOST_LOG_BYTES}
    whole = {"text": "one\nzwö\nthree\n", "start": 0, "next": 15, "over": False}
    assert await log_of(wim, run_id) == whole
    assert await log_of(doors.operator, run_id) == whole
    assert await log_of(doors.operator, run_id, after=9) == whole | {"text": "three\n", "start": 9}
    assert await log_of(doors.operator, run_id, after=15) == whole | {"text": "", "start": 15}


async def test_a_gap_is_refused_and_names_the_next_offset(doors: Doors) -> None:
    wim, _, run_id = await working(doors)
    await sent(wim, run_id, 0, b"one\n")
    answer = await sent(wim, run_id, 5, b"three\n")
    assert answer.status_code == 409
    assert "the next offset is 4" in answer.json()["error"]["message"]
    assert (await log_of(wim, run_id))["text"] == "one\n"


async def test_what_is_no_chunk_is_refused(doors: Doors) -> None:
    wim, _, run_id = await working(doors)
    for offset in ("", "-1", "x", "1.5", "9" * 16):
        assert (await sent(wim, run_id, offset, b"one\n")).status_code == 422
    assert (await sent(wim, run_id, 0, b"x" * 65_537)).status_code == 413
    assert (await sent(wim, run_id, 0, b"x" * 65_536)).is_success


async def test_text_that_no_database_stores_is_replaced_and_counts_as_sent(doors: Doors) -> None:
    wim, _, run_id = await working(doors)
    chunk = b"a\0b\xff\x1b[31mred\xc3"
    assert (await sent(wim, run_id, 0, chunk)).json() == {"next": len(chunk), "limit": MOST_LOG_BYTES}
    assert (await log_of(wim, run_id))["text"] == "a\ufffdb\ufffdred\ufffd"


async def test_a_log_is_for_its_agent_and_the_operator(doors: Doors, lea: Visitor) -> None:
    wim, _, run_id = await working(doors)
    assert (await sent(lea, run_id, 0, b"one\n")).status_code == 404
    assert (await sent(doors.operator, run_id, 0, b"one\n")).status_code == 403
    assert (await lea.ask("GET", f"/runs/{run_id}/log")).status_code == 404
    assert (await doors.operator.ask("GET", "/runs/nothing/log")).status_code == 404
    assert (await wim.ask("GET", "/tasks/nothing/runs")).status_code == 403
    assert (await doors.operator.ask("GET", "/tasks/nothing/runs")).status_code == 404


async def test_who_follows_a_log_waits_for_more_and_learns_the_end(doors: Doors) -> None:
    wim, trigger, run_id = await working(doors)
    follows = asyncio.create_task(log_of(doors.operator, run_id, wait_seconds=30))
    await doors.wakeups.until(1)
    await sent(wim, run_id, 0, b"one\n")
    assert await follows == {"text": "one\n", "start": 0, "next": 4, "over": False}
    await wim.post("/leases/finish", {"tokens": [trigger["lease"]["token"]], "outcome": "failed", "reason": "hm"})
    assert await log_of(doors.operator, run_id, 4, wait_seconds=30) == {"text": "", "start": 4, "next": 4, "over": True}
    assert (await sent(wim, run_id, 4, b"late\n")).is_success  # the coordinator was away when the run ended


async def test_a_log_that_is_full_says_so_once_and_takes_no_more(doors: Doors) -> None:
    wim, _, run_id = await working(doors)
    doors.world.services.run_logs.cap_bytes = 10
    assert (await sent(wim, run_id, 0, "123456789ö".encode())).json() == {"next": 11, "limit": 10}
    refused = await sent(wim, run_id, 11, b"more")
    assert refused.status_code == 413
    assert "full" in refused.json()["error"]["message"]
    assert (await sent(wim, run_id, 0, "123456789ö".encode())).is_success
    assert (await log_of(wim, run_id))["text"] == "123456789\ufffd" + FULL_NOTE


async def test_the_runs_on_a_task_are_listed_newest_first(doors: Doors) -> None:
    wim, trigger, run_id = await working(doors)
    await sent(wim, run_id, 0, b"one\n")
    await wim.post("/leases/finish", {"tokens": [trigger["lease"]["token"]], "outcome": "failed", "reason": "hm"})
    doors.world.clock.advance(2)  # a failed attempt is followed by a pause
    await doors.world.sweep()
    second = await started(wim, await wim.only(hold="true"), task_id=trigger["task"]["id"])
    found = (await doors.operator.get(f"/tasks/{trigger['task']['id']}/runs"))["runs"]
    assert [(one["id"], one["agent"], one["attempt"], one["log_bytes"]) for one in found] == [
        (second.json()["id"], "wim", 2, 0),
        (run_id, "wim", 1, 4),
    ]
