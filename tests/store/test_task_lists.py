"""Lists of tasks read an index from its end: what they cost does not grow with the number of tasks."""

from __future__ import annotations

import pytest

from swarm.domain.model.tasks import TaskStatus
from swarm.store import task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from tests.support.world import look

pytestmark = pytest.mark.req("LOOP-16")

MANY = 3_000
STATUS: dict[str, object] = {"status": "unassigned"}
AGENT: dict[str, object] = {"agent_id": "a"}


def fill(tx: Transaction) -> None:
    """Tasks of operators, all over but for the last ones."""
    for number in range(MANY):
        tasks.add(
            tx,
            thread_id=None,
            title=str(number),
            description="",
            status=TaskStatus.UNASSIGNED if number > MANY - 50 else TaskStatus.CANCELLED,
            priority=50,
            agent_id=None,
            created_by=None,
        )


def plan(tx: Transaction, statement: Statement, params: dict[str, object]) -> str:
    """How the database would run a statement, in its own words."""
    explain = "EXPLAIN QUERY PLAN " if tx.dialect == "sqlite" else "EXPLAIN "
    bound = statement._for(tx.dialect).bind(params)
    rows = look(tx, explain + statement.sql(tx.dialect), dict(bound))
    return "\n".join(str(list(row.values())) for row in rows)


async def test_a_list_reads_no_more_tasks_than_it_shows(database: Database) -> None:
    await database.write(fill)
    if database.dialect == "postgresql":
        await database.write(Transaction.execute, "ANALYZE tasks", {})
    for said in ({}, STATUS, AGENT, STATUS | AGENT):
        statement = task_queries._NEWEST["status" in said, "agent_id" in said]
        how = await database.read(plan, statement, {**said, "n": 20})
        assert "FOR ORDER BY" not in how, how  # SQLite sorts
        assert "Seq Scan" not in how, how  # PostgreSQL reads the whole table
