"""Where something runs that people can stop: a turn that is not over, or a task that an agent has."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, exists, or_, select

from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.tasks import ACTIVE_STATUSES
from swarm.store.bridge.statements import Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import tasks, threads, turns

_h = threads.c
_runs: Final = or_(
    exists().where(
        turns.c.thread_id == _h.id, turns.c.status.in_([literally(status) for status in sorted(UNFINISHED)])
    ),
    exists().where(
        tasks.c.thread_id == _h.id, tasks.c.status.in_([literally(status) for status in sorted(ACTIVE_STATUSES)])
    ),
)
_IN_THREAD = Statement(select(_h.id).where(_h.id == bindparam("thread_id"), _runs))
_LATEST = Statement(
    select(_h.id)
    .where(_h.team == bindparam("team"), _h.channel == bindparam("channel"), _runs)
    .order_by(_h.active_at.desc(), _h.id.desc())
    .limit(1)
)


def in_thread(tx: Transaction, thread_id: str) -> bool:
    """Whether something runs in a thread."""
    return _IN_THREAD.first(tx, thread_id=thread_id) is not None


def latest_in_channel(tx: Transaction, team: str, channel: str) -> str | None:
    """Of the threads of a channel in which something runs, the one in which something happened last; its id."""
    row = _LATEST.first(tx, team=team, channel=channel)
    return row["id"] if row else None
