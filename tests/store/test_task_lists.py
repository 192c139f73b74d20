"""Lists of tasks read an index from its end: what they cost does not grow with the number of tasks."""

from __future__ import annotations

import re

import pytest
from psycopg import sql

from swarm.domain.model.tasks import TaskStatus
from swarm.store import task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from tests.support.world import look

pytestmark = pytest.mark.req("LOOP-16")

MANY = 800
STATUS: dict[str, object] = {"status": "unassigned"}
AGENT: dict[str, object] = {"agent_id": "a"}

_BOUND = re.compile(r"%\((\w+)\)s")


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
    """How the database would run a statement, in its own words. On PostgreSQL, the statement is prepared, as at work:
    only then do the settings of the transaction decide whether its plan knows the values.
    """
    bound, text = dict(statement._for(tx.dialect).bind(params)), statement.sql(tx.dialect)
    if tx.dialect == "sqlite":
        rows = look(tx, f"EXPLAIN QUERY PLAN {text}", bound)
    else:
        names = list(dict.fromkeys(_BOUND.findall(text)))
        tx.execute("PREPARE planned AS " + _BOUND.sub(lambda found: f"${names.index(found[1]) + 1}", text), {})
        values = ", ".join(sql.Literal(bound[name]).as_string() for name in names)
        rows = look(tx, "EXPLAIN EXECUTE planned" + (f" ({values})" if names else ""), {})
        tx.execute("DEALLOCATE planned", {})
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
