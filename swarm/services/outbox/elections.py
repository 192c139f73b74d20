"""Elections: among the coordinator processes on one database, one process is elected to do certain work.

Who may act: the process with a valid term. The elected process sends deliveries, sweeps and reads threads; every other
process answers agents, processes events and is ready to take over. A database on the local disk has one coordinator;
the process that starts last takes over immediately, because its predecessor is gone.

What is guaranteed: by the database's clock, at most one process is elected at any time. The elected process measures
its term from before the granting call, on a clock that continues while the machine sleeps, and stops `STOP_SECONDS`
before the end of its lease; a wrong local clock can only make it stop earlier. After a missed renewal, because the
process slept or the database was unavailable, it queries the database before each call to Slack. So a replaced process
starts no call after the next election.

What is harmless: work that outlives its term because the process was suspended. Each step of a delivery is guarded by
its status; a sweep or the reading of a thread may be repeated. Only the rate limits are then not kept exactly.

What happens on failure: an elected process that crashes or loses its connection to the database is replaced at the end
of its lease; a process that shuts down is replaced immediately. Without the database no process is elected, and no work
would be possible.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from swarm.clock import ELAPSED
from swarm.domain.errors import SwarmError
from swarm.services.rules.guarded import attempt
from swarm.store import elections
from swarm.store.bridge.database import Database
from swarm.store.elections import ELECTIONS, Candidacy

TERM_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
STOP_SECONDS: Final = 2.0
"""Without a renewal, the elected process stops this long before its lease expires."""

_AGAIN_SECONDS: Final = 1.0  # after a failed database call
_AFTER_SECONDS: Final = 0.02  # a lease has certainly expired this long after its end

_log = structlog.get_logger(__name__)


def boottime() -> float:
    """Returns seconds on a clock that continues while the machine sleeps, if such a clock exists."""
    return time.clock_gettime(ELAPSED)


class OfficeTerm:
    """The period for which a process is elected.

    ``confirm`` queries the database, and extends or ends the term. A call to Slack requires this confirmation if less
    than ``sure_seconds`` of the term are left, because the process has then missed a renewal and may have slept.
    """

    def __init__(
        self,
        number: int,
        ends_at: float,
        clock: Callable[[], float],
        confirm: Callable[[OfficeTerm], Awaitable[None]] | None = None,
        sure_seconds: float = 0.0,
    ) -> None:
        self.number = number
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
        self._ends_at = -math.inf


Work = Callable[[OfficeTerm], Awaitable[None]]
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
        stop_seconds: float = STOP_SECONDS,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._database = database
        self._role = role
        self._holder = holder
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._stop_seconds = stop_seconds
        self._clock = clock
        self._predecessor_is_gone = database.dialect == "sqlite"

    async def run(self, work: Work) -> None:
        """Participates in the election until cancelled, and runs ``work`` in each term.

        Returns when ``work`` returns without being cancelled.
        """
        try:
            while await self._serve(await self._elected(), work):
                pass
        finally:
            await self._resign()

    async def _elected(self) -> OfficeTerm:
        """Waits until this process is elected."""
        while True:
            seen = self._database.wakeups.generation(ELECTIONS)
            asked_at = self._clock()
            standing = await self._stand()
            if standing.term is not None:
                _log.info("Elected.", action="elected", role=self._role, term=standing.term)
                sure_seconds = (self._lease_seconds - self._stop_seconds) / 2
                ends_at = self._end_if_granted(asked_at)
                return OfficeTerm(standing.term, ends_at, self._clock, self._renew, sure_seconds)
            await self._pause(seen, standing.wait_seconds + _AFTER_SECONDS)

    async def _stand(self) -> Candidacy:
        candidacy = asyncio.ensure_future(
            self._database.write(
                elections.stand, self._role, self._holder, self._lease_seconds, at_once=self._predecessor_is_gone
            )
        )
        try:
            standing = await asyncio.shield(candidacy)
            self._predecessor_is_gone = False  # every later holder has started after this process
            return standing
        except asyncio.CancelledError:
            await asyncio.gather(candidacy, return_exceptions=True)  # a term granted unnoticed could not be resigned
            raise
        except SwarmError as error:
            _log.warning("The election has to wait", action="elect", role=self._role, error=error.message)
            return Candidacy(term=None, wait_seconds=_AGAIN_SECONDS)

    async def _pause(self, seen: int, seconds: float) -> None:
        """Waits until the elected process resigns, or for a limited time. A shutdown wakes no waiters."""
        if self._database.wakeups.closed:
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            await self._database.wakeups.wait(ELECTIONS, seen, seconds)

    async def _serve(self, term: OfficeTerm, work: Work) -> bool:
        """Works for one term. Returns True when the term has ended, and False when the work returned."""
        working = asyncio.ensure_future(work(term))
        try:
            while not await self._has_ended(working, min(self._renew_seconds, term.seconds_left)):
                if term.holds():
                    await self._renew(term)
                if not term.holds():
                    _log.warning("No longer elected.", action="deposed", role=self._role, term=term.number)
                    return True
            return False
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _has_ended(self, working: asyncio.Future[None], within_seconds: float) -> bool:
        """Whether the work ends within the given time. Raises the exception that the work raised."""
        await asyncio.wait({working}, timeout=within_seconds)
        if working.done():
            await working
        return working.done()

    async def _resign(self) -> None:
        """Resigns, so that the next process does not have to wait for the lease to expire."""
        await attempt(self._database.write(elections.resign, self._role, self._holder), "resign", role=self._role)

    async def _renew(self, term: OfficeTerm) -> None:
        """Extends the term, or ends it if the database says so. If the database does not reply, the term expires."""
        asked_at = self._clock()
        try:
            async with asyncio.timeout(term.seconds_left):
                ours = await self._database.write(
                    elections.renew, self._role, self._holder, term.number, self._lease_seconds
                )
        except (SwarmError, TimeoutError) as error:
            _log.warning("The term could not be extended", action="renew", role=self._role, error=repr(error))
            return
        if ours:
            term.prolong(self._end_if_granted(asked_at))
        else:
            term.end()

    def _end_if_granted(self, asked_at: float) -> float:
        """Measures from before the database call, so that the lease in the database always ends later."""
        return asked_at + self._lease_seconds - self._stop_seconds
