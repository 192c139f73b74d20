"""The Retry button of a failed answer, once it is of no use: the work is handed out again, or cannot be any more.

The button goes by a delivery of its own, so it goes also when it was pressed a moment before a restart. Whoever presses
a button that is still there makes it go again: twice is the same as once.
"""

from __future__ import annotations

from typing import Final

from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import Thread
from swarm.store import deliveries
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import below_of
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task

RETRIED_BY: Final = "🔁 Run again for <@{person}>."
RETRIED: Final = "🔁 Run again."
REDRIVEN: Final = "🔁 Handed out again by an operator."
IMPOSSIBLE: Final = "This cannot be run again."


def pressed(tx: Transaction, thread: Thread, message_ts: str, text: str) -> None:
    """The button of that message has been pressed: ``text`` takes its place, mrkdwn."""
    _replace(tx, thread, text, target_ts=message_ts)


def of_message(tx: Transaction, thread: Thread, entry: InboxMessage) -> None:
    """An operator has handed out a message again: the buttons below answers to it go."""
    for turn in runs.of_thread(tx, thread.id):
        if entry.id in turn.entry_ids:
            _redriven(tx, thread, turn)


def of_task(tx: Transaction, thread: Thread, task: Task) -> None:
    """The same of a task."""
    for turn in runs.of_task(tx, task.id):
        _redriven(tx, thread, turn)


def _redriven(tx: Transaction, thread: Thread, turn: Run) -> None:
    if turn.status is not RunStatus.FAILED or turn.retried_at is not None:
        return
    posted = _posted_with_button(tx, turn)
    page = next((page for page in reversed(run_pages.of_turn(tx, turn.id)) if page.ts), None)
    if posted:
        _replace(tx, thread, REDRIVEN, updates_id=posted)
    elif page:
        _replace(tx, thread, REDRIVEN, target_ts=page.ts)


def _posted_with_button(tx: Transaction, turn: Run) -> str | None:
    """The post below an answer that has its button, if that does not stand below the answer's last page."""
    about = deliveries.of_task(tx, turn.task_id) if turn.task_id else []
    about += deliveries.of_entry(tx, turn.entry_ids[0]) if turn.entry_ids else []
    for row in reversed(about):
        below = below_of(row["closing"])
        if below and below.closing.retry and below.place.turn_id == turn.id:
            return str(row["id"])
    return None


def _replace(
    tx: Transaction, thread: Thread, text: str, *, target_ts: str | None = None, updates_id: str | None = None
) -> None:
    deliveries.add(tx, DeliveryKind.UPDATE, thread, text=text, target_ts=target_ts, updates_id=updates_id, removes=True)
