"""Runs: their rows, and the steps of their state machine.

Each function checks the present state: a process that was given up, and whose run another process has ended, changes
nothing and gets False. Threads and leases are locked before runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import BindParameter, ColumnElement, Select, Text, bindparam, delete, func, select, update

from swarm.clock import new_id
from swarm.domain.answers.calls import Closing
from swarm.domain.model.runs import (
    HEARD,
    RETRYABLE,
    RUN_TRANSITIONS,
    UNFINISHED,
    InterruptStep,
    RunOutcome,
    RunStatus,
    RunStep,
)
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, arrive, literally, may
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import closing_of, closing_text
from swarm.store.runs import interrupts
from swarm.store.tables import turns

TURNS: Final = "turns"
"""The topic that wakes whoever runs turns: people want one stopped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One row of `turns`."""

    id: str
    agent_id: str
    thread_id: str | None
    lease_token: str
    trigger_id: str
    entry_ids: tuple[str, ...]  # the inbox messages that it answers
    task_id: str | None
    conversation_id: str
    run_id: str
    requester: str | None  # a Slack user's id
    status: RunStatus
    attempt: int
    stop_requested_at: int | None
    stop_requested_by: str | None
    outcome: RunOutcome | None  # how the run ended, known since it is closing
    outcome_note: str | None
    final_text: str | None
    final_closing: Closing | None
    retried_at: int | None
    started_at: int
    ended_at: int | None


_t = turns.c
_unfinished = _t.status.in_([literally(status) for status in sorted(UNFINISHED)])
_VALUES: dict[str, BindParameter[object]] = {
    name: bindparam(name)
    for name in (
        "id", "agent_id", "thread_id", "lease_token", "trigger_id", "entry_ids", "task_id", "conversation_id",
        "run_id", "requester", "attempt",
    )
}  # fmt: skip
# The conflict is with the partial unique indexes: the trigger, or the lease, is in somebody's hands.
_START = Statement(
    lambda insert: (
        insert(turns)
        .values(
            **_VALUES,
            status=RunStatus.RUNNING.value,
            stop_requested_at=None,
            stop_requested_by=None,
            outcome=None,
            outcome_note=None,
            final_text=None,
            final_closing=None,
            retried_at=None,
            retried_by=None,
            started_at=bindparam("now"),
            ended_at=None,
        )
        .on_conflict_do_nothing()
    )
)
_GET = Statement(select(turns).where(_t.id == bindparam("id")))
_GET_LOCKED = Statement(select(turns).where(_t.id == bindparam("id")).with_for_update(key_share=True))
_IN_HAND = Statement(select(turns).where(_t.trigger_id == bindparam("trigger_id"), _unfinished))
_OF_LEASE = Statement(select(turns).where(_t.lease_token == bindparam("lease_token"), _unfinished))
_UNFINISHED = Statement(select(turns).where(_t.ended_at.is_(None), _unfinished).order_by(_t.id))


def _newest(column: ColumnElement[Any]) -> Select[Any]:
    return select(turns).where(column == bindparam("of")).order_by(_t.id.desc()).limit(AT_MOST_N)


_OF_THREAD = Statement(_newest(_t.thread_id))
_OF_TASK = Statement(_newest(_t.task_id))
_LAST_HEARD = Statement(
    select(turns)
    .where(
        _t.thread_id == bindparam("thread_id"),
        _t.agent_id == bindparam("agent_id"),
        _t.status.in_([literally(status) for status in sorted(HEARD)]),
    )
    .order_by(_t.id.desc())
    .limit(1)
)
_WAITING_IN_THREAD = Statement(
    select(turns)
    .where(_t.thread_id == bindparam("thread_id"), _t.status == literally(RunStatus.WAITING))
    .order_by(_t.id)
)


def _request_stop(column: ColumnElement[Any]) -> Statement:
    """Only a running run can be stopped: afterwards only its end is left to show."""
    statement = update(turns).where(
        column == bindparam("of"), _t.status == literally(RunStatus.RUNNING), _t.stop_requested_at.is_(None)
    )
    wanted = statement.values(stop_requested_at=bindparam("now"), stop_requested_by=bindparam("by"))
    return Statement(wanted.returning(_t.id, _t.agent_id, _t.thread_id))


_REQUEST_STOP = _request_stop(_t.id)
_REQUEST_STOP_IN_THREAD = _request_stop(_t.thread_id)
_STOPS_WANTED = Statement(
    select(_t.id)
    .where(
        _t.ended_at.is_(None), _t.status == literally(RunStatus.RUNNING), _t.stop_requested_at.is_not(None)
    )
    .order_by(_t.id)
)  # fmt: skip
_RETRY = Statement(
    update(turns)
    .where(
        _t.id == bindparam("turn_id"),
        _t.status.in_([literally(status) for status in sorted(RETRYABLE)]),
        _t.retried_at.is_(None),
    )
    .values(retried_at=bindparam("now"), retried_by=bindparam("by"))
)
_FORGET = Statement(
    delete(turns).where(
        _t.id.in_(select(_t.id).where(_t.ended_at < bindparam("before")).order_by(_t.ended_at).limit(AT_MOST_N))
    )
)


def _move(step: RunStep) -> Statement:
    """The update of one step. An earlier note stays unless there is a new one."""
    transition = RUN_TRANSITIONS[step]
    note = func.coalesce(bindparam("note", type_=Text), _t.outcome_note)
    values: dict[str, object] = dict(arrive(transition)) | {"outcome_note": note}
    if step is RunStep.CLOSE:
        values |= {name: bindparam(f"new_{name}") for name in ("outcome", "final_text", "final_closing")}
    elif transition.target is not RunStatus.WAITING:
        values["ended_at"] = bindparam("now")
    return Statement(update(turns).where(_t.id == bindparam("turn_id"), may(_t.status, transition)).values(**values))


_MOVES = {step: _move(step) for step in RunStep}


def start(
    tx: Transaction,
    *,
    agent_id: str,
    thread_id: str | None,
    lease_token: str,
    trigger_id: str,
    attempt: int,
    conversation_id: str,
    run_id: str,
    requester: str | None = None,
    task_id: str | None = None,
    entry_ids: Sequence[str] = (),
    turn_id: str | None = None,
) -> Run | None:
    """Starts a run. Returns None if another run for this trigger or lease is unfinished (`in_hand` finds it)."""
    turn_id = turn_id or new_id()
    started = _START.run(
        tx,
        id=turn_id,
        agent_id=agent_id,
        thread_id=thread_id,
        lease_token=lease_token,
        trigger_id=trigger_id,
        entry_ids=orjson.dumps(list(entry_ids)).decode(),
        task_id=task_id,
        conversation_id=conversation_id,
        run_id=run_id,
        requester=requester,
        attempt=attempt,
        now=tx.now,
    )
    if not started:
        return None
    history.record(tx, "turn.start", turn_id, thread_id=thread_id, agent_id=agent_id)
    return get(tx, turn_id)


def get(tx: Transaction, turn_id: str) -> Run | None:
    row = _GET.first(tx, id=turn_id)
    return _turn(row) if row else None


def locked(tx: Transaction, turn_id: str) -> Run | None:
    """Returns a run, locked until the transaction ends: it cannot report its end meanwhile."""
    row = _GET_LOCKED.first(tx, id=turn_id)
    return _turn(row) if row else None


def in_hand(tx: Transaction, trigger_id: str) -> Run | None:
    """Returns the unfinished run for a trigger, of a live or a lost process."""
    row = _IN_HAND.first(tx, trigger_id=trigger_id)
    return _turn(row) if row else None


def of_lease(tx: Transaction, lease_token: str) -> Run | None:
    """Returns the unfinished run under a lease."""
    row = _OF_LEASE.first(tx, lease_token=lease_token)
    return _turn(row) if row else None


def unfinished(tx: Transaction) -> list[Run]:
    """Returns all running and closing runs, oldest first, for recovery after the loss of a process."""
    return [_turn(row) for row in _UNFINISHED.all(tx)]


def of_thread(tx: Transaction, thread_id: str, limit: int = 100) -> list[Run]:
    """Returns the runs of a thread, newest first."""
    return [_turn(row) for row in _OF_THREAD.all(tx, of=thread_id, n=limit)]


def last_heard(tx: Transaction, thread_id: str, agent_id: str) -> Run | None:
    """Returns the newest successful run of an agent in a thread."""
    row = _LAST_HEARD.first(tx, thread_id=thread_id, agent_id=agent_id)
    return _turn(row) if row else None


def of_task(tx: Transaction, task_id: str, limit: int = 100) -> list[Run]:
    """Returns the runs for a task, newest first."""
    return [_turn(row) for row in _OF_TASK.all(tx, of=task_id, n=limit)]


def closing(
    tx: Transaction, turn_id: str, *, text: str, closing: Closing, outcome: RunOutcome, note: str | None = None
) -> bool:
    """Stores the end of a run and the final form of its last message. Returns False if the run does not run.

    From here on any process can finish the run. ``note`` is the reason of a failure.
    """
    return _step(
        tx,
        RunStep.CLOSE,
        turn_id,
        note,
        new_outcome=outcome.value,
        new_final_text=text,
        new_final_closing=closing_text(closing),
    )


def end(tx: Transaction, turn_id: str, step: RunStep, note: str | None = None) -> bool:
    """Takes any step but CLOSE. Returns False if the run's status does not allow it.

    A closing run takes the step of its outcome (`RunOutcome.step`).
    """
    return _step(tx, step, turn_id, note)


def request_stop(tx: Transaction, by: str, *, turn_id: str | None = None, thread_id: str | None = None) -> int:
    """Stores the request of a person (Slack user id) to stop a run, or all runs in a thread. Returns the number of new
    requests.

    Wakes the processes of the runs, which read `stops_wanted`.
    """
    statement = _REQUEST_STOP if turn_id else _REQUEST_STOP_IN_THREAD
    asked = statement.all(tx, of=turn_id or thread_id, by=by, now=tx.now)
    for row in asked:
        history.record(
            tx,
            "turn.stop_requested",
            row["id"],
            thread_id=row["thread_id"],
            agent_id=row["agent_id"],
            reason=f"by <@{by}>",
        )
    if asked:
        tx.wake(TURNS)
    return len(asked)


def stops_wanted(tx: Transaction) -> list[str]:
    """Returns the ids of running runs with a request to stop."""
    return [row["id"] for row in _STOPS_WANTED.all(tx)]


def retry(tx: Transaction, turn: Run, by: str) -> bool:
    """Records a person's retry. Returns False for a run that neither failed nor was stopped, or was retried."""
    marked = bool(_RETRY.run(tx, turn_id=turn.id, by=by, now=tx.now))
    if marked:
        history.record(
            tx, "turn.retry", turn.id, thread_id=turn.thread_id, agent_id=turn.agent_id, reason=f"by <@{by}>"
        )
    return marked


def supersede_waiting(tx: Transaction, thread_id: str) -> list[Run]:
    """Ends the waiting runs of a thread after a message that is no answer to their questions. Returns them."""
    waiting = [_turn(row) for row in _WAITING_IN_THREAD.all(tx, thread_id=thread_id)]
    superseded = [turn for turn in waiting if _step(tx, RunStep.SUPERSEDE, turn.id, None)]
    for turn in superseded:
        interrupts.end_all(tx, turn.id, InterruptStep.SUPERSEDE)
    return superseded


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` runs that ended before the moment, with their rows. Returns their number."""
    return _FORGET.run(tx, before=before, n=limit)


def _step(tx: Transaction, step: RunStep, turn_id: str, note: str | None, **values: object) -> bool:
    ends = RUN_TRANSITIONS[step].target not in (RunStatus.CLOSING, RunStatus.WAITING)
    params = values | ({"now": tx.now} if ends else {})
    if not _MOVES[step].run(tx, turn_id=turn_id, note=note, **params):
        return False
    turn = get(tx, turn_id)
    assert turn is not None  # it was changed just now
    history.record(tx, f"turn.{step}", turn_id, thread_id=turn.thread_id, agent_id=turn.agent_id, reason=note)
    return True


def _turn(row: Row) -> Run:
    return Run(
        id=row["id"],
        agent_id=row["agent_id"],
        thread_id=row["thread_id"],
        lease_token=row["lease_token"],
        trigger_id=row["trigger_id"],
        entry_ids=tuple(orjson.loads(row["entry_ids"])),
        task_id=row["task_id"],
        conversation_id=row["conversation_id"],
        run_id=row["run_id"],
        requester=row["requester"],
        status=RunStatus(row["status"]),
        attempt=row["attempt"],
        stop_requested_at=row["stop_requested_at"],
        stop_requested_by=row["stop_requested_by"],
        outcome=RunOutcome(row["outcome"]) if row["outcome"] else None,
        outcome_note=row["outcome_note"],
        final_text=row["final_text"],
        final_closing=closing_of(row["final_closing"]),
        retried_at=row["retried_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )
