"""The open work of people: their messages that are not answered, and their tasks.

Work for which nobody has asked is left out, because its answer may be withheld; see `swarm.services.speaking.silence`.
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
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
    union,
    union_all,
)

from swarm.domain.commands import WorkState
from swarm.domain.model.agents import Reach
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.tasks import ACTIVE_STATUSES, OPEN_STATUSES
from swarm.domain.model.threads import AuthorKind, Silence
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, given, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, requests, runs, thread_messages, threads
from swarm.store.tables.work import inbox_messages, lease_members, leases, tasks

MOST_MESSAGES: Final = 1_000
"""The maximum number of messages that one query returns."""

_i, _m, _h, _t = inbox_messages.c, thread_messages.c, threads.c, tasks.c
_given_people = given(user_id=Text)
_is_open_request = requests.c.status == literally(RequestStatus.OPEN)
_is_shown_thread = _h.silence.is_distinct_from(literally(Silence.SILENT))
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
        .where(_i.status == literally(status), _i.silent.is_(False), _is_shown_thread)
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
        .where(_is_open_task, condition, _is_shown_thread)
        .order_by(_t.created_at, _t.id)
        .limit(AT_MOST_N)
    )  # fmt: skip


_TASKS = Statement(_tasks(_t.requester.in_(select(_given_people.c.user_id))))
_TASKS_IN_CHANNEL = Statement(_tasks((_h.team == bindparam("team")) & (_h.channel == bindparam("channel"))))
_is_of_person = [runs.c.requester == bindparam("person"), _t.requester == bindparam("person")]
_is_requester = requests.c.requesters.contains('"' + bindparam("person") + '"')
_is_unfinished = runs.c.status.in_([literally(status) for status in sorted(UNFINISHED)])


def _has_message(*, silent: bool) -> ColumnElement[bool]:
    members = lease_members.join(inbox_messages, _i.id == lease_members.c.inbox_message_id)
    return exists().select_from(members).where(lease_members.c.token == runs.c.lease_token, _i.silent.is_(silent))


_is_shown_run = ~_has_message(silent=True) | _has_message(silent=False)

# Messages on which polling agents work, with and without a run that shows the answer.
_polling = (
    leases.join(agents, (agents.c.id == leases.c.agent_id) & (agents.c.reach == literally(Reach.POLLING)))
    .join(lease_members, lease_members.c.token == leases.c.token)
    .join(inbox_messages, (_i.id == lease_members.c.inbox_message_id) & (_i.lease_token == leases.c.token))
)
_is_polled = and_(
    leases.c.ended_at.is_(None),
    leases.c.kind == literally(LeaseKind.WORK),
    _i.status == literally(InboxStatus.CLAIMED),
)
_is_waiting = _i.status.in_([literally(InboxStatus.UNREAD), literally(InboxStatus.WAITING)])
_can_be_stopped: Final = or_(
    exists().where(runs.c.thread_id == _h.id, _is_unfinished),
    exists().where(_t.thread_id == _h.id, _t.status.in_([literally(status) for status in sorted(ACTIVE_STATUSES)])),
    exists().where(requests.c.thread_id == _h.id, _is_open_request),
    exists().where(_i.thread_id == _h.id, _is_waiting),
    exists().select_from(_polling).where(leases.c.thread_id == _h.id, _is_polled),
)
_STOPPABLE_IN_THREAD = Statement(select(_h.id).where(_h.id == bindparam("thread_id"), _can_be_stopped))
_LATEST_STOPPABLE = Statement(
    select(_h.id)
    .where(_h.team == bindparam("team"), _h.channel == bindparam("channel"), _can_be_stopped)
    .order_by(_h.active_at.desc(), _h.id.desc())
    .limit(1)
)


def _of_person(found: FromClause) -> FromClause:
    return found.join(
        thread_messages,
        (_m.team == _i.team) & (_m.channel == _i.channel) & (_m.ts == _i.ts) & (_m.author_id == bindparam("person")),
    )


def _is_last_person() -> ColumnElement[bool]:
    """No other person has written a later message of the lease: a lease is for whoever asked last."""
    member, message, said = lease_members.alias(), inbox_messages.alias(), thread_messages.alias()
    later = member.join(
        message, (message.c.id == member.c.inbox_message_id) & (message.c.lease_token == member.c.token)
    ).join(
        said, (said.c.team == message.c.team) & (said.c.channel == message.c.channel) & (said.c.ts == message.c.ts)
    )  # fmt: skip
    return ~exists().select_from(later).where(
        member.c.token == leases.c.token,
        message.c.status == literally(InboxStatus.CLAIMED),
        said.c.author_kind == literally(AuthorKind.USER),
        said.c.ts > _m.ts,
    )


_has_run = exists().where(runs.c.lease_token == leases.c.token, runs.c.ended_at.is_(None))
_with_open_work = union(
    select(runs.c.thread_id).where(_is_unfinished, runs.c.ended_at.is_(None), _is_of_person[0], _is_shown_run),
    select(_t.thread_id).where(_is_open_task, _is_of_person[1]),
    select(requests.c.thread_id).where(_is_open_request, _is_requester),
    select(_i.thread_id).select_from(_of_person(inbox_messages)).where(_is_waiting, _i.silent.is_(False)),
    select(leases.c.thread_id)
    .select_from(_of_person(_polling))
    .where(_is_polled, leases.c.task_id.is_(None), ~_has_run, _i.silent.is_(False), _is_last_person()),
).subquery()
_STOPPABLE = Statement(
    select(_h.id)
    .select_from(_with_open_work.join(threads, _h.id == _with_open_work.c.thread_id))
    .where(_h.team == bindparam("team"), _h.channel == bindparam("channel"), _is_shown_thread)
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
    """Returns the ids of a channel's threads in which something runs or waits for people on behalf of a person."""
    return [row["id"] for row in _STOPPABLE.all(tx, team=team, channel=channel, person=person)]


def can_stop_in_thread(tx: Transaction, thread_id: str) -> bool:
    """Returns whether people can stop anything in a thread: an unfinished run, a task of an agent, a message that waits
    or on which an agent works, or something that people are asked.
    """
    return _STOPPABLE_IN_THREAD.first(tx, thread_id=thread_id) is not None


def latest_to_stop(tx: Transaction, team: str, channel: str) -> str | None:
    """Returns the id of the most recently active thread in a channel in which people can stop something."""
    row = _LATEST_STOPPABLE.first(tx, team=team, channel=channel)
    return row["id"] if row else None


def latest_message(tx: Transaction, team: str, channel: str, person: str, oldest: str) -> str | None:
    """Returns the timestamp of the newest stored message of a person in a channel since ``oldest``."""
    row = _LATEST_MESSAGE.first(tx, team=team, channel=channel, person=person, oldest=oldest)
    return row["ts"] if row else None
