"""The key of a lease, which a coding CLI gets in place of its agent's token."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import CallToolResult

from swarm.domain.model.leases import KEY_LINGERS_SECONDS
from tests.support.doors import Doors, Visitor, error_of
from tests.support.world import BOT

pytestmark = pytest.mark.req("SEC-08")


def code_of(result: CallToolResult) -> str:
    return str(error_of(result)["code"]) if result.is_error else "ok"


async def asked(doors: Doors, agent: Visitor, text: str = "hello") -> tuple[dict[str, Any], Visitor]:
    """A trigger of the agent in a thread of its own, and who has its key."""
    await doors.world.says(f"{BOT} {text}")
    trigger = await agent.only(hold="true")
    return trigger, doors.visitor(trigger["lease"]["key"])


async def test_a_key_answers_its_own_message_without_naming_the_lease(doors: Doors, lea: Visitor) -> None:
    trigger, guest = await asked(doors, lea)
    entry = trigger["inbox_messages"][0]["id"]
    await guest.uses("read-inbox-message", inbox_message_id=entry)
    await guest.uses("slack-read-thread", thread_id=trigger["thread"]["id"])
    await guest.uses("slack-reply", inbox_message_id=entry, message="hi")
    assert (await guest.get("/tray"))["unread"] == 0


async def test_a_key_is_not_in_the_prompt_and_not_at_rest(doors: Doors, lea: Visitor) -> None:
    trigger, guest = await asked(doors, lea)
    assert guest.token not in str(trigger["prompt"])
    assert guest.token not in str(await doors.world.rows("SELECT * FROM leases"))


async def test_a_key_reaches_no_other_work_of_its_agent(doors: Doors, lea: Visitor) -> None:
    mine, guest = await asked(doors, lea)
    other, _ = await asked(doors, lea, "another question")
    task = await lea.uses("create-task", other["lease"]["token"], title="t", description="d")
    entry, thread = other["inbox_messages"][0]["id"], other["thread"]["id"]
    assert code_of(await guest.tool("slack-reply", inbox_message_id=entry, message="x")) == "forbidden"
    assert code_of(await guest.tool("dismiss-message", inbox_message_id=entry, reason="x")) == "forbidden"
    assert code_of(await guest.tool("read-inbox-message", inbox_message_id=entry)) == "forbidden"
    assert code_of(await guest.tool("slack-read-thread", thread_id=thread)) == "forbidden"
    assert code_of(await guest.tool("get-task", task_id=task["id"])) == "forbidden"
    assert code_of(await guest.tool("cancel-task", task_id=task["id"])) == "forbidden"
    made = {"title": "t", "description": "d"}
    assert code_of(await guest.tool("create-task", **made, depends_on=[task["id"]])) == "forbidden"
    lease = other["lease"]["token"]
    assert code_of(await guest.tool("create-task", lease, **made)) == "forbidden"  # in the header
    assert code_of(await guest.tool("create-task", **made, lease_token=lease)) == "forbidden"
    assert (await guest.uses("list-tasks"))["tasks"] == []
    assert mine["thread"]["id"] != thread


async def test_a_key_reaches_the_tasks_that_were_created_with_it(doors: Doors, lea: Visitor) -> None:
    _, guest = await asked(doors, lea)
    task = await guest.uses("create-task", title="t", description="d")
    assert (await guest.uses("get-task", task_id=task["id"]))["title"] == "t"
    assert [one["id"] for one in (await guest.uses("list-tasks"))["tasks"]] == [task["id"]]
    assert (await guest.uses("cancel-task", task_id=task["id"]))["status"] == "cancelled"


async def test_a_key_of_a_task_reaches_its_parts_and_no_other_task_of_the_worker(doors: Doors, lea: Visitor) -> None:
    worker = await doors.worker("wim")
    ids = [
        (await doors.operator.post("/tasks", {"title": title, "description": "d", "agent": "wim"}))["id"]
        for title in ("mine", "other")
    ]
    trigger = await worker.only(limit=1, hold="true")
    guest = doors.visitor(trigger["lease"]["key"])
    own = trigger["task"]["id"]
    (other,) = set(ids) - {own}
    part = await guest.uses("create-task", title="part", description="d", parent_id=own)
    assert (await guest.uses("get-task", task_id=part["id"]))["parent_id"] == own
    assert code_of(await guest.tool("get-task", task_id=other)) == "forbidden"
    assert {one["id"] for one in (await guest.uses("list-tasks"))["tasks"]} == {own, part["id"]}
    await guest.uses("task-complete", task_id=own, result="done")


@pytest.mark.parametrize("path", ["/poll", "/me", "/leases/renew", "/tasks", "/inbox", "/runs"])
async def test_a_key_is_refused_on_every_other_route(doors: Doors, lea: Visitor, path: str) -> None:
    _, guest = await asked(doors, lea)
    is_read = path in ("/poll", "/me", "/tasks", "/inbox")
    answer = await guest.ask("GET" if is_read else "POST", path, **({} if is_read else {"json": {"tokens": []}}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


async def test_a_key_ends_with_its_lease(doors: Doors, lea: Visitor) -> None:
    trigger, guest = await asked(doors, lea)
    body = {"tokens": [trigger["lease"]["token"]], "outcome": "dismissed", "reason": "x"}
    await lea.post("/leases/finish", body)
    assert code_of(await guest.tool("list-agents")) == "lease_lost"
    assert code_of(await guest.tool("send-message", to="lea", text="x")) == "lease_lost"
    assert (await guest.ask("GET", "/tray")).status_code == 409
    doors.world.clock.advance(KEY_LINGERS_SECONDS)
    assert (await guest.ask("GET", "/tray")).status_code == 401
    assert (await guest.ask("POST", "/mcp", json={})).status_code == 401


async def test_a_key_of_a_removed_agent_is_unknown_at_once(doors: Doors) -> None:
    worker = await doors.worker("wim")
    await doors.operator.post("/tasks", {"title": "t", "description": "d", "agent": "wim"})
    guest = doors.visitor((await worker.only(hold="true"))["lease"]["key"])
    assert (await guest.ask("GET", "/tray")).status_code == 200
    await doors.operator.ask("DELETE", "/agents/wim")
    assert (await guest.ask("GET", "/tray")).status_code == 401


async def test_work_that_is_handed_out_again_has_a_new_key(doors: Doors, lea: Visitor) -> None:
    trigger, guest = await asked(doors, lea)
    await lea.post("/leases/release", {"tokens": [trigger["lease"]["token"]]})
    again = await lea.only(hold="true")
    assert again["lease"]["key"] != guest.token
    entry = again["inbox_messages"][0]["id"]
    assert code_of(await guest.tool("slack-reply", inbox_message_id=entry, message="late")) == "lease_lost"
