"""Sessions of built-in agents: the ordered messages, and the summary that replaces the older ones.

Who may act: any process. A writer locks the session's row first, so that positions are unique and the messages of one
run are adjacent. Stored messages never change, except for the note that a tool has begun, which its result replaces.
Another attempt may replace messages; replaced messages are no longer shown to the agent. Which attempt is newer is
known from the runs (`swarm.store.runs.attempts`), not from the order of arrival, because a deposed process may write
late.

Guarantee: a summary covers exactly the messages that were read to create it. It is stored only if, in the meantime,
none of these messages was replaced, no other summary was stored, and the session was not deleted and recreated
(`summarise`). Later messages follow the summary. On failure, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic_core import from_json, to_json
from sqlalchemy import Executable, bindparam, delete, func, insert, select, update

from swarm.domain.model.sessions import MessageRole, Session, SessionMessage
from swarm.domain.text.copies import SHORTEST_IN_THREAD, parts_of, says, without
from swarm.domain.text.slack_text import with_names, without_leading_mention
from swarm.store.bridge.statements import AT_MOST_N, InsertFactory, Row, Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.forgotten import NOBODY
from swarm.store.retention import delete_oldest
from swarm.store.runs import attempts
from swarm.store.runs.attempts import Attempts
from swarm.store.tables import sessions
from swarm.store.tables.sessions import session_messages
from swarm.store.tables.threads import thread_messages
from swarm.store.tables.work import inbox_messages, tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionContext:
    """The messages of a session as shown to an agent, oldest first, with the state of the session at that time."""

    messages: Sequence[SessionMessage]
    edition: int
    created_at: int  # microseconds since 1970 UTC; changes if the session is deleted and recreated


MAX_ORIGINALS: Final = 500
"""The number of messages shown in place of an unusable summary."""

_PARTS: Final = ("text", "author", "call_id", "tool", "arguments", "failed", "waits_in")
_s, _m, _t, _i = sessions.c, session_messages.c, thread_messages.c, inbox_messages.c
_delegated = select(tasks.c.inbox_message_id).where(tasks.c.id == bindparam("of_source")).scalar_subquery()
_the_session = (_s.agent == bindparam("of_agent")) & (_s.id == bindparam("of_session"))
_of_session = (_m.agent == bindparam("of_agent")) & (_m.session_id == bindparam("of_session"))


def _use(insert: InsertFactory) -> Executable:
    new = insert(sessions).values(
        agent=bindparam("of_agent"),
        id=bindparam("of_session"),
        metadata="{}",
        edition=0,
        summarised_to=0,
        created_at=bindparam("now"),
        updated_at=bindparam("now"),
    )
    return new.on_conflict_do_update(
        index_elements=["agent", "id"], set_={"updated_at": new.excluded.updated_at}
    ).returning(sessions)


_USE = Statement(_use)
_GET = Statement(select(sessions).where(_the_session))
_DESCRIBE = Statement(update(sessions).where(_the_session).values(metadata=bindparam("new_metadata")))
_SUMMARISE = Statement(
    update(sessions)
    .where(_the_session, _s.edition == bindparam("seen_edition"), _s.created_at == bindparam("seen_created_at"))
    .values(
        summary=bindparam("new_summary"),
        summarised_to=bindparam("new_summarised_to"),
        summarised_at=bindparam("now"),
        edition=_s.edition + 1,
    )
)
_COUNT_EDITION = Statement(update(sessions).where(_the_session).values(edition=_s.edition + 1))
_FORGET = delete_oldest(sessions, _s.updated_at, _s.updated_at < bindparam("before"))


_current = _of_session & _m.replaced_at.is_(None)
_BEHIND = Statement(select(session_messages).where(_current, _m.position > bindparam("behind")).order_by(_m.position))
_COUNT_BEHIND = Statement(select(func.count().label("n")).where(_current, _m.position > bindparam("behind")))
_LAST_CURRENT = Statement(select(session_messages).where(_current).order_by(_m.position.desc()).limit(AT_MOST_N))
_ORIGINALS = Statement(select(session_messages).where(_of_session).order_by(_m.position))
_of_run = _of_session & (_m.agui_run_id == bindparam("of_run"))
_FIRST_OF_RUN = Statement(select(_m.position).where(_of_run).order_by(_m.position).limit(1))
_ROWS_OF_RUN = Statement(select(session_messages).where(_of_run, _m.replaced_at.is_(None)).order_by(_m.position))
_TAKE_OUT = Statement(
    delete(session_messages).where(_of_run, _m.replaced_at.is_(None), _m.position < bindparam("before"))
)
_REPLACE = Statement(
    update(session_messages).where(_of_run, _m.replaced_at.is_(None)).values(replaced_at=bindparam("now"))
)
_LAST = Statement(select(func.max(_m.position).label("position")).where(_of_session))
_ADD = Statement(
    insert(session_messages).values(
        agent=bindparam("of_agent"),
        session_id=bindparam("of_session"),
        position=bindparam("at"),
        role=bindparam("with_role"),
        content=bindparam("with_content"),
        agui_run_id=bindparam("of_run"),
        created_at=bindparam("created_at"),
        replaced_at=bindparam("since"),
        source=bindparam("from_source"),
    )
)
# The row is locked, so that a concurrent delete waits until the session's copy of the message is stored.
_of_message = (_t.team == _i.team) & (_t.channel == _i.channel) & (_t.ts == _i.ts)
_SAID_NOW = Statement(
    select(_t.text, _t.edited_ts, _t.deleted_at, _t.author_id, _i.message)
    .join(inbox_messages, _of_message)
    .where(_i.id == func.coalesce(_delegated, bindparam("of_source")))
    .with_for_update(read=True, of=thread_messages)
)


def use(tx: Transaction, agent: str, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
    """Returns the locked session with ``metadata`` merged into its metadata. Creates the session if it is missing."""
    row = lock(tx, agent, session_id)
    if metadata:
        known = {**from_json(row["metadata"]), **metadata}
        _DESCRIBE.run(tx, **key_of(agent, session_id), new_metadata=to_json(known).decode())
        row = {**row, "metadata": to_json(known).decode()}
    return _session(tx, row)


def context(tx: Transaction, agent: str, session_id: str, run_id: str = "") -> SessionContext:
    """Returns the messages for an agent: the summary, at the position of its last message, and the messages after it.

    With ``run_id``, other attempts at the same trigger are left out. If the summary contains one of them, it is
    replaced by up to `MAX_ORIGINALS` original messages.
    """
    row = _GET.first(tx, **key_of(agent, session_id))
    if row is None:
        return SessionContext(messages=(), edition=0, created_at=0)
    left_out = _runs(attempts.beside(tx, run_id))
    if any(0 < _first(tx, agent, session_id, run) <= row["summarised_to"] for run in left_out):
        newest = _LAST_CURRENT.all(tx, **key_of(agent, session_id), n=MAX_ORIGINALS)
        summary, later = [], newest[::-1]
    else:
        summary, later = summary_of(row), _BEHIND.all(tx, **key_of(agent, session_id), behind=row["summarised_to"])
    messages = [*summary, *(message_of(each) for each in later if each["agui_run_id"] not in left_out)]
    return SessionContext(messages=messages, edition=row["edition"], created_at=row["created_at"])


def originals(tx: Transaction, agent: str, session_id: str) -> list[SessionMessage]:
    """Returns all messages, including summarised and replaced ones."""
    return [message_of(row) for row in _ORIGINALS.all(tx, **key_of(agent, session_id))]


def add(tx: Transaction, agent: str, session_id: str, message: SessionMessage) -> SessionMessage:
    """Appends a message, and returns it with its position. Creates the session if it is missing."""
    lock(tx, agent, session_id)
    position = append(tx, agent, session_id, None, [message])
    row = {"position": position, "created_at": tx.now, "role": message.role, "content": content_of(message)}
    return message_of(row)


def add_run(
    tx: Transaction,
    agent: str,
    session_id: str,
    run: str,
    messages: Sequence[SessionMessage],
    run_id: str = "",
    has_answered: bool = True,
    continues: str = "",
    metadata: Mapping[str, object] | None = None,
) -> bool:
    """Appends the messages of a run, once, and describes the session with ``metadata``.

    A run that ``continues`` another run takes over its messages.

    If there are several attempts, one with an answer replaces all earlier ones. An attempt that arrives after a newer
    one is stored but never shown; the function then returns False. Messages deleted in Slack in the meantime are not
    stored, nor is the work done for them.
    """
    messages = _still_said(tx, messages)
    if not messages and not continues:
        return True
    use(tx, agent, session_id, metadata)
    if _first(tx, agent, session_id, run):
        return True
    if continues and not rows_of_run(tx, agent, session_id, continues):
        return True  # its message was deleted, and so is the work for it
    found = attempts.beside(tx, run_id)
    is_late = found is not None and any(_first(tx, agent, session_id, later["agui_run_id"]) for later in found.after)
    if continues and has_answered and not is_late:
        move_to_end(tx, agent, session_id, continues, messages, run_after=run)
    else:
        append(tx, agent, session_id, run, messages, is_current=not is_late)
    if found and has_answered and not is_late:
        _replace(tx, agent, session_id, [earlier["agui_run_id"] for earlier in found.before])
    return not is_late


def rows_of_run(tx: Transaction, agent: str, session_id: str, run: str) -> list[Row]:
    """Returns the current messages of a run, as rows."""
    return _ROWS_OF_RUN.all(tx, **key_of(agent, session_id), of_run=run)


def move_to_end(
    tx: Transaction, agent: str, session_id: str, run: str, more: Sequence[SessionMessage], *, run_after: str = ""
) -> None:
    """Moves the current messages of a run to the end of the locked session, with ``more`` after them.

    They stay adjacent although other runs may have been stored in the meantime. A summary in progress becomes invalid.
    """
    rows = rows_of_run(tx, agent, session_id, run)
    moved = [replace(message_of(row), source=row["source"] or "") for row in rows]
    first = append(tx, agent, session_id, run_after or run, [*moved, *more])  # positions are never used again
    _TAKE_OUT.run(tx, **key_of(agent, session_id), of_run=run, before=first)
    _COUNT_EDITION.run(tx, **key_of(agent, session_id))


def _still_said(tx: Transaction, messages: Sequence[SessionMessage]) -> Sequence[SessionMessage]:
    """Returns the messages of a run to store, without deleted messages and with edited texts."""
    now = {message.source: _SAID_NOW.first(tx, of_source=message.source) for message in messages if message.source}
    deleted = {source for source, row in now.items() if row and (row["deleted_at"] or row["author_id"] == NOBODY)}
    if deleted:
        messages = [message for message in messages if message.source and message.source not in deleted]
    for source, row in now.items():
        if row and row["edited_ts"] and source not in deleted:
            text = without_leading_mention(row["text"]) if row["message"] is None else with_names(row["message"], {})
            messages = _as_edited(messages, source, row["message"] or row["text"], text)
    return messages


def _as_edited(messages: Sequence[SessionMessage], source: str, text: str, readable: str) -> Sequence[SessionMessage]:
    """Replaces the text of an edited message, and removes copies of the old text from the other messages. ``readable``
    is the new text for the agent.
    """
    old = [message.text for message in messages if message.source == source and not says(message.text, text)]
    parts = [part for each in old for part in parts_of(each, text) if len(part) >= SHORTEST_IN_THREAD]
    return [
        replace(
            message,
            text=readable if message.source == source and old else without(message.text, parts),
        )
        for message in messages
    ]


def summarise(tx: Transaction, agent: str, session_id: str, seen: SessionContext, to: int, summary: str) -> bool:
    """Stores ``summary`` in place of all messages up to position ``to``. Returns whether ``seen`` was still current."""
    state = {"seen_edition": seen.edition, "seen_created_at": seen.created_at}
    summarised = {"new_summary": summary, "new_summarised_to": to}
    return bool(_SUMMARISE.run(tx, **key_of(agent, session_id), **state, **summarised, now=tx.now))


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` sessions last used before ``before``, with their messages. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def lock(tx: Transaction, agent: str, session_id: str) -> Row:
    row = _USE.first(tx, **key_of(agent, session_id), now=tx.now)
    assert row is not None  # an upsert without a condition always returns its row
    return row


def _end(tx: Transaction, agent: str, session_id: str) -> int:
    """Returns the last position. The session must be locked."""
    row = _LAST.first(tx, **key_of(agent, session_id))
    return int(row["position"] or 0) if row else 0


def _first(tx: Transaction, agent: str, session_id: str, run: str) -> int:
    """Returns the position of a run's first message; 0 if it has none."""
    row = _FIRST_OF_RUN.first(tx, **key_of(agent, session_id), of_run=run)
    return int(row["position"]) if row else 0


def _runs(found: Attempts | None) -> frozenset[str]:
    return frozenset(other["agui_run_id"] for other in found.others) if found else frozenset()


def _replace(tx: Transaction, agent: str, session_id: str, runs: Sequence[str]) -> None:
    """Marks the messages of these runs as replaced, and invalidates a summary in progress."""
    named = key_of(agent, session_id)
    if sum(_REPLACE.run(tx, **named, of_run=run, now=tx.now) for run in runs):
        _COUNT_EDITION.run(tx, **named)


def append(
    tx: Transaction,
    agent: str,
    session_id: str,
    run: str | None,
    messages: Sequence[SessionMessage],
    *,
    is_current: bool = True,
) -> int:
    """Appends messages. Returns the position of the first one."""
    first = _end(tx, agent, session_id) + 1
    _ADD.many(
        tx,
        [
            key_of(agent, session_id)
            | {
                "at": position,
                "with_role": message.role.value,
                "with_content": content_of(message),
                "of_run": run,
                "created_at": message.created_at or tx.now,
                "since": None if is_current else tx.now,
                "from_source": message.source or None,
            }
            for position, message in enumerate(messages, first)
        ],
    )
    return first


def key_of(agent: str, session_id: str) -> dict[str, object]:
    return {"of_agent": agent, "of_session": session_id}


def _session(tx: Transaction, row: Row) -> Session:
    behind = _COUNT_BEHIND.first(tx, **key_of(row["agent"], row["id"]), behind=row["summarised_to"])
    assert behind is not None  # a count always returns a row
    return Session(
        id=row["id"],
        agent=row["agent"],
        metadata=from_json(row["metadata"]),
        messages=behind["n"] + (row["summary"] is not None),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def content_of(message: SessionMessage) -> str:
    """Returns, as JSON, all non-empty parts of a message that have no column of their own."""
    parts = {name: getattr(message, name) for name in _PARTS}
    return to_json({name: value for name, value in parts.items() if value}).decode()


def message_of(row: Row) -> SessionMessage:
    """Returns the message of a row."""
    parts = cast(dict[str, Any], from_json(row["content"]))
    return SessionMessage(
        role=MessageRole(row["role"]), position=row["position"], created_at=row["created_at"], **parts
    )


def summary_of(row: Row) -> list[SessionMessage]:
    """Returns the summary of a session's row, at the position of its last message; empty without one."""
    if row["summary"] is None:
        return []
    return [
        SessionMessage(
            role=MessageRole.SYSTEM,
            text=row["summary"],
            position=row["summarised_to"],
            created_at=row["summarised_at"],
        )
    ]
