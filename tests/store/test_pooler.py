"""PgBouncer in transaction mode before PostgreSQL: each transaction may get another connection of the server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from swarm.clock import ManualClock
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.leases import FinishOutcome
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from tests.support.world import World, look

BINARY = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
PATIENCE_SECONDS = 20.0
SERVER_CONNECTIONS = 2

SETTINGS = """
[databases]
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
"""

SESSION_LIMITS = (
    "SELECT name, setting FROM pg_settings WHERE name LIKE '%%_timeout' AND setting <> '0' AND source = 'session'"
)

pytestmark = [pytest.mark.req("OPS-03")]


@pytest.fixture
def pooler_url(postgres_url: str) -> Iterator[str]:
    """The URL of the test's database through a PgBouncer of the test's own."""
    if not Path(BINARY).exists():
        pytest.skip("PgBouncer is not installed (Debian's package pgbouncer)")
    where = conninfo_to_dict(postgres_url)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer", dir="/tmp"))
    try:
        folder.chmod(0o755)  # PgBouncer refuses to run as root, so another user reads this
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            SETTINGS.format(
                host=where["host"], port=where.get("port", 5432), listen_port=port, connections=SERVER_CONNECTIONS
            )
        )
        user = ["-u", "postgres"] if os.geteuid() == 0 else []
        with subprocess.Popen([BINARY, "-q", *user, str(settings)], stderr=subprocess.DEVNULL) as running:
            try:
                url = f"postgresql://postgres@127.0.0.1:{port}/{where['dbname']}"
                _until_up(url)
                yield url
            finally:
                running.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _until_up(url: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
            return
        time.sleep(0.05)
    raise AssertionError("PgBouncer did not start")


async def test_work_goes_through_a_pooler_and_notifications_past_it(postgres_url: str, pooler_url: str) -> None:
    clock = ManualClock()
    async with (
        Database(postgres_url, pooler_url=pooler_url, clock=clock) as here,
        Database(postgres_url, pooler_url=pooler_url, clock=clock) as there,
    ):
        world, other = World(here, clock), World(there, clock)
        agents = [await world.lead(name) for name in ("a", "b", "c")]
        waiting = [
            asyncio.ensure_future(other.services.polls.poll(agent, wait_seconds=PATIENCE_SECONDS, limit=1))
            for agent in agents
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(there.wakeups.awaited & {agent.id for agent in agents}) < len(agents):
                await asyncio.sleep(0.01)
        await asyncio.gather(*(world.says(f"swarm#{agent.name} {number}") for agent in agents for number in range(8)))
        heard = [triggers[0] for triggers in await asyncio.gather(*waiting)]  # told by the other process
        work = world.services.work
        while heard:
            finished = await asyncio.gather(
                *(
                    work.finish(agent, [trigger.lease_token], FinishOutcome.DISMISSED, "a test", next_limit=1)
                    for agent, trigger in zip(agents, heard, strict=True)
                )
            )
            heard = [done.triggers[0] for done in finished if done.triggers]
        assert await world.rows("SELECT status, count(*) AS n FROM inbox_messages GROUP BY status") == [
            {"status": "dismissed", "n": 24}
        ]


async def test_limits_hold_in_each_transaction_and_stay_on_no_connection(postgres_url: str, pooler_url: str) -> None:
    def limits(tx: Transaction) -> dict[str, str]:
        return {row["name"]: row["setting"] for row in look(tx, SESSION_LIMITS, {})}

    async with Database(postgres_url, pooler_url=pooler_url) as database:
        expected = {"lock_timeout": "5000", "idle_in_transaction_session_timeout": "10000"}
        assert await database.write(limits) == expected
        assert await database.read(limits) == expected
    with psycopg.connect(pooler_url) as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_a_pooler_needs_postgresql_behind_it() -> None:
    with pytest.raises(ConfigurationError, match="pooler_url"):
        Database("sqlite:///swarm.db", pooler_url="postgresql://localhost/swarm")


@pytest.mark.req("OPS-16")
async def test_a_pooler_as_the_only_address_is_found_at_the_start_and_named(pooler_url: str) -> None:
    with pytest.raises(ConfigurationError) as found:
        await Database(pooler_url).open()
    assert "database.url (SWARM_DATABASE_URL)" in found.value.message
    assert "pooler" in found.value.message
    assert "SWARM_DATABASE_POOLER_URL" in (found.value.hint or "")
