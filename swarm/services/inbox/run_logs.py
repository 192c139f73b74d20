"""Runs that agents report: a run whose answer is not streamed, and the logs of runs."""

from __future__ import annotations

from swarm.clock import new_id
from swarm.domain.answers.agents import conversation_id
from swarm.domain.errors import Invalid, LeaseLost
from swarm.domain.model.threads import Thread
from swarm.services.rules.fencing import authorize_message, authorize_task
from swarm.services.rules.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.rules.reply import last_person, with_others
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import runs


class RunLogs:
    """Reported runs, and the logs of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, caller: Caller, *, inbox_message_id: str | None = None, task_id: str | None = None) -> str:
        """Returns the id of the run under the lease of an inbox message or a task.

        If the run streams an answer, this is the answer's ``turn_id``; otherwise a run without an answer is stored,
        once for each lease. Raises the errors of `authorize_message` and `authorize_task`, and LeaseLost if the lease
        has ended.
        """
        if (inbox_message_id is None) == (task_id is None):
            raise Invalid(
                "Name either an inbox message or a task.",
                fields={"inbox_message_id": "its id, or leave it out", "task_id": "its id, or leave it out"},
            )
        if task_id is not None:
            return await self._database.write(_start_for_task, caller, task_id)
        return await self._database.write(_start_for_message, caller, inbox_message_id or "")


def _start_for_message(tx: Transaction, caller: Caller, inbox_message_id: str) -> str:
    got = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
    members = with_others(tx, got)
    return _start(
        tx,
        caller,
        got.lease,
        thread_id=got.thread.id,
        conversation=_conversation(got.thread),
        requester=last_person(tx, members),
        message_ids=[member.id for member in members],
    )


def _start_for_task(tx: Transaction, caller: Caller, task_id: str) -> str:
    got = authorize_task(tx, caller.agent, task_id, caller.lease_token)
    thread = got.thread
    return _start(
        tx,
        caller,
        got.lease,
        thread_id=thread.id if thread else None,
        conversation=_conversation(thread) if thread else conversation_id("", "task", task_id),
        requester=got.task.requester,
        task_id=task_id,
    )


def _conversation(thread: Thread) -> str:
    return conversation_id(thread.team, thread.channel, thread.thread_ts)


def _start(
    tx: Transaction,
    caller: Caller,
    lease: Lease,
    *,
    thread_id: str | None,
    conversation: str,
    requester: str | None,
    task_id: str | None = None,
    message_ids: list[str] | None = None,
) -> str:
    """Returns the id of the run under a locked lease, which is stored if there is none."""
    if not leases.holds(lease, tx.now):
        raise LeaseLost(hint="Only the run that has the work can be started; poll for more work.")
    if streamed := runs.of_lease(tx, lease.token):
        return streamed.id

    def act() -> dict[str, str]:
        run = runs.start(
            tx,
            agent_id=lease.agent_id,
            thread_id=thread_id,
            lease_token=lease.token,
            trigger_id=lease.trigger_id,
            attempt=lease.attempt,
            conversation_id=conversation,
            agui_run_id=new_id(),
            requester=requester,
            task_id=task_id,
            inbox_message_ids=message_ids or (),
            is_shown=False,
        )
        assert run is not None  # a run that is not shown conflicts with no other
        return {"id": run.id}

    once = Caller(agent=caller.agent, lease_token=lease.token)
    return idempotent(tx, IdempotentCall.of(once, "POST /runs", lease.trigger_id, {}), act)["id"]
