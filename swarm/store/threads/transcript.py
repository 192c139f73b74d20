"""The messages of threads, complete and ordered, and the agents' access to them.

The cost is linear in the length of the thread. Storing a message does not route it. A row may come from an event or
from reading history; only the transaction that sets ``routed_at`` routes the message. An agent may read the threads in
which it participates or has participated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import orjson
from sqlalchemy import BigInteger, BindParameter, Executable, Text, bindparam, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND, us_to_slack_ts
from swarm.domain.model.threads import (
    FLAT,
    FLAT_MESSAGES,
    STRANGERS,
    Author,
    AuthorKind,
    ChannelType,
    File,
    SlackMessage,
    Standing,
    Thread,
    TranscriptMessage,
)
from swarm.domain.text.copies import TOMBSTONE
from swarm.store import forgotten
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, every_column, first_of_each, given, insert_given
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import threads
from swarm.store.tables.threads import thread_messages
from swarm.store.tables.work import inbox_messages, lease_members, leases, tasks

COORDINATOR: Final = "swarm"
"""The author of the coordinator's own posts in the transcript."""

NO_LIMIT: Final = 2**31 - 1

_TO_THE_END: Final = "~"
"""Sorts after every timestamp."""

_t = thread_messages.c


def _keep(insert: postgresql.Insert) -> postgresql.Insert:
    """Overwrites a stored message only with a later edit."""
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=["team", "channel", "ts"],
        set_={"text": new.text, "files": new.files, "edited_ts": new.edited_ts},
        where=_t.deleted_at.is_(None)
        & new.edited_ts.is_not(None)
        & or_(_t.edited_ts.is_(None), _t.edited_ts < new.edited_ts),
    )


_message = (_t.team == bindparam("team")) & (_t.channel == bindparam("channel")) & (_t.ts == bindparam("ts"))

_given_messages = given(
    channel=Text,
    ts=Text,
    thread_ts=Text,
    author_id=Text,
    author_name=Text,
    author_kind=Text,
    text=Text,
    files=Text,
    edited_ts=Text,
    standing=Text,
)


def _route(insert: postgresql.Insert) -> Executable:
    """An edit or a history read may have stored the message before; then only its routing is missing."""
    now, team = bindparam("now", type_=BigInteger), bindparam("of_team", type_=Text)
    return (
        insert_given(insert, _given_messages, team=team, stored_at=now, routed_at=now)
        .on_conflict_do_update(
            index_elements=["team", "channel", "ts"],
            set_={"routed_at": insert.excluded.routed_at, "standing": insert.excluded.standing},
            where=_t.routed_at.is_(None),
        )
        .returning(_t.channel, _t.ts)
    )


_ROUTE = Statement(lambda insert: _route(insert(thread_messages)))
# History shows the current text of a message, so it may only replace an older text.
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
_given_threads = given(team=Text, channel=Text, thread_ts=Text)
_is_said = (
    (_t.team == _given_threads.c.team)
    & (_t.channel == _given_threads.c.channel)
    & (_t.thread_ts == _given_threads.c.thread_ts)
    & _t.deleted_at.is_(None)
)
_OF_THREADS = Statement(first_of_each(_given_threads, thread_messages, _is_said, _t.ts, lock=False))
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


def route(tx: Transaction, team: str, messages: Iterable[SlackMessage]) -> set[tuple[str, str]]:
    """Stores messages of events. Returns those that the caller should route, by channel and timestamp; this happens
    once for each message.
    """
    rows = [_values(message) for message in messages]
    found = _ROUTE.all(tx, given=rows, of_team=team, now=tx.now) if rows else ()
    return {(row["channel"], row["ts"]) for row in found}


def keep(tx: Transaction, team: str, messages: Iterable[SlackMessage]) -> None:
    """Stores messages read from history without routing them.

    Messages of erased people are stored without text and author.
    """
    for message in messages:
        values = {**_values(message), "team": team, "stored_at": tx.now, "deleted_at": None}
        if forgotten.is_forgotten(tx, message.author.id, message.ts):
            values |= {"author_id": forgotten.NOBODY, "author_name": None, "files": "[]", "edited_ts": None}
            values |= {"text": TOMBSTONE} if message.is_root else {"text": "", "deleted_at": tx.now}
        _KEEP.run(tx, **values, routed_at=None)


def store_own_post(tx: Transaction, team: str, message: SlackMessage) -> None:
    """Stores one of Swarm's own posts when it is sent, because Slack sends no event for it. History may already contain
    it.
    """
    row = {**_values(message), "team": team, "stored_at": tx.now, "deleted_at": None}
    _OWN.run(tx, **row, routed_at=tx.now)


def store_own_edit(tx: Transaction, team: str, channel: str, ts: str, text: str) -> None:
    """Stores the new text of one of Swarm's own posts."""
    _OWN_CHANGE.run(tx, team=team, channel=channel, ts=ts, new_text=text)


def mark_deleted(tx: Transaction, team: str, channel: str, ts: str, thread_ts: str | None) -> bool:
    """Stores a tombstone, even for a message that was not received yet. Returns False if one exists already."""
    tombstone = {
        "team": team, "channel": channel, "ts": ts, "author_id": "",
        "thread_ts": ts if thread_ts is None else thread_ts, "author_name": None,
        "author_kind": AuthorKind.USER, "text": "", "files": "[]", "edited_ts": None,
        "standing": Standing.UNVERIFIED,
    }  # fmt: skip
    return _BURY.first(tx, **tombstone, deleted_at=tx.now, stored_at=tx.now, routed_at=tx.now) is not None


def find(tx: Transaction, team: str, channel: str, ts: str) -> Row | None:
    """Returns one message, including tombstones: ``text``, ``thread_ts``, ``deleted_at``, …"""
    return _FIND.first(tx, team=team, channel=channel, ts=ts)


def author_of(tx: Transaction, team: str, channel: str, ts: str) -> Author | None:
    """Returns the author of a stored message, without facts; None if there is no such message."""
    row = find(tx, team, channel, ts)
    return Author(id=row["author_id"], kind=AuthorKind(row["author_kind"])) if row else None


def is_by_stranger(message: Row | None) -> bool:
    """Returns whether a message's author is not known to be a member."""
    return message is None or Standing(message["standing"]) in STRANGERS


def is_deleted(tx: Transaction, team: str, channel: str, ts: str) -> bool:
    """Returns whether a message is known to be deleted in Slack."""
    found = find(tx, team, channel, ts)
    return found is not None and found["deleted_at"] is not None


def where(tx: Transaction, team: str, messages: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Returns the ``thread_ts`` under which messages, given by channel and timestamp, are stored."""
    rows = [{"channel": channel, "ts": ts} for channel, ts in set(messages)]
    found = _WHERE.all(tx, given=rows, team=team) if rows else ()
    return {(row["channel"], row["ts"]): row["thread_ts"] for row in found}


def of_thread(tx: Transaction, thread: Thread) -> list[TranscriptMessage]:
    """Returns all messages of a thread, oldest first; of a flat direct message the latest."""
    return of_threads(tx, [thread])[thread.id]


def of_threads(
    tx: Transaction, threads: Iterable[Thread], limit: int = NO_LIMIT, *, since: Mapping[str, str] | None = None
) -> dict[str, list[TranscriptMessage]]:
    """Returns the first ``limit`` messages of each thread by the thread's id, oldest first.

    Of a flat direct message, returns the messages from its timestamp in ``since`` on and `FLAT_MESSAGES` before it.
    """
    there = list(threads)
    places = {(thread.team, thread.channel, thread.thread_ts): thread.id for thread in there if not thread.is_flat}
    rows = [{"team": team, "channel": channel, "thread_ts": thread_ts} for team, channel, thread_ts in places]
    found: dict[str, list[TranscriptMessage]] = {thread.id: [] for thread in there}
    for row in _OF_THREADS.all(tx, given=rows, n=limit) if rows else ():
        found[places[row["team"], row["channel"], row["thread_ts"]]].append(transcript_message(row))
    for thread in there:
        if thread.is_flat:
            found[thread.id] = _of_flat(tx, thread, (since or {}).get(thread.id, _TO_THE_END))
        elif thread.channel_type is ChannelType.DM:
            found[thread.id] = _with_root(tx, thread, found[thread.id])
    return found


def _of_flat(tx: Transaction, thread: Thread, since: str) -> list[TranscriptMessage]:
    place = {"team": thread.team, "channel": thread.channel, "thread_ts": FLAT}
    before = _BEFORE.all(tx, **place, before_ts=since, n=FLAT_MESSAGES)[::-1]
    return [transcript_message(row) for row in (*before, *_SINCE.all(tx, **place, since_ts=since))]


def _with_root(tx: Transaction, thread: Thread, messages: list[TranscriptMessage]) -> list[TranscriptMessage]:
    """Adds the root of a thread in a flat direct message, which is stored with the flat conversation."""
    if messages and messages[0].ts == thread.thread_ts:
        return messages
    root = find(tx, thread.team, thread.channel, thread.thread_ts)
    is_elsewhere = root is not None and root["thread_ts"] == FLAT and root["deleted_at"] is None
    return [transcript_message(root), *messages] if root and is_elsewhere else messages


def rows_of_thread(tx: Transaction, team: str, channel: str, thread_ts: str) -> dict[str, Row]:
    """Returns the stored messages of a thread by ``ts``, including tombstones, without authors and files."""
    rows = _ROWS_OF_THREAD.all(tx, team=team, channel=channel, thread_ts=thread_ts)
    return {row["ts"]: row for row in rows}


def bot_turns(tx: Transaction, team: str, channel: str, thread_ts: str, since: int) -> int:
    """Returns the number of other bots' messages in a thread that became inbox messages since ``since``."""
    row = _BOT_TURNS.first(tx, team=team, channel=channel, thread_ts=thread_ts, since=since)
    return int(next(iter(row.values()))) if row else 0


def latest_writers(tx: Transaction, team: str, channel: str, thread_ts: str) -> set[str]:
    """Returns the people who have written in a thread in the last minute, by user id."""
    since = us_to_slack_ts(tx.now - 60 * SECOND)
    rows = _WRITERS.all(tx, team=team, channel=channel, thread_ts=thread_ts, since_ts=since)
    return {row["author_id"] for row in rows}


def last_answer(messages: Sequence[TranscriptMessage]) -> str | None:
    """Returns the last text of an agent in a transcript, even if it follows the message being read."""
    answers = (message for message in reversed(messages) if message.kind is AuthorKind.AGENT)
    return next((message.text for message in answers if message.author_id != COORDINATOR), None)


def transcript_message(row: Row) -> TranscriptMessage:
    """Converts a row to a message for a reader. An author whose name is unknown is shown by id."""
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
    """Returns the attachments of a stored message."""
    return tuple(File(**file) for file in orjson.loads(document))


def _values(message: SlackMessage) -> dict[str, object]:
    return {
        "channel": message.channel,
        "ts": message.ts,
        "thread_ts": message.root_ts,
        "author_id": message.author.id,
        "author_name": message.author.name,
        "author_kind": message.author.kind,
        "text": message.text,
        "files": orjson.dumps(message.files).decode(),
        "edited_ts": message.edited_ts,
        "standing": _standing(message.author),
    }


def _standing(author: Author) -> Standing:
    return Standing.MEMBER if author.kind is AuthorKind.AGENT else author.standing or Standing.UNVERIFIED


_t = thread_messages.c
_agent: BindParameter[str] = bindparam("agent_id")

_addressed = exists().where(inbox_messages.c.thread_id == threads.c.id, inbox_messages.c.agent_id == _agent)
# The agent held a lease on a message that was reassigned later.
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
_WRITERS = Statement(
    select(_t.author_id).where(_in_thread, _t.author_kind == AuthorKind.USER, _t.ts > bindparam("since_ts")).distinct()
)
_PAGE = Statement(
    select(thread_messages).where(_in_thread, _t.ts > bindparam("after_ts")).order_by(_t.ts).limit(AT_MOST_N)
)
_BEFORE = Statement(
    select(thread_messages).where(_in_thread, _t.ts < bindparam("before_ts")).order_by(_t.ts.desc()).limit(AT_MOST_N)
)
_SINCE = Statement(select(thread_messages).where(_in_thread, _t.ts >= bindparam("since_ts")).order_by(_t.ts))
_given_places = given(channel=Text, ts=Text)
_WHERE = Statement(
    select(_t.channel, _t.ts, _t.thread_ts).join(
        _given_places,
        (_t.team == bindparam("team")) & (_t.channel == _given_places.c.channel) & (_t.ts == _given_places.c.ts),
    )
)
# The root of a thread in a flat direct message belongs to both.
_WITH_FILES = Statement(
    select(_t.files).where(
        _t.team == bindparam("team"),
        _t.channel == bindparam("channel"),
        or_(_t.thread_ts == bindparam("thread_ts"), _t.ts == bindparam("thread_ts")),
        _t.deleted_at.is_(None),
        _t.files != "[]",
    )
)


def takes_part(tx: Transaction, agent_id: str, thread_id: str) -> bool:
    """Returns whether an agent owns the thread, or has or had a message or a task in it."""
    return _TAKES_PART.first(tx, agent_id=agent_id, thread_id=thread_id) is not None


def thread_of_task(tx: Transaction, agent_id: str, task_id: str) -> str | None:
    """Returns the thread of a task assigned to or created by an agent; None for other tasks."""
    row = _THREAD_OF_TASK.first(tx, agent_id=agent_id, task_id=task_id)
    return row["thread_id"] if row else None


def page(tx: Transaction, thread: Thread, after_ts: str, limit: int) -> list[TranscriptMessage]:
    """Returns up to ``limit`` messages of a thread after ``after_ts``, oldest first."""
    place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.thread_ts}
    found = [transcript_message(row) for row in _PAGE.all(tx, **place, after_ts=after_ts, n=limit)]
    begins = thread.channel_type is ChannelType.DM and after_ts < thread.thread_ts
    return _with_root(tx, thread, found)[:limit] if begins else found


def file_in(tx: Transaction, thread: Thread, file_id: str) -> File | None:
    """Returns an attachment of any message in a thread."""
    rows = _WITH_FILES.all(tx, team=thread.team, channel=thread.channel, thread_ts=thread.thread_ts)
    found = (file for row in rows for file in files(row["files"]) if file.id == file_id)
    return next(found, None)
