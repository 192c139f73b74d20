"""What was said in the threads of the swarm: complete, in order, and linear in the thread's length.

Storing is not routing. A row may come from an event or from reading history; whoever sets ``routed_at`` routes the
message, and only one can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import orjson
from sqlalchemy import BindParameter, bindparam, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import STRANGERS, Author, AuthorKind, File, SlackMessage, Standing, TranscriptMessage
from swarm.domain.text.copies import TOMBSTONE
from swarm.store import forgotten
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import inbox_messages, lease_members, leases, tasks, thread_messages, threads

COORDINATOR: Final = "swarm"
"""Who speaks in the transcript when no agent does."""

_t = thread_messages.c


def _keep(insert: postgresql.Insert) -> postgresql.Insert:
    """Overwrite a row of the same message only with a later edit of it."""
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=["team", "channel", "ts"],
        set_={"text": new.text, "files": new.files, "edited_ts": new.edited_ts},
        where=_t.deleted_at.is_(None)
        & new.edited_ts.is_not(None)
        & or_(_t.edited_ts.is_(None), _t.edited_ts < new.edited_ts),
    )


_message = (_t.team == bindparam("team")) & (_t.channel == bindparam("channel")) & (_t.ts == bindparam("ts"))

# An edit or a history read may have been here first; what it stored stays, only the routing is still to be done.
_ROUTE = Statement(
    lambda insert: (
        insert(thread_messages)
        .values(every_column(thread_messages))
        .on_conflict_do_update(
            index_elements=["team", "channel", "ts"],
            set_={"routed_at": bindparam("routed_at"), "standing": bindparam("standing")},
            where=_t.routed_at.is_(None),
        )
        .returning(_t.ts)
    )
)
# History shows a message as it reads now, so it may only make a row newer.
_KEEP = Statement(lambda insert: _keep(insert(thread_messages)))
_OWN = Statement(
    lambda insert: (
        insert(thread_messages)
        .values(every_column(thread_messages))
        .on_conflict_do_update(
            index_elements=["team", "channel", "ts"],
            set_={
                "author_id": bindparam("author_id"),
                "author_name": bindparam("author_name"),
                "author_kind": bindparam("author_kind"),
                "routed_at": bindparam("routed_at"),
                "standing": bindparam("standing"),
            },
        )
    )
)
_OWN_CHANGE = Statement(update(thread_messages).where(_message).values(text=bindparam("new_text")))
_BURY = Statement(
    lambda insert: (
        insert(thread_messages)
        .values(every_column(thread_messages))
        .on_conflict_do_update(
            index_elements=["team", "channel", "ts"],
            set_={"deleted_at": bindparam("deleted_at"), "text": "", "files": "[]"},
            where=_t.deleted_at.is_(None),
        )
        .returning(_t.ts)
    )
)
_FIND = Statement(select(thread_messages).where(_message))
_OF_THREAD = Statement(
    select(thread_messages)
    .where(
        _t.team == bindparam("team"),
        _t.channel == bindparam("channel"),
        _t.thread_ts == bindparam("thread_ts"),
        _t.ts <= bindparam("up_to"),
        _t.deleted_at.is_(None),
    )
    .order_by(_t.ts)
)
_ROWS_OF_THREAD = Statement(
    select(_t.ts, _t.text, _t.author_kind, _t.edited_ts, _t.deleted_at, _t.stored_at, _t.routed_at).where(
        _t.team == bindparam("team"), _t.channel == bindparam("channel"), _t.thread_ts == bindparam("thread_ts")
    )
)
_BOT_TURNS = Statement(
    select(func.count())
    .select_from(thread_messages)
    .where(
        _t.team == bindparam("team"),
        _t.channel == bindparam("channel"),
        _t.thread_ts == bindparam("thread_ts"),
        _t.author_kind == AuthorKind.BOT.value,
        _t.routed_at >= bindparam("since"),
        exists().where(
            inbox_messages.c.team == _t.team, inbox_messages.c.channel == _t.channel, inbox_messages.c.ts == _t.ts
        ),
    )
)


def route(tx: Transaction, team: str, message: SlackMessage) -> bool:
    """Store a message that an event told; True if it is now this caller's to route, which happens once."""
    return _ROUTE.first(tx, **_values(tx, team, message), routed_at=tx.now) is not None


def keep(tx: Transaction, team: str, messages: Iterable[SlackMessage]) -> None:
    """Store messages that were read from history; whether they are routed is not decided here.

    Those of people who are forgotten are stored without their words and author.
    """
    for message in messages:
        values = _values(tx, team, message)
        if forgotten.is_forgotten(tx, message.author.id, message.ts):
            values |= {"author_id": forgotten.NOBODY, "author_name": None, "files": "[]", "edited_ts": None}
            values |= {"text": TOMBSTONE} if message.is_root else {"text": "", "deleted_at": tx.now}
        _KEEP.run(tx, **values, routed_at=None)


def own_post(tx: Transaction, team: str, message: SlackMessage) -> None:
    """Store a post of ours when it was sent: Slack does not tell us of it. History may have shown it before."""
    _OWN.run(tx, **_values(tx, team, message), routed_at=tx.now)


def own_change(tx: Transaction, team: str, channel: str, ts: str, text: str) -> None:
    """Store what a post of ours reads now."""
    _OWN_CHANGE.run(tx, team=team, channel=channel, ts=ts, new_text=text)


def mark_deleted(tx: Transaction, team: str, channel: str, ts: str, thread_ts: str | None) -> bool:
    """Leave a tombstone, also where the message itself has not come yet; False if there was one already."""
    grave = {
        "team": team, "channel": channel, "ts": ts, "thread_ts": thread_ts or ts, "author_id": "", "author_name": None,
        "author_kind": AuthorKind.USER, "text": "", "files": "[]", "edited_ts": None,
        "standing": Standing.UNVERIFIED,
    }  # fmt: skip
    return _BURY.first(tx, **grave, deleted_at=tx.now, stored_at=tx.now, routed_at=tx.now) is not None


def find(tx: Transaction, team: str, channel: str, ts: str) -> Row | None:
    """One message, tombstones included: ``text``, ``thread_ts``, ``deleted_at``, ``routed_at``, ``edited_ts`` …"""
    return _FIND.first(tx, team=team, channel=channel, ts=ts)


def is_by_stranger(message: Row | None) -> bool:
    """Whether a message is not known to be a member's."""
    return message is None or Standing(message["standing"]) in STRANGERS


def is_deleted(tx: Transaction, team: str, channel: str, ts: str) -> bool:
    """Whether a message was deleted in Slack, as far as we know."""
    found = find(tx, team, channel, ts)
    return found is not None and found["deleted_at"] is not None


def of_thread(tx: Transaction, team: str, channel: str, thread_ts: str, up_to: str) -> list[TranscriptMessage]:
    """All messages of a thread up to and including the one at ``up_to``, oldest first."""
    return [said(row) for row in _OF_THREAD.all(tx, team=team, channel=channel, thread_ts=thread_ts, up_to=up_to)]


def rows_of_thread(tx: Transaction, team: str, channel: str, thread_ts: str) -> dict[str, Row]:
    """The stored messages of a thread by ``ts``, tombstones included, without authors and files."""
    rows = _ROWS_OF_THREAD.all(tx, team=team, channel=channel, thread_ts=thread_ts)
    return {row["ts"]: row for row in rows}


def bot_turns(tx: Transaction, team: str, channel: str, thread_ts: str, since: int) -> int:
    """How many messages of other bots in a thread became inbox messages since then."""
    row = _BOT_TURNS.first(tx, team=team, channel=channel, thread_ts=thread_ts, since=since)
    return int(next(iter(row.values()))) if row else 0


def last_answer(said: Sequence[TranscriptMessage]) -> str | None:
    """What an agent of ours said last in a transcript, also after the message that is being read."""
    answers = (message for message in reversed(said) if message.kind is AuthorKind.AGENT)
    return next((message.text for message in answers if message.author_id != COORDINATOR), None)


def said(row: Row) -> TranscriptMessage:
    """A row as a reader sees it; an author whose name is not known yet goes by the id."""
    return TranscriptMessage(
        ts=row["ts"],
        author_id=row["author_id"],
        author=row["author_name"] or row["author_id"],
        kind=AuthorKind(row["author_kind"]),
        text=row["text"],
        edited=row["edited_ts"] is not None,
        files=files(row["files"]),
        standing=Standing(row["standing"]),
    )


def files(document: str) -> tuple[File, ...]:
    """Attachments as they are stored."""
    return tuple(File(**file) for file in orjson.loads(document))


def _values(tx: Transaction, team: str, message: SlackMessage) -> dict[str, object]:
    return {
        "team": team,
        "channel": message.channel,
        "ts": message.ts,
        "thread_ts": message.root_ts,
        "author_id": message.author.id,
        "author_name": message.author.name,
        "author_kind": message.author.kind,
        "text": message.text,
        "files": orjson.dumps(message.files).decode(),
        "edited_ts": message.edited_ts,
        "deleted_at": None,
        "stored_at": tx.now,
        "standing": _standing(message.author),
    }


def _standing(author: Author) -> Standing:
    return Standing.MEMBER if author.kind is AuthorKind.AGENT else author.standing or Standing.UNVERIFIED


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
    return [said(row) for row in _PAGE.all(tx, **place, after_ts=after_ts, n=limit)]


def file_in(tx: Transaction, thread: Thread, file_id: str) -> File | None:
    """An attachment of one of a thread's messages."""
    rows = _WITH_FILES.all(tx, team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts)
    found = (file for row in rows for file in files(row["files"]) if file.id == file_id)
    return next(found, None)
