"""Claims and finishes look up their rows by index: they cost no more, however much work waits or is under way."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarm.clock import new_id
from swarm.domain.model.agents import Agent, Reach, Role
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.threads import ChannelType
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases, queues
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.queues import QueueHead
from swarm.store.threads import threads
from swarm.store.threads.threads import NewThread
from tests.store.test_task_lists import plan

pytestmark = pytest.mark.req("LOOP-12", "LOOP-16")

AGENTS, LANES, ACTIVE = 20, 1_500, 100
PLACE = {"team": "T1", "channel": "C1", "thread_ts": "1.000100"}
LANE: dict[str, object] = {"agent_id": "a", "lane_id": "t", "order_key": 1}
LOOKS: dict[str, tuple[Statement, dict[str, object]]] = {
    "first heads": (queues._HEADS, {"given": [LANE], "n": 1}),
    "locked heads": (queues._LOCK_HEADS, {"given": [LANE]}),
    "moved heads": (queues._MOVE_HEADS, {"given": [LANE]}),
    "dropped heads": (queues._DROP_HEADS, {"given": [LANE]}),
    "exhausted heads": (queues._EXHAUSTED, {"given": [LANE]}),
    "threads of events": (threads._LOCK_PLACES, {"given": [PLACE]}),
    "owners": (threads._OWN, {"given": [{"id": "t", "owner_id": "a"}]}),
    "active threads": (threads._ACTIVE, {"given": [{"id": "t"}], "now": 1}),
    "threads to read": (threads._READ_AGAIN, {"given": [{"id": "t"}], "now": 1}),
    "tokens": (agents._VALID_TOKENS, {"given": [{"token_hash": "h"}]}),
}


def fill(tx: Transaction) -> None:
    """Many lanes with due work, and some of them at work."""
    ids = [_agent(tx, number) for number in range(AGENTS)]
    there = threads.open_all(tx, "T1", map(_thread, range(LANES)))
    for number in range(LANES):
        agents._ADD_TOKEN.run(tx, token_hash=f"token-{number}", agent_id=ids[number % AGENTS], now=tx.now)
        if number >= ACTIVE:
            queues.add(tx, [QueueHead(agent_id=ids[number % AGENTS], lane_id=f"lane-{number}", order_key=number)])
            continue
        thread = there["C1", f"{number}.000100"]
        queues.add(tx, [QueueHead(agent_id=ids[number % AGENTS], lane_id=thread.id, order_key=number)])
        leases.grant(tx, [_lease(ids[number % AGENTS], thread.id)])


def _thread(number: int) -> NewThread:
    return NewThread(
        channel="C1",
        thread_ts=f"{number}.000100",
        channel_type=ChannelType.CHANNEL,
        watermark_ts="0",
        known_whole=True,
    )


def _agent(tx: Transaction, number: int) -> str:
    agent = Agent(
        id=new_id(),
        name=f"agent-{number}",
        role=Role.WORKER,
        description="",
        capabilities=(),
        created_at=tx.now,
        last_seen_at=None,
        reach=Reach.POLLING,
    )
    agents.add(tx, agent, f"first-{number}")
    return agent.id


def _lease(agent_id: str, thread_id: str) -> Lease:
    return Lease(
        token=new_id(),
        kind=LeaseKind.WORK,
        agent_id=agent_id,
        thread_id=thread_id,
        trigger_id="m",
        attempt=1,
        hold=False,
        expires_at=1,
        ended_as=None,
    )


def plans(tx: Transaction, wanted: Sequence[tuple[Statement, dict[str, object]]]) -> list[str]:
    """Plans in a set, whose settings differ from those of other transactions."""
    return [plan(tx, statement, params) for statement, params in wanted]


async def test_events_claims_and_finishes_read_no_more_than_their_own_rows(database: Database) -> None:
    await database.write(fill)
    if database.dialect == "postgresql":
        await database.write(Transaction.execute, "ANALYZE", {})
    for name, (statement, params) in LOOKS.items():
        how = await database.write_together(plans, (statement, params))
        for table in ("queue_heads", "leases", "agent_tokens", "threads"):
            assert f"SCAN {table}" not in how, f"{name}: {how}"  # SQLite reads the whole table
            assert f"Seq Scan on {table}" not in how, f"{name}: {how}"  # PostgreSQL does
        assert "ix_leases_expiry" not in how, f"{name} reads all active leases: {how}"
