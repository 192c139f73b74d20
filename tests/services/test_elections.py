"""Of several processes on one database one is in office, and stops before another can be.

Leases and terms go by a clock that the tests move; the processes look at it every hundredth of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from swarm.clock import SECOND, ManualClock
from swarm.domain.errors import Unavailable
from swarm.domain.model.leases import LockKind
from swarm.services.ground.locks import STOP_SECONDS, TERM_SECONDS, Election, LockTerm
from swarm.store import locks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("OPS-03")

ROLE = "upkeep"
OFFICE = (LockKind.OFFICE, ROLE)
PATIENCE_SECONDS = 20.0
QUICKLY_SECONDS = 0.01


class Flaky(Database):
    """A database that can be away, and whose answers can be held up after the commit."""

    away = False
    answers: asyncio.Event | None = None

    async def write(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        if self.away:
            raise Unavailable("The database is away.")
        result = await super().write(fn, *args, **kwargs)
        if self.answers:
            await self.answers.wait()
        return result


@dataclass
class Candidate:
    """A process that stands for the office and notes its terms."""

    name: str
    database: Flaky
    clock: ManualClock
    lease_seconds: float = TERM_SECONDS
    terms: list[LockTerm] = field(default_factory=list)
    at_work: int = 0
    fails: asyncio.Event = field(default_factory=asyncio.Event)
    lingers: asyncio.Event | None = None  # what it does when it is stopped takes until then
    task: asyncio.Task[None] = field(init=False)

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Self]:
        clock = self.clock
        election = Election(
            self.database,
            ROLE,
            self.name,
            lease_seconds=self.lease_seconds,
            renew_seconds=QUICKLY_SECONDS,
            clock=lambda: clock.now_us() / SECOND,
        )
        self.task = asyncio.create_task(election.run(self._work))
        try:
            yield self
        finally:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def elected(self, terms: int = 1) -> LockTerm:
        """Its term, once it is at work in so many terms."""
        await self._until(lambda: self.at_work == 1 and len(self.terms) == terms, f"{self.name} is elected")
        return self.terms[-1]

    async def stops(self) -> None:
        await self._until(lambda: not self.at_work, f"{self.name} stops")

    async def renews(self) -> None:
        """Two looks at the clock later: the lease has been prolonged, if it can be."""
        before = await self.expires_at()
        self.clock.advance(1)
        await wait_until(self.expires_at, lambda at: at > before, what=f"{self.name} renews its lease")

    async def expires_at(self) -> int:
        (row,) = await self.database.read(lambda tx: tx.fetch("SELECT expires_at FROM locks", {})[1])
        return int(row[0])

    def looks(self) -> None:
        """Whoever waits for the office asks for it, instead of after the time that is left of the lease."""
        self.database.wakeups.bump([locks.topic(LockKind.OFFICE)])

    async def _until(self, met: Any, what: str) -> None:
        async def look() -> bool:
            return bool(met())

        await wait_until(look, within_seconds=PATIENCE_SECONDS, what=what)

    async def _work(self, term: LockTerm) -> None:
        self.terms.append(term)
        self.at_work += 1
        assert self.at_work == 1
        try:
            await self.fails.wait()
            raise ArithmeticError("the work fails")
        finally:
            if self.lingers:
                await self.lingers.wait()
            self.at_work -= 1


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """PostgreSQL, where there are several coordinators; a test may ask for SQLite, or for one after the other."""
    found: str = request.getfixturevalue(f"{getattr(request, 'param', 'postgres')}_url")
    return found


both_engines = pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def ann(url: str, clock: ManualClock) -> AsyncIterator[Candidate]:
    async with Flaky(url, clock=clock) as database:
        yield Candidate("ann", database, clock)


@pytest.fixture
async def bob(url: str, clock: ManualClock) -> AsyncIterator[Candidate]:
    """Another process on the same database."""
    async with Flaky(url, clock=clock) as database:
        yield Candidate("bob", database, clock)


@both_engines
async def test_who_is_alone_is_in_office_at_once_and_stays_as_long_as_it_can_renew_its_lease(ann: Candidate) -> None:
    async with ann.standing():
        term = await ann.elected()
        for _ in range(int(2 * TERM_SECONDS)):
            await ann.renews()
        assert (term.holds(), ann.at_work, len(ann.terms)) == (True, 1, 1)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_lease_is_renewed_in_the_time_of_the_clock_that_measures_it(ann: Candidate) -> None:
    clock = ann.clock
    passed = asyncio.Event()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock.elapsed_us() > 5 * TERM_SECONDS * SECOND:
            passed.set()
            await asyncio.Event().wait()

    election = Election(ann.database, ROLE, "ann", clock=lambda: clock.now_us() / SECOND, sleep=sleep)
    terms: list[LockTerm] = []

    async def work(term: LockTerm) -> None:
        terms.append(term)
        await asyncio.Event().wait()

    task = asyncio.create_task(election.run(work))
    await asyncio.wait_for(passed.wait(), PATIENCE_SECONDS)
    assert (len(terms), terms[0].holds()) == (1, True)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_while_one_is_in_office_another_stands_ready(ann: Candidate, bob: Candidate) -> None:
    async with ann.standing():
        await ann.elected()
        async with bob.standing():
            for _ in range(int(2 * TERM_SECONDS)):
                await ann.renews()
                bob.looks()
            assert not bob.terms


async def test_whoever_shuts_down_is_replaced_at_once(ann: Candidate, bob: Candidate) -> None:
    ann.lease_seconds = bob.lease_seconds = 1_000 * PATIENCE_SECONDS  # so long bob would wait by himself
    async with ann.standing():
        await ann.elected()
        async with bob.standing():
            await ann.renews()
            ann.task.cancel()
            assert (await bob.elected()).number == 2
            assert not ann.at_work


async def test_a_holder_that_cannot_reach_the_database_stops_before_anybody_else_is_elected(
    ann: Candidate, bob: Candidate, clock: ManualClock
) -> None:
    async with ann.standing():
        term = await ann.elected()
        async with bob.standing():
            ann.database.away = True
            clock.advance(TERM_SECONDS - STOP_SECONDS)
            assert not term.holds()
            await ann.stops()
            assert (await bob.database.write(locks.take, *OFFICE, "carol", TERM_SECONDS)).term is None
            assert not bob.terms
            clock.advance((await ann.expires_at() - clock.now_us()) / SECOND)
            bob.looks()
            assert (await bob.elected()).number == 2


@both_engines
async def test_a_process_that_was_suspended_knows_at_once_that_its_term_is_over(
    ann: Candidate, clock: ManualClock
) -> None:
    async with ann.standing():
        term = await ann.elected()
        clock.advance(60)
        assert not term.holds()  # before anything else has run
        assert (await ann.elected(terms=2)).number == 2
        assert not term.holds()


async def test_a_process_that_was_suspended_does_not_go_on_beside_its_successor(
    ann: Candidate, bob: Candidate, clock: ManualClock
) -> None:
    def take_over(tx: Transaction) -> None:
        tx.fetch("SELECT key FROM locks FOR UPDATE", {})  # the other one sees time go by, and stands in vain
        clock.advance(60)
        locks.take(tx, *OFFICE, "bob", 60 + TERM_SECONDS, at_once=True)  # its moment is that of its beginning

    async with ann.standing():
        await ann.elected()
        await bob.database.write(take_over)
        await ann.stops()
        ann.looks()
        await ann.database.read(locks.holder_of, *OFFICE)
        assert len(ann.terms) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_holder_that_slept_asks_the_database_before_its_next_call(
    ann: Candidate, bob: Candidate, clock: ManualClock
) -> None:
    async with ann.standing():
        term = await ann.elected()
        ann.database.away = True
        clock.advance(5)
        assert (term.holds(), await term.is_ours()) == (True, False)  # nobody can tell it
        ann.database.away = False
        assert await term.is_ours()
        ann.database.away = True
        clock.advance(5)
        await bob.database.write(locks.take, *OFFICE, "bob", TERM_SECONDS, at_once=True)
        ann.database.away = False
        assert (await term.is_ours(), term.holds()) == (False, False)


async def test_a_holder_whose_term_the_database_calls_over_stops_before_its_time(
    ann: Candidate, bob: Candidate
) -> None:
    async with ann.standing():
        term = await ann.elected()
        await bob.database.write(locks.take, *OFFICE, "bob", TERM_SECONDS, at_once=True)
        await ann.stops()
        assert term.seconds_left == 0


async def test_what_the_work_raises_ends_the_election_and_frees_the_office(ann: Candidate, bob: Candidate) -> None:
    async with ann.standing():
        await ann.elected()
        ann.fails.set()
        with pytest.raises(ArithmeticError):
            await asyncio.wait_for(ann.task, PATIENCE_SECONDS)
        assert (await bob.database.write(locks.take, *OFFICE, "bob", TERM_SECONDS)).term == 2


@both_engines
async def test_a_database_that_is_away_at_the_start_is_waited_for(ann: Candidate) -> None:
    ann.database.away = True
    async with ann.standing():
        await asyncio.sleep(0)
        ann.database.away = False
        ann.looks()
        assert (await ann.elected()).number == 1


async def test_whoever_is_stopped_while_it_stands_leaves_the_office_free(ann: Candidate, bob: Candidate) -> None:
    ann.database.answers = asyncio.Event()
    async with ann.standing():
        await wait_until(lambda: bob.database.read(locks.holder_of, *OFFICE), lambda holder: holder == "ann")
        ann.task.cancel()
        ann.database.answers.set()
        await asyncio.gather(ann.task, return_exceptions=True)
    assert not ann.terms
    assert await bob.database.read(locks.holder_of, *OFFICE) is None


@both_engines
async def test_no_term_begins_while_the_work_of_the_last_one_comes_to_its_end(
    ann: Candidate, clock: ManualClock
) -> None:
    ann.lingers = asyncio.Event()
    async with ann.standing():
        await ann.elected()
        ann.database.away = True  # no renewal is under way when the time is over
        await asyncio.sleep(5 * QUICKLY_SECONDS)
        clock.advance(60)
        await asyncio.sleep(5 * QUICKLY_SECONDS)
        ann.database.away = False
        before = await ann.expires_at()
        for _ in range(3):
            await asyncio.sleep(QUICKLY_SECONDS)
        assert (await ann.expires_at(), len(ann.terms)) == (before, 1)
        ann.lingers.set()
        await ann.elected(terms=2)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_on_sqlite_the_last_one_to_start_is_in_office_and_the_other_does_not_fight_back(
    ann: Candidate, bob: Candidate
) -> None:
    async with ann.standing():
        await ann.elected()
        async with bob.standing():
            assert (await bob.elected()).number == 2
            await ann.stops()
            for _ in range(3):
                ann.looks()
                await bob.renews()
            assert (len(ann.terms), len(bob.terms)) == (1, 1)
