"""Runs that agents report over HTTP, and the logs of runs."""

from __future__ import annotations

from typing import Any

import pytest

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
    assert run.json() == {"id": opened["turn_id"]}


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
