"""Counts open and dead work for metrics, the overview, and what people see. The cost does not grow with finished work.

Work for which nobody has asked is counted for operators, but not for people: it may stay silent
(`swarm.services.speaking.silence`).
"""

from __future__ import annotations

from sqlalchemy import func, select

from swarm.domain.model.deliveries import DeliveryStatus
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.tasks import OPEN_STATUSES, TaskStatus
from swarm.domain.model.threads import Silence
from swarm.store.bridge.statements import Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import threads
from swarm.store.tables.effects import deliveries
from swarm.store.tables.work import inbox_messages, tasks

TASK_STATUSES = (*sorted(OPEN_STATUSES), TaskStatus.DEAD)
"""The counted statuses. Other finished tasks are not counted, because their number only grows."""

DELIVERY_STATUSES = (DeliveryStatus.QUEUED, DeliveryStatus.SENDING, DeliveryStatus.UNKNOWN)

_unread = (
    select(func.count().label("n"), func.min(inbox_messages.c.created_at).label("oldest"))
    .select_from(inbox_messages)
    .where(inbox_messages.c.status == literally(InboxStatus.UNREAD))
)
_UNREAD = Statement(_unread)
_SHOWN_UNREAD = Statement(_unread.where(inbox_messages.c.silent.is_(False)))
_DEAD = Statement(
    select(func.count().label("n"))
    .select_from(inbox_messages)
    .where(inbox_messages.c.status == literally(InboxStatus.DEAD))
)
_TASKS = Statement(
    select(tasks.c.status, func.count().label("n"))
    .where(tasks.c.status.in_([literally(status) for status in TASK_STATUSES]))
    .group_by(tasks.c.status)
)
_SHOWN_OPEN_TASKS = Statement(
    select(func.count().label("n"))
    .select_from(tasks.outerjoin(threads, threads.c.id == tasks.c.thread_id))
    .where(
        tasks.c.status.in_([literally(status) for status in sorted(OPEN_STATUSES)]),
        threads.c.silence.is_distinct_from(literally(Silence.SILENT)),
    )
)
_DELIVERIES = Statement(
    select(deliveries.c.status, func.count().label("n"))
    .where(deliveries.c.due_at.is_not(None))
    .group_by(deliveries.c.status)
)


def unread(tx: Transaction, *, shown_only: bool = False) -> tuple[int, int | None]:
    """Returns the number of unread inbox messages, and when the oldest was stored.

    ``shown_only`` leaves out messages with which nobody has asked.
    """
    row = (_SHOWN_UNREAD if shown_only else _UNREAD).first(tx)
    assert row is not None  # an aggregate always returns a row
    return int(row["n"]), row["oldest"]


def dead(tx: Transaction) -> int:
    """Returns the number of dead inbox messages."""
    row = _DEAD.first(tx)
    assert row is not None
    return int(row["n"])


def tasks_by_status(tx: Transaction) -> dict[str, int]:
    """Returns the number of tasks in each of `TASK_STATUSES`."""
    found = {row["status"]: int(row["n"]) for row in _TASKS.all(tx)}
    return {status.value: found.get(status.value, 0) for status in TASK_STATUSES}


def tasks_open(tx: Transaction) -> int:
    """Returns the number of open tasks."""
    return sum(count for status, count in tasks_by_status(tx).items() if status in OPEN_STATUSES)


def tasks_shown(tx: Transaction) -> int:
    """Returns the number of open tasks, without those for which nobody has asked."""
    row = _SHOWN_OPEN_TASKS.first(tx)
    assert row is not None
    return int(row["n"])


def deliveries_by_status(tx: Transaction) -> dict[str, int]:
    """Returns the number of open deliveries by status."""
    found = {row["status"]: int(row["n"]) for row in _DELIVERIES.all(tx)}
    return {status.value: found.get(status.value, 0) for status in DELIVERY_STATUSES}
