"""The tray, and the load of everybody: what waits for whom, counted."""

from __future__ import annotations

import pytest

from swarm.clock import new_id
from swarm.domain.model.agents import Agent, Load
from swarm.domain.model.tasks import OPEN_STATUSES, TaskStatus
from swarm.services.ground.idempotency import Caller
from swarm.services.operate.messages import PageRequest
from tests.support.world import BOT, World


async def task(world: World, agent: Agent, status: TaskStatus) -> None:
    """A task of an agent, as far as it is counted."""
    is_offered, is_over = status is TaskStatus.OFFERED, status not in OPEN_STATUSES
    await world.change(
        "INSERT INTO tasks (id, lane_id, title, description, status, priority, agent_id, depth, attempts, claims, "
        "order_key, created_at, offer_ends_at, ended_at) VALUES "
        f"('{{id}}', '{{id}}', 't', 'd', '{status}', 50, '{agent.id}', 1, 0, 0, 1, 1, "
        f"{1 if is_offered else 'NULL'}, {1 if is_over else 'NULL'})".format(id=new_id())
    )


@pytest.mark.req("LOOP-18")
async def test_an_empty_tray_says_so(world: World) -> None:
    tray = await world.services.trays.of(await world.lead())
    assert (tray.unread, tray.previews, tray.mentions, tray.messages, dict(tray.tasks), tray.threads_owned) == (
        0, (), 0, (), {}, 0,
    )  # fmt: skip


@pytest.mark.req("LOOP-18")
async def test_a_preview_shows_the_new_message_with_who_said_it_and_where(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} an old question")
    await world.says(f"{BOT} <@U1> the new message " + "x" * 300, thread=root, by="U2")
    first, second = (await world.services.trays.of(lead)).previews
    assert first.preview == "@UBOT an old question"
    assert (second.sender, second.channel) == ("bob", "#general")
    assert second.preview == ("@UBOT @alice the new message " + "x" * 300)[:199] + "…"


@pytest.mark.req("LOOP-18")
async def test_what_is_being_worked_on_is_not_unread(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} one")
    await world.only(lead)
    await world.says(f"{BOT} two")
    tray = await world.services.trays.of(lead)
    assert (tray.unread, [preview.preview for preview in tray.previews]) == (1, ["@UBOT two"])
    assert tray.threads_owned == 2


@pytest.mark.req("LOOP-18")
async def test_all_is_counted_where_not_all_is_shown(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    for number in range(25):
        await world.says(f"{BOT} {number}")
        await world.services.messages.send(Caller(agent=worker), f"{number}", to=lead.id)
    tray = await world.services.trays.of(lead)
    assert (tray.unread, len(tray.previews), tray.mentions, len(tray.messages)) == (25, 20, 25, 20)
    assert tray.previews[0].preview == "@UBOT 0"
    assert tray.messages[0].preview == "0"
    assert tray.threads_owned == 25


@pytest.mark.req("LOOP-18")
async def test_mentions_are_the_unread_messages_of_other_agents_and_looking_reads_none(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    for text, channel in (("@lead look", "talk"), ("nobody", "talk"), ("@worker myself", "talk"), ("to you", None)):
        to = None if channel else "lead"
        await world.services.messages.send(Caller(agent=worker), text, channel=channel, to=to)
    for _ in range(2):
        tray = await world.services.trays.of(lead)
        assert (tray.mentions, [message.preview for message in tray.messages]) == (2, ["@lead look", "to you"])
    await world.services.messages.read(lead, PageRequest(channel="talk"))
    assert [message.preview for message in (await world.services.trays.of(lead)).messages] == ["to you"]
    assert (await world.services.trays.of(worker)).mentions == 0


@pytest.mark.req("LOOP-18")
async def test_only_own_open_tasks_are_counted_by_status(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    for status in (*TaskStatus, TaskStatus.PENDING):
        await task(world, worker, status)
    await task(world, lead, TaskStatus.BLOCKED)
    tasks = (await world.services.trays.of(worker)).tasks
    assert dict(tasks) == dict.fromkeys(OPEN_STATUSES, 1) | {TaskStatus.PENDING: 2}
    assert dict((await world.services.trays.of(lead)).tasks) == {"blocked": 1}


@pytest.mark.req("LOOP-17")
async def test_the_load_of_everybody_counts_open_tasks_threads_and_runs(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.worker("idle")
    for number in range(3):
        await world.says(f"{BOT} {number}")
    for status in TaskStatus:
        await task(world, worker, status)
    await world.services.messages.send(Caller(agent=lead), "look", to="worker")
    await world.poll(lead, limit=2)
    (notice,) = [trigger for trigger in await world.poll(worker) if trigger.notice]
    assert notice.kind == "agent_message"

    async def loads() -> dict[str, Load]:
        return {member.name: member.load for member in await world.services.team.members()}

    before = await loads()
    assert before["lead"] == Load(open_tasks=0, threads_owned=3, running=2)
    assert before["worker"] == Load(open_tasks=len(OPEN_STATUSES), threads_owned=0, running=0)
    assert before["idle"] == Load()
    await world.later(61)
    assert (await loads())["lead"] == Load(open_tasks=0, threads_owned=3, running=0)
