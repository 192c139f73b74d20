"""Sessions of built-in agents in the database: what is idle is forgotten, what is used meanwhile is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.clock import ManualClock
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import sessions
from tests.support.locks import held, somebody_waits
from tests.support.world import look

pytestmark = pytest.mark.req("AGENT-05")

HELLO = SessionMessage(role=MessageRole.USER, text="hello")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def db(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock) as opened:
        yield opened


async def count(db: Database, table: str) -> int:
    (row,) = await db.read(look, f"SELECT count(*) AS n FROM {table}", {})
    return int(row["n"])


async def test_idle_sessions_are_forgotten_with_their_messages_longest_idle_first(
    db: Database, clock: ManualClock
) -> None:
    for name in ("one", "two", "three"):
        await db.write(sessions.add, "assistant", name, HELLO)
        clock.advance(10)
    await db.write(sessions.use, "assistant", "one")  # to open it is to use it
    used = clock.now_us()
    assert await db.write(sessions.forget, used, 1) == 1
    assert await db.read(sessions.originals, "assistant", "two") == []
    assert await db.write(sessions.forget, used, 10) == 1
    assert [await count(db, table) for table in ("sessions", "session_messages")] == [1, 1]
    assert await db.write(sessions.forget, used, 10) == 0
    assert len(await db.read(sessions.originals, "assistant", "one")) == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite has one writer: nothing ever waits
async def test_a_session_that_is_used_while_it_is_being_forgotten_stays(db: Database, clock: ManualClock) -> None:
    await db.write(sessions.add, "assistant", "one", HELLO)
    clock.advance(10)
    before = clock.now_us()
    async with held(db, sessions.add, "assistant", "one", HELLO):
        forgetting = asyncio.ensure_future(db.write(sessions.forget, before, 10))
        await somebody_waits(db)
    assert await forgetting == 0
    assert len(await db.read(sessions.originals, "assistant", "one")) == 2


async def test_a_change_that_fails_leaves_no_half_of_a_block(db: Database) -> None:
    async def told() -> list[SessionMessage]:
        return await db.read(sessions.originals, "assistant", "one")

    await db.write(sessions.add_run, "assistant", "one", "r1", [HELLO, HELLO])
    before = await told()

    def broken(tx: Transaction) -> None:
        sessions.add_run(tx, "assistant", "one", "r1", [HELLO])
        raise RuntimeError("after the block was replaced")

    with pytest.raises(RuntimeError):
        await db.write(broken)
    assert await told() == before
