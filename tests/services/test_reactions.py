"""👀 when stored, ✅ when answered, ❌ when failed: each at most once, and never a reason for failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from swarm.domain.model.deliveries import END_MARK_SECONDS, EPHEMERAL_SECONDS, Mark
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.model.threads import AuthorKind
from swarm.domain.policy.channels import ChannelPolicy, Listen
from swarm.domain.policy.operating import Reactions
from swarm.services.outbox import deliver
from swarm.store import reactions
from swarm.store.deliveries import REACTIONS, REMOVALS
from tests.support.policies import governing
from tests.support.slack import refuses
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("LOOP-14")


async def test_a_message_shows_that_it_was_stored_and_answered(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.send()
    assert world.slack.reactions == [(message.ts, "eyes")]
    await world.answers(lead, await world.only(lead), "hello")
    await world.send()
    assert world.slack.reactions == [(message.ts, "eyes"), (message.ts, "white_check_mark")]


async def test_every_message_of_a_bundle_shows_its_state(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    second = await world.says("two", thread=root)
    await world.answers(lead, await world.only(lead), "both")
    await world.send()
    assert sorted(world.slack.reactions) == sorted(
        (message.ts, emoji) for message in (root, second) for emoji in ("eyes", "white_check_mark")
    )


async def test_each_reaction_comes_once_even_if_two_agents_have_the_message(world: World) -> None:
    agents = [await world.lead(), await world.lead("second")]
    message = await world.says("swarm#all hello")
    for agent in agents:
        await world.answers(agent, await world.only(agent), f"{agent.name} here")
    await world.send()
    assert world.slack.reactions == [(message.ts, "eyes"), (message.ts, "white_check_mark")]


async def test_reactions_of_several_threads_are_queued_together_but_none_twice_and_none_that_is_disabled(
    world: World,
) -> None:
    await world.lead()
    messages = [await world.says(f"{BOT} {text}") for text in ("one", "two")]
    first, second = [await world.inbox_message(message) for message in messages]
    wanted = [
        reactions.Reaction(one.thread_id, one.team, one.channel, one.ts, emoji)
        for one, emoji in ((first, "tada"), (second, "tada"), (first, "tada"), (second, None))
    ]
    await world.send()
    seen = world.database.wakeups.generation(REACTIONS), world.database.wakeups.generation(REMOVALS)
    await world.database.write(reactions.react_all, wanted, Mark.END)
    assert world.database.wakeups.generation(REACTIONS) > seen[0]
    assert world.database.wakeups.generation(REMOVALS) == seen[1]
    await world.send()
    assert world.slack.reactions[2:] == [(message.ts, "tada") for message in messages]


@pytest.mark.parametrize("under_way", ["queued", "sending", "sent"])
async def test_a_message_that_dies_twice_shows_it_once_however_far_the_first_mark_was(
    world: World, under_way: str
) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.send()
    for _ in range(2):
        for _ in range(5):
            await world.only(lead)
            await world.later(LEASE_SECONDS)
        if under_way == "sending":
            await world.change("UPDATE deliveries SET status = 'sending', attempts = 1 WHERE text = 'x'")
        elif under_way == "sent":
            await world.send()
        if not await world.rows("SELECT 1 FROM history WHERE change = 'inbox.redrive'"):
            await world.services.inbox.redrive((await world.inbox_message(message)).id)
    await world.send()
    assert world.slack.reactions == [(message.ts, "eyes"), (message.ts, "x")]


async def test_reactions_can_be_chosen_and_switched_off(world: World) -> None:
    chosen = world.governed_by(governing(reactions=Reactions(stored=None, answered="tada", failed=None)))
    lead = await chosen.lead()
    message = await chosen.says(f"{BOT} hello")
    await chosen.answers(lead, await chosen.only(lead), "hello")
    dying = await chosen.says(f"{BOT} and this")
    for _ in range(5):
        await chosen.only(lead)
        await chosen.send()
        await chosen.later(LEASE_SECONDS)
    await chosen.send()
    assert chosen.slack.reactions == [(message.ts, "tada")]
    assert (await chosen.inbox_message(dying)).status == "dead"


@pytest.mark.both_engines
async def test_a_reaction_that_slack_refuses_hinders_nothing(world: World) -> None:
    lead = await world.lead()
    world.slack.reaction_script.append(refuses("already_reacted"))
    await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hello")
    await world.send()
    assert world.slack.posts == ["hello"]


@asynccontextmanager
async def scarce_calls(world: World) -> AsyncIterator[asyncio.Event]:
    """The sender runs, and each reaction waits for Slack's limits until the event is set; then all leave."""
    world.slack.wait_seconds, world.slack.reactions_leave = 1, asyncio.Event()
    running = asyncio.create_task(world.sender.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        yield world.slack.reactions_leave
        while (await world.services.overview.backlog()).deliveries_open:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_when_calls_are_scarce_end_marks_go_first_and_no_eyes_where_one_is_due(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "FEW_REACTIONS", 0)
    lead = await world.lead()
    async with scarce_calls(world) as leave:
        answered = await world.says(f"{BOT} answered")
        trigger = await world.only(lead)
        waiting = await world.says(f"{BOT} waiting")
        while not world.slack.slots:
            await asyncio.sleep(0)
        await world.answers(lead, trigger, "hello")
        while (await world.rows("SELECT status FROM deliveries WHERE kind = 'post'")) != [{"status": "sent"}]:
            await asyncio.sleep(0)
        leave.set()
        leave.clear()  # whoever waits has the one call that there is; those who come wait for the next
        while not world.slack.reactions:
            await asyncio.sleep(0)
        leave.set()
    assert world.slack.reactions == [(answered.ts, "white_check_mark"), (waiting.ts, "eyes")]
    assert await world.rows("SELECT text, error FROM deliveries WHERE status = 'expired'") == [
        {"text": "eyes", "error": "its message has its end mark"}
    ]


async def test_few_reactions_that_wait_for_calls_go_in_order(world: World) -> None:
    """As after a start, when there are no calls for a moment."""
    lead = await world.lead()
    async with scarce_calls(world) as leave:
        message = await world.says(f"{BOT} answered")
        while not world.slack.slots:
            await asyncio.sleep(0)
        await world.answers(lead, await world.only(lead), "hello")
        while (await world.rows("SELECT status FROM deliveries WHERE kind = 'post'")) != [{"status": "sent"}]:
            await asyncio.sleep(0)
        leave.set()
    assert world.slack.reactions == [(message.ts, "eyes"), (message.ts, "white_check_mark")]


@pytest.mark.parametrize("status", ["unknown", "sending"])
async def test_a_reaction_that_is_late_in_doubt_is_given_up_and_holds_up_no_other(world: World, status: str) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.change(f"UPDATE deliveries SET status = '{status}', due_at = created_at")
    world.clock.advance(EPHEMERAL_SECONDS)
    await world.answers(lead, await world.only(lead), "hello")
    await world.send()
    assert world.slack.reactions == [(message.ts, "white_check_mark")]


@pytest.mark.both_engines
async def test_no_scarce_call_is_spent_on_eyes_where_the_end_mark_still_waits_for_its_answer(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    (eyes,) = await world.database.read(reactions.most_urgent, 10)
    await world.answers(lead, await world.only(lead), "hello")
    assert (eyes["target_ts"], eyes["text"]) == (message.ts, "eyes")
    assert await world.database.read(reactions.most_urgent, 10) == []


@pytest.mark.both_engines
@pytest.mark.req("LOOP-14")
async def test_a_persons_marks_do_not_wait_behind_those_of_alerts(world: World) -> None:
    policy = ChannelPolicy(listen=Listen.ALERTS, allowed_bots=frozenset({"B1"}))
    world = world.governed_by(governing(everywhere=policy))
    lead = await world.lead()
    alerts = [await world.hears(said(f"disk {n} full", by="B1", kind=AuthorKind.BOT)) for n in range(3)]
    await world.answers(lead, (await world.poll(lead))[0], "it is the log")
    person = await world.says(f"{BOT} hello")
    await world.change("DELETE FROM deliveries WHERE kind = 'post'")  # they are posted
    (eyes,) = await world.database.read(reactions.most_urgent, 10)
    assert (eyes["target_ts"], eyes["text"]) == (person.ts, "eyes")
    await world.change(f"DELETE FROM deliveries WHERE target_ts = '{person.ts}'")
    (end,) = await world.database.read(reactions.most_urgent, 10)
    assert end["text"] == "white_check_mark"
    await world.change(f"DELETE FROM deliveries WHERE target_ts = '{end['target_ts']}'")
    rest = await world.database.read(reactions.most_urgent, 10)
    assert [row["target_ts"] for row in rest] == [one.ts for one in alerts if one.ts != end["target_ts"]]


@pytest.mark.parametrize(("late_seconds", "status"), [(END_MARK_SECONDS - 1, "sent"), (END_MARK_SECONDS, "expired")])
async def test_an_end_mark_may_wait_for_a_quarter_of_an_hour(world: World, late_seconds: int, status: str) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hello")
    await world.change("UPDATE deliveries SET status = 'sent', due_at = NULL WHERE kind = 'post'")
    world.clock.advance(late_seconds)
    await world.send()
    assert await world.rows("SELECT text, status FROM deliveries WHERE kind = 'reaction' ORDER BY seq") == [
        {"text": "eyes", "status": "expired"},
        {"text": "white_check_mark", "status": status},
    ]
