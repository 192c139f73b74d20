"""What an agent may read of threads: those that it takes or took part in, page by page, and which files occur there."""

from __future__ import annotations

from sqlalchemy import BindParameter, bindparam, exists, or_, select

from swarm.domain.model.threads import File, Thread, TranscriptMessage
from swarm.store.bridge.conditions import AT_MOST_N
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import inbox_messages, lease_members, leases, tasks, thread_messages, threads
from swarm.store.threads import transcript

_t = thread_messages.c
_agent: BindParameter[str] = bindparam("agent_id")

_addressed = exists().where(inbox_messages.c.thread_id == threads.c.id, inbox_messages.c.agent_id == _agent)
# A message that has gone to another agent since was leased to this one.
_was_leased = exists().where(
    inbox_messages.c.thread_id == threads.c.id,
    lease_members.c.inbox_message_id == inbox_messages.c.id,
    leases.c.token == lease_members.c.token,
    leases.c.agent_id == _agent,
)
_works = exists().where(
    tasks.c.thread_id == threads.c.id, or_(tasks.c.agent_id == _agent, tasks.c.created_by == _agent)
)
_TAKES_PART = Statement(
    select(threads.c.id).where(
        threads.c.id == bindparam("thread_id"),
        or_(threads.c.owner_id == _agent, _addressed, _works, _was_leased),
    )
)
_THREAD_OF_TASK = Statement(
    select(tasks.c.thread_id).where(
        tasks.c.id == bindparam("task_id"), or_(tasks.c.agent_id == _agent, tasks.c.created_by == _agent)
    )
)
_in_thread = (
    (_t.team == bindparam("team"))
    & (_t.channel == bindparam("channel"))
    & (_t.thread_ts == bindparam("thread_ts"))
    & _t.deleted_at.is_(None)
)
_PAGE = Statement(
    select(thread_messages).where(_in_thread, _t.ts > bindparam("after_ts")).order_by(_t.ts).limit(AT_MOST_N)
)
_WITH_FILES = Statement(select(_t.files).where(_in_thread, _t.files != "[]"))


def takes_part(tx: Transaction, agent_id: str, thread_id: str) -> bool:
    """Whether an agent owns the thread, or has or had a message or a task in it."""
    return _TAKES_PART.first(tx, agent_id=agent_id, thread_id=thread_id) is not None


def thread_of_task(tx: Transaction, agent_id: str, task_id: str) -> str | None:
    """The thread of a task that an agent has or gave; None for any other task and for one without a thread."""
    row = _THREAD_OF_TASK.first(tx, agent_id=agent_id, task_id=task_id)
    return row["thread_id"] if row else None


def page(tx: Transaction, thread: Thread, after_ts: str, limit: int) -> list[TranscriptMessage]:
    """So many messages of a thread after the one at ``after_ts``, oldest first."""
    place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.thread_ts}
    return [transcript.said(row) for row in _PAGE.all(tx, **place, after_ts=after_ts, n=limit)]


def file_in(tx: Transaction, thread: Thread, file_id: str) -> File | None:
    """An attachment of one of a thread's messages."""
    rows = _WITH_FILES.all(tx, team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts)
    found = (file for row in rows for file in transcript.files(row["files"]) if file.id == file_id)
    return next(found, None)
