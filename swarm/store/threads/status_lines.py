"""The status lines of polling agents' work, by thread: those that people should see, and those that they may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, exists, func, null, or_, select, union_all, update

from swarm.domain.model.agents import Reach
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import FLAT, Silence
from swarm.store.bridge.statements import Statement, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, inbox_messages, lease_members, leases, requests, runs, tasks, threads

SUSPENDED_AT: Final = 0
"""In place of a time: the line is cleared while people are asked."""

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
    runs.c.ended_at.is_(None),
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
_shown = select(
    _h.id, _h.team, _h.channel, _h.thread_ts, _h.status_at, null().label("agent_name"),
    _has_run.label("has_run"), _has_request.label("has_request"),
).where(_h.status_at.is_not(None))  # fmt: skip
_ALL = Statement(union_all(_working, _shown))
_MARK = Statement(update(threads).where(_h.id == bindparam("thread_id")).values(status_at=bindparam("shown_at")))


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusLine:
    """The status line of one thread."""

    id: str  # of the thread
    team: str
    channel: str
    thread_ts: str
    status_at: int | None  # microseconds: when it was last shown; `SUSPENDED_AT`; None: not shown
    agent_name: str | None  # one of the polling agents at work; None: no such agent, so no status line is wanted
    has_run: bool  # a run shows its own status line in the thread
    has_request: bool  # people are asked for a decision there

    @property
    def is_suspended(self) -> bool:
        """Whether the line is cleared, and Slack was told that the work waits for people."""
        return self.status_at == SUSPENDED_AT


_line = row_mapper(StatusLine)


def of_all(tx: Transaction, before: int) -> list[StatusLine]:
    """Returns the status lines that people should see, for work that began at ``before`` or earlier, and those that
    they may still see. Work for which nobody has asked has none; neither have flat direct messages.
    """
    found: dict[str, StatusLine] = {}
    for line in map(_line, _ALL.all(tx, before=before)):
        found.setdefault(line.id, line)  # threads with work come first
    return list(found.values())


def mark(tx: Transaction, thread_id: str, shown_at: int | None) -> None:
    """Records when the status line of a thread was shown; None: it is cleared; `SUSPENDED_AT`: it is cleared, but the
    session is to be told when people are not asked any more.
    """
    _MARK.run(tx, thread_id=thread_id, shown_at=shown_at)
