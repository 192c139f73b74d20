"""Queries about tasks: assignments, counts, dependencies, and tasks that need attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, Text, bindparam, exists, func, or_, select, union_all

from swarm.domain.model.tasks import ACTIVE_STATUSES, MAX_DEPTH, UNSUCCESSFUL, TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.selections import Selection
from swarm.store.bridge.statements import AT_MOST_N, PATTERN, Statement, given, literally, selected
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox.queues import Lane
from swarm.store.tables import agents, threads
from swarm.store.tables.work import task_dependencies, tasks
from swarm.store.tasks import Task, get, task

_t = tasks.c
_d = task_dependencies.c
_open = _t.ended_at.is_(None)
_active = _t.status.in_([literally(status) for status in sorted(ACTIVE_STATUSES)])

_given_lanes = given(agent_id=Text, lane_id=Text)
_ACTIVE_IN_LANES = Statement(
    select(tasks)
    .join(_given_lanes, (_t.agent_id == _given_lanes.c.agent_id) & (_t.lane_id == _given_lanes.c.lane_id))
    .where(_open, _active)
    .order_by(_t.created_at, _t.id)
)
_HOLDER = Statement(
    select(tasks)
    .where(
        _t.agent_id == bindparam("agent_id"),
        _t.lane_id == bindparam("thread_id"),
        _t.epoch == bindparam("epoch"),
        _t.status != literally(TaskStatus.OFFERED),  # an offer does not own the thread yet
        _open,
    )
    .limit(1)
)
_WAITING_IN_THREAD = Statement(
    select(tasks)
    .where(_t.thread_id == bindparam("thread_id"), _t.status == literally(TaskStatus.WAITING))
    .order_by(_t.agent_id, _t.id)
)


def _count(*conditions: object) -> Statement:
    return Statement(select(func.count().label("n")).select_from(tasks).where(_open, *conditions))  # type: ignore[arg-type]


_OPEN_IN_THREAD = _count(_t.thread_id == bindparam("thread_id"))
_OPEN_CHILDREN = _count(_t.parent_id == bindparam("parent_id"))
_OPEN_CREATED = _count(_t.created_by == bindparam("agent_id"), _t.thread_id.is_(None))
_BY_STATUS_OF = Statement(
    select(_t.status, func.count().label("n")).where(_t.agent_id == bindparam("agent_id"), _open).group_by(_t.status)
)
_BY_STATUS = Statement(select(_t.status, func.count().label("n")).group_by(_t.status))
_DEPENDENCIES = Statement(
    select(tasks).join(task_dependencies, _d.depends_on_id == _t.id).where(_d.task_id == bindparam("task_id"))
    .order_by(_t.created_at, _t.id)
)  # fmt: skip
_DEPENDENTS = Statement(
    select(tasks).join(task_dependencies, _d.task_id == _t.id).where(_d.depends_on_id == bindparam("task_id"))
    .order_by(_t.created_at, _t.id)
)  # fmt: skip
_BATCH = 50
_DEPENDENCIES_OF = Statement(
    select(tasks, _d.task_id.label("dependent_id"))
    .join(task_dependencies, _d.depends_on_id == _t.id)
    .where(_d.task_id.in_([bindparam(f"task_{number}") for number in range(_BATCH)]))
    .order_by(_t.created_at, _t.id)
)


def _waited_for() -> Select[tuple[str]]:
    """Returns all uncompleted tasks that a task transitively waits for, including the task itself."""
    first = select(_t.id.label("id")).where(_t.id == bindparam("task_id"), _t.status != TaskStatus.COMPLETED.value)
    waited_for = first.cte("waited_for", recursive=True)
    further = (
        select(_t.id)
        .join(task_dependencies, _d.depends_on_id == _t.id)
        .join(waited_for, waited_for.c.id == _d.task_id)
        .where(_t.status != TaskStatus.COMPLETED.value)
    )
    waited_for = waited_for.union(further)
    return select(waited_for.c.id).limit(AT_MOST_N)


_WAITED_FOR = Statement(_waited_for())


def _newest(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Returns the newest tasks. Ids are ordered by time, so an index scan reads only the returned rows."""
    return select(tasks).where(*conditions).order_by(_t.id.desc()).limit(AT_MOST_N)


def _newest_of_agent(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Returns the newest tasks assigned to an agent and the newest created by it, merged by id."""
    whose = (_t.agent_id == bindparam("agent_id"), _t.created_by == bindparam("agent_id"))
    each = [select(_newest(of_agent, *conditions).with_only_columns(_t.id).subquery()) for of_agent in whose]
    return _newest(_t.id.in_(union_all(*each)))


_of_status = _t.status == bindparam("status")
_NEWEST = {
    (False, False): Statement(_newest()),
    (True, False): Statement(_newest(_of_status)),
    (False, True): Statement(_newest_of_agent()),
    (True, True): Statement(_newest_of_agent(_of_status)),
}
_agent_name = select(agents.c.name).where(agents.c.id == _t.agent_id).scalar_subquery()
_channel = select(threads.c.channel).where(threads.c.id == _t.thread_id).scalar_subquery()
_MATCHING = Statement(
    select(_t.id)
    .where(*selected(tasks, _t.error.like(PATTERN, escape="!"), agent=_agent_name, channel=_channel))
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_other = tasks.alias("other")
_unfinished = exists().where(
    _d.task_id == _t.id, _other.c.id == _d.depends_on_id, _other.c.status != TaskStatus.COMPLETED.value
)
_hopeless = exists().where(
    _d.task_id == _t.id,
    _other.c.id == _d.depends_on_id,
    _other.c.status.in_([literally(status) for status in sorted(UNSUCCESSFUL)]),
)
_SETTLED = Statement(
    select(_t.id)
    .where(_t.status == literally(TaskStatus.BLOCKED), or_(~_unfinished, _hopeless))
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_ORPHANS = Statement(
    select(_t.id)
    .join(_other, _other.c.id == _t.parent_id)
    .where(_open, _other.c.status == TaskStatus.CANCELLED.value)
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_DELAYED = Statement(
    select(_t.id).where(_t.due_at.is_not(None), _t.due_at <= bindparam("now")).order_by(_t.id).limit(AT_MOST_N)
)
_OFFERS_OVER = Statement(
    select(_t.id)
    .where(_t.offer_ends_at.is_not(None), _t.offer_ends_at <= bindparam("now"))
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_ABANDONED = Statement(
    select(_t.id)
    .join(agents, agents.c.id == _t.agent_id)
    .where(
        _open,
        _t.status.in_([literally(status) for status in (*sorted(ACTIVE_STATUSES), TaskStatus.OFFERED)]),
        or_(
            agents.c.revoked_at.is_not(None),
            func.coalesce(agents.c.last_seen_at, 0) < bindparam("seen_before", type_=BigInteger),
        ),
    )
    .order_by(_t.id)
    .limit(AT_MOST_N)
)


def active_in_lanes(tx: Transaction, lanes: Iterable[Lane]) -> dict[Lane, Task]:
    """Returns the newest active task of each lane."""
    rows = [{"agent_id": agent_id, "lane_id": lane_id} for agent_id, lane_id in lanes]
    found = _ACTIVE_IN_LANES.all(tx, given=rows) if rows else ()
    return {(row["agent_id"], row["lane_id"]): task(row) for row in found}


def owning_task(tx: Transaction, thread: Thread) -> Task | None:
    """Returns the open task that made a thread's current owner its owner, if there is one."""
    row = _HOLDER.first(tx, agent_id=thread.owner_id, thread_id=thread.id, epoch=thread.epoch)
    return task(row) if row else None


def waiting_in_thread(tx: Transaction, thread_id: str) -> list[Task]:
    """Returns the tasks of a thread that wait for people's answers, ordered by agent, the order in which queue heads
    are locked.
    """
    return [task(row) for row in _WAITING_IN_THREAD.all(tx, thread_id=thread_id)]


def count_open_in_thread(tx: Transaction, thread_id: str) -> int:
    return _counted(tx, _OPEN_IN_THREAD, thread_id=thread_id)


def count_open_children(tx: Transaction, parent_id: str) -> int:
    return _counted(tx, _OPEN_CHILDREN, parent_id=parent_id)


def count_open_created(tx: Transaction, agent_id: str) -> int:
    """Returns the number of open tasks without a thread created by an agent."""
    return _counted(tx, _OPEN_CREATED, agent_id=agent_id)


def count_by_status(tx: Transaction, agent_id: str | None = None) -> Mapping[str, int]:
    """Returns the number of tasks by status: of all tasks, or of one agent's open tasks."""
    rows = _BY_STATUS_OF.all(tx, agent_id=agent_id) if agent_id else _BY_STATUS.all(tx)
    return {row["status"]: int(row["n"]) for row in rows}


def dependencies(tx: Transaction, task_id: str) -> list[Task]:
    """Returns the dependencies of a task, oldest first."""
    return [task(row) for row in _DEPENDENCIES.all(tx, task_id=task_id)]


def dependencies_of(tx: Transaction, task_ids: Sequence[str]) -> dict[str, list[Task]]:
    """Returns the dependencies of each of these tasks, oldest first."""
    found: dict[str, list[Task]] = {task_id: [] for task_id in task_ids}
    for start in range(0, len(task_ids), _BATCH):
        batch = task_ids[start : start + _BATCH]
        padded = [*batch, *[batch[0]] * (_BATCH - len(batch))]
        for row in _DEPENDENCIES_OF.all(tx, **{f"task_{number}": task_id for number, task_id in enumerate(padded)}):
            found[row["dependent_id"]].append(task(row))
    return found


def waited_for(tx: Transaction, task_id: str, limit: int) -> list[str]:
    """Returns up to ``limit`` ids of uncompleted tasks: the task and its direct and indirect dependencies."""
    return [row["id"] for row in _WAITED_FOR.all(tx, task_id=task_id, n=limit)]


def dependents(tx: Transaction, task_id: str) -> list[Task]:
    """Returns the tasks that depend on a task, oldest first."""
    return [task(row) for row in _DEPENDENTS.all(tx, task_id=task_id)]


def ancestors(tx: Transaction, parent_id: str | None) -> list[Task]:
    """Returns a task, its parent and further ancestors, up to the maximum depth."""
    found: list[Task] = []
    while parent_id and len(found) <= MAX_DEPTH:
        parent = get(tx, parent_id)
        if parent is None:
            break
        found.append(parent)
        parent_id = parent.parent_id
    return found


def matching(tx: Transaction, selection: Selection, limit: int) -> list[str]:
    """Returns the ids of the tasks of a selection, oldest first. The reason is their error."""
    return [row["id"] for row in _MATCHING.all(tx, **selection.params, n=limit)]


def latest(tx: Transaction, limit: int, *, status: TaskStatus | None = None, agent_id: str | None = None) -> list[Task]:
    """Returns the newest tasks: all tasks, tasks with one status, or tasks assigned to or created by an agent."""
    params: dict[str, object] = {"n": limit}
    if status:
        params["status"] = status.value
    if agent_id:
        params["agent_id"] = agent_id
    return [task(row) for row in _NEWEST[bool(status), bool(agent_id)].all(tx, **params)]


def settled(tx: Transaction, limit: int) -> list[str]:
    """Returns blocked tasks whose dependencies are all completed, or which have one that can never be completed."""
    return _ids(tx, _SETTLED, n=limit)


def orphans(tx: Transaction, limit: int) -> list[str]:
    """Returns open tasks whose parent was cancelled."""
    return _ids(tx, _ORPHANS, n=limit)


def delayed(tx: Transaction, limit: int) -> list[str]:
    """Returns tasks whose delay is over."""
    return _ids(tx, _DELAYED, now=tx.now, n=limit)


def offers_over(tx: Transaction, limit: int) -> list[str]:
    """Returns offers whose deadline for an answer has passed."""
    return _ids(tx, _OFFERS_OVER, now=tx.now, n=limit)


def abandoned(tx: Transaction, seen_before: int, limit: int) -> list[str]:
    """Returns tasks of agents that are revoked, or offline since ``seen_before``."""
    return _ids(tx, _ABANDONED, seen_before=seen_before, n=limit)


def _ids(tx: Transaction, statement: Statement, **params: object) -> list[str]:
    return [row["id"] for row in statement.all(tx, **params)]


def _counted(tx: Transaction, statement: Statement, **params: object) -> int:
    row = statement.first(tx, **params)
    return int(row["n"]) if row else 0


_OPEN_PARTS = Statement(select(tasks).where(_t.parent_id == bindparam("parent_id"), _open).order_by(_t.id))


def open_parts(tx: Transaction, parent_id: str) -> list[Task]:
    """Returns the open subtasks of a task without locking them."""
    return [task(row) for row in _OPEN_PARTS.all(tx, parent_id=parent_id)]


_OPEN_OF_THREAD = Statement(select(tasks).where(_t.thread_id == bindparam("thread_id"), _open).order_by(_t.id))


def open_in_thread(tx: Transaction, thread_id: str) -> list[Task]:
    """Returns the open tasks of a thread, oldest first, without locking them."""
    return [task(row) for row in _OPEN_OF_THREAD.all(tx, thread_id=thread_id)]
