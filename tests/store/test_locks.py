"""A lock, of an office or a conversation: one holder at a time by the database's clock, and a term that grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.clock import SECOND, ManualClock
from swarm.domain.model.leases import LockKind
from swarm.store import locks
from swarm.store.bridge.database import Database
from swarm.store.locks import LockGrant

pytestmark = pytest.mark.req("AGENT-09", "OPS-03")

OFFICE, TALK = (LockKind.OFFICE, "upkeep"), (LockKind.CONVERSATION, "c1")
TERM_SECONDS = 10.0
OF_OFFICES = locks.topic(LockKind.OFFICE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def db(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


async def stand(db: Database, holder: str, *, at_once: bool = False) -> LockGrant:
    return await db.write(locks.take, *OFFICE, holder, TERM_SECONDS, at_once=at_once)


async def renew(db: Database, holder: str, term: int) -> bool:
    return await db.write(locks.renew, *OFFICE, holder, term, TERM_SECONDS)


async def test_the_first_to_stand_is_elected_and_others_hear_how_long_to_wait(db: Database, clock: ManualClock) -> None:
    assert await stand(db, "ann") == LockGrant(term=1, wait_seconds=0)
    clock.advance(4)
    assert await stand(db, "bob") == LockGrant(term=None, wait_seconds=6)
    assert await db.read(locks.holder_of, *OFFICE) == "ann"


async def test_a_lease_that_ran_out_is_anybodys_and_the_term_grows(db: Database, clock: ManualClock) -> None:
    await stand(db, "ann")
    clock.advance(TERM_SECONDS)
    assert await db.read(locks.holder_of, *OFFICE) is None
    assert await stand(db, "bob") == LockGrant(term=2, wait_seconds=0)
    assert not await renew(db, "ann", 1)
    assert await db.read(locks.holder_of, *OFFICE) == "bob"


async def test_a_renewed_lease_lasts_from_the_renewal(db: Database, clock: ManualClock) -> None:
    await stand(db, "ann")
    clock.advance(9)
    assert await renew(db, "ann", 1)
    clock.advance(9)
    assert await stand(db, "bob") == LockGrant(term=None, wait_seconds=1)


async def test_a_lease_that_ran_out_may_be_renewed_until_another_takes_the_office(
    db: Database, clock: ManualClock
) -> None:
    await stand(db, "ann")
    clock.advance(TERM_SECONDS)
    assert await renew(db, "ann", 1)
    assert await stand(db, "bob") == LockGrant(term=None, wait_seconds=TERM_SECONDS)
    clock.advance(TERM_SECONDS)
    assert await stand(db, "bob") == LockGrant(term=2, wait_seconds=0)
    clock.advance(TERM_SECONDS)
    assert not await renew(db, "ann", 1)


async def test_of_a_late_renewal_and_a_candidate_that_come_together_one_has_the_office(
    db: Database, clock: ManualClock
) -> None:
    for _ in range(10):
        term = (await stand(db, "ann", at_once=True)).term
        assert term
        clock.advance(TERM_SECONDS)
        renewed, standing = await asyncio.gather(renew(db, "ann", term), stand(db, "bob"))
        assert renewed == (standing.term is None)
        assert await db.read(locks.holder_of, *OFFICE) == ("ann" if renewed else "bob")


async def test_who_stands_anew_gets_a_new_term_and_its_old_one_is_over(db: Database) -> None:
    await stand(db, "ann")
    assert (await stand(db, "ann")).term == 2
    assert not await renew(db, "ann", 1)
    assert await renew(db, "ann", 2)


async def test_whoever_resigns_frees_the_office_at_once_and_tells_of_it(db: Database) -> None:
    await stand(db, "ann")
    assert await db.write(locks.release, *OFFICE, "ann")
    assert db.wakeups.generation(OF_OFFICES) == 1
    assert (await stand(db, "bob")).term == 2


async def test_who_holds_no_office_cannot_resign(db: Database) -> None:
    await stand(db, "ann")
    assert not await db.write(locks.release, *OFFICE, "bob")
    assert db.wakeups.generation(OF_OFFICES) == 0
    assert await db.read(locks.holder_of, *OFFICE) == "ann"


async def test_one_who_knows_that_the_holder_is_gone_need_not_wait(db: Database) -> None:
    await stand(db, "ann")
    assert (await stand(db, "bob", at_once=True)).term == 2
    assert not await renew(db, "ann", 1)


async def test_locks_do_not_know_each_other(db: Database) -> None:
    await stand(db, "ann")
    for kind, key in ((LockKind.OFFICE, "another"), (LockKind.CONVERSATION, "upkeep")):
        assert (await db.write(locks.take, kind, key, "bob", TERM_SECONDS)).term == 1
    assert await db.write(locks.release, LockKind.CONVERSATION, "upkeep", "bob")
    assert db.wakeups.generation(OF_OFFICES) == 0, "who waits for an office is not woken by every conversation"
    assert await db.read(locks.holder_of, *OFFICE) == "ann"


async def test_of_many_who_stand_together_one_is_elected(db: Database, clock: ManualClock) -> None:
    for term in range(1, 6):
        standings = await asyncio.gather(*(stand(db, f"candidate {number}") for number in range(8)))
        assert [standing.term for standing in standings if standing.term] == [term]
        clock.advance(TERM_SECONDS)


async def test_what_was_left_behind_is_forgotten_but_neither_what_is_in_use_nor_the_terms_of_offices(
    db: Database, clock: ManualClock
) -> None:
    await stand(db, "ann")
    for number in range(3):
        await db.write(locks.take, LockKind.CONVERSATION, f"old {number}", "one", TERM_SECONDS)
    clock.advance(100)
    await db.write(locks.take, *TALK, "two", TERM_SECONDS)
    before = clock.now_us() - 50 * SECOND
    assert [await db.write(locks.forget_conversations, before, 2) for _ in range(3)] == [2, 1, 0]
    assert await db.write(locks.renew, *TALK, "two", 1, TERM_SECONDS)
    assert (await stand(db, "bob")).term == 2
