"""Named locks among the coordinator processes on one database, and the election of the process that does certain work.

Who may act: the holder of a lock with a valid term. There are two kinds. An *office* is held by the elected process,
which sends deliveries, sweeps and reads threads; every other process answers agents, processes events and is ready to
take over. A database on the local disk has one coordinator; the process that starts last takes over immediately,
because its predecessor is gone. A *conversation* with a built-in agent is held by one run
(`swarm.services.builtin.conversation_locks`).

What is guaranteed: by the database's clock, a lock has at most one holder at any time. The holder measures its term
from before the granting call, on a clock that continues while the machine sleeps, and stops `STOP_SECONDS` before the
end of its lease; a wrong local clock can only make it stop earlier. After a missed renewal, because the process slept
or the database was unavailable, the elected process queries the database before each call to Slack. A
replaced process therefore starts no call to Slack once its successor is elected.

What is harmless: work that outlives its term because the process was suspended. Each step of a delivery is guarded by
its status; a sweep or the reading of a thread may be repeated. Only the rate limits are then not kept exactly.

What happens on failure: a holder that crashes or loses its connection to the database is replaced at the end of its
lease; a process that shuts down is replaced immediately. Without the database no lock is granted, and no work would be
possible.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from swarm.clock import boottime
from swarm.domain.errors import SwarmError
from swarm.domain.model.leases import LockKind
from swarm.services.ground.guarded import attempt
from swarm.store import locks
from swarm.store.bridge.database import Database

TERM_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
STOP_SECONDS: Final = 2.0
"""Without a renewal, the holder stops this long before its lease expires, to leave time for cleanup."""

_AGAIN_SECONDS: Final = 1.0  # after a failed database call
_AFTER_SECONDS: Final = 0.02  # a lease has certainly expired this long after its end

_log = structlog.get_logger(__name__)


class LockTerm:
    """The period for which a lock is held.

    ``confirm`` queries the database, and extends or ends the term. A call to Slack requires this confirmation if less
    than ``sure_seconds`` of the term are left, because the process has then missed a renewal and may have slept.
    """

    def __init__(
        self,
        number: int,
        ends_at: float,
        clock: Callable[[], float],
        confirm: Callable[[LockTerm], Awaitable[None]] | None = None,
        sure_seconds: float = 0.0,
    ) -> None:
        self.number = number
        self.is_lost = False  # another holder has the lock, according to the database
        self._ends_at = ends_at
        self._clock = clock
        self._confirm = confirm
        self._sure_seconds = sure_seconds

    @property
    def seconds_left(self) -> float:
        """The time in which work may still start if the term is not extended."""
        return max(0.0, self._ends_at - self._clock())

    def holds(self) -> bool:
        """Whether work may start. Must be checked immediately before an action that two processes must not both
        take.
        """
        return self.seconds_left > 0

    async def is_ours(self) -> bool:
        """Whether the term is valid, confirmed by the database if the last renewal is old.

        Another process may have been elected in the meantime.
        """
        if self._confirm and 0 < self.seconds_left < self._sure_seconds:
            await self._confirm(self)
        return self.holds() and self.seconds_left >= self._sure_seconds

    def prolong(self, ends_at: float) -> None:
        self._ends_at = ends_at

    def end(self) -> None:
        """Ends a lost term."""
        self.is_lost = True
        self._ends_at = -math.inf


class NamedLock:
    """One lock for one holder. ``holder`` is unique among all who take locks; ``ids`` are logged with each failure."""

    def __init__(
        self,
        database: Database,
        kind: LockKind,
        key: str,
        holder: str,
        *,
        lease_seconds: float = TERM_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        clock: Callable[[], float] = boottime,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        **ids: str,
    ) -> None:
        self._database = database
        self._row = kind, key, holder
        self._topic = locks.topic(kind)
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._sleep = sleep
        self._ids = {"lock": str(kind), **ids}

    async def take(self, *, at_once: bool = False) -> LockTerm | float:
        """Takes a free lock or, with ``at_once``, a lock whose holder is known to be gone.

        Returns the seconds until the other holder's lease expires if the lock is not free. After an error or a
        cancellation, the caller must `release` the lock, because it may have been granted.
        """
        asked_at = self._clock()
        taking = asyncio.ensure_future(
            self._database.write(locks.take, *self._row, self._lease_seconds, at_once=at_once)
        )
        try:
            grant = await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.gather(taking, return_exceptions=True)  # a lock granted later could not be released
            raise
        if grant.term is None:
            return grant.wait_seconds + _AFTER_SECONDS
        sure_seconds = (self._lease_seconds - self._stop_seconds) / 2
        return LockTerm(grant.term, self._end_if_granted(asked_at), self._clock, self.renew, sure_seconds)

    @property
    def generation(self) -> int:
        """The number of releases of locks of this kind, to be read before `take` and passed to `wait`."""
        return self._database.wakeups.generation(self._topic)

    async def wait(self, generation: int, seconds: float) -> None:
        """Waits for a release of a lock of this kind, or for a limited time. At a shutdown the wait ends at once."""
        await self._database.wakeups.wait(self._topic, generation, seconds)

    async def keep(self, term: LockTerm) -> None:
        """Renews the term until it has ended."""
        while term.holds():
            await self._sleep(min(self._renew_seconds, term.seconds_left))
            if term.holds():
                await self.renew(term)

    async def renew(self, term: LockTerm) -> None:
        """Extends the term, or ends it if another holder has the lock. Without the database, the term expires."""
        asked_at = self._clock()
        try:
            async with asyncio.timeout(term.seconds_left):
                is_ours = await self._database.write(locks.renew, *self._row, term.number, self._lease_seconds)
        except Exception as error:  # noqa: BLE001 - after any failure the term ends when its time does
            _log.warning("A lock could not be renewed", action="lock_renew", error=repr(error), **self._ids)
            return
        if is_ours:
            term.prolong(self._end_if_granted(asked_at))
        else:
            term.end()

    async def release(self) -> None:
        """Releases the lock, so that the next holder does not have to wait for the lease to expire."""
        await attempt(self._database.write(locks.release, *self._row), "lock_release", **self._ids)

    def _end_if_granted(self, asked_at: float) -> float:
        """Measures from before the database call, so that the lease in the database always ends later."""
        return asked_at + self._lease_seconds - self._stop_seconds


Work = Callable[[LockTerm], Awaitable[None]]
"""The elected process's work until cancelled; a call in progress may finish."""


class Election:
    """One process's participation in the election for ``role``. ``holder`` identifies the process uniquely."""

    def __init__(
        self,
        database: Database,
        role: str,
        holder: str,
        *,
        lease_seconds: float = TERM_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        clock: Callable[[], float] = boottime,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._lock = NamedLock(
            database,
            LockKind.OFFICE,
            role,
            holder,
            lease_seconds=lease_seconds,
            renew_seconds=renew_seconds,
            clock=clock,
            sleep=sleep,
            role=role,
        )
        self._role = role
        self._wakeups = database.wakeups
        self._predecessor_is_gone = database.dialect == "sqlite"

    async def run(self, work: Work) -> None:
        """Participates in the election until cancelled, and runs ``work`` in each term.

        Returns when ``work`` returns without being cancelled.
        """
        try:
            while await self._serve(await self._elected(), work):
                pass
        finally:
            await self._lock.release()

    async def _elected(self) -> LockTerm:
        """Waits until this process is elected."""
        while True:
            seen = self._lock.generation
            taken = await self._stand()
            if isinstance(taken, LockTerm):
                _log.info("Elected.", action="elected", role=self._role, term=taken.number)
                return taken
            if self._wakeups.closed:
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                await self._lock.wait(seen, taken)

    async def _stand(self) -> LockTerm | float:
        try:
            taken = await self._lock.take(at_once=self._predecessor_is_gone)
        except SwarmError as error:
            _log.warning("The election has to wait", action="elect", role=self._role, error=error.message)
            return _AGAIN_SECONDS
        self._predecessor_is_gone = False  # every later holder has started after this process
        return taken

    async def _serve(self, term: LockTerm, work: Work) -> bool:
        """Works for one term. Returns True when the term has ended, and False when the work returned."""
        working = asyncio.ensure_future(work(term))
        keeping = asyncio.create_task(self._lock.keep(term))
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                return False
            _log.warning("No longer elected.", action="deposed", role=self._role, term=term.number)
            return True
        finally:
            keeping.cancel()
            working.cancel()
            await asyncio.gather(keeping, working, return_exceptions=True)
