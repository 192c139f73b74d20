"""Tasks in the hands of those who give them: create, assign, cancel, redrive, look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from swarm.domain.agents import Agent, Role
from swarm.domain.conduct import Conduct
from swarm.domain.errors import Conflict, Forbidden, LeaseLost, NotFound
from swarm.domain.tasks import ACTIVE_STATUSES, OPEN_STATUSES, TaskStatus, TaskStep
from swarm.services import task_ends
from swarm.services.assignees import check_space, must_wait, place_below, worker
from swarm.services.fencing import NAME_LEASE, check_run, grip_task, lock_task
from swarm.services.handover import hand_over_for
from swarm.services.once import ToolCall, once
from swarm.services.reply import Caller
from swarm.services.roster import read_roster
from swarm.services.task_texts import Brief
from swarm.services.task_view import TaskView, view, views
from swarm.store import leases, task_queries, tasks, threads
from swarm.store.database import Database
from swarm.store.tasks import Task
from swarm.store.transaction import Transaction


class Tasks:
    """Tasks, for agents and operators. ``caller`` is None for an operator, who may do everything."""

    def __init__(self, database: Database, conduct: Conduct) -> None:
        self._database = database
        self._conduct = conduct

    async def create(
        self, caller: Caller | None, brief: Brief, *, agent: str | None = None, parent_id: str | None = None
    ) -> TaskView:
        """A new task, of the thread of the caller's lease or of its parent, for a worker or for nobody yet.

        A worker may only create parts of a task of its own. Raises what `worker` raises, NotFound for a parent or
        dependency that does not exist, Forbidden, and Conflict for cycles and where there are too many tasks.
        """
        return await self._database.write(self._create, caller, brief, agent, parent_id)

    async def assign(self, caller: Caller | None, task_id: str, agent: str) -> TaskView:
        """Give a task that nobody has to a worker. Raises Conflict if somebody has it, and what `worker` raises."""
        return await self._database.write(self._assign, caller, task_id, agent)

    async def cancel(self, caller: Caller | None, task_id: str, reason: str = "") -> TaskView:
        """Cancel a task that is not over, and what it has been divided into. Its run is told at once."""
        return await self._database.write(self._cancel, caller, task_id, reason)

    async def redrive(self, task_id: str) -> TaskView:
        """Hand a dead task out again, its attempts forgotten. Raises NotFound, or Conflict if it is not dead."""
        return await self._database.write(self._redrive, task_id)

    async def get(self, agent: Agent | None, task_id: str) -> TaskView:
        """One task. Raises NotFound, also for one that is none of the agent's business."""
        return await self._database.read(_get, agent, task_id)

    async def latest(self, agent: Agent | None, status: TaskStatus | None, limit: int) -> list[TaskView]:
        """The newest tasks: for leads and operators all, for a worker those that it has or has created."""
        return await self._database.read(_latest, agent, status, limit)

    def _create(
        self, tx: Transaction, caller: Caller | None, brief: Brief, agent: str | None, parent_id: str | None
    ) -> TaskView:
        said = {**asdict(brief), "agent": agent, "parent_id": parent_id}

        def act() -> dict[str, object]:
            if caller:
                check_run(tx, caller.agent, caller.lease_token)
            return {"task_id": self._make(tx, caller, brief, agent, parent_id).id}

        made = once(tx, _call(caller, "create-task", parent_id or "", said), act) if caller else act()
        return _view(tx, str(made["task_id"]))

    def _make(
        self, tx: Transaction, caller: Caller | None, brief: Brief, agent: str | None, parent_id: str | None
    ) -> Task:
        by = caller.agent if caller else None
        parent = _visible(tx, by, parent_id) if parent_id else None
        _check_part(caller, parent)
        thread_id = (_thread_of_lease(tx, caller) if caller else None) or (parent.thread_id if parent else None)
        if thread_id:
            threads.locked(tx, thread_id)
        target = worker(read_roster(tx, self._conduct), agent, by) if agent else None
        depth, ancestors = place_below(tx, parent, target.id if target else None)
        check_space(tx, thread_id, by.id if by else None)
        waits = must_wait(tx, brief.depends_on, ancestors)
        ready = TaskStatus.PENDING if target else TaskStatus.UNASSIGNED
        return tasks.add(
            tx,
            thread_id=thread_id,
            title=brief.title,
            description=brief.description,
            status=TaskStatus.BLOCKED if waits else ready,
            priority=brief.priority,
            agent_id=target.id if target else None,
            created_by=by.id if by else None,
            parent_id=parent.id if parent else None,
            requester=parent.requester if parent else None,
            depth=depth,
            depends_on=brief.depends_on,
            reason=f"created by {by.name if by else 'an operator'}",
        )

    def _assign(self, tx: Transaction, caller: Caller | None, task_id: str, agent: str) -> TaskView:
        def act() -> dict[str, object]:
            task = _to_manage(tx, caller, task_id)
            target = worker(read_roster(tx, self._conduct), agent, caller.agent if caller else None)
            place_below(tx, tasks.get(tx, task.parent_id) if task.parent_id else None, target.id)
            if task.status is TaskStatus.UNASSIGNED:
                self._give(tx, task, target.id, f"assigned to {target.name}")
                tasks.move(tx, TaskStep.ASSIGN, replace(task, agent_id=target.id))
            elif task.status is TaskStatus.BLOCKED and task.agent_id is None:
                self._give(tx, task, target.id, f"assigned to {target.name}")
            else:
                raise Conflict(
                    f"This task is {task.status} and cannot be assigned.",
                    hint="Cancel it and create another one." if task.status in OPEN_STATUSES else None,
                )
            return {}

        self._once(tx, caller, "assign-task", task_id, {"agent": agent}, act)
        return _view(tx, task_id)

    def _give(self, tx: Transaction, task: Task, agent_id: str, reason: str) -> None:
        """A task that came from a message brings its thread along."""
        epoch = None
        if task.thread_id and task.inbox_message_id:
            epoch = hand_over_for(tx, threads.locked(tx, task.thread_id), task, agent_id, reason)
        tasks.give(tx, task, agent_id, epoch, reason)

    def _cancel(self, tx: Transaction, caller: Caller | None, task_id: str, reason: str) -> TaskView:
        who = caller.agent.name if caller else "an operator"
        why = f"by {who}" + (f", {reason.strip()}" if reason.strip() else "")

        def act() -> dict[str, object]:
            task = _own(tx, caller, task_id) or _to_manage(tx, caller, task_id)
            if not task_ends.cancel(tx, task, why, self._conduct, by=caller.agent.id if caller else None):
                raise Conflict(f"This task is {task.status} already.")
            return {}

        self._once(tx, caller, "cancel-task", task_id, {"reason": reason}, act)
        return _view(tx, task_id)

    def _redrive(self, tx: Transaction, task_id: str) -> TaskView:
        task = _to_manage(tx, None, task_id)
        if task.status is not TaskStatus.DEAD or task.agent_id is None:
            raise Conflict(f"This task is {task.status}; only dead ones can be redriven.")
        tasks.move(tx, TaskStep.REDRIVE, task, reason="redriven by an operator")
        self._give(tx, task, task.agent_id, "redriven by an operator")
        return _view(tx, task_id)

    def _once(
        self,
        tx: Transaction,
        caller: Caller | None,
        tool: str,
        task_id: str,
        said: Mapping[str, object],
        act: Callable[[], Mapping[str, object]],
    ) -> None:
        if caller is None:
            act()
            return

        def fenced() -> Mapping[str, object]:
            check_run(tx, caller.agent, caller.lease_token)
            return act()

        once(tx, _call(caller, tool, task_id, said), fenced)


def cancel_by_person(tx: Transaction, task_id: str, channel: str, person: str, conduct: Conduct) -> bool:
    """A person has pressed the button of a task in a channel; False if the task is over, or was never shown there."""
    task = lock_task(tx, task_id)
    thread = threads.get(tx, task.thread_id) if task and task.thread_id else None
    if task is None or thread is None or thread.channel != channel:
        return False
    return task_ends.cancel(tx, task, f"by <@{person}>", conduct, person=person)


def _check_part(caller: Caller | None, parent: Task | None) -> None:
    """A worker divides its own work and gives no other."""
    if caller is None or caller.agent.role is Role.LEAD:
        return
    if parent is None or parent.agent_id != caller.agent.id or parent.status not in ACTIVE_STATUSES:
        raise Forbidden(
            "A worker may only create parts of a task that it is working on.",
            hint="Pass your own task's id as parent_id, or say in your result what else is needed.",
        )
    if caller.lease_token is None and parent.claims > 1:
        raise LeaseLost(
            "The parent task was handed out more than once, so your run must name its lease.", hint=NAME_LEASE
        )


def _thread_of_lease(tx: Transaction, caller: Caller) -> str | None:
    lease = leases.peek(tx, caller.lease_token) if caller.lease_token else None
    return lease.thread_id if lease and lease.agent_id == caller.agent.id else None


def _to_manage(tx: Transaction, caller: Caller | None, task_id: str) -> Task:
    """A task that the caller may assign or cancel, locked after its thread: a lead any, a worker what it created."""
    found = _visible(tx, caller.agent if caller else None, task_id)
    if caller and caller.agent.role is not Role.LEAD and found.created_by != caller.agent.id:
        raise Forbidden(
            "This task is not yours to give or to cancel.", hint="End your own task with task-complete or task-fail."
        )
    task = lock_task(tx, task_id)
    assert task is not None  # it was seen a moment ago
    return task


def _own(tx: Transaction, caller: Caller | None, task_id: str) -> Task | None:
    """The caller's own running task, which it may give up because people wish so; fenced like its other reports."""
    found = tasks.get(tx, task_id)
    if caller is None or found is None or found.agent_id != caller.agent.id or found.created_by == caller.agent.id:
        return None
    return grip_task(tx, caller.agent, task_id, caller.lease_token).task


def _visible(tx: Transaction, agent: Agent | None, task_id: str) -> Task:
    task = tasks.get(tx, task_id)
    if task is None or not (agent is None or agent.role is Role.LEAD or _concerns(tx, task, agent)):
        raise NotFound(f"There is no task '{task_id}'.", hint="list-tasks shows those there are.")
    return task


def _concerns(tx: Transaction, task: Task, agent: Agent) -> bool:
    """Whether it is a worker's business: its own task, one that it created, or one that its own depends on."""
    if agent.id in (task.agent_id, task.created_by):
        return True
    return any(other.agent_id == agent.id for other in task_queries.dependents(tx, task.id))


def _get(tx: Transaction, agent: Agent | None, task_id: str) -> TaskView:
    return view(tx, _visible(tx, agent, task_id))


def _latest(tx: Transaction, agent: Agent | None, status: TaskStatus | None, limit: int) -> list[TaskView]:
    own = agent.id if agent and agent.role is not Role.LEAD else None
    return views(tx, task_queries.latest(tx, limit, status=status, agent_id=own))


def _view(tx: Transaction, task_id: str) -> TaskView:
    task = tasks.get(tx, task_id)
    assert task is not None  # it was read a moment ago
    return view(tx, task)


def _call(caller: Caller, tool: str, about: str, said: Mapping[str, object]) -> ToolCall:
    return ToolCall(
        agent_id=caller.agent.id,
        tool=tool,
        about=about,
        lease_token=caller.lease_token,
        arguments=said,
        request_id=caller.request_id,
    )
