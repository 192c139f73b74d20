"""On PostgreSQL every hot statement finds its rows by keys, whatever the statistics say.

Statistics are taken when the tables are empty or nearly so, and then one agent's channel fills up: nobody works on
4,000 messages there. What another agent does in another channel must not read them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg import sql

from swarm.clock import ManualClock
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.store.bridge import postgres
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Cursor, Transaction
from swarm.store.threads import status_lines
from tests.support.world import World, said

pytestmark = [
    pytest.mark.req("LOOP-16", "OPS-03"),
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]

MANY = 4_000
MOST = 250
"""Rows that a plan may visit. The full channel has 4,000 of each kind."""

ONCE = "SELECT deliveries.thread_id"
"""The sender's look for due posts reads each open post once by some statistics, for want of an index of its own."""

_BOUND = re.compile(r"%\((\w+)\)s")
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

FULL = f"""
SET session_replication_role = replica;
INSERT INTO threads (id, team, channel, thread_ts, channel_type, owner_id, epoch, context, context_failures, active_at,
    created_at)
  SELECT 'full-' || n, 'T1', 'CFULL', n || '.000100', 'channel', %(full)s, 0, 'complete', 0, {_NOW}, {_NOW}
  FROM generate_series(0, {MANY}) n;
INSERT INTO inbox_messages (id, thread_id, agent_id, team, channel, ts, status, matched_by, reason, attempts, claims,
    order_key, created_at)
  SELECT 'm-' || n, 'full-' || n, %(full)s, 'T1', 'CFULL', n || '.000100', 'unread', 'mention', '', 0, 0, n, {_NOW}
  FROM generate_series(1, {MANY}) n
  UNION ALL
  SELECT 'l-' || n, 'full-0', %(full)s, 'T1', 'CFULL', n || '.000200', 'unread', 'mention', '', 0, 0, n, {_NOW}
  FROM generate_series(1, {MANY}) n;
INSERT INTO queue_heads SELECT %(full)s, 'full-' || n, n FROM generate_series(0, {MANY}) n;
INSERT INTO tasks (id, lane_id, title, description, status, priority, agent_id, depth, attempts, claims, order_key,
    created_at)
  SELECT 't-' || n, 't-' || n, '', '', 'pending', 50, %(full)s, 1, 0, 0, n, {_NOW} FROM generate_series(1, {MANY}) n;
INSERT INTO queue_heads SELECT %(full)s, 't-' || n, n FROM generate_series(1, {MANY}) n;
INSERT INTO leases (token, kind, agent_id, thread_id, trigger_id, attempt, hold, created_at, expires_at, ended_at,
    ended_as)
  SELECT 'e-' || n, 'work', %(full)s, 'full-' || n, 'm-' || n, 1, false, {_NOW}, {_NOW}, {_NOW}, 'finished'
  FROM generate_series(1, {MANY}) n
  UNION ALL
  SELECT 'a-' || n, 'work', %(busy)s, 'full-' || n, 'm-' || n, 1, false, {_NOW}, {_NOW} + 3600000000, NULL, NULL
  FROM generate_series(1, {MANY}) n;
INSERT INTO lease_members SELECT 'e-' || n, 'm-' || n FROM generate_series(1, {MANY}) n;
INSERT INTO notices (id, kind, agent_id, thread_id, status, attempts, created_at)
  SELECT 'n-' || n, 'task_finished', %(full)s, 'full-' || n, 'unread', 0, {_NOW} FROM generate_series(1, {MANY}) n;
INSERT INTO deliveries (id, kind, status, thread_id, channel, thread_ts, text, broadcast, attempts, due_at, created_at,
    ended_at, inbox_message_id)
  SELECT 'd-' || n, 'post', CASE WHEN n %% 2 = 0 THEN 'queued' ELSE 'sent' END, 'full-' || n / 4, 'CFULL',
    n / 4 || '.000100', '', false, 0, CASE WHEN n %% 2 = 0 THEN {_NOW} + 3600000000 END, {_NOW},
    CASE WHEN n %% 2 = 1 THEN {_NOW} END, 'm-' || n
  FROM generate_series(1, {2 * MANY}) n;
INSERT INTO requests (id, key, agent_id, thread_id, run_id, work_id, inbox_message_ids, lease_token, asker, status,
    resume, agent_request_id, payload, created_at, expires_at, ended_at)
  SELECT 'r-' || n, 'r-' || n, %(full)s, 'full-' || n, 'run-' || n, 'm-' || n, '[]', 'e-' || n, 'durable',
    CASE WHEN n %% 2 = 0 THEN 'open' ELSE 'answered' END, CASE WHEN n %% 2 = 0 THEN 'none' ELSE 'accepted' END,
    '', '{{}}', {_NOW}, {_NOW} + 3600000000, CASE WHEN n %% 2 = 1 THEN {_NOW} END
  FROM generate_series(1, {2 * MANY}) n;
SET session_replication_role = origin;
"""

OLD = f"""
INSERT INTO tasks (id, lane_id, title, description, status, priority, agent_id, created_by, depth, attempts, claims,
    order_key, created_at, ended_at)
  SELECT 't-' || n, 't-' || n, '', '', 'completed', 50, %(agent)s, %(agent)s, 1, 0, 0, 0, {_NOW}, {_NOW}
  FROM generate_series(1, {MANY}) n;
"""


class Visits:
    """What the plan of each statement that runs has visited: the statement's text, and the number of rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: dict[str, tuple[int, str]] = {}
        self._fetch, self._execute = Transaction.fetch, Transaction.execute
        visits = self

        def fetch(tx: Transaction, text: str, params: Mapping[str, object]) -> tuple[Cursor, list[Any]]:
            visits.look(tx, text, params)
            return visits._fetch(tx, text, params)

        def execute(tx: Transaction, text: str, params: Mapping[str, object]) -> int:
            visits.look(tx, text, params)
            return visits._execute(tx, text, params)

        monkeypatch.setattr(postgres._PostgresTransaction, "fetch", fetch)
        monkeypatch.setattr(postgres._PostgresTransaction, "execute", execute)

    def look(self, tx: Transaction, text: str, params: Mapping[str, object]) -> None:
        """Runs a statement as a prepared one, as at work, counts what its plan visits, and undoes it."""
        names = list(dict.fromkeys(_BOUND.findall(text)))
        prepared = _BOUND.sub(lambda found: f"${names.index(found[1]) + 1}", text).replace("%%", "%")
        values = ", ".join(sql.Literal(params[name]).as_string() for name in names)
        self._execute(tx, "SAVEPOINT looking", {})
        self._execute(tx, f"PREPARE planned AS {prepared}".replace("%", "%%"), {})
        execute = "EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) EXECUTE planned" + (f" ({values})" if names else "")
        ((found,),) = self._fetch(tx, execute.replace("%", "%%"), {})[1]
        self._execute(tx, "DEALLOCATE planned", {})
        self._execute(tx, "ROLLBACK TO looking", {})
        plan = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
        count = sum(_visited(node) for node in _nodes(plan))
        if count > self.most.get(text, (-1, ""))[0]:
            self.most[text] = count, json.dumps(plan, indent=1)

    def too_many(self) -> str:
        """Shows the statements that visit more rows than they must."""
        return "\n\n".join(
            f"{count} rows: {text}\n{plan}"
            for text, (count, plan) in self.most.items()
            if count > (MANY + MOST if text.startswith(ONCE) else MOST)
        )


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _visited(node: Mapping[str, Any]) -> int:
    """Rows that a node has read or joined, with those that it threw away."""
    removed = sum(int(count) for name, count in node.items() if name.startswith("Rows Removed by"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


@pytest.mark.parametrize("taken", ["never", "on empty tables", "on nearly empty tables", "on full tables"])
async def test_no_statement_reads_the_full_channel_of_another_agent(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    world = World(database, ManualClock())
    full, busy, prompt = [await world.worker(name) for name in ("full", "busy", "prompt")]
    if taken == "on nearly empty tables":
        await _work(world, prompt)
    if taken.endswith("empty tables"):
        await database.write(Transaction.execute, "ANALYZE", {})
    with psycopg.connect(_url(database_url), autocommit=True) as connection:
        psycopg.ClientCursor(connection).execute(FULL, {"full": full.id, "busy": busy.id})
    if taken == "on full tables":
        await database.write(Transaction.execute, "ANALYZE", {})
    visits = Visits(monkeypatch)
    await _work(world, prompt)
    assert len(visits.most) > 40
    assert not (found := visits.too_many()), found


async def test_the_look_for_a_sign_reads_no_old_tasks_of_its_agent(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(database, ManualClock())
    agent = await world.worker("prompt")
    with psycopg.connect(_url(database_url), autocommit=True) as connection:
        psycopg.ClientCursor(connection).execute(OLD, {"agent": agent.id})
    await world.hears(said("<@UBOT> swarm#prompt do"))
    await world.only(agent)
    monkeypatch.setattr(status_lines, "NO_SIGN_AFTER", -1)
    visits = Visits(monkeypatch)
    assert len(await database.write(status_lines.untrue_notes, 50)) == 1
    assert not (found := visits.too_many()), found


async def _work(world: World, agent: Agent) -> None:
    """Messages that one agent gets in a channel of its own, answers, and finishes."""
    for number in range(2):
        message = await world.hears(said(f"<@UBOT> swarm#{agent.name} do {number}", channel="C2"))
        trigger = await world.only(agent, hold=True)
        await world.services.work.renew(agent, [trigger.lease_token])
        await world.answers(agent, trigger, "done")
        await world.services.work.finish(agent, [trigger.lease_token], FinishOutcome.DONE)
        await world.send()
        assert message


def _url(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")
