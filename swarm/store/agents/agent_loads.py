"""How much the agents have before them: open tasks, threads they own, runs at work."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, func, literal_column, select, union_all

from swarm.domain.model.agents import Load
from swarm.domain.model.leases import LeaseKind
from swarm.store.bridge.conditions import literally
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import leases, tasks, threads

_n = func.count().label("n")
_EVERYBODYS = Statement(
    union_all(
        select(literal_column("'open_tasks'").label("what"), tasks.c.agent_id, _n)
        .where(tasks.c.ended_at.is_(None), tasks.c.agent_id.is_not(None))
        .group_by(tasks.c.agent_id),
        select(literal_column("'threads_owned'"), threads.c.owner_id, _n)
        .where(threads.c.owner_id.is_not(None))
        .group_by(threads.c.owner_id),
        select(literal_column("'running'"), leases.c.agent_id, _n)
        .where(
            leases.c.ended_at.is_(None),
            leases.c.kind == literally(LeaseKind.WORK),
            leases.c.expires_at > bindparam("now"),
        )
        .group_by(leases.c.agent_id),
    )
)


def by_agent(tx: Transaction) -> Mapping[str, Load]:
    """The load of every agent that has any, by its id; in one statement, however many agents there are."""
    counts: dict[str, dict[str, int]] = {}
    for row in _EVERYBODYS.all(tx, now=tx.now):
        counts.setdefault(row["agent_id"], {})[row["what"]] = row["n"]
    return {agent_id: Load(**found) for agent_id, found in counts.items()}
