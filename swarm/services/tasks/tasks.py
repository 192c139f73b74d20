"""Task management for leads, operators and creators: create, assign, cancel, redrive, list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from swarm.domain.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound, TooLarge
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.inbox import MESSAGE_PRIORITY
from swarm.domain.model.tasks import (
    ACTIVE_STATUSES,
    MAX_TEXT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    OPEN_STATUSES,
    TaskStatus,
    TaskStep,
    check_depth,
)
from swarm.domain.model.threads import AuthorKind
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.selections import Batch, Selection
from swarm.services.ground import lease_keys
from swarm.services.ground.batches import MOST, act_on_all
from swarm.services.ground.idempotency import Caller, IdempotentCall, digest, idempotent
from swarm.services.speaking.participants import Standings, read_roster
from swarm.services.speaking.system_messages import retire_retry_of_task
from swarm.services.tasks.assignees import (
    NOBODY,
    AskerCheck,
    Askers,
    askers_of_lease,
    askers_of_task,
    check_no_return,
    check_space,
    check_vouched,
    must_wait,
    place_below,
    task_of_lease,
    worker,
)
from swarm.services.tasks.task_view import TaskView, find_visible, view, view_of, views_in_brief
from swarm.services.work import task_ends
from swarm.services.work.fencing import NAME_LEASE, authorize_task, check_run, lock_task
from swarm.services.work.task_threads import take_if_free
from swarm.store import task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript
from swarm_base.characters import strip_invisible

_TITLE_FROM_DESCRIPTION: Final = 80

MOST_TASKS: Final = 100
"""The most tasks in one list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """The creator's wording of a task."""

    title: str
    description: str
    priority: int
    depends_on: tuple[str, ...]


def brief(
    description: str, title: str | None = None, priority: int = MESSAGE_PRIORITY, depends_on: Sequence[str] = ()
) -> Brief:
    """Returns the checked brief. The default title is the description's first line. Raises Invalid or TooLarge."""
    text = strip_invisible(description).strip()
    heading = strip_invisible(title or "").strip() or text.partition("\n")[0][:_TITLE_FROM_DESCRIPTION].strip()
    if not text:
        raise Invalid("Say what is to be done.", fields={"task": "what the worker needs to know"})
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TooLarge(f"The description has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}.")
    if len(heading) > MAX_TITLE_CHARACTERS or "\n" in heading:
        raise Invalid(
            "The title is too long or has more than one line.",
            fields={"title": f"one line of at most {MAX_TITLE_CHARACTERS} characters"},
        )
    if not 0 <= priority <= 100:
        raise Invalid(
            f"The priority {priority} is out of range.", fields={"priority": "0 to 100; 50 is the rank of a message"}
        )
    return Brief(title=heading, description=text, priority=priority, depends_on=tuple(dict.fromkeys(depends_on)))


class Tasks:
    """Task management for agents and operators. ``caller`` is None for an operator, who may do everything.

    A repeated call under a lease, or with a ``request_id``, returns the first result and changes nothing. Other calls
    are executed each time, because identical arguments may be intentional.
    """

    def __init__(
        self, database: Database, operating_policy: OperatingPolicy, standings: Standings | None = None
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._askers = AskerCheck(database, operating_policy, standings)

    async def create(
        self, caller: Caller | None, brief: Brief, *, agent: str | None = None, parent_id: str | None = None
    ) -> TaskView:
        """Creates a task in the thread of the caller's lease or of the parent, for a worker or unassigned.

        A worker may only create subtasks of its own task. Raises the errors of `worker`, NotFound for an unknown parent
        or dependency, Forbidden, and Conflict for cycles, for too many tasks, and for a ``request_id`` already used
        with other arguments.
        """
        askers = await self._askers.identified(agent, partial(_askers, caller=caller, task_id=parent_id))
        return await self._database.write(self._create, caller, brief, agent, parent_id, askers)

    def _create(
        self,
        tx: Transaction,
        caller: Caller | None,
        brief: Brief,
        agent: str | None,
        parent_id: str | None,
        askers: Askers = NOBODY,
    ) -> TaskView:
        said = {**asdict(brief), "agent": agent, "parent_id": parent_id}
        about = parent_id or (caller.work or caller.lease_token if caller else None) or ""

        def act() -> dict[str, object]:
            return {"task_id": self._make(tx, caller, brief, agent, parent_id, askers).id, "words": digest(said)}

        made = _once(tx, caller, "create-task", about, said, act)
        is_repeated = caller is not None and caller.work is not None  # an earlier run of the work was cut short
        if made["words"] != digest(said) and not is_repeated:  # otherwise a task would be lost: models reuse "1"
            raise Conflict(
                f"With the request_id '{caller.request_id if caller else None}' you have created another task there: "
                f"{made['task_id']}.",
                hint="Use a new request_id for a new task.",
            )
        return view_of(tx, made["task_id"])

    async def assign(self, caller: Caller | None, task_id: str, agent: str) -> TaskView:
        """Assigns an unassigned task to a worker. Raises Conflict for an assigned task, and the errors of `worker`."""
        askers = await self._askers.identified(agent, partial(_askers, caller=caller, task_id=task_id))
        return await self._database.write(self._assign, caller, task_id, agent, askers)

    def _assign(self, tx: Transaction, caller: Caller | None, task_id: str, agent: str, askers: Askers) -> TaskView:
        def act() -> dict[str, object]:
            task = _to_manage(tx, caller, task_id)
            by = caller.agent if caller else None
            target = worker(read_roster(tx, self._operating_policy), agent, by)
            check_vouched(tx, self._operating_policy, target, by, task)
            if caller:
                self._askers.check(target, partial(_askers, tx, caller=caller, task_id=task_id), askers)
            check_no_return(task_queries.ancestors(tx, task.parent_id), target.id)
            if not _waits_for_an_agent(task):
                raise Conflict(
                    f"This task is {task.status} and cannot be assigned.",
                    hint="Cancel it and create another one." if task.status in OPEN_STATUSES else None,
                )
            reason = f"assigned to {target.name}"
            tasks.give(tx, task, target.id, _take_thread(tx, task, target.id, reason, self._operating_policy), reason)
            if task.status is TaskStatus.UNASSIGNED:
                tasks.move(tx, TaskStep.ASSIGN, replace(task, agent_id=target.id))
            return {}

        def stands() -> bool:  # not for a task that was unassigned again
            task = tasks.get(tx, task_id)
            return task is None or not _waits_for_an_agent(task)

        _once(tx, caller, "assign-task", task_id, {"agent": agent}, act, stands=stands)
        return view_of(tx, task_id)

    async def cancel(self, caller: Caller | None, task_id: str, reason: str = "") -> TaskView:
        """Cancels an unfinished task and its subtasks. Its run is notified at once."""
        return await self._database.write(self._cancel, caller, task_id, reason)

    def _cancel(self, tx: Transaction, caller: Caller | None, task_id: str, reason: str) -> TaskView:
        who = caller.agent.name if caller else "an operator"
        why = f"by {who}" + (f": {reason.strip()}" if reason.strip() else "")

        def act() -> dict[str, object]:
            task = _own(tx, caller, task_id) or _to_manage(tx, caller, task_id)
            if not task_ends.cancel(tx, task, why, self._operating_policy, by=caller.agent.id if caller else None):
                raise Conflict(f"This task is already {task.status}.")
            return {}

        _once(tx, caller, "cancel-task", task_id, {"reason": reason}, act)
        return view_of(tx, task_id)

    async def redrive(self, task_id: str) -> TaskView:
        """Hands out a dead task again, with its attempts reset.

        Raises NotFound, or Conflict if the task is not dead.
        """
        return await self._database.write(self._redrive, task_id)

    async def redrive_all(self, selection: Selection, *, dry_run: bool) -> Batch:
        """Hands out all dead tasks again that match, or only counts them."""
        found = await self._database.read(task_queries.matching, selection, MOST)
        return await act_on_all(self._database, found, self._redrive, dry_run=dry_run)

    async def get(self, agent: Agent | None, task_id: str) -> TaskView:
        """Returns one task. Raises NotFound for an unknown task or a task that the agent may not see."""
        return await self._database.read(self._get, agent, task_id)

    @staticmethod
    def _get(tx: Transaction, agent: Agent | None, task_id: str) -> TaskView:
        return view(tx, _visible(tx, agent, task_id))

    async def latest(
        self, agent: Agent | None, status: TaskStatus | None, limit: int, *, bound_to: str | None = None
    ) -> list[TaskView]:
        """Returns the newest tasks in brief: all for leads and operators; for a worker, its own tasks and the tasks it
        created. For the key of a lease, those among the newest `MOST_TASKS` that it reaches.
        """
        return await self._database.read(self._latest, agent, status, limit, bound_to)

    @staticmethod
    def _latest(
        tx: Transaction, agent: Agent | None, status: TaskStatus | None, limit: int, bound_to: str | None
    ) -> list[TaskView]:
        own = agent.id if agent and agent.role is not Role.LEAD else None
        most = MOST_TASKS if bound_to else limit
        found = views_in_brief(tx, task_queries.latest(tx, most, status=status, agent_id=own))
        return lease_keys.reached(tx, bound_to, found)[:limit] if bound_to else found

    def _make(
        self,
        tx: Transaction,
        caller: Caller | None,
        brief: Brief,
        agent: str | None,
        parent_id: str | None,
        askers: Askers,
    ) -> Task:
        by = caller.agent if caller else None
        parent = _visible(tx, by, parent_id) if parent_id else None
        thread_id = (_thread_of_lease(tx, caller) if caller else None) or (parent.thread_id if parent else None)
        if thread_id:
            threads.locked(tx, thread_id)
        parent = tasks.locked(tx, parent.id) if parent else None
        _check_part(caller, parent)
        target = worker(read_roster(tx, self._operating_policy), agent, by) if agent else None
        if target:
            check_vouched(tx, self._operating_policy, target, by, None)
        if target and caller:
            self._askers.check(target, partial(_askers, tx, caller=caller, task_id=parent_id), askers)
        depth, ancestors = place_below(tx, parent, target.id if target else None)
        before = task_of_lease(tx, caller)
        if caller and caller.work and before and parent is None:  # a run about the end of a task: the chain is bounded
            depth = check_depth(before.depth)
        check_space(tx, thread_id, by.id if by else None)
        waits = must_wait(tx, brief.depends_on, ancestors, by)
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
            requester=parent.requester if parent else _requester_of_lease(tx, caller, before),
            depth=depth,
            depends_on=brief.depends_on,
            by_strangers=parent.by_strangers if parent else _is_work_of_strangers(tx, caller),
            reason=f"created by {by.name if by else 'an operator'}",
        )

    def _redrive(self, tx: Transaction, task_id: str) -> TaskView:
        task = _to_manage(tx, None, task_id)
        if not redrive_dead(tx, task, "redriven by an operator", self._operating_policy):
            raise Conflict(f"This task is {task.status}; only dead ones can be redriven.")
        if task.thread_id and (thread := threads.get(tx, task.thread_id)):
            retire_retry_of_task(tx, thread, task)
        return view_of(tx, task_id)


def _askers(tx: Transaction, *, caller: Caller | None, task_id: str | None) -> Askers:
    """Returns who asked for a task or, if that is unknown, for the work under the caller's lease."""
    task = tasks.get(tx, task_id) if task_id else None
    asked = askers_of_task(tx, task) if task else NOBODY
    return asked if asked.authors else askers_of_lease(tx, caller)


def _once(
    tx: Transaction,
    caller: Caller | None,
    tool: str,
    about: str,
    said: Mapping[str, object],
    act: Callable[[], Mapping[str, object]],
    *,
    stands: Callable[[], bool] = lambda: True,
) -> Mapping[str, Any]:
    """Returns the result of ``act``, or the earlier result of the same call if it can be recognised."""

    def fenced() -> Mapping[str, object]:
        if caller:
            check_run(tx, caller.agent, caller.lease_token)
        return act()

    if caller is None or (caller.lease_token is None and caller.request_id is None):
        return fenced()
    return idempotent(tx, IdempotentCall.of(caller, tool, about, said), fenced, stands=stands)


def cancel_by_person(
    tx: Transaction, task_id: str, channel: str, person: str, operating_policy: OperatingPolicy
) -> bool:
    """Cancels a task after a press of its button in a channel. Returns False if the task has ended or belongs to
    another channel.
    """
    task = lock_task(tx, task_id)
    thread = threads.get(tx, task.thread_id) if task and task.thread_id else None
    if task is None or thread is None or thread.channel != channel:
        return False
    told = task_ends.is_shown(tx, task)  # its answer ends with who has stopped it
    return task_ends.cancel(tx, task, f"by <@{person}>", operating_policy, person=person, told=told)


def redrive_dead(
    tx: Transaction, task: Task, reason: str, operating_policy: OperatingPolicy, *, instruction: str | None = None
) -> bool:
    """Hands out a locked task again. Returns False if the task is not dead or has no agent.

    ``instruction`` stands before the task for its agent.
    """
    if task.status is not TaskStatus.DEAD or task.agent_id is None:
        return False
    epoch = _take_thread(tx, task, task.agent_id, reason, operating_policy)
    tasks.move(tx, TaskStep.REDRIVE, task, reason=reason, instruction=instruction)
    task_ends.take_marks_back(tx, task, operating_policy)
    tasks.give(tx, task, task.agent_id, epoch, reason)
    return True


def _take_thread(
    tx: Transaction, task: Task, agent_id: str, reason: str, operating_policy: OperatingPolicy
) -> int | None:
    """Takes the thread for a task that was created from a message, if the thread is free. Returns the new epoch."""
    if task.thread_id is None or task.inbox_message_id is None:
        return None
    thread = threads.locked(tx, task.thread_id)
    return take_if_free(tx, thread, task, agent_id, reason, operating_policy)


def _check_part(caller: Caller | None, parent: Task | None) -> None:
    """Raises Forbidden if a worker creates a task that is not a subtask of its own task."""
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


def _waits_for_an_agent(task: Task) -> bool:
    return task.status is TaskStatus.UNASSIGNED or (task.status is TaskStatus.BLOCKED and task.agent_id is None)


def _thread_of_lease(tx: Transaction, caller: Caller) -> str | None:
    lease = leases.peek(tx, caller.lease_token) if caller.lease_token else None
    return lease.thread_id if lease and lease.agent_id == caller.agent.id else None


def _is_work_of_strangers(tx: Transaction, caller: Caller | None) -> bool:
    """Whether a task is created during work that strangers requested, alone or together with members."""
    if task := task_of_lease(tx, caller):
        return task.by_strangers
    inbox_messages = inbox.members(tx, caller.lease_token) if caller and caller.lease_token else []
    return any(transcript.is_by_stranger(transcript.find(tx, one.team, one.channel, one.ts)) for one in inbox_messages)


def _requester_of_lease(tx: Transaction, caller: Caller | None, task: Task | None) -> str | None:
    """Returns the person for whom a task is created: whoever asked last for the work under the caller's lease."""
    if task:
        return task.requester
    people = [author.id for author in askers_of_lease(tx, caller).authors if author.kind is AuthorKind.USER]
    return people[-1] if people else None


def _to_manage(tx: Transaction, caller: Caller | None, task_id: str) -> Task:
    """Returns a task that the caller may assign or cancel, locked after its thread.

    A lead may manage every task, a worker the tasks it created.
    """
    found = _visible(tx, caller.agent if caller else None, task_id)
    if caller and caller.agent.role is not Role.LEAD and found.created_by != caller.agent.id:
        raise Forbidden(
            "You may not assign or cancel this task.", hint="End your own task with task-complete or task-fail."
        )
    task = lock_task(tx, task_id)
    assert task is not None  # just read
    return task


def _own(tx: Transaction, caller: Caller | None, task_id: str) -> Task | None:
    """Returns the caller's own running task, which may be cancelled at people's request; fenced like reports."""
    found = tasks.get(tx, task_id)
    if caller is None or found is None or found.agent_id != caller.agent.id or found.created_by == caller.agent.id:
        return None
    return authorize_task(tx, caller.agent, task_id, caller.lease_token).task


def _visible(tx: Transaction, agent: Agent | None, task_id: str) -> Task:
    task = find_visible(tx, agent, task_id)
    if task is None:
        raise NotFound(f"There is no task '{task_id}'.", hint="list-tasks shows all tasks.")
    return task
