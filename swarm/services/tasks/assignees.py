"""The rules for assigning a task to an agent, and the limits on open tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swarm.domain.errors import Conflict, Forbidden, NotFound, Unavailable
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.tasks import (
    MAX_OPEN_CHILDREN,
    MAX_OPEN_CREATED,
    MAX_OPEN_PER_THREAD,
    UNSUCCESSFUL,
    TaskStatus,
    check_dependencies,
    check_depth,
    check_room,
)
from swarm.domain.model.threads import Author
from swarm.domain.policy.access import agent_denial
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Candidate, Roster
from swarm.services.ground.idempotency import Caller
from swarm.services.speaking.participants import Standings
from swarm.services.tasks.task_view import find_visible
from swarm.store import agents, task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.tasks import Task
from swarm.store.threads import transcript

MAX_WAITED_FOR: Final = 200
"""The maximum number of tasks that are searched for a cycle through the parents of a new task."""


def worker(roster: Roster, wanted: str, caller: Agent | None) -> Candidate:
    """Returns the online worker with that name or id.

    Raises NotFound for an unknown name, and Conflict for the caller itself, a lead, or an offline worker. The errors
    list the available workers.
    """
    found = roster.by_name(wanted.strip().lower()) or roster.by_id(wanted.strip())
    if found is None:
        raise NotFound(f"There is no agent '{wanted}'.", hint=_possible(roster, caller))
    if caller and found.id == caller.id:
        raise Conflict(
            "You cannot assign a task to yourself.",
            hint=f"Do it yourself, or choose another worker. {_possible(roster, caller)}",
        )
    if found.role is not Role.WORKER:
        raise Conflict(f"{found.name} is a lead; tasks go to workers.", hint=_possible(roster, caller))
    if not found.online:
        raise Conflict(f"{found.name} is offline.", hint=_possible(roster, caller))
    return found


def check_vouched(
    tx: Transaction, operating_policy: OperatingPolicy, target: Candidate, by: Agent | None, task: Task | None
) -> None:
    """Raises Forbidden if work from an enrolled worker would reach tools of the host, as a task of a built-in agent.

    ``by`` is the assigning agent; None for the operator, who may assign any text. ``task`` is the existing task; None
    for a new task.
    """
    if by is None or target.name not in operating_policy.guarded_agents:
        return
    if by.enrolled or (task and task.created_by and agents.is_enrolled(tx, task.created_by)):
        raise Forbidden(
            f"{target.name} has tools of the host, so it accepts no tasks from enrolled workers.",
            hint="Choose another worker, or ask the operator or a lead to create the task.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Askers:
    """The people and bots who asked for a piece of work, with the channel in which they did."""

    authors: tuple[Author, ...] = ()
    channel: str = ""


NOBODY: Final = Askers()


def askers_of_lease(tx: Transaction, caller: Caller | None) -> Askers:
    """Returns who asked for the work under the caller's lease: the authors of its messages, or of its task's."""
    lease = _lease_of(tx, caller)
    task = task_of_lease(tx, caller)
    if task or lease is None:
        return askers_of_task(tx, task) if task else NOBODY
    return askers_of_messages(tx, inbox.members(tx, lease.token))


def task_of_lease(tx: Transaction, caller: Caller | None) -> Task | None:
    """Returns the task under the caller's lease, or the task that its notice is about."""
    lease = _lease_of(tx, caller)
    notice = notices.get(tx, lease.trigger_id) if lease and lease.kind is LeaseKind.NOTICE else None
    task_id = notice.task_id if notice else lease.task_id if lease else None
    return tasks.get(tx, task_id) if task_id else None


def _lease_of(tx: Transaction, caller: Caller | None) -> Lease | None:
    lease = leases.peek(tx, caller.lease_token) if caller and caller.lease_token else None
    return lease if caller and lease and lease.agent_id == caller.agent.id else None


def askers_of_task(tx: Transaction, task: Task) -> Askers:
    """Returns who asked for a task: the authors of the messages that it, or a task above it, was delegated from."""
    for above in [task, *task_queries.ancestors(tx, task.parent_id)]:
        first = inbox.get(tx, above.inbox_message_id) if above.inbox_message_id else None
        if first:
            return askers_of_messages(tx, [first, *inbox.of_task(tx, above.id, InboxStatus.DELEGATED)])
    return NOBODY


def askers_of_messages(tx: Transaction, messages: Sequence[InboxMessage]) -> Askers:
    """Returns the authors of messages of one thread."""
    authors = (transcript.author_of(tx, one.team, one.channel, one.ts) for one in messages)
    unique = {author.id: author for author in authors if author}
    return Askers(authors=tuple(unique.values()), channel=messages[0].channel if messages else "")


class AskerCheck:
    """The check that everybody who asked for work may use the worker that gets it.

    The facts about the askers are looked up before the transaction. Without limits on the worker, nothing is read.
    """

    def __init__(self, database: Database, operating_policy: OperatingPolicy, standings: Standings | None) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._standings = standings

    async def identified(self, worker: str | None, find: Callable[[Transaction], Askers]) -> Askers:
        """Returns the askers that ``find`` finds, with everything that decides whether they may use a worker, as far as
        Slack tells it. The worker is given by name or id.
        """
        if not self._operating_policy.agent_access or worker is None:
            return NOBODY
        name, askers = await self._database.read(self._identified, worker.strip(), find)
        if name is None or self._standings is None:
            return askers
        identifying = (self._standings.ready(author, askers.channel, [name]) for author in askers.authors)
        return replace(askers, authors=tuple(await asyncio.gather(*identifying)))

    def _identified(
        self, tx: Transaction, worker: str, find: Callable[[Transaction], Askers]
    ) -> tuple[str | None, Askers]:
        agent = agents.by_name(tx, worker.lower()) or agents.by_id(tx, worker)
        is_limited = agent is not None and agent.name in self._operating_policy.agent_access
        return (agent.name, find(tx)) if agent and is_limited else (None, NOBODY)

    def check(self, target: Candidate, find: Callable[[], Askers], identified: Askers) -> None:
        """Raises Forbidden if somebody who asked may not use the worker, or Unavailable while Slack does not tell.

        ``find`` finds the askers in the transaction; ``identified`` are those of before.
        """
        limit = self._operating_policy.agent_access.get(target.name)
        if limit is None:
            return
        askers, known = find(), {author.id: author for author in identified.authors}
        if not askers.authors:
            raise Forbidden(
                f"Only some people may use {target.name}, and nobody is known to have asked for this.",
                hint="Delegate the message of the person who asked, or pass the lease_token of your run.",
            )
        denials = {
            author.id: agent_denial(known.get(author.id, author), limit, askers.channel) for author in askers.authors
        }
        refused = sorted(person for person, denied in denials.items() if denied and not denied.missing)
        if refused:
            more = (
                " With only=true, the messages of the others can be delegated." if len(refused) < len(denials) else ""
            )
            raise Forbidden(
                f"{' and '.join(refused)} asked for this and may not use {target.name} here.",
                hint=f"Choose another worker, or do it yourself.{more}",
            )
        if any(denials.values()):
            raise Unavailable(
                f"Slack has not said yet whether everybody who asked may use {target.name}.",
                hint="Try again in a minute.",
            )


def _possible(roster: Roster, caller: Agent | None) -> str:
    there = [
        agent.name
        for agent in roster.agents
        if agent.role is Role.WORKER and agent.online and not (caller and agent.id == caller.id)
    ]
    return f"Workers that are online: {', '.join(there)}." if there else "No worker is online."


def place_below(tx: Transaction, parent: Task | None, worker_id: str | None) -> tuple[int, list[Task]]:
    """Returns the depth of a new task below ``parent``, and its ancestors.

    Raises Conflict if the task would be too deep, if the parent has too many subtasks, or if the worker is waiting for
    the task (a cycle).
    """
    ancestors = task_queries.ancestors(tx, parent.id if parent else None)
    if parent and parent.ended_at is not None:
        raise Conflict(f"The parent task is {parent.status}, so it accepts no more subtasks.")
    if worker_id:
        check_no_return(ancestors, worker_id)
    if parent:
        check_room(task_queries.count_open_children(tx, parent.id), MAX_OPEN_CHILDREN, "below this parent")
    return check_depth(parent.depth if parent else None), ancestors


def check_no_return(ancestors: Collection[Task], worker_id: str) -> None:
    """Raises Conflict if a task would be assigned to an agent that waits for it through one of its ancestors (a
    cycle).
    """
    for above in ancestors:
        if above.agent_id == worker_id and above.ended_at is None:
            raise Conflict(
                f"That agent waits for this task itself, with task {above.id} (“{above.title}”): a cycle.",
                hint="Choose another worker, or complete your own task with what is known.",
            )


def check_space(tx: Transaction, thread_id: str | None, creator_id: str | None) -> None:
    """Raises Conflict if too many tasks are already open."""
    if thread_id:
        check_room(task_queries.count_open_in_thread(tx, thread_id), MAX_OPEN_PER_THREAD, "in this thread")
    elif creator_id:
        check_room(task_queries.count_open_created(tx, creator_id), MAX_OPEN_CREATED, "of yours")


def must_wait(tx: Transaction, depends_on: Sequence[str], ancestors: Sequence[Task], by: Agent | None) -> bool:
    """Whether a task with these dependencies has to wait. ``by`` is the calling agent; None for an operator.

    Raises the errors of `check_dependencies`, NotFound for an unknown or invisible dependency, and Conflict for a
    dependency that will never be completed or that waits for a parent of the task.
    """
    above = [task.id for task in ancestors]
    check_dependencies(depends_on, above)
    waits = False
    for task_id in depends_on:
        other = find_visible(tx, by, task_id)
        if other is None:
            raise NotFound(f"There is no task '{task_id}' to depend on.", hint="list-tasks shows all tasks.")
        if other.status in UNSUCCESSFUL:
            raise Conflict(f"Task {task_id} (“{other.title}”) is {other.status}, so it will never be done.")
        waits = waits or other.status is not TaskStatus.COMPLETED
        _check_no_circle(tx, task_id, above)
    return waits


def _check_no_circle(tx: Transaction, task_id: str, ancestors: Collection[str]) -> None:
    """Raises Conflict if a dependency waits for a parent of the task, directly or indirectly.

    A parent waits for its subtasks.
    """
    waited_for = task_queries.waited_for(tx, task_id, MAX_WAITED_FOR + 1) if ancestors else []
    if len(waited_for) > MAX_WAITED_FOR:
        raise Conflict(
            f"Task {task_id} waits for more than {MAX_WAITED_FOR} other tasks, too many to check whether one of them "
            "is a parent of the new task.",
            hint="Create it without a parent, or when fewer tasks are open.",
        )
    if not set(waited_for).isdisjoint(ancestors):
        raise Conflict(
            f"Task {task_id} waits for a task that this one would be a part of: a cycle.",
            hint="Leave it out of depends_on, or create the task without a parent.",
        )
