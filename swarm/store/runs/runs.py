"""Runs: their rows, and the steps of their state machine.

Each function checks the current state. If a process was considered dead and another process has ended its run, the
first process changes nothing and gets False. A caller that also locks a thread or a lease locks these first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    Text,
    bindparam,
    func,
    select,
    update,
)

from swarm.clock import new_id
from swarm.domain.answers.calls import Closing
from swarm.domain.errors import NotFound
from swarm.domain.model.runs import (
    RECEIVED,
    RETRYABLE,
    RUN_TRANSITIONS,
    UNFINISHED,
    RunOutcome,
    RunStatus,
    RunStep,
)
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, arrive, literally, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import closing_of, closing_text
from swarm.store.retention import delete_oldest
from swarm.store.tables import runs

RUNS: Final = "runs"
"""The topic that wakes the processes with runs when a person requests a stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One row of `runs`."""

    id: str
    agent_id: str
    thread_id: str | None
    lease_token: str
    trigger_id: str
    inbox_message_ids: tuple[str, ...]  # the inbox messages that the run answers
    task_id: str | None
    conversation_id: str
    agui_run_id: str
    trace_id: str | None  # the id that the agent's service got; None for a polling agent
    requester: str | None  # a Slack user's id
    status: RunStatus
    attempt: int
    stop_requested_at: int | None
    stop_requested_by: str | None
    outcome: RunOutcome | None  # how the run ended; set once the run is closing
    outcome_note: str | None
    final_text: str | None
    final_closing: Closing | None
    retried_at: int | None  # a person's Retry, or a person's wish for another answer
    started_at: int
    ended_at: int | None


_run = row_mapper(
    Run,
    inbox_message_ids=lambda row: tuple(orjson.loads(row["inbox_message_ids"])),
    final_closing=lambda row: closing_of(row["final_closing"]),
)

_t = runs.c
_unfinished = _t.status.in_([literally(status) for status in sorted(UNFINISHED)])
_VALUES: dict[str, BindParameter[object]] = {
    name: bindparam(name)
    for name in (
        "id", "agent_id", "thread_id", "lease_token", "trigger_id", "inbox_message_ids", "task_id", "conversation_id",
        "agui_run_id", "trace_id", "requester", "attempt",
    )
}  # fmt: skip
# The conflict is with the partial unique indexes: another run has the trigger or the lease.
_START = Statement(
    lambda insert: (
        insert(runs)
        .values(
            **_VALUES,
            status=bindparam("status"),
            started_at=bindparam("now"),
            ended_at=bindparam("ended_at", type_=BigInteger),
        )
        .on_conflict_do_nothing()
    )
)
_GET = Statement(select(runs).where(_t.id == bindparam("id")))
_GET_LOCKED = Statement(select(runs).where(_t.id == bindparam("id")).with_for_update(key_share=True))
_IN_HAND = Statement(select(runs).where(_t.trigger_id == bindparam("trigger_id"), _unfinished))
_ENDED_OF_TRIGGER = Statement(
    select(func.count().label("n"))
    .select_from(runs)
    .where(
        _t.thread_id == bindparam("thread_id"),
        _t.trigger_id == bindparam("trigger_id"),
        _t.status.not_in([literally(status) for status in sorted({*UNFINISHED, RunStatus.ABANDONED})]),
    )
)
_OF_LEASE = Statement(select(runs).where(_t.lease_token == bindparam("lease_token"), _unfinished))
_NEWEST_OF_LEASE = Statement(
    select(runs)
    .where(_t.thread_id == bindparam("thread_id"), _t.lease_token == bindparam("lease_token"))
    .order_by(_t.id.desc())
    .limit(1)
)
_UNFINISHED = Statement(select(runs).where(_t.ended_at.is_(None), _unfinished).order_by(_t.id))


def _newest(column: ColumnElement[Any]) -> Select[Any]:
    return select(runs).where(column == bindparam("of")).order_by(_t.id.desc()).limit(AT_MOST_N)


_OF_THREAD = Statement(_newest(_t.thread_id))
_OF_TASK = Statement(_newest(_t.task_id))
_LAST_HEARD = Statement(
    select(runs)
    .where(
        _t.thread_id == bindparam("thread_id"),
        _t.agent_id == bindparam("agent_id"),
        _t.status.in_([literally(status) for status in sorted(RECEIVED)]),
    )
    .order_by(_t.id.desc())
    .limit(1)
)


def _request_stop(column: ColumnElement[Any]) -> Statement:
    """Returns the update that requests a stop. Only a running run can be stopped; after that, only its end remains to
    be shown.
    """
    statement = update(runs).where(
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
    update(runs)
    .where(
        _t.id == bindparam("run_id"),
        _t.status.in_([literally(status) for status in sorted(RETRYABLE)]),
        _t.retried_at.is_(None),
    )
    .values(retried_at=bindparam("now"), retried_by=bindparam("by"))
)
_RERUN = Statement(
    update(runs)
    .where(_t.id == bindparam("run_id"), _t.status == literally(RunStatus.ANSWERED))
    .values(retried_at=bindparam("now"), retried_by=bindparam("by"))
)
_FORGET = delete_oldest(runs, _t.ended_at, _t.ended_at < bindparam("before"))


def _move(step: RunStep) -> Statement:
    """Returns the update for one step. An existing note is kept unless a new one is given."""
    transition = RUN_TRANSITIONS[step]
    note = func.coalesce(bindparam("note", type_=Text), _t.outcome_note)
    values: dict[str, object] = dict(arrive(transition)) | {"outcome_note": note}
    if step is RunStep.CLOSE:
        values |= {name: bindparam(f"new_{name}") for name in ("outcome", "final_text", "final_closing")}
    elif step is RunStep.STREAM:
        values |= {"ended_at": None, "inbox_message_ids": bindparam("new_inbox_message_ids")}
    elif transition.target is not RunStatus.WAITING:
        values["ended_at"] = bindparam("now")
    return Statement(update(runs).where(_t.id == bindparam("run_id"), may(_t.status, transition)).values(**values))


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
    agui_run_id: str,
    trace_id: str | None = None,
    requester: str | None = None,
    task_id: str | None = None,
    inbox_message_ids: Sequence[str] = (),
    run_id: str | None = None,
    is_shown: bool = True,
) -> Run | None:
    """Stores a new run. Returns None if another run for this trigger or lease is unfinished (`in_hand` finds it).

    A run that is not shown has an owner, a log and usage, but no answer to stream, so nothing remains to be ended: its
    row has its final state from the start, and its work is settled by its lease. `stream` shows it later.
    """
    run_id = run_id or new_id()
    started = _START.run(
        tx,
        id=run_id,
        agent_id=agent_id,
        thread_id=thread_id,
        lease_token=lease_token,
        trigger_id=trigger_id,
        inbox_message_ids=orjson.dumps(list(inbox_message_ids)).decode(),
        task_id=task_id,
        conversation_id=conversation_id,
        agui_run_id=agui_run_id,
        trace_id=trace_id,
        requester=requester,
        attempt=attempt,
        status=(RunStatus.RUNNING if is_shown else RunStatus.ANSWERED).value,
        now=tx.now,
        ended_at=None if is_shown else tx.now,
    )
    if not started:
        return None
    history.record(tx, "turn.start", run_id, thread_id=thread_id, agent_id=agent_id)
    return get(tx, run_id)


def get(tx: Transaction, run_id: str) -> Run | None:
    row = _GET.first(tx, id=run_id)
    return _run(row) if row else None


def owned(tx: Transaction, run_id: str, agent_id: str) -> Run:
    """Returns an agent's run, with or without a thread. Raises NotFound for an unknown run and for another agent's."""
    run = get(tx, run_id)
    if run is None or run.agent_id != agent_id:
        raise NotFound(
            f"You have no run '{run_id}'.", hint="Use the turn_id of slack-stream, or the id that POST /runs gave you."
        )
    return run


def locked(tx: Transaction, run_id: str) -> Run | None:
    """Returns a run, locked until the transaction ends, so that its process cannot store its end in the meantime."""
    row = _GET_LOCKED.first(tx, id=run_id)
    return _run(row) if row else None


def in_hand(tx: Transaction, trigger_id: str) -> Run | None:
    """Returns the unfinished run for a trigger. Its process may still be working on it or may have died."""
    row = _IN_HAND.first(tx, trigger_id=trigger_id)
    return _run(row) if row else None


def count_ended(tx: Transaction, thread_id: str, trigger_id: str) -> int:
    """Returns how many runs for a trigger in a thread have ended by themselves or by people, not by a crash."""
    row = _ENDED_OF_TRIGGER.first(tx, thread_id=thread_id, trigger_id=trigger_id)
    return int(row["n"]) if row else 0


def of_lease(tx: Transaction, lease_token: str) -> Run | None:
    """Returns the unfinished run under a lease."""
    row = _OF_LEASE.first(tx, lease_token=lease_token)
    return _run(row) if row else None


def newest_of_lease(tx: Transaction, thread_id: str, lease_token: str) -> Run | None:
    """Returns the newest run under a lease of work in a thread, whatever its state."""
    row = _NEWEST_OF_LEASE.first(tx, thread_id=thread_id, lease_token=lease_token)
    return _run(row) if row else None


def unfinished(tx: Transaction) -> list[Run]:
    """Returns all running and closing runs, oldest first, to be recovered if their process is gone."""
    return [_run(row) for row in _UNFINISHED.all(tx)]


def of_thread(tx: Transaction, thread_id: str, limit: int = 100) -> list[Run]:
    """Returns the runs of a thread, newest first."""
    return [_run(row) for row in _OF_THREAD.all(tx, of=thread_id, n=limit)]


def last_heard(tx: Transaction, thread_id: str, agent_id: str) -> Run | None:
    """Returns the newest run of an agent in a thread that received its input; None if there is none."""
    row = _LAST_HEARD.first(tx, thread_id=thread_id, agent_id=agent_id)
    return _run(row) if row else None


def of_task(tx: Transaction, task_id: str, limit: int = 100) -> list[Run]:
    """Returns the runs on a task, newest first."""
    return [_run(row) for row in _OF_TASK.all(tx, of=task_id, n=limit)]


def closing(
    tx: Transaction, run_id: str, *, text: str, closing: Closing, outcome: RunOutcome, note: str | None = None
) -> bool:
    """Stores the outcome and the last message of a run. Returns False if the run is no longer running.

    After this, any process can complete the run. ``note`` is the reason for a failure.
    """
    return _step(
        tx,
        RunStep.CLOSE,
        run_id,
        note,
        new_outcome=outcome.value,
        new_final_text=text,
        new_final_closing=closing_text(closing),
    )


def end(tx: Transaction, run_id: str, step: RunStep, note: str | None = None) -> bool:
    """Takes any step except CLOSE and STREAM. Returns False if the run's state does not allow it.

    A closing run takes the step that matches its outcome (`RunOutcome.step`).
    """
    return _step(tx, step, run_id, note)


def stream(tx: Transaction, run: Run, inbox_message_ids: Iterable[str]) -> Run:
    """Lets a run that was not shown so far stream its answer, which also answers ``inbox_message_ids``.

    The thread must be locked, and the trigger must have no unfinished run.
    """
    ids = list(dict.fromkeys((*run.inbox_message_ids, *inbox_message_ids)))
    _step(tx, RunStep.STREAM, run.id, None, new_inbox_message_ids=orjson.dumps(ids).decode())
    now = get(tx, run.id)
    assert now is not None  # the row was changed just now
    return now


def request_stop(tx: Transaction, by: str | None, *, run_id: str | None = None, thread_id: str | None = None) -> int:
    """Records a person's request (by Slack user id) to stop a run, or all runs in a thread. Without a person, a rule
    stops them.

    Returns the number of new requests. The processes of the runs are woken and find the requests with `stops_wanted`.
    """
    statement = _REQUEST_STOP if run_id else _REQUEST_STOP_IN_THREAD
    asked = statement.all(tx, of=run_id or thread_id, by=by, now=tx.now)
    for row in asked:
        history.record(
            tx,
            "turn.stop_requested",
            row["id"],
            thread_id=row["thread_id"],
            agent_id=row["agent_id"],
            reason=f"by <@{by}>" if by else None,
        )
    if asked:
        tx.wake(RUNS)
    return len(asked)


def stops_wanted(tx: Transaction) -> list[str]:
    """Returns the ids of running runs that people have asked to stop."""
    return [row["id"] for row in _STOPS_WANTED.all(tx)]


def retry(tx: Transaction, run: Run, by: str) -> bool:
    """Records that a person retries a run. Returns False if it was already retried, or if it neither failed nor was
    stopped.
    """
    marked = bool(_RETRY.run(tx, run_id=run.id, by=by, now=tx.now))
    if marked:
        history.record(tx, "turn.retry", run.id, thread_id=run.thread_id, agent_id=run.agent_id, reason=f"by <@{by}>")
    return marked


def rerun(tx: Transaction, thread_id: str, inbox_message_ids: Iterable[str], by: str) -> None:
    """Records on all answers to these messages that a person wants another one."""
    wanted = set(inbox_message_ids)
    for run in of_thread(tx, thread_id):
        if run.status is RunStatus.ANSWERED and wanted & set(run.inbox_message_ids):
            _RERUN.run(tx, run_id=run.id, by=by, now=tx.now)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` runs that ended before ``before``, with all their rows. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _step(tx: Transaction, step: RunStep, run_id: str, note: str | None, **values: object) -> bool:
    ends = RUN_TRANSITIONS[step].target not in (RunStatus.RUNNING, RunStatus.CLOSING, RunStatus.WAITING)
    params = values | ({"now": tx.now} if ends else {})
    if not _MOVES[step].run(tx, run_id=run_id, note=note, **params):
        return False
    run = get(tx, run_id)
    assert run is not None  # the row was changed just now
    history.record(tx, f"turn.{step}", run_id, thread_id=run.thread_id, agent_id=run.agent_id, reason=note)
    return True
