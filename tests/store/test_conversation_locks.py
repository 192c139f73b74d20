"""A conversation with a built-in agent: one run at a time has it, by the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.clock import ManualClock
from swarm.store.bridge.database import Database
from swarm.store.builtin import conversation_locks

pytestmark = pytest.mark.req("AGENT-09", "OPS-03")

TALK = ("wim", "router", "c1")
SECONDS = 10.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def db(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


async def take(db: Database, agui_run_id: str, talk: tuple[str, str, str] = TALK) -> bool:
    return await db.write(conversation_locks.acquire, *talk, agui_run_id, SECONDS)


async def renew(db: Database, agui_run_id: str) -> bool:
    return await db.write(conversation_locks.renew, *TALK, agui_run_id, SECONDS)


async def test_one_run_has_it_and_others_of_other_conversations_are_in_nobodys_way(db: Database) -> None:
    assert await take(db, "one")
    assert not await take(db, "two")
    for other in (("ada", "router", "c1"), ("wim", "assistant", "c1"), ("wim", "router", "c2")):
        assert await take(db, "two", other)


async def test_of_runs_that_come_at_once_one_gets_it(db: Database) -> None:
    assert sum(await asyncio.gather(*(take(db, str(number)) for number in range(10)))) == 1


async def test_what_is_not_renewed_is_free_when_its_time_is_over(db: Database, clock: ManualClock) -> None:
    assert await take(db, "one")
    clock.advance(SECONDS - 1)
    assert await renew(db, "one")
    clock.advance(SECONDS - 1)
    assert not await take(db, "two")
    clock.advance(1)
    assert not await renew(db, "one"), "what is over does not come back to life"
    assert await take(db, "two")
    assert not await renew(db, "one")


async def test_whoever_leaves_frees_it_at_once_and_tells_of_it_but_not_what_is_anothers(
    db: Database, clock: ManualClock
) -> None:
    assert await take(db, "one")
    assert await db.write(conversation_locks.release, *TALK, "one")
    assert db.wakeups.generation(conversation_locks.LOCKS) == 1
    assert await take(db, "two")
    assert not await db.write(conversation_locks.release, *TALK, "one")
    assert db.wakeups.generation(conversation_locks.LOCKS) == 1
    assert not await take(db, "three")


async def test_what_was_left_behind_is_forgotten_and_what_is_in_use_is_not(db: Database, clock: ManualClock) -> None:
    for number in range(3):
        assert await take(db, "one", ("wim", "router", f"old {number}"))
    clock.advance(100)
    assert await take(db, "two")
    before = clock.now_us() - 50_000_000
    assert await db.write(conversation_locks.forget, before, 2) == 2
    assert await db.write(conversation_locks.forget, before, 2) == 1
    assert await db.write(conversation_locks.forget, before, 2) == 0
    assert await renew(db, "two")
