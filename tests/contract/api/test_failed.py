"""What failed or was set aside has a door: one, or all that match after a count; in the thread a Retry button."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.domain.model.deliveries import Delivery, DeliveryKind
from swarm.domain.model.leases import MAX_TASK_ATTEMPTS, FinishOutcome
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from tests.support.conversing import press, pressed
from tests.support.doors import Doors, Visitor
from tests.support.slack import refuses, takes_but_the_answer_is_lost
from tests.support.tasks import asked_and_handed, status_of
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS

pytestmark = pytest.mark.req("LOOP-22")


async def fails(doors: Doors, lea: Visitor, text: str, times: int = 5) -> dict[str, Any]:
    """A message that its agent fails again and again; its last trigger."""
    await doors.world.says(f"{BOT} {text}")
    trigger: dict[str, Any] = {}
    for number in range(times):
        found = await lea.poll()
        (trigger,) = [one for one in found if one["inbox_messages"][0]["text"].endswith(text)]
        lease = trigger["lease"]["token"]
        await lea.post("/leases/finish", {"tokens": [lease], "outcome": "failed", "reason": f"boom {number}"})
        doors.world.clock.advance(60)
        await doors.world.sweep()
    return trigger


def told(doors: Doors) -> Delivery:
    (shown,) = [done for done in doors.world.slack.landed if done.text.startswith("I could not answer")]
    return shown


async def test_attempts_back_off(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    waits: list[int] = []
    for _ in range(4):
        trigger = await lea.only()
        await lea.post("/leases/finish", {"tokens": [trigger["lease"]["token"]], "outcome": "failed"})
        waits.append(0)
        while not await lea.get("/tray") or not await due(doors):
            doors.world.clock.advance(1)
            await doors.world.sweep()
            waits[-1] += 1
    assert waits == sorted(waits)
    assert waits[-1] >= 60


async def due(doors: Doors) -> bool:
    query = "SELECT 1 AS there FROM inbox_messages WHERE status = 'unread' AND due_at IS NULL"
    return bool(await doors.world.rows(query))


async def test_the_thread_shows_the_last_error_and_a_retry_button_until_it_is_handed_out_again(
    doors: Doors, lea: Visitor
) -> None:
    trigger = await fails(doors, lea, "hello")
    await doors.world.send()
    shown = told(doors)
    assert shown.text == "I could not answer this (last error: boom 4)."
    assert shown.closing
    assert shown.closing.retry
    assert await pressed(doors.world, press(RETRY_RUN_ACTION, shown.id)) is None
    second = press(RETRY_RUN_ACTION, shown.id, key="press:2")
    assert await pressed(doors.world, second) is not None, "a second press is answered"
    again = await lea.only()
    assert again["inbox_messages"][0]["id"] == trigger["inbox_messages"][0]["id"]
    await doors.world.send()
    assert [done.target_ts for done in doors.world.slack.landed if done.kind is DeliveryKind.DELETE] == [
        doors.world.slack.timestamps[shown.id]
    ]
    assert "x" not in {emoji for _, emoji in doors.world.slack.reactions}


async def test_a_button_of_another_channel_hands_out_nothing(doors: Doors, lea: Visitor) -> None:
    await fails(doors, lea, "hello")
    await doors.world.send()
    elsewhere = replace(press(RETRY_RUN_ACTION, told(doors).id), channel="C2")
    assert await pressed(doors.world, elsewhere) is not None
    assert await lea.poll() == []


async def test_all_that_match_are_handed_out_again_after_a_count(doors: Doors, lea: Visitor) -> None:
    for text in ("one", "two"):
        await fails(doors, lea, text)
    count = await doors.operator.post(
        "/inbox/redrive", {"where": {"agent": "lea", "reason": "boom 4"}, "dry_run": True}
    )
    assert (count["matching"], count["done"]) == (2, 0)
    assert await lea.poll() == []
    for nobody in ({"agent": "bob"}, {"channel": "C9"}, {"reason": "%"}, {"since": "2099-01-01T00:00:00Z"}):
        batch = await doors.operator.post("/inbox/redrive", {"where": nobody})
        assert (batch["matching"], batch["done"]) == (0, 0), nobody
    done = await doors.operator.post("/inbox/redrive", {"where": {"channel": "C1"}})
    assert (done["matching"], done["done"]) == (2, 2)
    assert len(await lea.poll(limit=5)) == 2


@pytest.mark.both_engines
async def test_all_tasks_that_match_are_handed_out_again_after_a_count(doors: Doors) -> None:
    world = doors.world
    lead, worker = await world.lead("lena"), await world.worker("wim")
    task = (await asked_and_handed(world, lead, worker)).task_id
    for number in range(MAX_TASK_ATTEMPTS):
        run = await world.only(worker)
        await world.services.work.finish(worker, [run.lease_token], FinishOutcome.FAILED, f"boom {number}")
        world.clock.advance(60)
        await world.is_here(worker)
        await world.sweep()
    for other in ({"agent": "lena"}, {"channel": "C9"}, {"reason": "boom 9"}, {"since": "2099-01-01T00:00:00Z"}):
        assert (await doors.operator.post("/tasks/redrive", {"where": other}))["matching"] == 0, other
    where = {"agent": "wim", "channel": "C1", "reason": "boom 4"}
    count = await doors.operator.post("/tasks/redrive", {"where": where, "dry_run": True})
    assert (count["matching"], count["done"], await status_of(world, task)) == (1, 0, TaskStatus.DEAD)
    done = await doors.operator.post("/tasks/redrive", {"where": where})
    assert (done["matching"], done["done"], await status_of(world, task)) == (1, 1, TaskStatus.PENDING)


@pytest.mark.both_engines
async def test_failed_deliveries_are_sent_again_by_id_or_all_that_match(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    for text in ("one", "two"):
        await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=trigger["id"], message=text)
    doors.world.slack.script.extend([refuses("msg_too_long"), refuses("restricted_action")])
    await doors.world.send()
    failed = (await doors.operator.get("/deliveries?status=failed"))["deliveries"]
    two, one = [row["id"] for row in failed]
    await doors.operator.post(f"/deliveries/{one}/resend")
    assert (await doors.operator.ask("POST", f"/deliveries/{one}/resend")).status_code == 409
    assert (await doors.operator.ask("POST", "/deliveries/none/resend")).status_code == 404
    count = await doors.operator.post("/deliveries/resend", {"where": {"reason": "restricted"}, "dry_run": True})
    assert (count["matching"], count["done"]) == (1, 0)
    await doors.operator.post("/deliveries/resend", {"where": {"agent": "lea", "channel": "C1"}})
    await doors.world.send()
    assert [text for text in doors.world.slack.posts if text in ("one", "two")] == ["one", "two"]
    assert two in doors.world.slack.looked_up, "first it is looked for"
    assert doors.world.slack.reactions[-1][1] == "white_check_mark"
    assert "x" not in {emoji for _, emoji in doors.world.slack.reactions}


async def test_a_post_that_slack_has_is_not_sent_again(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=trigger["id"], message="one")
    doors.world.slack.script.append(takes_but_the_answer_is_lost)
    await doors.world.send()
    await doors.world.change("UPDATE deliveries SET status = 'failed', due_at = NULL WHERE kind = 'post'")
    doors.world.clock.advance(2 * HTTP_TIMEOUT_SECONDS)
    await doors.operator.post("/deliveries/resend", {"where": {}})
    await doors.world.send()
    assert doors.world.slack.posts == ["one"]


async def test_only_the_operator_acts_on_what_failed(doors: Doors, lea: Visitor) -> None:
    for path in ("/inbox/redrive", "/tasks/redrive", "/deliveries/resend"):
        assert (await lea.ask("POST", path, json={"where": {}})).status_code == 403
