"""Whether it lives, and whether it can work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial

import psycopg
import pytest
from structlog.testing import capture_logs

from swarm.clock import ManualClock
from swarm.domain.troubles import slack_troubles
from swarm.services.operate.overview import Storing
from swarm.store.admin import probe
from swarm.store.bridge.database import Database
from swarm.store.bridge.sqlite_driver import sqlite3
from swarm.store.bridge.transaction import Transaction
from tests.support.doors import OPERATOR_TOKEN, Doors, Visitor, WatchedWakeups, open_doors
from tests.support.postgres import database_name
from tests.support.world import BOT, World


@pytest.mark.req("OPS-06")
async def test_ready_says_so_with_the_backlog(doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    doors.world.clock.advance(90)
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "checks": {"database": True, "writes": True, "slack": True},
        "problems": {},
        "troubles": [],
        "backlog": {"inbox_unread": 1, "oldest_unread_seconds": 90, "tasks_open": 0, "deliveries_open": 1},
        "gap_seconds": 0,
        "last_event_seconds": None,
        "last_post_seconds": None,
    }


@pytest.mark.req("OPS-06")
async def test_without_slack_it_is_not_ready_and_says_what_is_missing(doors: Doors) -> None:
    doors.ready["slack"] = False
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": True, "writes": True, "slack": False}
    assert answer.json()["error"]["code"] == "unavailable"
    assert "slack" in answer.json()["error"]["message"]
    assert "no connection to Slack" in answer.json()["problems"]["slack"]
    assert "database" not in answer.json()["problems"]


@pytest.mark.req("OPS-15")
async def test_a_refused_token_is_named_to_the_operator_and_hidden_from_others(doors: Doors, lea: Visitor) -> None:
    doors.troubles.extend(slack_troubles("token_revoked", {}))
    url = f"{doors.base}/readyz"
    operator = await doors.http.get(url, headers={"Authorization": f"Bearer {OPERATOR_TOKEN}"})
    others = [await doors.http.get(url), await lea.ask("GET", "/readyz")]
    assert [answer.status_code for answer in (operator, *others)] == [503, 503, 503]
    assert operator.json()["checks"]["slack_token"] is False
    assert [one["code"] for one in operator.json()["troubles"]] == ["token_revoked"]
    assert "swarm reload" in operator.json()["troubles"][0]["remedy"]
    for answer in others:
        assert [one["code"] for one in answer.json()["troubles"]] == ["slack_token"]
        assert "revoked" not in answer.text
    traffic = await doors.http.get(f"{url}?for=traffic")
    assert (traffic.status_code, traffic.json()["ready"]) == (200, True)
    await doors.world.database.close()
    assert (await doors.http.get(f"{url}?for=traffic")).status_code == 503


@pytest.mark.req("OPS-15")
@pytest.mark.parametrize(
    ("refused", "status"),
    [
        ({"reactions.add": "missing_scope"}, 200),
        ({"chat.postMessage": "missing_scope"}, 503),
        ({"C1": "team_access_not_granted"}, 200),
    ],
)
async def test_what_holds_no_answers_or_one_channel_is_told_and_stays_ready(
    doors: Doors, refused: dict[str, str], status: int
) -> None:
    doors.troubles.extend(slack_troubles(None, refused))
    answer = await doors.http.get(f"{doors.base}/readyz")
    assert (answer.status_code, len(answer.json()["troubles"]), len(answer.json()["problems"])) == (status, 1, 1)


@pytest.mark.req("OPS-06")
async def test_without_a_database_it_lives_is_not_ready_and_refuses_clearly(doors: Doors, lea: Visitor) -> None:
    await doors.world.database.close()
    assert (await doors.http.get(f"{doors.base}/healthz")).json() == {"status": "ok"}
    ready = await doors.http.get(f"{doors.base}/readyz")
    assert (ready.status_code, ready.json()["backlog"]) == (503, None)
    assert "cannot be read" in ready.json()["problems"]["database"]
    assert "the database is not available" in ready.json()["problems"]["writes"]
    for method, path in [("GET", "/poll"), ("GET", "/tray"), ("POST", "/mcp")]:
        answer = await lea.ask(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable"), path


# Nothing can be stored


@asynccontextmanager
async def doors_over(url: str) -> AsyncIterator[Doors]:
    """A coordinator that does not wait long for locks, and looks at each question whether it can store anything."""
    wakeups, clock = WatchedWakeups(), ManualClock()
    async with (
        Database(url, clock=clock, wakeups=wakeups, busy_timeout_seconds=0.05) as database,
        open_doors(World(database, clock), wakeups) as doors,
    ):
        yield doors


@pytest.fixture
def asks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.services.operate.overview.Storing", partial(Storing, kept_seconds=0))


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another program holds the file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


async def readiness(doors: Doors) -> tuple[int, dict[str, bool], str]:
    answer = await doors.http.get(f"{doors.base}/readyz")
    return answer.status_code, answer.json()["checks"], answer.json()["problems"].get("writes", "")


async def it_says_so(doors: Doors, reason: str) -> None:
    status, checks, problem = await readiness(doors)
    assert (status, checks) == (503, {"database": True, "writes": False, "slack": True})
    assert f"Nothing can be stored: {reason}." in problem


async def it_is_ready_again(doors: Doors) -> None:
    assert await readiness(doors) == (200, {"database": True, "writes": True, "slack": True}, "")


@pytest.mark.req("OPS-06")
@pytest.mark.usefixtures("asks_each_time")
async def test_while_another_program_locks_the_file_it_is_not_ready(sqlite_url: str) -> None:
    async with doors_over(sqlite_url) as doors:
        with locked(sqlite_url):
            await it_says_so(doors, "the database is locked")
        await it_is_ready_again(doors)


@pytest.mark.req("OPS-06")
@pytest.mark.usefixtures("asks_each_time")
async def test_on_a_full_disk_it_is_not_ready(sqlite_url: str) -> None:
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("VACUUM")  # tables that migrations dropped have left free pages
    async with doors_over(sqlite_url) as doors:
        await doors.world.database.write(Transaction.fetch, "PRAGMA max_page_count = 1", {})  # no less than there are
        await it_says_so(doors, "the disk is full")
        await doors.world.database.write(Transaction.fetch, "PRAGMA max_page_count = 1000000", {})
        await it_is_ready_again(doors)


@pytest.mark.req("OPS-06")
@pytest.mark.usefixtures("asks_each_time")
async def test_on_a_server_that_takes_no_writes_it_is_not_ready(postgres_url: str) -> None:
    def read_only(switch: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SET default_transaction_read_only = off")
            other.execute(f"ALTER DATABASE {database_name(postgres_url)} SET default_transaction_read_only = {switch}")

    await asyncio.to_thread(read_only, "on")
    async with doors_over(postgres_url) as doors:
        await it_says_so(doors, "the database is read-only")
    await asyncio.to_thread(read_only, "off")
    async with doors_over(postgres_url) as doors:
        await it_is_ready_again(doors)


@pytest.mark.req("OPS-06")
async def test_however_often_it_is_asked_it_writes_once_in_five_seconds(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, writes, store = 0.0, 0, probe.store_something

    def counted(tx: Transaction) -> None:
        nonlocal writes
        writes += 1
        store(tx)

    monkeypatch.setattr(probe, "store_something", counted)
    async with Database(sqlite_url) as database:
        probes = Storing(database, monotonic=lambda: now)
        for _ in range(3):
            assert await asyncio.gather(*(probes.problem() for _ in range(20))) == [None] * 20
        assert writes == 1
        now = 5.0
        await probes.problem()
        assert writes == 2
        assert await database.read(lambda tx: tx.fetch("SELECT * FROM idempotency_keys", {})[1]) == [], (
            "nothing is left of it"
        )


@pytest.mark.req("OPS-06")
async def test_a_write_that_hangs_is_told_in_time_and_not_asked_for_again(sqlite_url: str) -> None:
    async with Database(sqlite_url) as database:
        probes = Storing(database, patience_seconds=0.05, kept_seconds=0)
        with locked(sqlite_url):
            for _ in range(2):
                assert await probes.problem() == "a write takes longer than 0.05 seconds"
        while await probes.problem():
            await asyncio.sleep(0.01)


async def test_only_a_change_of_readiness_is_logged(doors: Doors) -> None:
    async def ask() -> None:
        await doors.http.get(f"{doors.base}/readyz")

    with capture_logs() as lines:
        await ask()
        doors.ready["slack"] = False
        await ask()
        await ask()
        doors.ready["slack"] = True
        await ask()
        await ask()
    assert [line["action"] for line in lines] == ["not_ready", "ready"]
    assert lines[0]["missing"] == ["slack"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/poll", 405), ("PUT", "/agents", 405)]
)
async def test_what_is_no_route_is_refused_in_the_same_form(doors: Doors, method: str, path: str, status: int) -> None:
    answer = await doors.operator.ask(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "hint"}
    assert ("allow" in answer.headers) == (status == 405)
