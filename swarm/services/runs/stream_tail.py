"""The answer of a polling agent as the events of a run: what it tells the database, read as it comes.

The database is asked when somebody has added a piece, and once a second. What was told before the work was lost is
still shown; then the events end as honestly as those of an agent whose connection broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.domain.answers.events import AgentEvent, Broken, Finished
from swarm.domain.answers.pieces import Closed, event_of
from swarm.domain.errors import Unavailable
from swarm.domain.model.inbox import MAX_ATTEMPTS, InboxStatus
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.tasks import MAX_ATTEMPTS as MAX_TASK_ATTEMPTS
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules.leases import SILENT
from swarm.services.runs.stream_ends import has_lease
from swarm.services.runs.stream_open import is_withdrawn
from swarm.store import tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_events, runs
from swarm.store.runs.run_events import RunEvent
from swarm.store.runs.runs import Run

LOOK_SECONDS: Final = 1.0

_WHY_LOST: Final = {
    LeaseEnd.RELEASED: "the agent gave the work back",
    LeaseEnd.FAILED: "the agent reported a failure",
    LeaseEnd.REVOKED: "the agent was removed",
}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopped:
    """Nobody wants more of the answer; ``by`` is a user id, if it was a person who said so."""

    by: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TailBatch:
    """What is new, and how it ends if nothing more can come."""

    events: tuple[RunEvent, ...]
    end: AgentEvent | Stopped | None


class Tail:
    """Reads what one polling agent tells. ``stop`` is called, once, when nobody wants more of it."""

    def __init__(
        self, database: Database, turn_id: str, stop: Callable[[str | None], None], conduct: OperatingPolicy
    ) -> None:
        self._database = database
        self._conduct = conduct
        self._turn_id = turn_id
        self._stop = stop
        self._seq = 0

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Everything from the first piece on. After a stop there comes nothing more, and no end either."""
        while True:
            seen = self._database.wakeups.generation(run_events.topic_of(self._turn_id))
            look = await self._look()
            for event in look.events:
                self._seq = event.seq
                shown = event_of(event.piece)
                if shown is not None:
                    yield shown
                if isinstance(event.piece, Closed):
                    return
            if isinstance(look.end, Stopped):
                self._stop(look.end.by)
                await asyncio.Event().wait()  # whoever was told to stop ends this
            elif look.end is not None and len(look.events) < run_events.AT_ONCE:
                yield look.end
                return
            if not look.events:
                await self._wait(seen)

    async def _look(self) -> TailBatch:
        while True:
            try:
                return await self._database.read(look_at, self._turn_id, self._seq, self._conduct)
            except Unavailable as error:
                _log.warning("a stream cannot be read yet", action="stream_read", error=error.message)
                await asyncio.sleep(LOOK_SECONDS)

    async def _wait(self, seen: int) -> None:
        wakeups = self._database.wakeups
        if wakeups.closed:
            await asyncio.sleep(LOOK_SECONDS)
        else:
            await wakeups.wait(run_events.topic_of(self._turn_id), seen, LOOK_SECONDS)


def look_at(tx: Transaction, turn_id: str, after: int, conduct: OperatingPolicy) -> TailBatch:
    """What is behind number ``after``. The lease is looked at first: what was told before it was lost is all there."""
    end = _end(tx, turn_id, conduct)
    return TailBatch(events=tuple(run_events.after(tx, turn_id, after)), end=end)


def _end(tx: Transaction, turn_id: str, conduct: OperatingPolicy) -> AgentEvent | Stopped | None:
    turn = runs.get(tx, turn_id)
    assert turn is not None  # turns are dropped long after their end
    lease = leases.peek(tx, turn.lease_token)
    if turn.stop_requested_at is not None:
        return Stopped(by=turn.stop_requested_by)
    if is_withdrawn(tx, turn) or (lease and lease.ended_as is LeaseEnd.CANCELLED):
        return Stopped(by=None)
    return None if has_lease(tx, lease, conduct) else _lost(tx, turn, lease)


def _lost(tx: Transaction, turn: Run, lease: Lease | None) -> AgentEvent:
    """The agent has settled its work in another way and left the answer open, or the work is not its own any more."""
    how = lease.ended_as if lease else None
    if how in (LeaseEnd.RESOLVED, LeaseEnd.FINISHED):
        return Finished(elsewhere=True)
    return Broken(reason=_WHY_LOST.get(how, SILENT) if how else SILENT, comes_again=_comes_again(tx, turn))


def _comes_again(tx: Transaction, turn: Run) -> bool:
    """Whether the work is handed out again by itself, now or when the sweep finds that its lease has expired."""
    task = tasks.get(tx, turn.task_id) if turn.task_id else None
    if task:
        has_more = task.status is TaskStatus.IN_PROGRESS and task.attempts + 1 < MAX_TASK_ATTEMPTS
        return has_more or task.status is TaskStatus.PENDING
    entries = [entry for entry_id in turn.entry_ids if (entry := inbox.get(tx, entry_id))]
    return any(
        entry.status is InboxStatus.UNREAD
        or (entry.status is InboxStatus.CLAIMED and entry.attempts + 1 < MAX_ATTEMPTS)
        for entry in entries
    )
