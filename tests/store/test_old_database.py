"""A database of an older version with work under way: everything in it is kept, and the work goes on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from alembic import command
from sqlalchemy import Connection

from swarm.clock import ManualClock
from swarm.domain.model.feedback import Opinion
from swarm.domain.model.runs import RunStatus
from swarm.services.ground.idempotency import Caller
from swarm.store import agents
from swarm.store.admin import backup, migrations
from swarm.store.bridge.database import Database
from swarm.store.runs import feedback, runs
from tests.store.test_migrations import schema
from tests.support.live import playing
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("OPS-03")

ROWS: Final = (Path(__file__).parent / "data" / "0007.sql").read_text()
RENAMED: Final = {old: new for new, old in backup._BEFORE_0015.items()}
WEATHER_TS, REPLY_KEY = "1700000035.000100", "r-1"  # a message that was answered by a call with this key


def counted(connection: Connection) -> dict[str, int]:
    """The number of rows of each table that has some, by its present name."""
    tables = dict.fromkeys(re.findall(r"^INSERT INTO (\w+)", ROWS, re.MULTILINE))
    there = schema(connection)
    now = {table: RENAMED.get(table, table) if RENAMED.get(table) in there else table for table in tables}
    return {
        RENAMED.get(table, table): connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()
        for table, name in now.items()
    }


def migrated(url: str) -> None:
    """Loads the old rows and migrates them, with a step back and forth over the renames."""
    with migrations._locked(url) as connection:
        config = migrations._config(connection)
        command.upgrade(config, "0007")
        for statement in re.split(r";\n(?=INSERT|$)", ROWS):
            connection.exec_driver_sql(statement)
        if connection.dialect.name == "postgresql":
            for table in ("deliveries", "history"):  # numbers that the rows brought along
                connection.exec_driver_sql(f"SELECT setval('{table}_seq_seq', max(seq)) FROM {table}")
        before = counted(connection)
        command.upgrade(config, "0014")
        old = schema(connection)
        command.upgrade(config, "0015")
        new = schema(connection)
        command.downgrade(config, "0014")
        assert schema(connection) == old
        command.upgrade(config, "0015")
        assert schema(connection) == new
        assert counted(connection) == before
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
    migrations.upgrade(url)


async def test_the_work_of_an_older_version_goes_on(empty_database_url: str) -> None:
    migrated(empty_database_url)
    clock = ManualClock()
    async with Database(empty_database_url, clock=clock) as database:
        world = World(database, clock)
        lead = await database.read(agents.by_name, "lead")
        assert lead is not None
        (opinion,) = await database.read(feedback.latest, 0, None, 10)
        assert (opinion.user_id, opinion.value, opinion.answer_id) == ("U1", Opinion.UP, opinion.run_id)
        messages = await world.rows(f"SELECT id, lease_token FROM inbox_messages WHERE ts = '{WEATHER_TS}'")
        await world.hears(said(f"{BOT} and the weather?", ts=WEATHER_TS))
        assert len(await world.rows(f"SELECT 1 FROM inbox_messages WHERE ts = '{WEATHER_TS}'")) == 1
        caller = Caller(agent=lead, lease_token=messages[0]["lease_token"], request_id=REPLY_KEY)
        await world.services.replies.reply(caller, messages[0]["id"], "It is sunny.")
        await world.send()
        assert world.slack.posts == ["It is sunny."]
        assert await world.rows("SELECT 1 FROM deliveries WHERE due_at IS NOT NULL") == []

        (writing,) = await world.rows(
            "SELECT id, lease_token FROM runs WHERE ended_at IS NULL AND id IN (SELECT run_id FROM run_events)"
        )
        caller = Caller(agent=lead, lease_token=writing["lease_token"])
        async with playing(world) as show:
            await world.services.streams.append(caller, writing["id"], "an answer")
            await world.services.streams.close(caller, writing["id"], ".")

            async def status() -> RunStatus:
                run = await database.read(runs.get, writing["id"])
                assert run is not None
                return run.status

            await wait_until(status, lambda now: now is RunStatus.ANSWERED, what="the run has ended")
        assert [shown.text for shown in show.live.messages] == ["Half of an answer."]
