"""For which agents there is something due: what a poll that waits would find if it looked."""

from __future__ import annotations

from sqlalchemy import exists, or_, select

from swarm.domain.model.inbox import NoticeStatus
from swarm.domain.model.leases import LeaseKind
from swarm.store.bridge.conditions import literally
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, inbox_heads, leases, notices

_is_worked_on = exists().where(
    leases.c.thread_id == inbox_heads.c.lane_id,
    leases.c.agent_id == inbox_heads.c.agent_id,
    leases.c.kind == literally(LeaseKind.WORK),
    leases.c.ended_at.is_(None),
)
# From the agents, whose number is small, to the first of each that is due: no backlog is read.
_AGENTS = Statement(
    select(agents.c.id).where(
        agents.c.revoked_at.is_(None),
        or_(
            exists().where(inbox_heads.c.agent_id == agents.c.id, ~_is_worked_on),
            exists().where(notices.c.agent_id == agents.c.id, notices.c.status == literally(NoticeStatus.UNREAD)),
        ),
    )
)


def agents_with_something(tx: Transaction) -> set[str]:
    """The ids of agents with work in a lane in which none of their runs works, or with news."""
    return {row["id"] for row in _AGENTS.all(tx)}
