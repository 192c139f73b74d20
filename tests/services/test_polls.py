"""Polls: each trigger to one caller, in order, at once when it comes, and never to a caller that has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.domain.errors import RateLimited, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS, FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.services.inbox.triggers import ClaimContents, Triggers
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import NewInboxMessage
from tests.support.world import BOT, World, edit, texts

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-04")]

PATIENCE_SECONDS = 20.0


async def waiting_poll(world: World, agent: Agent) -> asyncio.Task[list[Trigger]]:
    """A poll that is known to have found nothing and to wait."""
    poll = asyncio.ensure_future(world.services.polls.poll(agent, wait_seconds=60, limit=5))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while agent.id not in world.database.wakeups._waiters:
            await asyncio.sleep(0)
    return poll


async def test_two_polls_never_get_the_same_trigger(world: World) -> None:
    lead = await world.lead()
    for number in range(200):
        await world.says(f"{BOT} number {number}")

    async def work() -> list[Trigger]:
        got: list[Trigger] = []
        while triggers := await world.poll(lead, limit=3):
            got += triggers
        return got

    shares = await asyncio.gather(*(work() for _ in range(8)))
    assert sum(bool(share) for share in shares) > 1, "one poller had everything, so nothing was raced"
    ids = [trigger.id for share in shares for trigger in share]
    assert len(ids) == len(set(ids)) == 200
    assert await world.rows("SELECT token FROM leases WHERE token NOT IN (SELECT token FROM lease_members)") == []


async def test_triggers_come_first_come_first_and_at_most_limit(world: World) -> None:
    lead = await world.lead()
    for number in range(7):
        await world.says(f"{BOT} {number}")
        world.clock.advance(0.001)
    assert texts(await world.poll(lead, limit=5)) == [[f"@UBOT {number}"] for number in range(5)]
    assert texts(await world.poll(lead, limit=5)) == [["@UBOT 5"], ["@UBOT 6"]]


async def test_a_thread_stands_in_the_queue_where_its_oldest_message_does(world: World) -> None:
    lead = await world.lead()
    first = await world.says(f"{BOT} first")
    await world.later(1)
    await world.says(f"{BOT} second")
    await world.later(1)
    await world.says("first, continued", thread=first)
    assert texts(await world.poll(lead)) == [["@UBOT first", "first, continued"], ["@UBOT second"]]


async def test_an_empty_poll_answers_with_an_empty_list(world: World) -> None:
    assert await world.poll(await world.lead()) == []


async def test_a_waiting_poll_wakes_when_something_is_stored(world: World) -> None:
    lead = await world.lead()
    poll = await waiting_poll(world, lead)
    await world.says(f"{BOT} hello")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert texts(await poll) == [["@UBOT hello"]]


async def test_a_waiting_poll_wakes_when_another_process_stores_something(world: World, database_url: str) -> None:
    lead = await world.lead()
    poll = await waiting_poll(world, lead)
    async with Database(database_url, clock=world.clock) as elsewhere:
        await World(elsewhere, world.clock).says(f"{BOT} hello")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert texts(await poll) == [["@UBOT hello"]]


@pytest.mark.parametrize("how", ["release", "finish", "expiry", "delay", "edit of the claimed"])
async def test_a_waiting_poll_wakes_when_something_becomes_due(world: World, how: str) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    trigger = await world.only(lead)
    work, tokens = world.services.work, [trigger.lease_token]
    if how == "finish":
        await world.says("two", thread=root)
    if how == "delay":
        await work.release(lead, tokens, delay_seconds=5)
    poll = await waiting_poll(world, lead)
    match how:
        case "release":
            await work.release(lead, tokens)
        case "finish":
            await work.finish(lead, tokens, FinishOutcome.DISMISSED, "a test")
        case "edit of the claimed":
            await world.ingest.handle(edit(root, f"{BOT} another"))
        case _:
            await world.later(60)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert len(await poll) == 1


async def test_a_waiting_poll_does_no_database_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = await world.lead()
    poll = await waiting_poll(world, lead)
    calls = []
    through = Database._through

    async def counted(self: Database, *args: Any, **options: Any) -> Any:
        calls.append(args)
        return await through(self, *args, **options)

    monkeypatch.setattr(Database, "_through", counted)
    other = await world.lead("other")
    before = len(calls)
    world.database.wakeups.bump([other.id])
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(calls) == before
    poll.cancel()


async def test_a_shutdown_ends_waiting_polls_with_an_empty_answer(world: World) -> None:
    poll = await waiting_poll(world, await world.lead())
    world.database.wakeups.close()
    assert await poll == []


async def test_a_claim_that_cannot_be_returned_is_logged_and_its_caller_stays_cancelled(world: World) -> None:
    lead = await world.lead()
    is_claiming, may_fail = asyncio.Event(), asyncio.Event()

    async def claim() -> list[ClaimContents]:
        is_claiming.set()
        await may_fail.wait()
        raise Unavailable("The database is away.")

    poll = asyncio.ensure_future(world.services.polls.claimed(lead, claim, lambda found: found))
    await is_claiming.wait()
    poll.cancel()
    await asyncio.sleep(0)
    may_fail.set()
    with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
        await poll
    assert [line["action"] for line in logs] == ["give_back"]


class CancelAt:
    """Cancels a task at its n-th step into the database or the directory, before or after the step was done."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._left = number
        self._after = after
        self.task: asyncio.Task[Any] | None = None
        self.reached = False

    async def pass_by(self, step: Callable[[], Awaitable[Any]]) -> Any:
        self._left -= 1
        if self._left != 0 or self.task is None:
            return await step()
        self.reached = True
        if not self._after:
            self.task.cancel()
            return await step()
        try:
            return await step()
        finally:
            self.task.cancel()


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_cancelled_poll_leaves_nothing_leased(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int, after: bool, twice: bool
) -> None:
    lead = await world.lead()
    messages = [await world.says(f"{BOT} {text}") for text in ("one", "two")]
    cut = CancelAt(number, after=after)
    through, name_of = Database._through, world.slack.author_name

    async def cut_through(self: Database, *args: Any, **options: Any) -> Any:
        return await cut.pass_by(lambda: through(self, *args, **options))

    async def cut_name(*args: Any) -> Any:
        return await cut.pass_by(lambda: name_of(*args))

    monkeypatch.setattr(Database, "_through", cut_through)
    monkeypatch.setattr(world.slack, "author_name", cut_name)
    cut.task = poll = asyncio.ensure_future(world.poll(lead))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while twice and not poll.done():  # the caller is impatient, and cancels as long as the poll lives
            await asyncio.sleep(0)
            if cut.reached:
                poll.cancel()
        (result,) = await asyncio.gather(poll, return_exceptions=True)
    monkeypatch.undo()
    if isinstance(result, list):
        assert len(result) == 2  # it got through before the step at which it was to be cancelled
        return
    assert isinstance(result, asyncio.CancelledError)
    async with asyncio.timeout(PATIENCE_SECONDS):  # an impatient caller does not wait until it is given back
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    inbox_messages = [await world.inbox_message(message) for message in messages]
    assert [(inbox_message.status.value, inbox_message.attempts) for inbox_message in inbox_messages] == [
        ("unread", 0)
    ] * 2
    assert [trigger.attempt for trigger in await world.poll(lead)] == [1, 1]


async def test_what_cannot_be_described_for_once_comes_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")

    async def breaks(*args: object) -> str:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(world.slack, "channel_name", breaks)
        assert await world.poll(lead) == []
    assert (await world.inbox_message(message)).status is InboxStatus.UNREAD
    await world.later(60)  # a failed attempt is followed by a pause
    assert [trigger.attempt for trigger in await world.poll(lead)] == [2]


async def test_a_poll_is_a_sign_of_life(world: World) -> None:
    lead = await world.lead(online=False)
    await world.poll(lead)
    (present,) = await world.services.agents.present()
    assert present.online
    await world.later(120)
    (present,) = await world.services.agents.present()
    assert not present.online


@pytest.mark.req("LOOP-12")
async def test_other_threads_are_not_held_up_by_thousands_of_messages_behind_a_locked_one(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} one")
    await world.only(lead)
    (thread,) = await world.rows("SELECT id FROM threads")
    await world.database.write(fill, thread["id"], lead.id, 5_000)
    await world.says(f"{BOT} other")
    queue = await world.rows("SELECT lane_id FROM queue_heads ORDER BY order_key")
    assert len(queue) == 2, "a claim looks at one row for each thread, whatever waits behind it"
    (trigger,) = await world.poll(lead, limit=1)
    assert texts([trigger]) == [["@UBOT other"]]


def fill(tx: Transaction, thread_id: str, agent_id: str, how_many: int) -> None:
    wanted = [
        NewInboxMessage(
            thread_id=thread_id,
            agent_id=agent_id,
            team="T1",
            channel="C1",
            ts=f"1650000000.{number:06}",
            matched_by=MatchedBy.MENTION,
            reason="a test",
        )
        for number in range(how_many)
    ]
    inbox.add(tx, wanted)


async def test_a_message_that_cannot_be_described_ends_visibly_and_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    broken = await world.says(f"{BOT} broken")
    describe = Triggers._trigger

    async def fails(self: Triggers, agent: Agent, whole: ClaimContents) -> Trigger:
        if whole.claimed.inbox_messages[0].ts == broken.ts:
            raise IndexError("a bug")
        return await describe(self, agent, whole)

    monkeypatch.setattr(Triggers, "_trigger", fails)
    await world.says(f"{BOT} fine")
    assert texts(await world.poll(lead)) == [["@UBOT fine"]]
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        await world.is_here(lead)
        await world.later(60)  # a failed attempt is followed by a pause
        assert ["@UBOT broken"] not in texts(await world.poll(lead))
    assert (await world.inbox_message(broken)).status is InboxStatus.DEAD


@pytest.mark.req("OPS-16")
async def test_waiting_polls_leave_connections_to_leads_and_to_calls(world: World) -> None:
    lead, first, second = await world.lead(), await world.worker("first"), await world.worker("second")
    world.services.polls.leave_room(4)  # three may wait
    world.services.polls._places_for_leads = 1  # the last of them for a lead
    waiting = [await waiting_poll(world, agent) for agent in (first, second)]
    with pytest.raises(RateLimited, match="has connections for"):
        await world.services.polls.poll(first, wait_seconds=60, limit=5)
    waiting.append(await waiting_poll(world, lead))
    with pytest.raises(RateLimited):
        await world.services.polls.poll(lead, wait_seconds=60, limit=5)
    assert await world.poll(first) == []  # who does not wait takes no place
    for poll in waiting:
        poll.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert world.services.polls._places_left == 3
