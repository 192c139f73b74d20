"""Delegation: a message becomes a task of a worker, and the thread moves with it, in one transaction."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial

from typing_extensions import TypedDict

from swarm.clock import SECOND
from swarm.domain.errors import Conflict, Invalid, NotFound
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.tasks import OFFER_SECONDS, TaskStatus, TaskStep
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Candidate
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.speaking.participants import Standings, read_roster
from swarm.services.tasks.assignees import (
    NOBODY,
    AskerCheck,
    Askers,
    askers_of_messages,
    check_space,
    check_vouched,
    must_wait,
    place_below,
    worker,
)
from swarm.services.tasks.task_view import TaskView, view_of
from swarm.services.tasks.tasks import Brief
from swarm.services.work import task_ends
from swarm.services.work.fencing import AuthorizedMessage, authorize_message
from swarm.services.work.leases import end_if_resolved
from swarm.services.work.reply import with_others
from swarm.services.work.task_threads import hand_over_for
from swarm.store import agents, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript


class Delegation(TypedDict):
    """The task created from the message, and the name of the thread's new owner."""

    task_id: str
    owner: str | None


class Delegations:
    """Delegations from leads to workers, and the workers' responses to offers."""

    def __init__(
        self, database: Database, operating_policy: OperatingPolicy, standings: Standings | None = None
    ) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._askers = AskerCheck(database, operating_policy, standings)

    async def delegate(
        self,
        caller: Caller,
        inbox_message_id: str,
        agent: str,
        brief: Brief,
        *,
        offer: bool = False,
        only: bool = False,
    ) -> Delegation:
        """Delegates a message to a worker as a task, together with the thread and, unless ``only`` is set, the other
        messages of the lease.

        Everybody who wrote these messages must be allowed to use the worker (`AskerCheck`). With ``offer`` the worker
        is asked first, and the thread moves when the worker accepts. Raises the errors of `worker` and
        `authorize_message`, and Conflict with the alternatives for a second delegation of the same message, for too
        many or too deeply nested tasks, and for cycles.
        """
        askers = await self._askers.identified(agent, partial(_askers, inbox_message_id=inbox_message_id, only=only))
        return await self._database.write(self._delegate, caller, inbox_message_id, agent, brief, offer, only, askers)

    def _delegate(
        self,
        tx: Transaction,
        caller: Caller,
        inbox_message_id: str,
        agent: str,
        brief: Brief,
        offer: bool,
        only: bool,
        askers: Askers = NOBODY,
    ) -> Delegation:
        inbox_message = inbox.get(tx, inbox_message_id)
        said = {"agent": agent, **asdict(brief), "offer": offer, "only": only}
        call = IdempotentCall.of(
            caller, "inbox-delegate", inbox_message_id, said, inbox_message.lease_token if inbox_message else None
        )

        def act() -> Delegation:
            hold = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
            _check_claimed(tx, hold)
            target = worker(read_roster(tx, self._operating_policy), agent, caller.agent)
            check_vouched(tx, self._operating_policy, target, caller.agent, None)
            moved = [hold.inbox_message] if only else with_others(tx, hold)
            self._askers.check(target, partial(askers_of_messages, tx, moved), askers)
            task = self._make(tx, caller, hold, target, brief, offer)
            for member in moved:
                if inbox.move(tx, InboxStep.DELEGATE, member, reason=f"to {target.name}"):
                    inbox.set_task(tx, member.id, task.id)
            self._tell(tx, caller, hold, target, task, offer)
            end_if_resolved(tx, hold.lease)
            owner = threads.get(tx, hold.thread.id)
            return {"task_id": task.id, "owner": agents.names(tx).get(owner.owner_id or "") if owner else None}

        return idempotent(tx, call, act)

    async def accept(self, caller: Caller, task_id: str) -> TaskView:
        """Accepts an offered task: it is due at once, and the worker gets the thread, unless its owner has changed
        since the offer.

        Raises Conflict if the offer has ended.
        """
        return await self._database.write(self._accept, caller, task_id)

    def _accept(self, tx: Transaction, caller: Caller, task_id: str) -> TaskView:
        def act() -> dict[str, object]:
            task = _offered(tx, caller, task_id)
            thread = threads.locked(tx, task.thread_id) if task.thread_id else None
            reason, epoch = f"{caller.agent.name} accepted task {task.id}", None
            if thread and thread.epoch == task.epoch:
                epoch = hand_over_for(tx, thread, task, caller.agent.id, reason, self._operating_policy)
            tasks.move(tx, TaskStep.ACCEPT, task)
            tasks.give(tx, task, caller.agent.id, epoch, reason)
            return {}

        idempotent(tx, _answer(caller, "accept-task", task_id, {}), act)
        return view_of(tx, task_id)

    async def decline(self, caller: Caller, task_id: str, reason: str) -> TaskView:
        """Declines an offered task: its message is unread again for the offering agent."""
        if not reason.strip():
            raise Invalid("Say why.", fields={"reason": "a sentence for the offering agent"})
        return await self._database.write(self._decline, caller, task_id, reason)

    def _decline(self, tx: Transaction, caller: Caller, task_id: str, reason: str) -> TaskView:
        def act() -> dict[str, object]:
            task_ends.decline(tx, _offered(tx, caller, task_id), reason)
            return {}

        idempotent(tx, _answer(caller, "decline-task", task_id, {"reason": reason}), act)
        return view_of(tx, task_id)

    def _make(
        self, tx: Transaction, caller: Caller, hold: AuthorizedMessage, target: Candidate, brief: Brief, offer: bool
    ) -> Task:
        parent = tasks.get(tx, hold.inbox_message.task_id) if hold.inbox_message.task_id else None
        parent = parent if parent and parent.ended_at is None else None
        depth, ancestors = place_below(tx, parent, target.id)
        check_space(tx, hold.thread.id, caller.agent.id)
        waits = must_wait(tx, brief.depends_on, ancestors, caller.agent)
        if waits and offer:
            raise Invalid(
                "A task that waits for other tasks cannot be offered.",
                hint="Assign it (offer=false), or offer it after the other tasks are completed.",
                fields={"offer": "false, while depends_on names tasks that are not completed"},
            )
        message = transcript.find(tx, hold.inbox_message.team, hold.inbox_message.channel, hold.inbox_message.ts)
        return tasks.add(
            tx,
            thread_id=hold.thread.id,
            title=brief.title,
            description=brief.description,
            status=TaskStatus.OFFERED if offer else TaskStatus.BLOCKED if waits else TaskStatus.PENDING,
            priority=brief.priority,
            agent_id=target.id,
            created_by=caller.agent.id,
            requester=message["author_id"] if message else None,
            parent_id=parent.id if parent else None,
            depth=depth,
            inbox_message_id=hold.inbox_message.id,
            epoch=hold.thread.epoch if offer else hold.thread.epoch + 1,
            offer_ends_at=tx.now + OFFER_SECONDS * SECOND if offer else None,
            depends_on=brief.depends_on,
            by_strangers=any(
                transcript.is_by_stranger(transcript.find(tx, one.team, one.channel, one.ts))
                for one in with_others(tx, hold)
            ),
            reason=f"delegated by {caller.agent.name}",
        )

    def _tell(
        self, tx: Transaction, caller: Caller, hold: AuthorizedMessage, target: Candidate, task: Task, offer: bool
    ) -> None:
        """Notifies the worker of an offer; an assigned task instead moves the thread to the worker."""
        if offer:
            notices.add(
                tx,
                NoticeKind.TASK_OFFERED,
                target.id,
                thread_id=hold.thread.id,
                actor=caller.agent.id,
                task_id=task.id,
            )
        else:
            reason = f"{caller.agent.name} delegated to {target.name}"
            hand_over_for(tx, hold.thread, task, target.id, reason, self._operating_policy)
        threads.answered(tx, hold.thread.id)


def _askers(tx: Transaction, *, inbox_message_id: str, only: bool) -> Askers:
    """Returns who wrote a message and, unless ``only`` is set, the other messages of its lease."""
    inbox_message = inbox.get(tx, inbox_message_id)
    if inbox_message is None:
        return NOBODY
    others = inbox.members(tx, inbox_message.lease_token) if inbox_message.lease_token and not only else []
    return askers_of_messages(tx, [inbox_message, *others])


def _check_claimed(tx: Transaction, hold: AuthorizedMessage) -> None:
    if hold.inbox_message.status is InboxStatus.CLAIMED:
        return
    if hold.inbox_message.status is not InboxStatus.DELEGATED or hold.inbox_message.task_id is None:
        raise Conflict(f"This inbox message is already {hold.inbox_message.status}, so it cannot be delegated.")
    task = tasks.get(tx, hold.inbox_message.task_id)
    whose = agents.names(tx).get(task.agent_id or "", "nobody") if task else "nobody"
    raise Conflict(
        f"This inbox message was delegated already: task {hold.inbox_message.task_id} of {whose}"
        f"{f', which is {task.status}' if task else ''}.",
        hint="Cancel that task with cancel-task, or assign additional work with create-task.",
    )


def _offered(tx: Transaction, caller: Caller, task_id: str) -> Task:
    """Returns an offer made to the caller, locked after its thread."""
    found = tasks.get(tx, task_id)
    if found is None or found.agent_id != caller.agent.id:
        raise NotFound(f"You were not offered a task '{task_id}'.", hint="Use the task_id of a task_offered notice.")
    if found.thread_id:
        threads.locked(tx, found.thread_id)
    task = tasks.locked(tx, task_id)
    assert task is not None  # tasks are never removed
    if task.status is not TaskStatus.OFFERED:
        raise Conflict(f"This task is {task.status}; only an offer can be accepted or declined.")
    return task


def _answer(caller: Caller, tool: str, task_id: str, said: dict[str, object]) -> IdempotentCall:
    """Returns the call without a lease: an offer is answered once, under any lease."""
    return IdempotentCall.of(replace(caller, lease_token=None), tool, task_id, said)
