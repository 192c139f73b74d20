"""What whoever watches is told of the database's calls, on both engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from swarm.domain.errors import Conflict, SwarmError, Unavailable
from swarm.domain.watchers import Changed, DatabaseCall, MetricEvent, Watcher, Watchers
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from tests.store.items import PATIENCE_SECONDS, Gate

pytestmark = pytest.mark.req("OPS-06")


class Notebook(Watcher):
    """Writes everything down."""

    def __init__(self) -> None:
        self.calls: list[DatabaseCall] = []
        self.groups: list[int] = []

    def database_called(self, call: DatabaseCall) -> None:
        self.calls.append(call)

    def committed_together(self, count: int) -> None:
        self.groups.append(count)

    @property
    def facts(self) -> list[MetricEvent]:
        return [fact for call in self.calls for fact in call.facts]


def with_deferred_reference(tx: Transaction) -> None:
    """A table whose references are checked at the commit only."""
    columns = "id BIGINT PRIMARY KEY, parent BIGINT REFERENCES leaves DEFERRABLE INITIALLY DEFERRED"
    tx.execute(f"CREATE TABLE leaves ({columns})", {})


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
async def db(database_url: str, notebook: Notebook) -> AsyncIterator[Database]:
    async with Database(database_url, watcher=Watchers([Watcher(), notebook])) as opened:
        yield opened


def fact(subject: str) -> Changed:
    return Changed(change="test.step", subject=subject, thread_id=None, agent_id=None)


def note(tx: Transaction, subject: str) -> str:
    tx.note(fact(subject))
    return subject


async def test_a_call_is_told_with_its_facts_before_its_caller_goes_on(db: Database, notebook: Notebook) -> None:
    assert await db.write(note, "one") == "one"
    (call,) = notebook.calls
    assert (call.writes, call.error, list(call.facts)) == (True, None, [fact("one")])
    assert 0 < call.seconds < PATIENCE_SECONDS
    await db.read(lambda tx: None)
    assert [call.writes for call in notebook.calls] == [True, False]
    assert notebook.groups == [1]


async def test_what_was_rolled_back_is_told_as_an_error_without_facts(db: Database, notebook: Notebook) -> None:
    def refuse(tx: Transaction) -> None:
        note(tx, "one")
        raise Conflict

    with pytest.raises(Conflict):
        await db.write(refuse)
    (call,) = notebook.calls
    assert isinstance(call.error, Conflict)
    assert notebook.facts == []


async def test_a_commit_that_fails_takes_the_facts_with_it(database_url: str, notebook: Notebook) -> None:
    def break_a_reference(tx: Transaction) -> None:
        tx.execute("INSERT INTO leaves (id, parent) VALUES (1, 2)", {})
        note(tx, "one")

    async with Database(database_url, watcher=notebook) as db:
        await db.write(with_deferred_reference)
        with pytest.raises(SwarmError):
            await db.write(break_a_reference)
    assert [type(call.error) is type(None) for call in notebook.calls] == [True, False]
    assert notebook.facts == []


async def test_facts_are_told_also_when_nobody_waits_for_the_result_any_more(db: Database, notebook: Notebook) -> None:
    gate = Gate()

    def wait_and_note(tx: Transaction) -> None:
        gate.hold(tx)
        note(tx, "one")

    caller = asyncio.create_task(db.write(wait_and_note))
    assert await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    gate.open()
    await db.write(note, "two")
    await db.close()
    assert sorted(fact.subject for fact in notebook.facts if isinstance(fact, Changed)) == ["one", "two"]


async def test_a_function_that_is_run_again_tells_its_facts_once(postgres_url: str, notebook: Notebook) -> None:
    runs = 0

    def fail_once(tx: Transaction) -> None:
        nonlocal runs
        runs += 1
        note(tx, f"run {runs}")
        if runs == 1:
            tx.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", {})

    async with Database(postgres_url, watcher=notebook) as db:
        await db.write(fail_once)
    assert notebook.facts == [fact("run 2")]


async def test_a_database_that_cannot_be_reached_is_told_as_an_error(postgres_url: str, notebook: Notebook) -> None:
    async with Database(postgres_url, watcher=notebook) as db:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            ours = "datname = current_database() AND application_name = 'swarm'"
            other.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")

        def break_off(tx: Transaction) -> None:
            note(tx, "one")
            tx.execute("SELECT pg_terminate_backend(pg_backend_pid())", {})

        with pytest.raises(Unavailable):
            await db.write(break_off)
    assert [type(call.error) for call in notebook.calls] == [Unavailable]
    assert notebook.facts == []
