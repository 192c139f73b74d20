"""Sessions of built-in agents: what was said, in order, and the summary that is told in place of its older part.

Who may act: any process. Whoever adds has locked the session's row first, so that positions are given once and the
messages of one run stand together.
What is guaranteed: what the summary stands for is what was read to make it, for it is stored only if since then none of
those messages was replaced, no other summary came, and the session was not forgotten and begun anew (`summarise`).
Messages that came meanwhile stand behind it.
What happens on failure: nothing was changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json, to_json
from sqlalchemy import BigInteger, Executable, Select, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy import tuple_ as columns

from swarm.domain.sessions import MessageRole, Session, SessionMessage
from swarm.store.conditions import AT_MOST_N
from swarm.store.statements import InsertFactory, Row, Statement
from swarm.store.tables import session_messages, sessions
from swarm.store.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What an agent is told of a session, oldest first, and by what to know that this was not changed since."""

    messages: Sequence[SessionMessage]
    edition: int
    created_at: int  # microseconds since 1970 UTC; that of a session which was forgotten and begun anew is another


_FAR: Final = 10**15
"""Farther than any position, so that messages on their way to new positions do not meet."""

_s, _m = sessions.c, session_messages.c
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
_before = _s.updated_at < bindparam("before")
_FORGET = Statement(
    delete(sessions).where(
        columns(_s.agent, _s.id).in_(
            select(_s.agent, _s.id).where(_before).order_by(_s.updated_at).limit(AT_MOST_N).correlate(None)
        ),
        _before,  # once more, for one that is used at this moment
    )
)


def _messages_behind(*what: Any) -> Select[Any]:
    return select(*what).where(_of_session, _m.position > bindparam("behind"))


_BEHIND = Statement(_messages_behind(session_messages).order_by(_m.position))
_COUNT_BEHIND = Statement(_messages_behind(func.count().label("n")))
_OF_RUN = Statement(_messages_behind(_m.position).where(_m.run == bindparam("of_run")).order_by(_m.position))
_LAST = Statement(select(func.max(_m.position).label("position")).where(_of_session))
_DROP = Statement(
    delete(session_messages).where(
        _of_session, _m.position >= bindparam("from_position"), _m.position <= bindparam("to_position")
    )
)
_ADD = Statement(
    insert(session_messages).values(
        agent=bindparam("of_agent"),
        session_id=bindparam("of_session"),
        position=bindparam("at"),
        role=bindparam("with_role"),
        content=bindparam("with_content"),
        run=bindparam("of_run"),
        created_at=bindparam("now"),
    )
)
_far = literal_column(str(_FAR), BigInteger)
_LIFT = Statement(
    update(session_messages).where(_of_session, _m.position > bindparam("behind")).values(position=_m.position + _far)
)
_SETTLE = Statement(
    update(session_messages)
    .where(_of_session, _m.position > _far)
    .values(position=_m.position - _far + bindparam("by", type_=BigInteger))
)


def use(tx: Transaction, agent: str, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
    """The session, made if it is not there and locked, with these keys of its metadata set."""
    row = _lock(tx, agent, session_id)
    if metadata:
        known = {**from_json(row["metadata"]), **metadata}
        _DESCRIBE.run(tx, **_named(agent, session_id), new_metadata=to_json(known).decode())
        row = {**row, "metadata": to_json(known).decode()}
    return _session(tx, row)


def told(tx: Transaction, agent: str, session_id: str) -> Told:
    """What the agent is told: the summary, at the position of the last message in it, and what came after that."""
    row = _GET.first(tx, **_named(agent, session_id))
    if row is None:
        return Told(messages=(), edition=0, created_at=0)
    later = _BEHIND.all(tx, **_named(agent, session_id), behind=row["summarised_to"])
    return Told(messages=[*_summary(row), *map(_message, later)], edition=row["edition"], created_at=row["created_at"])


def originals(tx: Transaction, agent: str, session_id: str) -> list[SessionMessage]:
    """All messages, those in the summary too."""
    return [_message(row) for row in _BEHIND.all(tx, **_named(agent, session_id), behind=0)]


def add(tx: Transaction, agent: str, session_id: str, message: SessionMessage) -> SessionMessage:
    """Add a message behind all others; it, with its position. The session is made if it is not there."""
    _lock(tx, agent, session_id)
    position = _end(tx, agent, session_id) + 1
    _write(tx, agent, session_id, None, position, [message])
    row = {"position": position, "created_at": tx.now, "role": message.role, "content": _content(message)}
    return _message(row)


def add_run(tx: Transaction, agent: str, session_id: str, run: str, messages: Sequence[SessionMessage]) -> None:
    """Add the messages of a run behind all others, or in place of those of its messages that are still told."""
    row = _lock(tx, agent, session_id)
    earlier = _OF_RUN.all(tx, **_named(agent, session_id), behind=row["summarised_to"], of_run=run)
    if earlier:
        first, last = earlier[0]["position"], earlier[-1]["position"]  # they stand together
        _make_room(tx, agent, session_id, first, last, len(messages))
        _COUNT_EDITION.run(tx, **_named(agent, session_id))
    else:
        first = _end(tx, agent, session_id) + 1
    _write(tx, agent, session_id, run, first, messages)


def summarise(tx: Transaction, agent: str, session_id: str, seen: Told, to: int, summary: str) -> bool:
    """Tell ``summary`` in place of all messages up to position ``to``; whether ``seen`` was still so."""
    return bool(
        _SUMMARISE.run(
            tx,
            **_named(agent, session_id),
            seen_edition=seen.edition,
            seen_created_at=seen.created_at,
            new_summary=summary,
            new_summarised_to=to,
            now=tx.now,
        )
    )


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Drop so many sessions that were last used before then, with all that was said; how many there were."""
    return _FORGET.run(tx, before=before, n=limit)


def _lock(tx: Transaction, agent: str, session_id: str) -> Row:
    row = _USE.first(tx, **_named(agent, session_id), now=tx.now)
    assert row is not None  # an upsert without a condition gives its row
    return row


def _end(tx: Transaction, agent: str, session_id: str) -> int:
    """The last position. The session must be locked."""
    row = _LAST.first(tx, **_named(agent, session_id))
    return int(row["position"] or 0) if row else 0


def _make_room(tx: Transaction, agent: str, session_id: str, first: int, last: int, size: int) -> None:
    """Drop the messages from ``first`` to ``last``, and move what is behind them so that ``size`` fit in there."""
    _DROP.run(tx, **_named(agent, session_id), from_position=first, to_position=last)
    by = size - (last - first + 1)
    if by and _LIFT.run(tx, **_named(agent, session_id), behind=last):
        _SETTLE.run(tx, **_named(agent, session_id), by=by)


def _write(
    tx: Transaction, agent: str, session_id: str, run: str | None, first: int, messages: Sequence[SessionMessage]
) -> None:
    _ADD.many(
        tx,
        [
            _named(agent, session_id)
            | {
                "at": position,
                "with_role": message.role.value,
                "with_content": _content(message),
                "of_run": run,
                "now": tx.now,
            }
            for position, message in enumerate(messages, first)
        ],
    )


def _named(agent: str, session_id: str) -> dict[str, object]:
    return {"of_agent": agent, "of_session": session_id}


def _content(message: SessionMessage) -> str:
    """All that has no column of its own, without what is empty."""
    content = {
        "text": message.text,
        "author": message.author,
        "call_id": message.call_id,
        "tool": message.tool,
        "arguments": message.arguments,
        "failed": message.failed,
    }
    return to_json({key: value for key, value in content.items() if value}).decode()


def _message(row: Row) -> SessionMessage:
    content = cast(dict[str, Any], from_json(row["content"]))
    return SessionMessage(
        role=MessageRole(row["role"]), position=row["position"], created_at=row["created_at"], **content
    )


def _summary(row: Row) -> list[SessionMessage]:
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


def _session(tx: Transaction, row: Row) -> Session:
    behind = _COUNT_BEHIND.first(tx, **_named(row["agent"], row["id"]), behind=row["summarised_to"])
    assert behind is not None  # a count is always there
    return Session(
        id=row["id"],
        agent=row["agent"],
        metadata=from_json(row["metadata"]),
        messages=behind["n"] + (row["summary"] is not None),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
