"""What people do with an answer, and what changes around it: retries, opinions, owners, agents, places."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.answers.calls import TaskDisplay
from swarm.domain.answers.events import Broken, TextDelta
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.deliveries import DeliveryRefused
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.operating import Policies
from swarm.domain.prompts.input import RETRY_PREFIX
from swarm.domain.requests.button_actions import (
    FEEDBACK_ACTION,
    RETRY_RUN_ACTION,
)
from swarm.services.ground.idempotency import Caller
from swarm.services.runs import event_sources, streaming_agents
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.runs.feedback import THANKS_TEXT
from swarm.services.runs.run_control import RETRIED_TEXT
from swarm.store import agents
from tests.support.conversing import begun, no_news, press, pressed, status
from tests.support.live import Gate, Scripted, ends, hired, playing, says, show
from tests.support.policies import governing
from tests.support.tasks import hand, status_of
from tests.support.waiting import wait_until
from tests.support.world import BOT, World

# Trying again, and what people think of it


@pytest.mark.req("CHAN-06", "STREAM-07")
async def test_a_retry_runs_the_same_once_more_and_twice_is_once(world: World) -> None:
    ada = Scripted()
    ada.scripts.append(ends(TextDelta(text="Half of it", message_id="1"), Broken(reason="it hung up")))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        first, second = await asyncio.gather(
            pressed(world, press(RETRY_RUN_ACTION, run.id, key="press:1")),
            pressed(world, press(RETRY_RUN_ACTION, run.id, key="press:2", by="U2")),
        )
        assert {first, second} == {None, RETRIED_TEXT}
        await show.over(root, 2)
        assert [shown.text for shown in show.live.of(root)] == ["Half of it", "Hello."]
        assert await status(world, root) is InboxStatus.RESPONDED
    assert len(ada.inputs) == 2


@pytest.mark.req("CHAN-06", "LOOP-12")
async def test_a_retry_and_a_new_message_at_once_answer_both(world: World) -> None:
    ada = Scripted()
    ada.scripts.append(ends(Broken(reason="it hung up")))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        _, more = await asyncio.gather(
            pressed(world, press(RETRY_RUN_ACTION, run.id)), world.says("and more", thread=root)
        )

        async def look() -> list[InboxStatus]:
            return [await status(world, message) for message in (root, more)]

        await wait_until(look, lambda seen: seen == [InboxStatus.RESPONDED] * 2)
        answered = [message.text for given in ada.inputs[1:] for message in given.messages]
    assert sorted(answered) == [f"{RETRY_PREFIX}\n\nhello", "and more"]


@pytest.mark.req("CHAN-05", "STREAM-12")
async def test_what_people_think_of_an_answer_is_noted(world: World) -> None:
    async with playing(world, hired("ada", Scripted())) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
    told = await pressed(world, press(FEEDBACK_ACTION, f"{run.id}:up"))
    assert told == THANKS_TEXT
    (row,) = await world.rows("SELECT run_id, value FROM feedback")
    assert row == {"run_id": run.id, "value": "up"}


# Owners and agents that change meanwhile


@pytest.mark.req("LOOP-10")
async def test_a_thread_that_changes_hands_meanwhile_keeps_the_answer_that_is_given(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate)), hired("bob", Scripted(says("I am bob.")))) as show:
        root = await world.says("swarm#ada hello")
        await begun(show, gate, root)
        moved = await world.says("swarm#bob go on", thread=root)

        async def look() -> InboxStatus:
            return await status(world, moved)

        await wait_until(look, lambda now: now is InboxStatus.RESPONDED)
        gate.opened.set()
        await show.over(root, 2)
        assert {shown.text for shown in show.live.of(root)} == {"Some words.\nThe end.", "I am bob."}
        assert await status(world, root) is InboxStatus.RESPONDED


@pytest.mark.req("LOOP-06")
async def test_an_agent_that_is_removed_while_it_answers_is_stopped_until_it_is_introduced_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sources, "RELEASE_SECONDS", 0.0)
    monkeypatch.setattr(streaming_agents, "POLL_SECONDS", 0.1)
    world = world.governed_by(governing(default_agent="bob"))
    gate = Gate()
    ada = Scripted(says("I am back."))
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada), hired("bob", Scripted(says("I am bob.")))) as show:
        root = await world.says("swarm#ada hello")
        await begun(show, gate, root)
        await world.services.agents.revoke("ada")
        await asyncio.wait_for(gate.left.wait(), LEASE_SECONDS / 6)  # long before it would have renewed its lease

        async def look() -> list[str]:
            await world.sweep()
            return [shown.text for shown in show.live.of(root) if not shown.streaming]

        await wait_until(look, lambda seen: "I am bob." in seen and len(seen) == 2)

        await show.streaming_agents.introduce({"bob"})
        assert [agent.name for agent in await world.services.agents.everyone()] == ["bob"]
        await show.streaming_agents.introduce({"ada"})

        async def present() -> list[str]:
            return [here.agent.name for here in await world.services.agents.present() if here.online]

        await wait_until(present, lambda seen: "ada" in seen)
        again = await world.says("swarm#ada hello again")
        await show.over(again)
        assert [shown.text for shown in show.live.of(again)] == ["I am back."]


# Slack takes no more


@pytest.mark.req("STREAM-04", "LOOP-13")
@pytest.mark.parametrize("code", ["is_archived", "thread_not_found", "not_in_channel"])
async def test_a_place_that_is_gone_in_the_middle_ends_the_run_and_sets_its_message_aside(
    world: World, code: str
) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        show.live.script.extend([lambda live, place, call: DeliveryRefused(error=code)] * 3)
        gate.opened.set()
        (run,) = await show.over(root)
        assert gate.left.is_set()
        inbox_message = await world.inbox_message(root)
        assert inbox_message.status in (InboxStatus.DEAD, InboxStatus.RESPONDED)
        assert run.ended_at
        assert await world.rows("SELECT token FROM leases WHERE ended_as IS NULL") == []


@pytest.mark.req("STREAM-03", "CHAN-01")
async def test_a_reload_changes_how_the_next_answer_is_shown_and_not_the_one_that_is_given(world: World) -> None:
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        first = await world.says(f"{BOT} hello")
        await begun(show, gate, first)
        world.operating_policy.book.current = Policies(everywhere=ChannelPolicy(display=TaskDisplay.TIMELINE))
        second = await world.says(f"{BOT} hello")
        await show.over(second)
        gate.opened.set()
        await show.over(first)
        displays = [show.live.of(root)[0].place.display for root in (first, second)]
    assert displays == [TaskDisplay.PLAN, TaskDisplay.TIMELINE]


@pytest.mark.req("LOOP-17", "LOOP-09")
async def test_an_offered_task_is_accepted_and_run(world: World) -> None:
    lead = await world.lead()
    async with playing(world, hired("doer", Scripted(says("It is done.")), role=Role.WORKER)) as show:
        doer = await show.agent("doer")
        root = await world.says(f"{BOT} count")
        task_id = await hand(world, lead, await world.only(lead), doer, offer=True)

        async def look() -> TaskStatus:
            return await status_of(world, task_id)

        await wait_until(look, lambda now: now is TaskStatus.COMPLETED)
        assert [shown.text for shown in show.live.of(root)] == ["It is done."]


@pytest.mark.req("LOOP-17")
async def test_a_message_from_another_agent_is_heard_and_answered_by_nobody(world: World) -> None:
    lead = await world.lead()
    ada = Scripted()
    async with playing(world, hired("ada", ada)) as show:
        await show.agent("ada")
        await world.services.messages.send(Caller(agent=lead), "hello", to="ada")
        await no_news(world)
    assert ada.inputs == []


@pytest.mark.req("LOOP-06")
async def test_what_was_claimed_just_before_its_agent_was_removed_is_given_back(world: World) -> None:
    ada = Scripted()
    one = hired("ada", ada)
    agent = await world.database.write(streaming_agents.register, one.spec)
    await world.is_here(agent)
    root = await world.says("swarm#ada hello")
    trigger = await world.only(agent)
    await world.database.write(agents.revoke, agent.id)
    idle = show(world, one)
    idle.running.begin_term(idle.term)
    idle.running.begin(agent, one, trigger, unheard)

    async def look() -> InboxStatus:
        return await status(world, root)

    await wait_until(look, lambda now: now is InboxStatus.UNREAD)
    assert ada.inputs == []
    assert await idle.runs(root) == []


async def unheard(agent: Agent, one: ManagedAgent, trigger: Trigger) -> None:
    """There is no news in this test."""
