"""The operator's view: the timeline of a thread, the deliveries, and the counts of open work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import TypedDict

from swarm.clock import SECOND, slack_ts_to_us
from swarm.domain.errors import NotFound
from swarm.domain.model.deliveries import DeliveryStatus
from swarm.domain.shapes import shape
from swarm.services.operate.explain import StepShape, steps
from swarm.services.outbox.storing import Storing
from swarm.store import agents, deliveries, history
from swarm.store.admin import open_counts
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads, watermarks


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


class Overview:
    """Queries for an operator."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._storing = Storing(database)

    async def timeline(self, thread_id: str) -> ThreadTimeline:
        """Returns the events of a thread. Raises NotFound."""
        return await self._database.read(_timeline, thread_id)

    async def deliveries(self, status: DeliveryStatus | None, limit: int) -> list[Row]:
        """Returns the newest deliveries, of one status or of all."""
        return await self._database.read(deliveries.latest, status, limit)

    async def backlog(self) -> Backlog:
        """Returns counts of open work; their cost does not depend on finished work. Raises Unavailable."""
        return await self._database.read(_backlog)

    async def gap_seconds(self) -> int:
        """Returns the age of the gap being read from Slack; 0 without a gap. Raises Unavailable."""
        return await self._database.read(_gap_seconds)

    async def why_not_stored(self) -> str | None:
        """Returns why nothing can be stored at the moment; None if storing works. Costs a write now and then."""
        return await self._storing.problem()

    async def agent_names(self) -> Mapping[str, str]:
        """Returns the names of the agents that are not revoked, by id."""
        return await self._database.read(_names)


def _timeline(tx: Transaction, thread_id: str) -> ThreadTimeline:
    thread = threads.get(tx, thread_id)
    if thread is None:
        raise NotFound(
            f"There is no thread '{thread_id}'.", hint="Use the thread_id of an inbox_message of GET /inbox."
        )
    names = _names(tx)
    owner = names.get(thread.owner_id) if thread.owner_id else None
    return shape(ThreadTimeline, thread, owner=owner, timeline=steps(history.of_thread(tx, thread_id), names))


def _backlog(tx: Transaction) -> Backlog:
    unread, oldest = open_counts.unread(tx)
    return Backlog(
        inbox_unread=unread,
        oldest_unread_seconds=max(tx.now - oldest, 0) // SECOND if oldest is not None else 0,
        tasks_open=open_counts.tasks_open(tx),
        deliveries_open=deliveries.count_open(tx),
    )


def _gap_seconds(tx: Transaction) -> int:
    since = watermarks.first_gap(tx)
    return max(tx.now - slack_ts_to_us(since), SECOND) // SECOND if since else 0


def _names(tx: Transaction) -> dict[str, str]:
    return {agent.id: agent.name for agent in agents.everyone(tx)}
