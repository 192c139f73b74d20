"""Erases the traces of a message deleted in Slack from other rows; `transcript.mark_deleted` changes its own row.

Rows that result from a message are found by reference: its notices, the session messages of runs that read it, and the
stored answer behind one of Swarm's posts. Verbatim copies are found by text search (`cut_copies`): in texts of agents
and the system about its thread, and in later session and agent messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json
from sqlalchemy import BindParameter, Column, ColumnElement, Text, bindparam, case, delete, func, or_, select, update

from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.threads import AuthorKind, Thread
from swarm.domain.text.copies import SHORTEST_ANYWHERE, SHORTEST_IN_THREAD, TOMBSTONE
from swarm.store.bridge.statements import Row, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import runs, sessions
from swarm.store.tables.agents import agent_messages
from swarm.store.tables.effects import deliveries, history
from swarm.store.tables.requests import audit, escalations, request_answers, requests
from swarm.store.tables.runs import feedback, run_events, run_log_pieces, run_messages
from swarm.store.tables.sessions import session_messages
from swarm.store.tables.threads import thread_messages
from swarm.store.tables.work import inbox_messages, notices, tasks

ERASED: Final = "{}"
"""The content of an erased session message."""

_d, _s, _m, _t, _tm = deliveries.c, sessions.c, session_messages.c, runs.c, thread_messages.c

# --- Verbatim copies

_thread: Final[BindParameter[str]] = bindparam("of_thread", type_=Text)
# Leaves out a text that is still being written. The answer of a run that waits for people is complete.
_ended = (_t.thread_id == _thread) & _t.status.not_in([literally(status) for status in sorted(UNFINISHED)])
_ended_runs = select(_t.id).where(_ended)
_requests_there = select(requests.c.id).where(requests.c.thread_id == _thread)
_posted_there = or_(
    _d.inbox_message_id.in_(select(inbox_messages.c.id).where(inbox_messages.c.thread_id == _thread)),
    _d.task_id.in_(select(tasks.c.id).where(tasks.c.thread_id == _thread)),
    _d.request_id.in_(_requests_there),
    _d.idempotency_key == literally("title:") + _thread,
)
_IN_THREAD: Final[Sequence[tuple[Column[Any], ColumnElement[bool]]]] = (
    *(
        (tasks.c[name], tasks.c.thread_id == _thread)
        for name in ("title", "description", "progress", "result", "error")
    ),
    (notices.c.text, (notices.c.thread_id == _thread) & notices.c.text.is_not(None)),
    (history.c.reason, history.c.thread_id == _thread),
    (escalations.c.reason, escalations.c.thread_id == _thread),
    (requests.c.reason, (requests.c.thread_id == _thread) & requests.c.reason.is_not(None)),
    (_d.text, _posted_there),
    (feedback.c.comment, (feedback.c.thread_id == _thread) & feedback.c.comment.is_not(None)),
    (_t.final_text, _ended),
    (_t.outcome_note, _ended),
    (run_messages.c.text, run_messages.c.run_id.in_(_ended_runs)),
    (run_events.c.payload, run_events.c.run_id.in_(_ended_runs)),
)
_JSON: Final = frozenset({run_events.c.payload})
_LOGGED: Final = (run_log_pieces.c.text, run_log_pieces.c.run_id.in_(select(_t.id).where(_t.thread_id == _thread)))
_part: Final[BindParameter[str]] = bindparam("part")


def _without(column: Column[Any]) -> ColumnElement[Any]:
    return func.replace(column, _part, TOMBSTONE)


def _cut(column: Column[Any], where: ColumnElement[bool]) -> Statement:
    """Returns a statement that cuts a part out of longer texts. Built at its first use, since a start is slow."""
    return Statement(
        lambda _: update(column.table).where(where, _without(column) != column).values({column: _without(column)})
    )


def _cut_whole(column: Column[Any], where: ColumnElement[bool]) -> Statement:
    """Returns a statement that cuts texts equal to the part."""
    return Statement(lambda _: update(column.table).where(where, column == _part).values({column: TOMBSTONE}))


_CUTS: Final = [
    *((_cut(column, where), column in _JSON) for column, where in _IN_THREAD),
    *((_cut(*_LOGGED), is_json) for is_json in (False, True)),  # programs write both texts and JSON
]
_CUTS_WHOLE: Final = [_cut_whole(column, where) for column, where in _IN_THREAD if column not in _JSON]
_CUT_POSTS: Final = _cut(
    _tm.text,
    (_tm.team == bindparam("of_team"))
    & (_tm.channel == bindparam("in_channel"))
    & (_tm.thread_ts == bindparam("in_thread"))
    & (_tm.author_kind == literally(AuthorKind.AGENT)),
)
_sent_since = agent_messages.c.created_at >= bindparam("since")
_CUT_AUDIT: Final = _cut(audit.c.outcome, (audit.c.at >= bindparam("since")) & audit.c.request_id.in_(_requests_there))
_CUT_BETWEEN_AGENTS: Final = _cut(agent_messages.c.text, _sent_since)
_CUT_NEWS_OF_THOSE: Final = _cut(
    notices.c.text, notices.c.agent_message_id.in_(select(agent_messages.c.id).where(_sent_since))
)
_used_since = _s.updated_at >= bindparam("since")
_SUMMARISED: Final = Statement(
    select(_s.agent, _s.id.label("session_id"), _s.summarised_to.label("position")).where(
        _used_since, _without(_s.summary) != _s.summary
    )
)
_REMEMBERED_COPIES: Final = Statement(
    select(_m.agent, _m.session_id, _m.position)
    .join(sessions, (_s.agent == _m.agent) & (_s.id == _m.session_id))
    .where(_used_since, _without(_m.content) != _m.content)
)
_one_message = (
    (_m.agent == bindparam("of_agent")) & (_m.session_id == bindparam("of_session")) & (_m.position == bindparam("at"))
)
_CUT_REMEMBERED: Final = Statement(update(session_messages).where(_one_message).values(content=_without(_m.content)))


# Requests are read while they are open and long afterwards, so only their texts are cut, never what gives them meaning.
_r, _a = requests.c, request_answers.c
_MEANINGS: Final = frozenset(
    {"key", "type", "name", "decisions", "policy", "pattern", "schema", "agent_request_id", "expires_seconds"}
)
_ASKED: Final = Statement(
    select(_r.id, _r.payload).where(_r.thread_id == _thread, _without(_r.payload) != _r.payload)
)  # fmt: skip
_CUT_ASKED: Final = Statement(
    update(requests).where(_r.id == bindparam("of_request")).values(payload=bindparam("new_payload"))
)
_ANSWERED: Final = Statement(
    select(request_answers)
    .join(requests, _r.id == _a.request_id)
    .where(_r.thread_id == _thread, _without(_a.payload) != _a.payload)
)
_FREE_KEY: Final = Statement(
    update(requests).where(_r.id == bindparam("of_request"), _r.ended_at.is_not(None)).values(key=_r.key + ":" + _r.id)
)
_ANSWERS_TO: Final = Statement(select(request_answers).where(_a.request_id == bindparam("of_request")))
_CUT_ANSWERED: Final = Statement(
    update(request_answers)
    .where(_a.request_id == bindparam("of_request"), _a.person == bindparam("of_person"))
    .values(payload=bindparam("new_payload"))
)


def cut_copies(tx: Transaction, thread: Thread, since: int, parts: Iterable[str]) -> int:
    """Cuts parts of a deleted message out of other texts in its thread, and out of agents' later texts.

    Returns the number of changed texts. Messages of other people are unchanged.
    """
    return sum(_cut_part(tx, thread, since, part) for part in parts)


def _cut_part(tx: Transaction, thread: Thread, since: int, part: str) -> int:
    if len(part) < SHORTEST_IN_THREAD:
        return sum(statement.run(tx, of_thread=thread.id, part=part) for statement in _CUTS_WHOLE)
    cut = sum(
        statement.run(tx, of_thread=thread.id, part=_as_json(part) if is_json else part) for statement, is_json in _CUTS
    )
    cut += _cut_requests(tx, thread.id, part) + _CUT_AUDIT.run(tx, of_thread=thread.id, since=since, part=part)
    place = {"of_team": thread.team, "in_channel": thread.channel, "in_thread": thread.thread_ts}
    cut += _CUT_POSTS.run(tx, **place, part=part)
    if len(part) >= SHORTEST_ANYWHERE:
        for statement in (_CUT_BETWEEN_AGENTS, _CUT_NEWS_OF_THOSE):
            cut += statement.run(tx, since=since, part=part)
        cut += _cut_remembered(tx, since, part)
    return cut


def _cut_requests(tx: Transaction, thread_id: str, part: str) -> int:
    cut = 0
    for row in _ASKED.all(tx, of_thread=thread_id, part=_as_json(part)):
        payload = to_json(_cut_texts(from_json(row["payload"]), part, _MEANINGS)).decode()
        cut += _CUT_ASKED.run(tx, of_request=row["id"], new_payload=payload)
        free_key(tx, row["id"])
    for row in _ANSWERED.all(tx, of_thread=thread_id, part=_as_json(part)):
        cut += _cut_answer(tx, row, _cut_texts(from_json(row["payload"]), part))
    return cut


def _cut_answer(tx: Transaction, row: Row, payload: Any) -> int:
    free_key(tx, row["request_id"])
    new = to_json(payload).decode()
    return _CUT_ANSWERED.run(tx, of_request=row["request_id"], of_person=row["person"], new_payload=new)


def free_key(tx: Transaction, request_id: str) -> None:
    """Lets the question of an ended request be asked again."""
    _FREE_KEY.run(tx, of_request=request_id)


def forget_values(tx: Transaction, request_id: str, names: frozenset[str]) -> None:
    """Erases the values of fields from the answers to a request. A Retry of its work asks anew."""
    for row in _ANSWERS_TO.all(tx, of_request=request_id) if names else ():
        payload = from_json(row["payload"])
        values = payload["values"] or {}
        if gone := dict.fromkeys(names & values.keys()):
            _cut_answer(tx, row, {**payload, "values": values | gone})


def _cut_texts(value: Any, part: str, kept: frozenset[str] = frozenset()) -> Any:
    """Cuts a part out of all texts in a JSON value, except the names and what is ``kept``."""
    if isinstance(value, str):
        return value.replace(part, TOMBSTONE)
    if isinstance(value, list):
        return [_cut_texts(one, part, kept) for one in value]
    if isinstance(value, dict):
        return {
            name: one if name in kept else _cut_texts(one, part, frozenset() if name in ("arguments", "raw") else kept)
            for name, one in value.items()
        }
    return value


def _cut_remembered(tx: Transaction, since: int, part: str) -> int:
    summaries = _SUMMARISED.all(tx, since=since, part=part)
    messages = _REMEMBERED_COPIES.all(tx, since=since, part=_as_json(part))
    _unsettle(tx, [*summaries, *messages])
    for row in messages:
        _CUT_REMEMBERED.run(tx, **_at(row), part=_as_json(part))
    return len(summaries) + len(messages)


# --- By reference

_REWORD_NEWS: Final = Statement(
    update(notices)
    .where(
        notices.c.thread_id == _thread,
        notices.c.text.is_not(None),
        notices.c.inbox_message_id == bindparam("of_inbox_message"),
        notices.c.kind == literally(NoticeKind.MESSAGE_CHANGED),
    )
    .values(text=bindparam("new_text"))
)  # fmt: skip
_DELEGATED_AS: Final = Statement(
    select(tasks.c.id).where(tasks.c.thread_id == _thread, tasks.c.inbox_message_id == bindparam("of_inbox_message"))
)
_SOURCES: Final = Statement(
    select(_m.agent, _m.session_id, _m.position, _m.agui_run_id, _m.content).where(
        _m.source == bindparam("of_source"), _m.content != ERASED
    )
)
_OF_RUN: Final = Statement(
    select(_m.agent, _m.session_id, _m.position).where(
        _m.agent == bindparam("of_agent"),
        _m.session_id == bindparam("of_session"),
        _m.agui_run_id == bindparam("of_run"),
        _m.source.is_(None),
        _m.content != ERASED,
    )
)
_ERASE: Final = Statement(
    update(session_messages)
    .where(_one_message)
    .values(content=ERASED, replaced_at=func.coalesce(_m.replaced_at, bindparam("now")))
)
_REWORD: Final = Statement(update(session_messages).where(_one_message).values(content=bindparam("new_content")))
_covered = _s.summarised_to >= bindparam("at")
_UNSETTLE: Final = Statement(
    update(sessions)
    .where(_s.agent == bindparam("of_agent"), _s.id == bindparam("of_session"))
    .values(
        edition=_s.edition + 1,
        summary=case((_covered, None), else_=_s.summary),
        summarised_to=case((_covered, 0), else_=_s.summarised_to),
        summarised_at=case((_covered, None), else_=_s.summarised_at),
    )
)


def reword_notices(tx: Transaction, thread_id: str, inbox_message_id: str, text: str) -> int:
    """Stores the new text of an edited message in its notices. Returns the number of notices."""
    return _REWORD_NEWS.run(tx, of_thread=thread_id, of_inbox_message=inbox_message_id, new_text=text)


def forget_remembered(tx: Transaction, thread_id: str, inbox_message_id: str) -> int:
    """Erases a message from sessions, with the work and answers of the runs that read it.

    Returns the number of erased session messages. Other messages read by such a run are kept. An affected summary is
    deleted; the next summary is created from the remaining messages.
    """
    return sum(_forget_source(tx, source, is_kept=False) for source in _sources(tx, thread_id, inbox_message_id))


def reword_remembered(tx: Transaction, inbox_message_id: str, text: str) -> int:
    """Stores the new text of a message in sessions. Returns the number of session messages.

    An affected summary is deleted. The answers are kept: they answered an earlier text, as in Slack.
    """
    rows = _SOURCES.all(tx, of_source=inbox_message_id)
    _unsettle(tx, rows)
    for row in rows:
        _REWORD.run(tx, **_at(row), new_content=to_json({**from_json(row["content"]), "text": text}).decode())
    return len(rows)


def _sources(tx: Transaction, thread_id: str, inbox_message_id: str) -> list[str]:
    """Returns the sources of a message. An agent reads it either directly or as the task it was delegated as."""
    return [
        inbox_message_id,
        *(row["id"] for row in _DELEGATED_AS.all(tx, of_thread=thread_id, of_inbox_message=inbox_message_id)),
    ]


def _forget_source(tx: Transaction, source: str, *, is_kept: bool, run: str | None = None) -> int:
    """Erases the work of all runs that read a source, or of one ``run``, and also the source unless ``is_kept``
    is set.
    """
    read = [row for row in _SOURCES.all(tx, of_source=source) if run in (None, row["agui_run_id"])]
    results = [
        result
        for row in read
        if row["agui_run_id"]
        for result in _OF_RUN.all(tx, of_agent=row["agent"], of_session=row["session_id"], of_run=row["agui_run_id"])
    ]
    rows = [*([] if is_kept else read), *results]
    _unsettle(tx, rows)
    for row in rows:
        _ERASE.run(tx, **_at(row), now=tx.now)
    return len(rows)


def _unsettle(tx: Transaction, rows: Iterable[Row]) -> None:
    """Locks the sessions of these messages before a change, and deletes summaries that contain them."""
    first: dict[tuple[str, str], int] = {}
    for row in rows:
        name = (row["agent"], row["session_id"])
        first[name] = min(row["position"], first.get(name, row["position"]))
    for (agent, session_id), position in sorted(first.items()):
        _UNSETTLE.run(tx, of_agent=agent, of_session=session_id, at=position)


# --- Answers

_sent = select(_d.id).where(_posted_there, _d.sent_ts == bindparam("at_ts"))
_FORGET_POST: Final = Statement(
    update(deliveries)
    .where(
        or_(_d.id.in_(_sent), _d.updates_id.in_(_sent) & _posted_there),
        _d.due_at.is_(None),
        or_(_d.text != "", _d.closing.is_not(None)),
    )
    .values(text="", closing=None)
)
_SHOWN: Final = Statement(
    select(_t.id, _t.agui_run_id, _t.inbox_message_ids, _t.task_id)
    .join(run_messages, run_messages.c.run_id == _t.id)
    .where(_t.thread_id == _thread, _t.ended_at.is_not(None), run_messages.c.ts == bindparam("at_ts"))
)
_FORGET_PAGE: Final = Statement(
    update(run_messages)
    .where(run_messages.c.run_id == bindparam("of_run"), run_messages.c.ts == bindparam("at_ts"))
    .values(text=None)
)
_FORGET_ANSWER: Final = Statement(
    update(runs).where(_t.id == bindparam("of_run")).values(final_text=None, final_closing=None)
)
_FORGET_COMMENTS: Final = Statement(
    update(feedback)
    .where(
        feedback.c.thread_id == _thread, feedback.c.message_ts == bindparam("at_ts"), feedback.c.comment.is_not(None)
    )
    .values(comment=None)
)
_FORGET_EVENTS: Final = Statement(delete(run_events).where(run_events.c.run_id == bindparam("of_run")))
# Emptied, not deleted, because the runner may send more, and counts what it has sent.
_FORGET_LOG: Final = Statement(
    update(run_log_pieces).where(run_log_pieces.c.run_id == bindparam("of_run")).values(text="")
)
_asked_by = (requests.c.run_id == bindparam("of_run")) & requests.c.ended_at.is_not(None)
_FORGET_ASKED: Final = Statement(update(requests).where(_asked_by).values(payload='{"key":"","title":""}'))
_FORGET_ANSWERS: Final = Statement(
    update(request_answers)
    .where(request_answers.c.request_id.in_(select(requests.c.id).where(_asked_by)))
    .values(payload='{"values":null,"arguments":null}')
)
_GONE_POSTS: Final = Statement(
    select(_tm.team, _tm.channel, _tm.thread_ts, _tm.ts).where(
        _tm.deleted_at >= bindparam("since"), _tm.author_kind == literally(AuthorKind.AGENT)
    )
)
_LAST_DELETED: Final = Statement(select(func.max(_tm.deleted_at).label("at")).where(_tm.deleted_at.is_not(None)))


def forget_answer(tx: Transaction, thread: Thread, ts: str) -> int:
    """Erases the stored answer behind one of Swarm's posts, also from sessions. Returns the number of rows.

    An answer that is still being written or sent is kept until it ends (`gone_posts`).
    """
    erased = _FORGET_POST.run(tx, of_thread=thread.id, at_ts=ts)
    erased += _FORGET_COMMENTS.run(tx, of_thread=thread.id, at_ts=ts)
    for run in _SHOWN.all(tx, of_thread=thread.id, at_ts=ts):
        erased += _forget_run(tx, run) + _FORGET_PAGE.run(tx, of_run=run["id"], at_ts=ts)
    return erased


def gone_posts(tx: Transaction, since: int) -> list[Row]:
    """Returns Swarm's posts that were deleted in Slack since ``since``: ``team``, ``channel``, ``thread_ts``,
    ``ts``.
    """
    return _GONE_POSTS.all(tx, since=since)


def last_deleted(tx: Transaction) -> int:
    """Returns when a message was last deleted, in microseconds since 1970 UTC; 0 if never."""
    row = _LAST_DELETED.first(tx)
    return int(row["at"] or 0) if row else 0


def _forget_run(tx: Transaction, run: Row) -> int:
    erased = _FORGET_ANSWER.run(tx, of_run=run["id"])
    for statement in (_FORGET_EVENTS, _FORGET_LOG, _FORGET_ASKED, _FORGET_ANSWERS):
        erased += statement.run(tx, of_run=run["id"])
    sources = [run["task_id"]] if run["task_id"] else from_json(run["inbox_message_ids"])
    return erased + sum(_forget_source(tx, source, is_kept=True, run=run["agui_run_id"]) for source in sources)


def _at(row: Row) -> Mapping[str, object]:
    return {"of_agent": row["agent"], "of_session": row["session_id"], "at": row["position"]}


def _as_json(part: str) -> str:
    """Returns a text escaped as in a JSON string."""
    return json.dumps(part, ensure_ascii=False)[1:-1]
