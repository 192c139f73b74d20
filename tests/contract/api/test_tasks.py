"""Tasks from outside: the MCP tools of leads and workers, and the routes of operators and leads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.doors import Doors, Visitor, error_of
from tests.support.world import BOT

NOBODY = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
async def wim(doors: Doors) -> Visitor:
    """A worker that is there."""
    return await doors.worker()


async def delegated(doors: Doors, lea: Visitor, **how: object) -> tuple[str, dict[str, Any]]:
    """Somebody asks, the lead hands it to wim: the id of the inbox message, and the tool's result."""
    await doors.world.says(f"{BOT} count the lines")
    trigger = await lea.only()
    inbox_message_id = trigger["inbox_messages"][0]["id"]
    said = {"inbox_message_id": inbox_message_id, "agent": "wim", "task": "Count the lines of Python.", **how}
    return inbox_message_id, await lea.uses("inbox-delegate", lease=trigger["lease"]["token"], **said)


@pytest.mark.req("LOOP-05")
async def test_a_question_about_a_task_gives_its_lease_up_until_somebody_answers(
    doors: Doors, lea: Visitor, wim: Visitor
) -> None:
    root = await doors.world.says(f"{BOT} count the lines")
    trigger = await lea.only()
    handed = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "agent": "wim", "task": "Count the lines."}
    task_id = (await lea.uses("inbox-delegate", lease=trigger["lease"]["token"], **handed))["task_id"]
    token = (await wim.only())["lease"]["token"]
    asked = {"task_id": task_id, "message": "Of all folders?", "wait": True, "lease_token": token}
    assert (await wim.uses("slack-reply", **asked))["status"] == "waiting"
    assert await wim.poll() == []
    await doors.world.says("Of swarm/ only.", thread=root)
    kinds = {trigger["kind"]: trigger["task"]["id"] for trigger in await wim.poll()}
    assert kinds["task_assigned"] == task_id


@pytest.mark.req("LOOP-05", "LOOP-07", "LOOP-09", "LOOP-16")
async def test_a_message_is_delegated_worked_on_and_finished_through_the_tools(
    doors: Doors, lea: Visitor, wim: Visitor
) -> None:
    inbox_message_id, result = await delegated(doors, lea, title="Count", priority=70)
    assert result["owner"] == "wim"
    trigger = await wim.only()
    task, token = trigger["task"], trigger["lease"]["token"]
    assert trigger["kind"] == "task_assigned"
    assert task == task | {
        "id": result["task_id"],
        "title": "Count",
        "description": "Count the lines of Python.",
        "status": "in_progress",
        "priority": 70,
        "agent": "wim",
        "created_by": "lea",
        "requester": "U1",
        "inbox_message_id": inbox_message_id,
        "depends_on": [],
    }
    assert [message["text"] for message in trigger["thread_context"]] == ["@UBOT count the lines"]
    assert trigger["thread"]["channel_name"] == "#general"

    half = await wim.uses("task-progress", task_id=task["id"], message="half of it", percent=50, lease_token=token)
    assert (half["progress"], half["percent"], half["status"]) == ("half of it", 50, "in_progress")
    await doors.world.send()
    said = await wim.uses("slack-reply", task_id=task["id"], message="I am at it.", lease_token=token)
    assert (len(said["delivery_ids"]), said["status"]) == (1, "in_progress")
    over = await wim.uses("task-complete", task_id=task["id"], result="42", reply="It is 42.", lease_token=token)
    assert (over["status"], over["result"]) == ("completed", "42")
    await doors.world.send()
    assert doors.world.slack.posts == ["⏳ **Count** (50 %): half of it", "I am at it.", "It is 42."]

    news = await lea.only()
    assert (news["kind"], news["notice"]["task_id"]) == ("task_finished", task["id"])
    assert (news["task"]["result"], news["notice"]["actor"]["name"]) == ("42", "wim")
    whole = await lea.uses("read-inbox-message", inbox_message_id=inbox_message_id)
    assert (whole["status"], whole["task"]["status"]) == ("delegated", "completed")
    more = await lea.uses(
        "slack-reply", task_id=task["id"], message="Anything else?", lease_token=news["lease"]["token"]
    )
    assert more["status"] == "completed"


@pytest.mark.req("LOOP-09", "LOOP-16")
async def test_an_offer_is_accepted_or_returned(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    inbox_message_id, offered = await delegated(doors, lea, offer=True)
    assert offered["owner"] == "lea"
    news = await wim.only()
    assert (news["kind"], news["task"]["status"]) == ("task_offered", "offered")
    declined = await wim.uses("decline-task", task_id=offered["task_id"], reason="I only find words")
    assert declined["status"] == "declined"
    kinds = {trigger["kind"]: trigger for trigger in await lea.poll()}
    assert kinds["task_declined"]["notice"]["text"] == "I only find words"
    again = kinds["slack_inbox_message"]
    assert (again["inbox_messages"][0]["id"], again["attempt"]) == (inbox_message_id, 1)
    offer = {"inbox_message_id": inbox_message_id, "agent": "wim", "task": "Count, please.", "offer": True}
    second = await lea.uses("inbox-delegate", lease=again["lease"]["token"], **offer)
    accepted = await wim.uses("accept-task", task_id=second["task_id"])
    assert accepted["status"] == "pending"
    assert "task_assigned" in [trigger["kind"] for trigger in await wim.poll()]


@pytest.mark.req("LOOP-16")
async def test_tasks_wait_for_what_they_depend_on_and_are_assigned_later(
    doors: Doors, lea: Visitor, wim: Visitor
) -> None:
    first = await lea.uses("create-task", title="First", description="Do this first.", agent="wim")
    second = await lea.uses("create-task", title="Second", description="Then that.", depends_on=[first["id"]])
    assert (first["status"], second["status"], second["depends_on"]) == ("pending", "blocked", [first["id"]])
    trigger = await wim.only()
    assert (trigger["task"]["id"], trigger["thread"]) == (first["id"], None)
    await wim.uses("task-complete", task_id=first["id"], result="done", lease_token=trigger["lease"]["token"])
    await doors.world.sweep()
    assert (await lea.uses("get-task", task_id=second["id"]))["status"] == "unassigned"
    assert (await lea.uses("assign-task", task_id=second["id"], agent="wim"))["status"] == "pending"
    got = await wim.only()
    assert got["task"]["dependencies"][0]["result"] == "done"
    listed = (await lea.uses("list-tasks", status="in_progress"))["tasks"]
    assert [task["id"] for task in listed] == [second["id"]]


@pytest.mark.req("LOOP-16")
async def test_an_operator_and_a_lead_manage_tasks_over_http_and_a_worker_may_not(
    doors: Doors, lea: Visitor, wim: Visitor
) -> None:
    made = await doors.operator.post("/tasks", {"description": "Tidy up.\nAll of it.", "agent": "wim"})
    assert made == made | {"title": "Tidy up.", "status": "pending", "agent": "wim", "created_by": None}
    assert await lea.get(f"/tasks/{made['id']}") == made
    cancelled = await lea.post(f"/tasks/{made['id']}/cancel", {"reason": "not today"})
    assert (cancelled["status"], cancelled["error"]) == ("cancelled", "by lea: not today")
    assert [task["id"] for task in (await doors.operator.get("/tasks?status=cancelled"))["tasks"]] == [made["id"]]
    asked = [
        ("GET", "/tasks", None),
        ("POST", "/tasks", {"description": "mine"}),
        ("POST", f"/tasks/{made['id']}/cancel", {"reason": "mine"}),
    ]
    for method, path, body in asked:
        answer = await wim.ask(method, path, json=body)
        assert answer.status_code == 403, path
    twice = await lea.ask("POST", f"/tasks/{made['id']}/cancel", json={})
    assert (twice.status_code, twice.json()["error"]["code"]) == (409, "conflict")


@pytest.mark.req("LOOP-16")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"description": "x", "priority": 101}, 422, "invalid"),
        ({"description": "x", "priority": -1}, 422, "invalid"),
        ({"description": "  "}, 422, "invalid"),
        ({"description": "x", "title": "a" * 201}, 422, "invalid"),
        ({"description": "x", "agent": "nobody"}, 404, "not_found"),
        ({"description": "x", "agent": "lea"}, 409, "conflict"),
        ({"description": "x", "depends_on": [NOBODY]}, 404, "not_found"),
        ({"description": "x", "parent_id": NOBODY}, 404, "not_found"),
        ({"description": "x", "depends_on": ["a"] * 21}, 422, "invalid"),
        ({"description": "x" * 200_001}, 413, "too_large"),
        ({}, 422, "invalid"),
    ],
)
async def test_a_task_that_makes_no_sense_is_refused_and_nothing_is_stored(
    doors: Doors, lea: Visitor, body: dict[str, object], status: int, code: str
) -> None:
    before = await doors.everything()
    answer = await doors.operator.ask("POST", "/tasks", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert await doors.everything() == before


@pytest.mark.req("LOOP-09")
async def test_a_second_delegation_names_the_task_that_there_is(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    inbox_message_id, first = await delegated(doors, lea)
    again = await lea.tool("inbox-delegate", inbox_message_id=inbox_message_id, agent="wim", task="Once more.")
    error = error_of(again)
    assert error["code"] == "conflict"
    assert first["task_id"] in error["message"]
    assert "wim" in error["message"]


@pytest.mark.req("LOOP-16")
async def test_a_worker_does_not_see_the_tasks_of_others_nor_touch_them(
    doors: Doors, lea: Visitor, wim: Visitor
) -> None:
    other = await doors.worker("wanda")
    _, result = await delegated(doors, lea)
    task_id = result["task_id"]
    assert (await other.uses("list-tasks"))["tasks"] == []
    for tool, said in [
        ("get-task", {}),
        ("task-progress", {"message": "mine"}),
        ("task-complete", {"result": "mine"}),
        ("task-fail", {"error": "mine"}),
        ("cancel-task", {}),
        ("slack-reply", {"message": "mine"}),
        ("accept-task", {}),
    ]:
        assert error_of(await other.tool(tool, task_id=task_id, **said))["code"] == "not_found", tool
    assert (await lea.uses("get-task", task_id=task_id))["status"] == "pending"


@pytest.mark.req("LOOP-11", "LOOP-16")
async def test_explain_follows_a_message_into_its_task(doors: Doors, lea: Visitor, wim: Visitor) -> None:
    _, result = await delegated(doors, lea)
    explained = await doors.operator.get(f"/explain?message={result['task_id']}")
    (task,) = explained["tasks"]
    assert (task["task_id"], task["agent"], task["status"]) == (result["task_id"], "wim", "pending")
    assert [step["change"] for step in task["timeline"]] == ["task.pending"]
    timeline = explained["entries"][0]["timeline"]
    assert [step["reason"] for step in timeline if step["change"] == "inbox.delegate"] == ["to wim"]
    alone = await doors.operator.post("/tasks", {"description": "Nobody asked."})
    found = await doors.operator.get(f"/explain?message={alone['id']}")
    assert (found["stored"], found["tasks"][0]["title"]) == (False, "Nobody asked.")


@pytest.mark.req("LOOP-16")
async def test_a_reply_names_a_message_or_a_task_and_not_both(doors: Doors, lea: Visitor) -> None:
    for said in ({}, {"inbox_message_id": "a", "task_id": "b"}):
        assert error_of(await lea.tool("slack-reply", message="hi", **said))["code"] == "invalid"
