"""The button under a task's progress: it stops the task once, for those who may, and tells them if it cannot."""

from __future__ import annotations

import pytest

from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.requests.button_actions import STOP_TASK_ACTION, ButtonPressed
from swarm.services.runs.run_control import OVER_TEXT
from swarm.services.tasks.tasks import brief
from tests.support.policies import governing
from tests.support.world import BOT, World, holding

pytestmark = pytest.mark.req("LOOP-16")


def press(task_id: str, *, key: str = "press:1", by: str = "U1", channel: str = "C1") -> ButtonPressed:
    return ButtonPressed(
        key=key,
        action_id=STOP_TASK_ACTION,
        value=task_id,
        user_id=by,
        channel=channel,
        message_ts="1700000000.000900",
        thread_ts=None,
    )


async def running(world: World) -> Trigger:
    """A task of a worker that runs and has shown how far it is."""
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    await world.services.delegations.delegate(
        holding(trigger, lead), trigger.inbox_messages[0].id, "worker", brief("Count.")
    )
    task = await world.only(worker)
    await world.services.task_work.progress(holding(task, worker), task.id, "half of it", 50)
    await world.send()
    return task


async def status(world: World, task: Trigger) -> TaskStatus:
    return (await world.services.tasks.get(None, task.id)).status


async def test_it_stops_the_task_tells_the_run_and_says_so_in_the_thread(world: World) -> None:
    task = await running(world)
    assert await world.buttons.press(press(task.id)) is None
    assert await status(world, task) is TaskStatus.CANCELLED
    await world.send()
    assert world.slack.posts[-1].startswith("The task “Count.” was cancelled by <@U1>.")
    worker = next(one.agent for one in await world.services.agents.present() if one.agent.name == "worker")
    beat = await world.services.work.renew(worker, [task.lease_token])
    assert (beat.renewed.lost, [notice.kind for notice in beat.notices]) == ((task.lease_token,), ["task_cancelled"])


async def test_the_same_press_told_twice_is_one_and_a_later_one_hears_that_it_is_over(world: World) -> None:
    task = await running(world)
    buttons = world.buttons
    assert [await buttons.press(press(task.id)) for _ in range(2)] == [None, None]
    assert await buttons.press(press(task.id, key="press:2")) == OVER_TEXT
    await world.send()
    assert sum("was cancelled" in post for post in world.slack.posts) == 1


async def test_who_may_not_speak_here_may_not_stop_anything_here(world: World) -> None:
    task = await running(world)
    operating_policy = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U2"})))
    said = await world.governed_by(operating_policy).buttons.press(press(task.id))
    assert str(said).startswith("You may not do that here")
    assert await status(world, task) is TaskStatus.IN_PROGRESS


@pytest.mark.parametrize("wrong", [{"channel": "C2"}, {"task_id": "nothing"}])
async def test_a_button_that_was_never_shown_there_stops_nothing(world: World, wrong: dict[str, str]) -> None:
    task = await running(world)
    pressed = press(**{"task_id": task.id, **wrong})
    assert await world.buttons.press(pressed) == OVER_TEXT
    assert await status(world, task) is TaskStatus.IN_PROGRESS
