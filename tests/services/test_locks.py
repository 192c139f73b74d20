"""Two transactions at one thing, on PostgreSQL: whoever comes second sees what the first has done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from swarm.domain.errors import OutcomeUnknown
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.triggers import TriggerKind
from swarm.services.work.leases import renew
from swarm.store.bridge.postgres_driver import PostgresSession
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from tests.support.world import BOT, ME, World, delete, edit, look, take, texts

PATIENCE_SECONDS = 20.0

# In SQLite there is one writer, so nothing ever waits for a lock.
pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@asynccontextmanager
async def under_way(world: World, fn: Callable[..., Any], *args: object) -> AsyncIterator[threading.Event]:
    """A transaction that has run ``fn`` and commits when the event is set, at the latest at the end of the block."""
    ran, go_on = threading.Event(), threading.Event()

    def held(tx: Transaction) -> None:
        fn(tx, *args)
        ran.set()
        assert go_on.wait(PATIENCE_SECONDS)

    transaction = asyncio.ensure_future(world.database.write(held))
    assert await asyncio.to_thread(ran.wait, PATIENCE_SECONDS)
    try:
        yield go_on
    finally:
        go_on.set()
        await transaction


async def somebody_waits(world: World) -> None:
    """Until a transaction waits for another's lock."""
    blocked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await world.rows(blocked):
            pass


@pytest.mark.req("LOOP-15", "LOOP-05")
async def test_a_delete_that_meets_a_claim_withdraws_the_message_and_tells_the_agent(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} never mind")
    async with under_way(world, take, lead.id, 1, False) as go_on:
        deleting = asyncio.ensure_future(world.ingest.handle(delete(message)))
        await somebody_waits(world)
        go_on.set()
        await deleting
    assert (await world.inbox_message(message)).status is InboxStatus.WITHDRAWN
    assert [trigger.kind for trigger in await world.poll(lead)] == [TriggerKind.MESSAGE_DELETED]


@pytest.mark.req("LOOP-15", "LOOP-05")
async def test_an_edit_that_meets_a_claim_is_told_to_the_agent(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    async with under_way(world, take, lead.id, 1, False) as go_on:
        editing = asyncio.ensure_future(world.ingest.handle(edit(message, f"{BOT} two")))
        await somebody_waits(world)
        go_on.set()
        await editing
    assert [trigger.kind for trigger in await world.poll(lead)] == [TriggerKind.MESSAGE_CHANGED]


@pytest.mark.req("LOOP-12", "LOOP-15")
async def test_a_message_that_is_being_edited_while_its_thread_is_claimed_is_served_afterwards(world: World) -> None:
    """A claim waits for nobody: it passes over what is locked, and leaves it in the queue."""
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    await world.says("two", thread=root)
    async with under_way(world, inbox.of_message_locked, ME.team, root.channel, root.ts):
        first = await world.only(lead)
    assert texts([first]) == [["two"]]
    await world.answers(lead, first, "answer")
    assert texts([await world.only(lead)]) == [["@UBOT one"]]


@pytest.mark.req("LOOP-04")
async def test_a_poll_that_found_everything_locked_looks_again_for_what_was_not_taken(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    await world.only(lead)
    await world.ingest.handle(edit(message, f"{BOT} two"))  # a notice, and then work: only the first will be taken
    world.clock.advance(1)
    await world.says(f"{BOT} three")
    async with under_way(world, take, lead.id, 1, False):
        polling = asyncio.ensure_future(world.services.polls.poll(lead, wait_seconds=60, limit=1))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while lead.id not in world.database.wakeups._waiters:
                await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert texts(await polling) == [["@UBOT three"]]


@pytest.mark.req("LOOP-01", "LOOP-04")
async def test_a_message_that_comes_while_its_thread_is_claimed_is_in_the_queue(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    async with under_way(world, take, lead.id, 1, False) as go_on:
        coming = asyncio.ensure_future(world.says("two", thread=root))
        await somebody_waits(world)  # for the head, which the claim is about to drop
        go_on.set()
        await coming
    queue = await world.rows("SELECT lane_id FROM queue_heads")
    assert len(queue) == 1


@pytest.mark.req("LOOP-06")
async def test_two_renewals_of_the_same_leases_in_opposite_orders_do_not_wait_in_a_circle(world: World) -> None:
    lead = await world.lead()
    for text in ("one", "two"):
        await world.says(f"{BOT} {text}")
    tokens = sorted(trigger.lease_token for trigger in await world.poll(lead))
    async with under_way(world, renew, [(lead, tokens[:1])]) as go_on:
        backwards = asyncio.ensure_future(world.database.write(renew, [(lead, [*reversed(tokens), tokens[0]])]))
        await somebody_waits(world)
        free = "SELECT count(*) AS n FROM (SELECT 1 FROM leases WHERE token = %(token)s FOR UPDATE SKIP LOCKED) AS f"
        assert await world.database.write(look, free, {"token": tokens[1]}) == [{"n": 1}], (
            "it holds nothing that the other may want"
        )
        go_on.set()
        (renewed,) = await backwards
    assert [token for token, _ in renewed.expiries] == list(reversed(tokens))


@pytest.mark.req("LOOP-04")
async def test_work_handed_over_in_a_commit_of_unknown_outcome_is_not_leased_for_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    poll = asyncio.ensure_future(world.services.polls.poll(lead, wait_seconds=60, limit=5))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while lead.id not in world.database.wakeups.awaited:
            await asyncio.sleep(0)
    commit = PostgresSession.commit

    def breaks_afterwards(session: PostgresSession, notifications: Iterable[str]) -> None:
        leased = session.cursor().execute("SELECT token FROM leases").fetchall()
        commit(session, notifications)
        if leased:
            monkeypatch.undo()
            session.close()
            raise psycopg.OperationalError("The connection broke.")

    monkeypatch.setattr(PostgresSession, "commit", breaks_afterwards)
    with pytest.raises(OutcomeUnknown):
        await world.says(f"{BOT} hello")
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert texts(await poll) == [["@UBOT hello"]]


@pytest.mark.req("LOOP-10")
async def test_what_an_owner_has_not_read_is_locked_as_a_whole_before_it_is_given_away(world: World) -> None:
    """Messages before heads: whoever holds a message may wait for the head, so the other way round is a circle."""
    lead, _ = await world.lead(), await world.lead("second")
    root = await world.says(f"{BOT} one")
    last = await world.says("two", thread=root)
    async with under_way(world, inbox.of_message_locked, ME.team, last.channel, last.ts) as go_on:
        moving = asyncio.ensure_future(world.says("swarm#second take this", thread=root))
        await somebody_waits(world)
        free = "SELECT agent_id FROM queue_heads FOR UPDATE SKIP LOCKED"
        assert await world.database.write(look, free, {}) == [{"agent_id": lead.id}]
        go_on.set()
        await moving
