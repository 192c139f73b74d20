"""Read-only views for operators: the figures of the swarm, the timeline of a thread, the deliveries, people's
feedback, and the counts of open work; and whether the database accepts writes.

The figures feed gauges and are cached between reads of the database, as is the outcome of the test write.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, NotRequired, TypeVar

import structlog
from typing_extensions import TypedDict

from swarm.clock import SECOND, slack_ts_to_us
from swarm.domain.errors import NotFound
from swarm.domain.model.agents import Role
from swarm.domain.model.deliveries import DeliveryRow, DeliveryStatus
from swarm.domain.model.feedback import FeedbackCount, FeedbackView, Remark
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.views import time_of
from swarm.services.operate.explain import StepShape, steps
from swarm.services.speaking.participants import read_roster
from swarm.store import agents, deliveries, history
from swarm.store.admin import open_counts, probe
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import feedback, remarks
from swarm.store.threads import threads, watermarks

KEPT_SECONDS: Final = 5.0
"""How long the figures are cached, so that frequent requests need no queries."""

DEAD_KEPT_SECONDS: Final = 5.0
"""How long the counts of dead letters are cached."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures, all read at the same time. All processes on one database read the same figures."""

    inbox_unread: int
    oldest_unread_seconds: float  # 0 without unread messages
    tasks: Mapping[str, int]  # by status, open or dead
    deliveries: Mapping[str, int]  # by status, excluding final ones
    agents: Mapping[tuple[str, bool], int]  # by role and presence
    inbox_dead: int = 0


class FigureReader:
    """The cached figures, each read at most every few seconds."""

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        *,
        kept_seconds: float = KEPT_SECONDS,
        dead_kept_seconds: float = DEAD_KEPT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dead = _Kept(lambda: database.read(open_counts.dead), dead_kept_seconds, monotonic)
        self._rest = _Kept(lambda: database.read(_read_figures, operating_policy), kept_seconds, monotonic)

    async def figures(self) -> Figures:
        """Returns the latest figures. Raises Unavailable without the database."""
        dead = await self._dead.get()
        return replace(await self._rest.get(), inbox_dead=dead)


class _Kept(Generic[T]):
    """A cached value that is read again when it is too old."""

    def __init__(self, read: Callable[[], Awaitable[T]], kept_seconds: float, monotonic: Callable[[], float]) -> None:
        self._read = read
        self._kept_seconds = kept_seconds
        self._monotonic = monotonic
        self._last: tuple[float, T] | None = None

    async def get(self) -> T:
        now = self._monotonic()
        if self._last is None or now - self._last[0] >= self._kept_seconds:
            self._last = now, await self._read()
        return self._last[1]


def _read_figures(tx: Transaction, operating_policy: OperatingPolicy) -> Figures:
    """Reads the current figures, except dead letters."""
    unread, oldest = open_counts.unread(tx)
    agents = Counter({(role.value, online): 0 for role in Role for online in (True, False)})
    agents.update((agent.role.value, agent.online) for agent in read_roster(tx, operating_policy).agents)
    return Figures(
        inbox_unread=unread,
        oldest_unread_seconds=max(tx.now - oldest, 0) / SECOND if oldest is not None else 0.0,
        tasks=open_counts.tasks_by_status(tx),
        deliveries=open_counts.deliveries_by_status(tx),
        agents=agents,
    )


class ThreadTimeline(TypedDict):
    """A thread with its timeline, oldest first."""

    id: str
    team: str
    channel: str
    thread_ts: str
    owner: str | None
    epoch: int
    context: str
    timeline: list[StepShape]


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """Counts of open work."""

    inbox_unread: int
    oldest_unread_seconds: int  # 0 without unread messages
    tasks_open: int
    deliveries_open: int  # not sent yet, or in doubt


class FoundFeedback(TypedDict):
    """All opinions counted, and the newest in full; and the newest remarks, unless an agent is given."""

    counts: list[FeedbackCount]
    feedback: list[FeedbackView]
    remarks: NotRequired[list[Remark]]


class Overview:
    """Queries for an operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._storing = Storing(database)

    async def timeline(self, thread_id: str) -> ThreadTimeline:
        """Returns the events of a thread. Raises NotFound."""
        return await self._database.read(self._timeline, thread_id)

    @staticmethod
    def _timeline(tx: Transaction, thread_id: str) -> ThreadTimeline:
        thread = threads.get(tx, thread_id)
        if thread is None:
            raise NotFound(
                f"There is no thread '{thread_id}'.", hint="Use the thread_id of an inbox_message of GET /inbox."
            )
        names = _names(tx)
        owner = names.get(thread.owner_id) if thread.owner_id else None
        return ThreadTimeline(
            id=thread.id,
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.thread_ts,
            owner=owner,
            epoch=thread.epoch,
            context=thread.context,
            timeline=steps(history.of_thread(tx, thread_id), names),
        )

    async def deliveries(self, status: DeliveryStatus | None, limit: int) -> list[DeliveryRow]:
        """Returns the newest deliveries, of one status or of all."""
        return await self._database.read(deliveries.latest, status, limit)

    async def feedback(self, since: str | None, agent: str | None, limit: int) -> FoundFeedback:
        """Returns people's opinions of answers since a time (ISO 8601), of one agent or of all with the remarks.

        Raises Invalid.
        """
        return await self._database.read(self._feedback, time_of(since), agent, limit)

    @staticmethod
    def _feedback(tx: Transaction, since: int, agent: str | None, limit: int) -> FoundFeedback:
        found = FoundFeedback(
            counts=list(feedback.counts(tx, since, agent)), feedback=list(feedback.latest(tx, since, agent, limit))
        )
        return found if agent else {**found, "remarks": list(remarks.latest(tx, since, limit))}

    async def backlog(self) -> Backlog:
        """Returns counts of open work. The cost does not depend on finished work. Raises Unavailable."""
        return await self._database.read(self._backlog)

    @staticmethod
    def _backlog(tx: Transaction) -> Backlog:
        unread, oldest = open_counts.unread(tx)
        return Backlog(
            inbox_unread=unread,
            oldest_unread_seconds=max(tx.now - oldest, 0) // SECOND if oldest is not None else 0,
            tasks_open=open_counts.tasks_open(tx),
            deliveries_open=deliveries.count_open(tx),
        )

    async def gap_seconds(self) -> int:
        """Returns the age of the gap being read from Slack; 0 without a gap. Raises Unavailable."""
        return await self._database.read(self._gap_seconds)

    @staticmethod
    def _gap_seconds(tx: Transaction) -> int:
        since = watermarks.first_gap(tx)
        return max(tx.now - slack_ts_to_us(since), SECOND) // SECOND if since else 0

    async def why_not_stored(self) -> str | None:
        """Returns the reason why nothing can be stored; None if storing works. Occasionally performs a write."""
        return await self._storing.problem()


def _names(tx: Transaction) -> dict[str, str]:
    return {agent.id: agent.name for agent in agents.everyone(tx)}


_WRITE_KEPT_SECONDS: Final = 5.0
"""How long the outcome of a test write is cached."""

_WRITE_PATIENCE_SECONDS: Final = 5.0
"""How long a caller waits for a test write."""


_log = structlog.get_logger(__name__)


class Storing:
    """The test write: one at a time and at most every ``kept_seconds``."""

    def __init__(
        self,
        database: Database,
        *,
        kept_seconds: float = _WRITE_KEPT_SECONDS,
        patience_seconds: float = _WRITE_PATIENCE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._kept_seconds = kept_seconds
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._problem: str | None = None
        self._probing: asyncio.Task[None] | None = None
        self._next_at = monotonic()

    async def problem(self) -> str | None:
        """Returns the reason why nothing can be stored; None if storing works. Returns within ``patience_seconds``."""
        if self._probing is None and self._monotonic() >= self._next_at:
            self._probing = asyncio.create_task(self._probe())
        if self._probing:
            await asyncio.wait({self._probing}, timeout=self._patience_seconds)
        if self._probing and not self._problem:
            return f"a write takes longer than {self._patience_seconds:g} seconds"
        return self._problem

    async def _probe(self) -> None:
        try:
            await self._database.write(probe.store_something)
            self._problem = None
        except Exception as error:  # noqa: BLE001 - after any failure nothing was stored
            self._problem = probe.reason(error)
            _log.warning("Nothing can be stored.", action="probe", reason=self._problem, error=str(error))
        finally:
            self._next_at = self._monotonic() + self._kept_seconds
            self._probing = None
