"""Erases a person, identified by the Slack user id.

A digest of the person is kept: Slack's history still contains the earlier messages, and a later read of a thread must
not store them again (`is_forgotten`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Delete,
    Text,
    Update,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    null,
    select,
    update,
)

from swarm.clock import slack_ts_to_us
from swarm.domain.model.requests import HumanDecision, ResumeStatus
from swarm.domain.model.threads import AuthorKind
from swarm.domain.text.copies import TOMBSTONE
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import runs, sessions
from swarm.store.tables.effects import deliveries, webhooks
from swarm.store.tables.requests import audit, escalations, grants, request_answers, request_drafts, requests
from swarm.store.tables.runs import feedback, remarks
from swarm.store.tables.schema import metadata
from swarm.store.tables.sessions import model_usage
from swarm.store.tables.threads import early_messages, forgotten, people, thread_messages
from swarm.store.tables.work import notices, tasks

NOBODY: Final = "forgotten"
"""The author of erased people's messages."""

_t = thread_messages.c
_person: Final[BindParameter[str]] = bindparam("person")
_mention: Final[BindParameter[str]] = bindparam("mention")
_escaped: Final[BindParameter[str]] = bindparam("escaped")
_in_json: Final[BindParameter[str]] = bindparam("in_json")
_RECORD: Final = Statement(
    lambda insert: (
        insert(forgotten)
        .values(person=bindparam("digest"), forgotten_at=bindparam("now"))
        .on_conflict_do_update(index_elements=["person"], set_={"forgotten_at": bindparam("now")})
    )
)
_FORGOTTEN_AT: Final = Statement(select(forgotten.c.forgotten_at).where(forgotten.c.person == bindparam("digest")))
_AUTHORS: Final = Statement(
    select(_t.author_id)
    .where(_t.author_kind == literally(AuthorKind.USER), _t.author_id != NOBODY, _t.author_id != "")
    .distinct()
    .order_by(_t.author_id)
    .limit(AT_MOST_N)
)
_MESSAGES: Final = Statement(
    select(thread_messages).where(_t.author_id == _person).order_by(_t.team, _t.channel, _t.ts).limit(AT_MOST_N)
)
_REQUESTED: Final = Statement(select(tasks.c.id).where(tasks.c.requester == _person, tasks.c.ended_at.is_(None)))
_is_root = _t.ts == _t.thread_ts
_BLANK: Final = Statement(
    update(thread_messages)
    .where(_t.team == bindparam("of_team"), _t.channel == bindparam("in_channel"), _t.ts == bindparam("at_ts"))
    .values(
        author_id=NOBODY,
        author_name=None,
        files="[]",
        # A thread with a deleted root accepts no answers. This thread stays open, because others may still write in it.
        text=case((_is_root & _t.deleted_at.is_(None), TOMBSTONE), else_=""),
        deleted_at=case((_is_root, _t.deleted_at), else_=func.coalesce(_t.deleted_at, bindparam("now"))),
    )
)

# --- Rows that name a person, except their messages


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trace:
    """Rows that name a person: the condition, its parameter in `_name`, and the change to make."""

    where: ColumnElement[bool]
    by: str
    change: Update | Delete

    @property
    def count(self) -> Statement:
        """Returns the statement that counts the rows as ``n``."""
        return Statement(select(func.count().label("n")).select_from(self.change.table).where(self.where))


def _column(column: Column[Any], value: object = None) -> _Trace:
    return _Trace(where=column == _person, by="person", change=update(column.table).values({column: value}))


_early = early_messages.c.message
_session: Final[BindParameter[str]] = bindparam("of_sessions")
_NO_PERSON: Final[ColumnElement[str]] = literal_column(f"'{NOBODY}'")
_pseudonym: Final[BindParameter[str]] = bindparam("pseudonym")
_of_person: Final[BindParameter[str]] = bindparam("of_person")  # for columns with the name of the other parameter
_is_their_answer = (request_answers.c.person == _of_person) & (request_answers.c.person != _pseudonym)
_is_needed = (request_answers.c.decision == literally(HumanDecision.EDIT)) & exists().where(
    requests.c.id == request_answers.c.request_id, requests.c.resume != literally(ResumeStatus.ACCEPTED)
)
_WITHOUT_ANSWERER: Final = {
    "person": _pseudonym,  # the answers of one request are told apart by their people
    # Without the changed arguments, the decision would allow the call as it was before the change.
    "payload": case((_is_needed, request_answers.c.payload), else_='{"values":null,"arguments":null}'),
}
_TRACES: Final[Mapping[str, Sequence[_Trace]]] = {
    "sessions": [_Trace(where=sessions.c.id.like(_session), by="of_sessions", change=delete(sessions))],
    "standings": [_Trace(where=people.c.user_id == _person, by="person", change=delete(people))],
    "opinions": [_Trace(where=feedback.c.user_id == _person, by="person", change=delete(feedback))],
    "remarks": [_Trace(where=remarks.c.user_id == _person, by="person", change=delete(remarks))],
    "early messages": [
        _Trace(where=func.replace(_early, _in_json, "") != _early, by="in_json", change=delete(early_messages))
    ],
    "tasks": [_column(tasks.c.requester)],
    "runs": [
        *(_column(runs.c[name]) for name in ("requester", "stop_requested_by", "retried_by")),
        _column(model_usage.c.requester, ""),
        _Trace(
            where=model_usage.c.session_id.like(_session),
            by="of_sessions",
            change=update(model_usage).values(session_id=f"slack:{NOBODY}"),
        ),
    ],
    "requests": [
        _column(grants.c.given_by, NOBODY),
        _Trace(where=audit.c.person == _of_person, by="of_person", change=update(audit).values(person=_NO_PERSON)),
        _Trace(where=request_drafts.c.person == _person, by="person", change=delete(request_drafts)),
        _Trace(where=_is_their_answer, by="answers", change=update(request_answers).values(_WITHOUT_ANSWERER)),
    ],
    "notices": [_column(notices.c.actor)],
    "escalations": [
        _Trace(where=column == _of_person, by="of_person", change=update(escalations).values({column: null()}))
        for column in (escalations.c.person, escalations.c.on_call_person)
    ],
    "webhooks": [_Trace(where=webhooks.c.person == _person, by="person", change=delete(webhooks))],
    "posts for them": [_Trace(where=deliveries.c.person == _person, by="person", change=delete(deliveries))],
}
_COUNTS: Final = {kind: [(trace.count, trace.by) for trace in traces] for kind, traces in _TRACES.items()}
_CHANGES: Final = {
    kind: [(Statement(trace.change.where(trace.where)), trace.by) for trace in traces]
    for kind, traces in _TRACES.items()
}
_COUNT_MESSAGES: Final = Statement(
    select(func.count().label("n")).select_from(thread_messages).where(_t.author_id == _person)
)


def _mentioned(column: Column[Any]) -> tuple[Statement, Statement]:
    """Returns two statements: one counts texts that mention a person, the other removes the mention.

    A mention uses Slack's syntax, also escaped, or is a string in JSON.
    """
    readable = func.replace(func.replace(column, _mention, "@" + NOBODY), _escaped, "@" + NOBODY)
    without = func.replace(readable, _in_json, '""')
    count = select(func.count().label("n")).select_from(column.table).where(without != column)
    return Statement(count), Statement(update(column.table).where(without != column).values({column: without}))


_NO_WORDS: Final = (
    "_id",
    "_ts",
    "_kind",
    "_by",
    "_token",
    "_hash",
    "_key",
    "status",
    "kind",
    "phase",
    "role",
    "digest",
)
"""Suffixes of columns that contain no mentions."""

_MENTIONS: Final = [
    _mentioned(column)
    for table in metadata.sorted_tables
    for column in table.c
    if isinstance(column.type, Text) and not column.primary_key and not column.name.endswith(_NO_WORDS)
]


def digest(person: str) -> str:
    """Returns the stored form of an erased person."""
    return hashlib.sha256(f"swarm.person:{person}".encode()).hexdigest()


def record(tx: Transaction, person: str) -> None:
    """Records that a person was erased at the time of the transaction."""
    _RECORD.run(tx, digest=digest(person), now=tx.now)


def is_forgotten(tx: Transaction, person: str, ts: str) -> bool:
    """Returns whether a person was erased after writing the message at ``ts``."""
    return was_forgotten_since(tx, person, slack_ts_to_us(ts))


def was_forgotten_since(tx: Transaction, person: str, moment: int) -> bool:
    """Returns whether a person was erased at or after ``moment``."""
    row = _FORGOTTEN_AT.first(tx, digest=digest(person))
    return row is not None and moment <= row["forgotten_at"]


def authors(tx: Transaction, limit: int) -> list[str]:
    """Returns the ids of up to ``limit`` people with stored messages."""
    return [row["author_id"] for row in _AUTHORS.all(tx, n=limit)]


def messages_of(tx: Transaction, person: str, limit: int) -> list[Row]:
    """Returns up to ``limit`` messages of a person, including tombstones."""
    return _MESSAGES.all(tx, person=person, n=limit)


def requested_by(tx: Transaction, person: str) -> list[str]:
    """Returns the open tasks requested by a person."""
    return [row["id"] for row in _REQUESTED.all(tx, person=person)]


def blank(tx: Transaction, message: Row) -> None:
    """Replaces a message with a tombstone that does not name its author."""
    _BLANK.run(tx, of_team=message["team"], in_channel=message["channel"], at_ts=message["ts"], now=tx.now)


def count(tx: Transaction, person: str) -> dict[str, int]:
    """Returns the number of rows about a person, by kind."""
    found = {"messages": _n(_COUNT_MESSAGES.first(tx, person=person))}
    for kind, counts in _COUNTS.items():
        found[kind] = sum(_n(one.first(tx, **_name(by, person))) for one, by in counts)
    return found | {"mentions": sum(_n(one.first(tx, **_written(person))) for one, _ in _MENTIONS)}


def forget(tx: Transaction, person: str) -> dict[str, int]:
    """Deletes or changes all rows that name a person, except messages. Returns the number of rows by kind."""
    done = {kind: sum(one.run(tx, **_name(by, person)) for one, by in changes) for kind, changes in _CHANGES.items()}
    return done | {"mentions": sum(one.run(tx, **_written(person)) for _, one in _MENTIONS)}


def _name(by: str, person: str) -> dict[str, str]:
    if by == "answers":
        return {"of_person": person, "pseudonym": f"{NOBODY}-{digest(person)[:12]}"}
    return {
        by: {"person": person, "of_person": person, "of_sessions": f"slack:%:{person}", "in_json": f'"id":"{person}"'}[
            by
        ]
    }


def _written(person: str) -> dict[str, str]:
    return {"mention": f"<@{person}>", "escaped": f"&lt;@{person}&gt;", "in_json": f'"{person}"'}


def _n(row: Row | None) -> int:
    return int(row["n"]) if row else 0
