"""The order of locks around tasks, on PostgreSQL: a task before the messages and heads of its thread."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.errors import Conflict
from swarm.domain.model.tasks import MAX_OPEN_CHILDREN, TaskStatus
from swarm.services.tasks.assignees import NOBODY
from swarm.services.tasks.tasks import brief
from swarm.store import tasks
from tests.services.test_locks import PATIENCE_SECONDS, somebody_waits, under_way
from tests.support.tasks import asked_and_handed, complete, owner_of, status_of, work_of
from tests.support.world import World, holding, look

pytestmark = [
    pytest.mark.req("LOOP-16"),
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]


@pytest.mark.req("LOOP-10")
async def test_a_thread_that_returns_to_the_whole_task_and_a_release_of_that_do_not_wait_in_a_circle(
    world: World,
) -> None:
    """The release holds the task and wants its head; so who returns the thread must want the task first."""
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    other = await asked_and_handed(world, lead, a)  # is due, so that a has a head in the thread
    whole = await asked_and_handed(world, lead, a, thread=other.root, priority=60)
    run = await world.only(a)
    inbox_message = await world.inbox_message(await world.says("and the tests?", thread=whole.root))
    await world.services.delegations.delegate(holding(run, a), inbox_message.id, "b", brief("Count the tests."))
    part = await work_of(world, b)
    await world.says("all of them", thread=whole.root)  # what b has not read goes along, into the head of a
    async with under_way(world, tasks.locked, whole.task_id) as go_on:
        completing = asyncio.ensure_future(complete(world, b, part))
        await somebody_waits(world)
        head = f"SELECT agent_id FROM queue_heads WHERE agent_id = '{a.id}' FOR UPDATE SKIP LOCKED"
        assert await world.database.write(look, head, {}), "it has not locked the head yet"
        go_on.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await completing
    assert await owner_of(world, whole.root) == a.id
    assert await status_of(world, whole.task_id) is TaskStatus.IN_PROGRESS


async def test_two_parts_that_are_created_at_once_find_room_for_one(world: World) -> None:
    create = world.services.tasks
    whole = await create.create(None, brief("Count."))
    for _ in range(MAX_OPEN_CHILDREN - 1):
        await create.create(None, brief("Part."), parent_id=whole.id)
    async with under_way(world, create._create, None, brief("Part."), None, whole.id, NOBODY) as go_on:
        creating = asyncio.ensure_future(create.create(None, brief("Part."), parent_id=whole.id))
        await somebody_waits(world)
        go_on.set()
        with pytest.raises(Conflict, match="10 open tasks below this parent"):
            await creating


async def test_a_part_that_meets_the_cancel_of_its_parent_is_refused(world: World) -> None:
    create = world.services.tasks
    whole = await create.create(None, brief("Count."))
    async with under_way(world, create._cancel, None, whole.id, "") as go_on:
        creating = asyncio.ensure_future(create.create(None, brief("Part."), parent_id=whole.id))
        await somebody_waits(world)
        go_on.set()
        with pytest.raises(Conflict, match="The parent task is cancelled"):
            await creating
