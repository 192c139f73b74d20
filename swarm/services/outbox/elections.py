"""Elections: of many coordinator processes on one database, one does what only one should do.

Who may act: the process whose term holds. It sends deliveries, sweeps and reads threads; every other process answers
agents and takes events in, and stands ready. A database on this machine's disk has one coordinator; the one that
starts last takes over at once, since its predecessor is gone.

What is guaranteed: two processes are never both in office by the database's clock. A holder counts its own time from
before the call that granted it, on a clock that goes on while the machine sleeps, and stops `STOP_SECONDS` before its
lease runs out: local time can only make it stop earlier. One that has missed to prolong its term, since it slept or the
database was away, asks the database before each call to Slack. So by the time another is elected, it begins no call
any more.

What is merely harmless: work that outlives its term, because the process was suspended in the middle of it. Each step
of a delivery is guarded by its own state, a sweep may be done twice, a thread read twice. What suffers is the pacing.

What happens on failure: a holder that dies or cannot reach the database is replaced when its lease runs out, one that
shuts down at once. Without the database nobody holds an office, and nothing could be done either.
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

LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 3.0
STOP_SECONDS: Final = 2.0
"""So long before its lease runs out, a holder that could not renew it stops."""

_AGAIN_SECONDS: Final = 1.0  # after the database could not be asked
_AFTER_SECONDS: Final = 0.02  # a lease has certainly run out so long after its end

_log = structlog.get_logger(__name__)


def boottime() -> float:
    """Seconds on a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(ELAPSED)


class OfficeTerm:
    """A time in office.

    ``confirm`` asks the database, and prolongs the term or ends it: before a call, when less than ``sure_seconds`` of
    the term are left, since then the process has missed to prolong it, and may have slept.
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
        """So long work may still be begun, if the term is not prolonged."""
        return max(0.0, self._ends_at - self._clock())

    def holds(self) -> bool:
        """Whether work may be begun. Ask right before what must not be done by two."""
        return self.seconds_left > 0

    async def is_ours(self) -> bool:
        """The same by the database's word, if that is not fresh: another one may have taken the office meanwhile."""
        if self._confirm and 0 < self.seconds_left < self._sure_seconds:
            await self._confirm(self)
        return self.holds() and self.seconds_left >= self._sure_seconds

    def prolong(self, ends_at: float) -> None:
        self._ends_at = ends_at

    def end(self) -> None:
        """It was lost."""
        self._ends_at = -math.inf


Work = Callable[[OfficeTerm], Awaitable[None]]
"""What the holder does until it is cancelled; a call that has begun it may bring to its end."""


class Election:
    """One process's part in the election for ``role``. ``holder`` names the process and is nobody else's."""

    def __init__(
        self,
        database: Database,
        role: str,
        holder: str,
        *,
        lease_seconds: float = LEASE_SECONDS,
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
        """Stand for the office until cancelled and do ``work`` in each term. Ends as ``work`` does, if that ends."""
        try:
            while await self._serve(await self._elected(), work):
                pass
        finally:
            await self._resign()

    async def _elected(self) -> OfficeTerm:
        """Wait until we are."""
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
            self._predecessor_is_gone = False  # whoever holds the office now has come after us
            return standing
        except asyncio.CancelledError:
            await asyncio.gather(
                candidacy, return_exceptions=True
            )  # an office that we do not know to be ours could not be given up
            raise
        except SwarmError as error:
            _log.warning("The election has to wait", action="elect", role=self._role, error=error.message)
            return Candidacy(term=None, wait_seconds=_AGAIN_SECONDS)

    async def _pause(self, seen: int, seconds: float) -> None:
        """Until somebody resigns, or a while. During a shutdown nobody is woken."""
        if self._database.wakeups.closed:
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            await self._database.wakeups.wait(ELECTIONS, seen, seconds)

    async def _serve(self, term: OfficeTerm, work: Work) -> bool:
        """Work for one term; returns when the work has stopped, False if it ended by itself."""
        working = asyncio.ensure_future(work(term))
        try:
            while not await self._has_ended(working, min(self._renew_seconds, term.seconds_left)):
                if term.holds():
                    await self._renew(term)
                if not term.holds():
                    _log.warning("Out of office.", action="deposed", role=self._role, term=term.number)
                    return True
            return False
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _has_ended(self, working: asyncio.Future[None], within_seconds: float) -> bool:
        """Whether the work ends within a while. Raises what it raised."""
        await asyncio.wait({working}, timeout=within_seconds)
        if working.done():
            await working
        return working.done()

    async def _resign(self) -> None:
        """Whoever stands ready need not wait for the lease to run out."""
        await attempt(self._database.write(elections.resign, self._role, self._holder), "resign", role=self._role)

    async def _renew(self, term: OfficeTerm) -> None:
        """Prolong the term; end it if the database says that it is over. Without an answer it runs out by itself."""
        asked_at = self._clock()
        try:
            async with asyncio.timeout(term.seconds_left):
                ours = await self._database.write(
                    elections.renew, self._role, self._holder, term.number, self._lease_seconds
                )
        except (SwarmError, TimeoutError) as error:
            _log.warning("The term could not be prolonged", action="renew", role=self._role, error=repr(error))
            return
        if ours:
            term.prolong(self._end_if_granted(asked_at))
        else:
            term.end()

    def _end_if_granted(self, asked_at: float) -> float:
        """Counted from before the database was asked, so that the lease in the database always ends later."""
        return asked_at + self._lease_seconds - self._stop_seconds
