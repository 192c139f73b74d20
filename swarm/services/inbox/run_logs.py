"""Runs that agents report: a run whose answer is not streamed, and the logs of runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Annotated, Final

from swarm.clock import new_id
from swarm.domain.answers.agents import conversation_id
from swarm.domain.errors import Conflict, Invalid, LeaseLost, NotFound, TooLarge
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.runs import MAX_LOG_CHUNK_BYTES, MAX_LOG_PIECES, MOST_LOG_BYTES
from swarm.domain.model.threads import Thread
from swarm.domain.views import JsonView, Key, Time
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.work.fencing import authorize_message, authorize_task, may_reply_about
from swarm.services.work.leases import claimed_members
from swarm.services.work.reply import last_person, with_others
from swarm.store import agents, deliveries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_logs, runs
from swarm.store.runs.run_logs import LogPiece
from swarm.store.runs.runs import Run
from swarm.store.threads import threads, transcript
from swarm_base.characters import without_escapes
from swarm_base.secrets import without_secrets

FULL_NOTE: Final = "\n[The log ends here: it has reached the limit for one run.]\n"

_PIECES_AT_ONCE: Final = 16
_LOOK_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPart(JsonView):
    """A part of a log; offsets count the bytes that were sent."""

    contract_name = "LogShape"

    text: str
    start: int  # above the wanted offset if what was before is no longer kept
    next: int
    is_over: Annotated[bool, Key("over")]  # the run has ended, and this is the rest


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRun(JsonView):
    """One run on a task."""

    contract_name = "TaskRun"

    id: str
    agent: str
    attempt: int
    started_at: Time
    log_bytes: int  # 0 if it has no log


class RunLogs:
    """Reported runs, and the logs of runs."""

    def __init__(self, database: Database, cap_bytes: int = MOST_LOG_BYTES) -> None:
        self._database = database
        self.cap_bytes = cap_bytes

    async def start(self, caller: Caller, *, inbox_message_id: str | None = None, task_id: str | None = None) -> str:
        """Returns the id of the run under the lease of an inbox message, of a task, or of a notice about a task that
        the agent has given.

        If the run streams an answer, or has streamed one, this is the (last) answer's ``turn_id``; otherwise a run
        without an answer is stored, once for each lease. Raises the errors of `authorize_message` and
        `authorize_task`, and LeaseLost if the lease has ended.
        """
        if (inbox_message_id is None) == (task_id is None):
            raise Invalid(
                "Name either an inbox message or a task.",
                fields={"inbox_message_id": "its id, or leave it out", "task_id": "its id, or leave it out"},
            )
        if task_id is not None:
            return await self._database.write(self._start_for_task, caller, task_id)
        return await self._database.write(self._start_for_message, caller, inbox_message_id or "")

    @staticmethod
    def _start_for_task(tx: Transaction, caller: Caller, task_id: str) -> str:
        """A run about a task that its agent has given is a run of its own, not one on the task."""
        task, token = tasks.get(tx, task_id), caller.lease_token
        is_news = task is not None and token is not None and may_reply_about(tx, caller.agent, task, token)
        lease = leases.get(tx, token or "", caller.agent.id) if is_news else None
        if lease is None or task is None:
            got = authorize_task(tx, caller.agent, task_id, token)
            lease, task = got.lease, got.task
        thread = threads.get(tx, task.thread_id) if task.thread_id else None
        return _start(
            tx,
            caller,
            lease,
            thread_id=task.thread_id,
            conversation=_conversation(thread) if thread else conversation_id("", "task", task_id),
            requester=task.requester,
            task_id=None if is_news else task_id,
        )

    @staticmethod
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

    async def answers(self, caller: Caller) -> int:
        """Returns how often the agent has answered under a lease without a stream: posts of slack-reply, and
        dismissals. 0 while a message of the lease is open.
        """
        return await self._database.read(self._answers, caller)

    @staticmethod
    def _answers(tx: Transaction, caller: Caller) -> int:
        lease = leases.peek(tx, caller.lease_token or "")
        if lease is None or claimed_members(tx, lease):
            return 0
        notice = notices.get(tx, lease.trigger_id) if lease.kind is LeaseKind.NOTICE else None
        members = inbox.members(tx, lease.token)
        about = {*(member.id for member in members), notice.inbox_message_id if notice else None}
        posts = [one for message_id in about if message_id for one in deliveries.of_inbox_message(tx, message_id)]
        if notice and notice.task_id:
            posts += deliveries.of_task(tx, notice.task_id)
        replies = [
            one
            for one in posts
            if (one["agent_id"], one["kind"]) == (caller.agent.id, DeliveryKind.POST)
            and not (one["idempotency_key"] or one["request_id"])
            and one["created_at"] >= lease.created_at
        ]
        return len(replies) + sum(member.status is InboxStatus.DISMISSED for member in members)

    async def append(self, agent: Agent, run_id: str, offset: int, chunk: bytes) -> int:
        """Appends a chunk to the log of the agent's run; ``offset`` is the number of bytes before it.

        Bytes that are there already count once. Returns the offset of the next chunk. A log that reaches the cap ends
        with a note. Raises NotFound, Conflict if bytes before the chunk are missing, and TooLarge for a chunk above
        `MAX_LOG_CHUNK_BYTES` and for a log that is full.
        """
        if len(chunk) > MAX_LOG_CHUNK_BYTES:
            raise TooLarge(
                f"This chunk has {len(chunk)} bytes; at most {MAX_LOG_CHUNK_BYTES} fit into one call.",
                hint="Send it in several chunks.",
            )
        return await self._database.write(_append, agent.id, run_id, offset, chunk, self.cap_bytes)

    async def read(self, agent: Agent | None, run_id: str, after: int, wait_seconds: float = 0) -> LogPart:
        """Returns the log from the piece on that contains the byte at ``after``: at once if there is any or if nothing
        more will come, otherwise after ``wait_seconds``. ``agent`` is the run's agent; None: the operator.

        Raises NotFound.
        """
        end, wakeups, topic = time.monotonic() + wait_seconds, self._database.wakeups, run_logs.topic_of(run_id)
        while True:
            seen = wakeups.generation(topic)
            part = await self._database.read(self._read, agent.id if agent else None, run_id, after)
            left = end - time.monotonic()
            if part.next > after or part.is_over or left <= 0 or wakeups.closed:
                return part
            await wakeups.wait(topic, seen, min(left, _LOOK_SECONDS))

    @staticmethod
    def _read(tx: Transaction, agent_id: str | None, run_id: str, after: int) -> LogPart:
        run = runs.get(tx, run_id) if agent_id is None else runs.owned(tx, run_id, agent_id)
        if run is None:
            raise NotFound(
                f"There is no task and no run '{run_id}'.",
                hint="GET /tasks lists the tasks; GET /tasks/{id}/runs lists the runs on one.",
            )
        pieces = run_logs.after(tx, run_id, after, _PIECES_AT_ONCE)
        return LogPart(
            text=without_secrets(without_escapes("".join(piece.text for piece in pieces))),  # one may span two pieces
            start=pieces[0].position if pieces else after,
            next=pieces[-1].end if pieces else after,
            is_over=len(pieces) < _PIECES_AT_ONCE and not leases.holds(leases.peek(tx, run.lease_token)),
        )

    async def of_task(self, task_id: str) -> list[TaskRun]:
        """Returns the runs on a task, newest first. Raises NotFound."""
        return await self._database.read(self._of_task, task_id)

    @staticmethod
    def _of_task(tx: Transaction, task_id: str) -> list[TaskRun]:
        if tasks.get(tx, task_id) is None:
            raise NotFound(f"There is no task '{task_id}'.", hint="GET /tasks lists them.")
        found, names = runs.of_task(tx, task_id), agents.names(tx)
        sizes = run_logs.sizes(tx, [run.id for run in found])
        return [
            TaskRun(
                id=run.id,
                agent=names.get(run.agent_id, ""),
                attempt=run.attempt,
                started_at=run.started_at,
                log_bytes=sizes.get(run.id, 0),
            )
            for run in found
        ]


def _append(tx: Transaction, agent_id: str, run_id: str, offset: int, chunk: bytes, cap_bytes: int) -> int:
    run = runs.owned(tx, run_id, agent_id)
    last = run_logs.last(tx, run_id)
    end, number = (last.end, last.number) if last else (0, 0)
    if offset > end:
        raise Conflict(f"Bytes are missing before this chunk: the next offset is {end}.", hint="Send them first.")
    new = chunk[end - offset :]
    if not new:
        return end
    if end >= cap_bytes or number >= MAX_LOG_PIECES:
        raise TooLarge(f"The log of this run is full: it has {end} bytes.", hint="Send no more of it.")
    piece = LogPiece(position=end, number=number + 1, size=len(new), text=_text(new, cap_bytes - end, number))
    if _is_deleted(tx, run):  # the program may still write what was deleted in Slack
        piece = replace(piece, text="")
    if not run_logs.add(tx, run_id, piece):  # another call has just added one, so this one looks again
        return _append(tx, agent_id, run_id, offset, chunk, cap_bytes)
    return piece.end


def _is_deleted(tx: Transaction, run: Run) -> bool:
    """Whether a message that the run works on, or from which its task comes, was deleted in Slack."""
    thread = threads.get(tx, run.thread_id) if run.thread_id else None
    task = tasks.get(tx, run.task_id) if run.task_id else None
    ids = [*run.inbox_message_ids, *([task.inbox_message_id] if task and task.inbox_message_id else ())]
    found = (inbox.get(tx, message_id) for message_id in ids)
    return thread is not None and any(
        transcript.is_deleted(tx, thread.team, thread.channel, message.ts) for message in found if message
    )


def _text(new: bytes, room: int, number: int) -> str:
    """Returns bytes as a text without secrets that every database can store; what is invalid is replaced. A log that
    becomes full says so."""
    is_full = len(new) > room or number + 1 >= MAX_LOG_PIECES
    text = new[:room].decode("utf-8", "replace").replace("\0", "\ufffd")
    return without_secrets(text) + (FULL_NOTE if is_full else "")


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
    if not leases.holds(lease):
        raise LeaseLost(hint="Only the run that has the work can be started; poll for more work.")
    if thread_id and (known := runs.newest_of_lease(tx, thread_id, lease.token)):
        return known.id

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
