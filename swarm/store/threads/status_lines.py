"""What Slack shows of the work in a thread, beside its messages: the status line and the state of the session.

The state follows from the thread's rows alone: its runs, its leases and its open requests. ``threads.status_at`` says
what Slack was told last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, exists, func, null, or_, select, union_all, update

from swarm.clock import SECOND
from swarm.domain.answers.calls import SessionState
from swarm.domain.model.agents import Reach
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import FLAT, AuthorKind, Silence
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, exists_by_key, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, inbox_messages, lease_members, leases, requests, runs, tasks, threads
from swarm.store.tables.effects import deliveries
from swarm.store.tables.runs import run_messages
from swarm.store.tables.threads import thread_messages

SUSPENDED_AT: Final = 0
"""In place of a time: Slack was told that the work waits for people."""

NO_SIGN_KEY: Final = "no_sign:"
"""How the key of the post about work without a sign begins; the trigger's id follows."""

NO_SIGN_AFTER: Final = 60 * SECOND

_h, _l, _i, _t = threads.c, leases.c, inbox_messages.c, tasks.c
_is_in_progress = exists().where(
    _t.id == _l.task_id, _t.lease_token == _l.token, _t.status == literally(TaskStatus.IN_PROGRESS)
)
_asks = exists().where(
    requests.c.thread_id == _l.thread_id,
    requests.c.agent_id == _l.agent_id,
    requests.c.status == literally(RequestStatus.OPEN),
)
_is_answering = exists().where(
    lease_members.c.token == _l.token,
    _i.id == lease_members.c.inbox_message_id,
    _i.lease_token == _l.token,
    _i.status == literally(InboxStatus.CLAIMED),
    _i.silent.is_(False),
)
_of_run = leases.alias("of_run")
# A run about a notice, or for a bot, shows no status line.
_has_run = exists().where(
    runs.c.thread_id == _h.id,
    runs.c.status.in_([literally(status) for status in sorted(UNFINISHED)]),
    runs.c.requester.is_not(None),
    _of_run.c.token == runs.c.lease_token,
    _of_run.c.kind == literally(LeaseKind.WORK),
)
_has_request = exists().where(requests.c.thread_id == _h.id, requests.c.status == literally(RequestStatus.OPEN))
_working = (
    select(
        _h.id, _h.team, _h.channel, _h.thread_ts, _h.status_at,
        func.min(agents.c.name).label("agent_name"), _has_run.label("has_run"), _has_request.label("has_request"),
    )
    .select_from(leases.join(agents, agents.c.id == _l.agent_id).join(threads, _h.id == _l.thread_id))
    .where(
        _l.ended_at.is_(None),
        _l.kind == literally(LeaseKind.WORK),
        _l.created_at <= bindparam("before"),
        agents.c.reach == literally(Reach.POLLING),
        _h.thread_ts != FLAT,
        ~_has_run,
        ~_asks,
        or_(
            and_(_l.task_id.is_not(None), _is_in_progress, _h.silence.is_distinct_from(literally(Silence.SILENT))),
            and_(_l.task_id.is_(None), _is_answering),
        ),
    )
    .group_by(_h.id)
)  # fmt: skip
_idle = select(
    _h.id, _h.team, _h.channel, _h.thread_ts, _h.status_at, null().label("agent_name"),
    _has_run.label("has_run"), _has_request.label("has_request"),
)  # fmt: skip
_asking = select(requests.c.thread_id).where(requests.c.status == literally(RequestStatus.OPEN))
_ALL = Statement(
    union_all(
        _working,
        _idle.where(_h.status_at.is_not(None)),
        _idle.where(_h.status_at.is_(None), _h.id.in_(_asking), _h.thread_ts != FLAT),
    )
)
_TOLD = Statement(
    update(threads)
    .where(_h.id == bindparam("thread_id"), _h.status_at.is_not_distinct_from(bindparam("before")))
    .values(status_at=bindparam("shown_at"))
)
_SHOWN_BY_RUN = Statement(
    update(threads)
    .where(_h.id == select(runs.c.thread_id).where(runs.c.id == bindparam("run_id")).scalar_subquery())
    .values(status_at=bindparam("now"))
)

# What people see of the work under a lease: an answer or a part of one, progress, a question, tasks for others.
_d, _tm = deliveries.c, thread_messages.c
_by_agent = (_d.agent_id == _l.agent_id) & (_d.created_at >= _l.created_at)
_is_of_member = (lease_members.c.token == _l.token) & (_d.inbox_message_id == lease_members.c.inbox_message_id)
_is_shown = or_(
    exists_by_key(runs.c.thread_id == _l.thread_id, runs.c.lease_token == _l.token, run_messages.c.run_id == runs.c.id),
    exists_by_key(_d.task_id == _l.task_id, _by_agent),
    exists_by_key(_is_of_member, _by_agent),
    exists_by_key(requests.c.work_id == _l.trigger_id, requests.c.lease_token == _l.token),
    exists_by_key(
        _t.thread_id == _l.thread_id,
        func.coalesce(_t.created_by, "") == _l.agent_id,  # so that no plan reads all tasks of an agent
        or_(_t.ended_at.is_(None), _t.created_at >= _l.created_at),
    ),
    _asks,
)
_is_same = (_tm.team == _i.team) & (_tm.channel == _i.channel) & (_tm.ts == _i.ts)
_is_from_person = _is_same & (_tm.author_kind == literally(AuthorKind.USER))
_wants_sign = ~_is_shown & or_(
    and_(_l.task_id.is_not(None), _is_in_progress.where(_t.requester.is_not(None))),
    and_(_l.task_id.is_(None), _is_answering.where(_is_from_person)),
)
_note_key = literally(NO_SIGN_KEY) + _l.trigger_id
_is_told = exists_by_key(_d.idempotency_key == _note_key)
_is_over = exists_by_key(_d.idempotency_key == _note_key + literally(":gone"))
_held_long = (
    select(_l.token, _l.thread_id, _l.created_at, agents.c.name.label("agent_name"), _wants_sign.label("wants_sign"))
    .select_from(leases.join(agents, agents.c.id == _l.agent_id).join(threads, _h.id == _l.thread_id))
    .where(_l.ended_at.is_(None), _l.kind == literally(LeaseKind.WORK), _l.created_at <= bindparam("before"))
    .where(_h.silence.is_distinct_from(literally(Silence.SILENT)))
)
_UNTRUE = Statement(
    _held_long.where(or_(_wants_sign & ~_is_told, ~_wants_sign & _is_told & ~_is_over))
    .order_by(_l.token)
    .limit(AT_MOST_N)
)
_OF_LEASE = Statement(_held_long.where(_l.token == bindparam("of_token")))


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusLine:
    """The status line of one thread."""

    id: str  # of the thread
    team: str
    channel: str
    thread_ts: str
    status_at: int | None  # microseconds: when it was last shown; `SUSPENDED_AT`; None: Slack shows nothing
    agent_name: str | None  # one of the polling agents at work; None: no such agent, so no status line is wanted
    has_run: bool  # a run shows its own status line in the thread
    has_request: bool  # people are asked for a decision there

    @property
    def session(self) -> SessionState:
        """The state that Slack should show."""
        if self.agent_name or self.has_run:
            return SessionState.PROCESSING
        return SessionState.SUSPENDED if self.has_request else SessionState.ACTIVE

    @property
    def told(self) -> SessionState:
        """The state that Slack was told last."""
        if self.status_at is None:
            return SessionState.ACTIVE
        return SessionState.SUSPENDED if self.status_at == SUSPENDED_AT else SessionState.PROCESSING


_line = row_mapper(StatusLine)


def of_all(tx: Transaction, before: int) -> list[StatusLine]:
    """Returns the threads where Slack should show something, and those where it does.

    Work of polling agents counts if it began at ``before`` or earlier. Work for which nobody has asked has no status
    line; neither have flat direct messages.
    """
    found: dict[str, StatusLine] = {}
    for line in map(_line, _ALL.all(tx, before=before)):
        found.setdefault(line.id, line)  # threads with work come first
    return list(found.values())


def shown_by_run(tx: Transaction, run_id: str) -> None:
    """Records that a run shows the status line of its thread now."""
    _SHOWN_BY_RUN.run(tx, run_id=run_id, now=tx.now)


def mark_told(tx: Transaction, line: StatusLine) -> None:
    """Records that Slack is told the state that ``line`` should have, unless a run has shown its own meanwhile."""
    shown_at = {SessionState.PROCESSING: tx.now, SessionState.SUSPENDED: SUSPENDED_AT}.get(line.session)
    _TOLD.run(tx, thread_id=line.id, before=line.status_at, shown_at=shown_at)


def untrue_notes(tx: Transaction, limit: int) -> list[Row]:
    """Returns leases whose post is missing (``wants_sign``) or no longer true: ``token``, ``thread_id``,
    ``created_at``, ``agent_name``, ``wants_sign``.
    """
    return _UNTRUE.all(tx, before=tx.now - NO_SIGN_AFTER, n=limit)


def of_lease(tx: Transaction, token: str | None) -> Row | None:
    """Returns the same of an active lease that has lasted for a minute."""
    return _OF_LEASE.first(tx, of_token=token, before=tx.now - NO_SIGN_AFTER) if token else None
