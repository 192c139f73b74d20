"""The open work of people: their messages that are not answered, and their tasks.

Every query starts from open rows, which partial indexes list, so its cost does not grow with finished work.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    Text,
    bindparam,
    func,
    literal_column,
    select,
    union,
    union_all,
)

from swarm.domain.commands import WorkState
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.tasks import OPEN_STATUSES
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, given, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import requests, runs, thread_messages, threads
from swarm.store.tables.work import inbox_messages, lease_members, leases, tasks

MOST_MESSAGES: Final = 1_000
"""The maximum number of messages that one query returns."""

_i, _m, _h, _t = inbox_messages.c, thread_messages.c, threads.c, tasks.c
_given_people = given(user_id=Text)
_is_open_request = requests.c.status == literally(RequestStatus.OPEN)
_is_open_task = _t.status.in_([literally(status) for status in sorted(OPEN_STATUSES)])


def _messages(state: WorkState, status: InboxStatus, found: FromClause = inbox_messages) -> Select[Any]:
    """Returns the messages of the given people with one status. ``found`` leads to them by an index."""
    return (
        select(
            literal_column(f"'{state.value}'").label("state"),
            _h.id.label("thread_id"),
            _h.channel,
            _h.thread_ts,
            _i.agent_id,
            _i.created_at,
            _m.author_id.label("requester"),
            func.substr(_m.text, 1, bindparam("characters")).label("title"),
        )
        .select_from(
            found.join(
                thread_messages, (_m.team == _i.team) & (_m.channel == _i.channel) & (_m.ts == _i.ts)
            )
            .join(_given_people, _given_people.c.user_id == _m.author_id)
            .join(threads, _h.id == _i.thread_id)
        )
        .where(_i.status == literally(status))
    )  # fmt: skip


_claimed = (
    leases.join(lease_members, lease_members.c.token == leases.c.token)
    .join(inbox_messages, _i.id == lease_members.c.inbox_message_id)
)  # fmt: skip
_asking = requests.join(inbox_messages, _i.id == requests.c.work_id)
_unanswered = union_all(
    _messages(WorkState.QUEUED, InboxStatus.UNREAD),
    _messages(WorkState.RUNNING, InboxStatus.CLAIMED, _claimed).where(leases.c.ended_at.is_(None)),
    _messages(WorkState.ASKING, InboxStatus.WAITING, _asking).where(_is_open_request),
).subquery()
_MESSAGES = Statement(select(_unanswered).order_by(_unanswered.c.created_at).limit(AT_MOST_N))


def _tasks(condition: ColumnElement[bool]) -> Select[Any]:
    return (
        select(
            _t.id, _t.title, _t.status, _t.agent_id, _t.requester, _t.created_at,
            _h.id.label("thread_id"), _h.channel, _h.thread_ts,
        )
        .select_from(tasks.join(threads, _h.id == _t.thread_id))
        .where(_is_open_task, condition)
        .order_by(_t.created_at, _t.id)
        .limit(AT_MOST_N)
    )  # fmt: skip


_TASKS = Statement(_tasks(_t.requester.in_(select(_given_people.c.user_id))))
_TASKS_IN_CHANNEL = Statement(_tasks((_h.team == bindparam("team")) & (_h.channel == bindparam("channel"))))
_is_of_person = [table.c.requester == bindparam("person") for table in (runs, tasks, requests)]
_is_unfinished = runs.c.status.in_([literally(status) for status in sorted(UNFINISHED)])
_with_open_work = union(
    select(runs.c.thread_id).where(_is_unfinished, runs.c.ended_at.is_(None), _is_of_person[0]),
    select(_t.thread_id).where(_is_open_task, _is_of_person[1]),
    select(requests.c.thread_id).where(_is_open_request, _is_of_person[2]),
).subquery()
_STOPPABLE = Statement(
    select(_h.id)
    .select_from(_with_open_work.join(threads, _h.id == _with_open_work.c.thread_id))
    .where(_h.team == bindparam("team"), _h.channel == bindparam("channel"))
    .order_by(_h.id)
)
_LATEST_MESSAGE = Statement(
    select(_m.ts)
    .where(
        _m.team == bindparam("team"),
        _m.channel == bindparam("channel"),
        _m.author_id == bindparam("person"),
        _m.deleted_at.is_(None),
        _m.ts >= bindparam("oldest"),
    )
    .order_by(_m.ts.desc())
    .limit(1)
)


def messages(tx: Transaction, people: Collection[str], characters: int) -> list[Row]:
    """Returns the messages of people (Slack user ids) that wait for an agent, are being answered, or wait for a
    decision, oldest first.

    A row has ``state`` (a `WorkState`), the place, ``agent_id``, ``requester``, and the first ``characters`` as
    ``title``.
    """
    rows = [{"user_id": person} for person in sorted(people)]
    return _MESSAGES.all(tx, given=rows, characters=characters, n=MOST_MESSAGES) if rows else []


def tasks_of(tx: Transaction, people: Collection[str], limit: int) -> list[Row]:
    """Returns the open tasks that people (Slack user ids) have asked for, oldest first, with their place."""
    rows = [{"user_id": person} for person in sorted(people)]
    return _TASKS.all(tx, given=rows, n=limit) if rows else []


def tasks_in_channel(tx: Transaction, team: str, channel: str, limit: int) -> list[Row]:
    """Returns the open tasks in the threads of a channel, oldest first, with their place."""
    return _TASKS_IN_CHANNEL.all(tx, team=team, channel=channel, n=limit)


def stoppable_threads(tx: Transaction, team: str, channel: str, person: str) -> list[str]:
    """Returns the ids of a channel's threads with an unfinished run, an open task or an open request of a person."""
    return [row["id"] for row in _STOPPABLE.all(tx, team=team, channel=channel, person=person)]


def latest_message(tx: Transaction, team: str, channel: str, person: str, oldest: str) -> str | None:
    """Returns the timestamp of the newest stored message of a person in a channel since ``oldest``."""
    row = _LATEST_MESSAGE.first(tx, team=team, channel=channel, person=person, oldest=oldest)
    return row["ts"] if row else None
