"""Tasks: their rows and the steps of their state machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypedDict, Unpack

from sqlalchemy import Integer, Text, bindparam, func, insert, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.inbox import order_key
from swarm.domain.model.tasks import OPEN_STATUSES, TASK_TRANSITIONS, TaskDelay, TaskFacts, TaskStatus, TaskStep
from swarm.store import history
from swarm.store.bridge.statements import (
    Statement,
    arrive,
    every_column,
    first_of_each,
    given,
    may,
    row_mapper,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queues
from swarm.store.tables.work import task_dependencies, tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Task(TaskFacts):
    """One row of `tasks`."""

    lane_id: str
    created_by: str | None  # an agent's id; None: an operator
    depth: int
    epoch: int | None  # epoch of the thread since it was handed over with the task
    claims: int
    order_key: int
    lease_token: str | None
    by_strangers: bool  # requested by strangers, alone or with members
    instruction: str | None  # the text before the task for its agent, after a person's Retry
    interruptions: int = 0  # deaths of the coordinator while it was worked on


task = row_mapper(Task)

_t = tasks.c
_ADD = Statement(
    insert(tasks).values(
        every_column(
            tasks,
            attempts=0,
            interruptions=0,
            claims=0,
            **dict.fromkeys(
                ("delay_reason", "due_at", "lease_token", "progress", "percent", "result", "error", "instruction")
            ),
            created_at=bindparam("now"),
            started_at=None,
            ended_at=None,
        )
    )
)
_DEPEND = Statement(insert(task_dependencies))
_by_id = select(tasks).where(_t.id == bindparam("id"))
_GET = Statement(_by_id)
_GET_LOCKED = Statement(_by_id.with_for_update(key_share=True))
_given_lanes = given(agent_id=Text, lane_id=Text)
_is_first_due = (_t.agent_id == _given_lanes.c.agent_id) & (_t.lane_id == _given_lanes.c.lane_id) & queues.is_task_due
_FIRST_DUE = Statement(first_of_each(_given_lanes, tasks, _is_first_due, _t.order_key))
_CLAIM = Statement(
    update(tasks)
    .where(_t.id == bindparam("task_id"), may(_t.status, TASK_TRANSITIONS[TaskStep.CLAIM]))
    .values(
        **arrive(TASK_TRANSITIONS[TaskStep.CLAIM]),
        claims=_t.claims + 1,
        lease_token=bindparam("token"),
        started_at=func.coalesce(_t.started_at, bindparam("now")),
    )
)
_UNCOUNT_CLAIM = Statement(
    update(tasks).where(_t.id == bindparam("task_id"), _t.claims > 0).values(claims=_t.claims - 1)
)
_PROGRESS = Statement(
    update(tasks)
    .where(_t.id == bindparam("task_id"), _t.status == TaskStatus.IN_PROGRESS.value)
    .values(
        progress=bindparam("new_progress"),
        percent=func.coalesce(bindparam("new_percent", type_=Integer), _t.percent),
    )
)
_DELAY = Statement(
    update(tasks)
    .where(_t.id == bindparam("task_id"), _t.status == TaskStatus.PENDING.value)
    .values(delay_reason=TaskDelay.DELAY.value, due_at=bindparam("new_due_at"))
)
_END_DELAY = Statement(
    update(tasks)
    .where(_t.id == bindparam("task_id"), _t.due_at <= bindparam("now"))
    .values(delay_reason=None, due_at=None)
)
# A blocked task can be assigned as well; it continues to wait for its dependencies.
_GIVE = Statement(
    update(tasks)
    .where(_t.id == bindparam("task_id"), _t.ended_at.is_(None))
    .values(agent_id=bindparam("new_agent_id"), epoch=bindparam("new_epoch"))
)


def _move(step: TaskStep) -> Statement:
    """Returns the update for one step, guarded by the state machine and, for steps of a run, by the lease."""
    transition = TASK_TRANSITIONS[step]
    guard = may(_t.status, transition)
    if transition.sources == {TaskStatus.IN_PROGRESS}:
        guard &= _t.lease_token == bindparam("held_token")
    values: dict[str, object] = dict(arrive(transition)) | {"delay_reason": None, "due_at": None, "offer_ends_at": None}
    if step in (TaskStep.LOSE, TaskStep.BURY):
        values["attempts"] = _t.attempts + 1
    if step is TaskStep.REDRIVE:
        values |= {"attempts": 0, "interruptions": 0, "ended_at": None, "error": None}
        values["instruction"] = bindparam("new_instruction", type_=Text)
    if step is TaskStep.UNASSIGN:
        values |= {"agent_id": None, "attempts": 0, "interruptions": 0}
    if transition.target not in OPEN_STATUSES:
        values["ended_at"] = bindparam("now")
    if step is TaskStep.COMPLETE:
        values["result"] = bindparam("said")
    elif transition.target not in OPEN_STATUSES:
        values["error"] = bindparam("said")
    return Statement(update(tasks).where(_t.id == bindparam("task_id"), guard).values(**values))


_MOVES: dict[TaskStep, Statement] = {step: _move(step) for step in TaskStep if step is not TaskStep.CLAIM}


class TaskColumns(TypedDict, total=False):
    """The columns of a new task that may be omitted."""

    requester: str | None
    parent_id: str | None
    depth: int
    inbox_message_id: str | None
    epoch: int | None
    offer_ends_at: int | None
    by_strangers: bool


_OMITTED: Final = dict.fromkeys(TaskColumns.__annotations__) | {"depth": 1, "by_strangers": False}


def add(
    tx: Transaction,
    *,
    thread_id: str | None,
    title: str,
    description: str,
    status: TaskStatus,
    priority: int,
    agent_id: str | None,
    created_by: str | None,
    depends_on: tuple[str, ...] = (),
    reason: str | None = None,
    **columns: Unpack[TaskColumns],
) -> Task:
    """Adds a task and wakes its agent if the task is due."""
    task_id = new_id()
    given: dict[str, object] = {**_OMITTED, **columns}
    _ADD.run(
        tx,
        id=task_id,
        thread_id=thread_id,
        lane_id=thread_id or task_id,
        title=title,
        description=description,
        status=status,
        priority=priority,
        agent_id=agent_id,
        created_by=created_by,
        order_key=order_key(tx.now, priority),
        now=tx.now,
        **given,
    )
    _DEPEND.many(tx, [{"task_id": task_id, "depends_on_id": other} for other in depends_on])
    history.record(tx, f"task.{status}", task_id, thread_id=thread_id, agent_id=agent_id or created_by, reason=reason)
    added = get(tx, task_id)
    assert added is not None  # inserted above
    _refresh(tx, added)
    return added


def get(tx: Transaction, task_id: str) -> Task | None:
    row = _GET.first(tx, id=task_id)
    return task(row) if row else None


def locked(tx: Transaction, task_id: str) -> Task | None:
    """Returns a task, locked until the transaction ends. Its thread must be locked first."""
    row = _GET_LOCKED.first(tx, id=task_id)
    return task(row) if row else None


def first_due(tx: Transaction, lanes: Iterable[queues.Lane]) -> dict[queues.Lane, Task]:
    """Returns and locks the next due task of each lane that has one. Locked tasks are skipped."""
    rows = [{"agent_id": agent_id, "lane_id": lane_id} for agent_id, lane_id in lanes]
    found = [task(row) for row in _FIRST_DUE.all(tx, given=rows, n=1)] if rows else []
    return {(due.agent_id or "", due.lane_id): due for due in found}


def claim(tx: Transaction, task_: Task, token: str) -> Task | None:
    """Puts a pending task under a lease. Returns None if it is no longer pending."""
    if not _CLAIM.run(tx, task_id=task_.id, token=token, now=tx.now):
        return None
    history.record(tx, "task.claim", task_.id, thread_id=task_.thread_id, agent_id=task_.agent_id)
    started_at = task_.started_at or tx.now
    return replace(
        task_, status=TaskStatus.IN_PROGRESS, claims=task_.claims + 1, lease_token=token, started_at=started_at
    )


def uncount_claim(tx: Transaction, task_id: str) -> None:
    """Undoes the count of a claim that no agent has seen, so that the next claim can count as the first."""
    _UNCOUNT_CLAIM.run(tx, task_id=task_id)


def move(
    tx: Transaction,
    step: TaskStep,
    task_: Task,
    *,
    reason: str | None = None,
    actor: str | None = None,
    said: str | None = None,
    instruction: str | None = None,
) -> bool:
    """Takes a step of the state machine. Returns False if the task's status or its lease does not allow it.

    ``said`` is the result of a completed task, or the error of a failed one. ``actor`` is the acting agent if it is not
    the task's own agent. ``instruction`` is for a redrive: the text before the task for its agent.
    """
    transition = TASK_TRANSITIONS[step]
    params: dict[str, object] = {"task_id": task_.id}
    if transition.sources == {TaskStatus.IN_PROGRESS}:
        params["held_token"] = task_.lease_token
    if transition.target not in OPEN_STATUSES:
        params |= {"now": tx.now, "said": said or reason}
    if step is TaskStep.REDRIVE:
        params["new_instruction"] = instruction
    if not _MOVES[step].run(tx, **params):
        return False
    history.record(
        tx, f"task.{step}", task_.id, thread_id=task_.thread_id, agent_id=actor or task_.agent_id, reason=reason
    )
    _refresh(tx, task_)
    return True


def give(tx: Transaction, task_: Task, agent_id: str, epoch: int | None, reason: str) -> None:
    """Assigns an open task to an agent. ``epoch`` is the thread's epoch since the agent became its owner."""
    _GIVE.run(tx, task_id=task_.id, new_agent_id=agent_id, new_epoch=epoch)
    history.record(tx, "task.given", task_.id, thread_id=task_.thread_id, agent_id=agent_id, reason=reason)
    _refresh(tx, replace(task_, agent_id=agent_id))


def report(tx: Transaction, task_: Task, progress: str, percent: int | None) -> bool:
    """Stores the progress of a running task. Returns False if the task is not running."""
    return bool(_PROGRESS.run(tx, task_id=task_.id, new_progress=progress, new_percent=percent))


def delay(tx: Transaction, task_: Task, seconds: float) -> None:
    """Delays a pending task by ``seconds``."""
    _DELAY.run(tx, task_id=task_.id, new_due_at=tx.now + int(seconds * SECOND))
    _refresh(tx, task_)


def end_delay(tx: Transaction, task_: Task) -> None:
    """Makes a task due after its delay has expired."""
    if _END_DELAY.run(tx, task_id=task_.id, now=tx.now):
        _refresh(tx, task_)


def _refresh(tx: Transaction, task_: Task) -> None:
    if task_.agent_id:
        queues.refresh(tx, task_.agent_id, task_.lane_id)
