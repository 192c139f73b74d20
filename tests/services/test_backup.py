"""Backups: one state of the database, taken while it is used, and put back so that everything goes on from there."""

from __future__ import annotations

import asyncio
import contextlib
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from alembic import command

from swarm.app import backup
from swarm.clock import ManualClock
from swarm.domain.errors import ConfigurationError, Conflict
from swarm.store.admin import migrations, preparation, revisions
from swarm.store.bridge.database import Database
from tests.support.postgres import fresh_database
from tests.support.world import BOT, World

pytestmark = [pytest.mark.both_engines, pytest.mark.req("SEC-06")]


def ignored(done: float) -> None:
    """Progress that nobody looks at."""


def save(url: str, file: Path, *, force: bool = False) -> backup.Manifest:
    return backup.make(url, file.parent / "prompts", file, force=force, progress=ignored)


def put_back(url: str, file: Path, *, force: bool = False) -> backup.Manifest:
    return backup.restore(url, file.parent / "prompts", file, force=force, progress=ignored)


@pytest.fixture
def postgres_url(postgres_server_url: str, migrated_postgres: str) -> Iterator[str]:
    """A database of the test's own: it is dropped and made anew."""
    with fresh_database(postgres_server_url, template=migrated_postgres) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "monday.tar"


@contextlib.asynccontextmanager
async def world_on(url: str, before: World | None = None) -> AsyncIterator[World]:
    """A coordinator with the same Slack and clock as ``before``."""
    clock = before.clock if before else ManualClock()
    async with Database(url, clock=clock) as database:
        yield World(database, clock, before.slack) if before else World(database, clock)


async def test_what_was_queued_at_the_backup_and_sent_since_is_not_posted_again(database_url: str, file: Path) -> None:
    """The other post, which was queued as well and never left, is posted."""
    async with world_on(database_url) as world:
        lead = await world.lead()
        first, _ = await world.says(f"{BOT} one"), await world.says(f"{BOT} two")
        for trigger in await world.poll(lead):
            await world.answers(lead, trigger, f"to {trigger.inbox_messages[0].text[-3:]}")
        await asyncio.to_thread(save, database_url, file)
        await world.change("UPDATE deliveries SET status = 'failed', due_at = NULL WHERE text = 'to two'")
        await world.send()
        assert world.slack.posts == ["to one"]
        with pytest.raises(Conflict, match="uses the database"):
            await asyncio.to_thread(put_back, database_url, file, force=True)
    with pytest.raises(Conflict, match="not empty"):
        put_back(database_url, file)
    put_back(database_url, file, force=True)
    async with world_on(database_url, world) as again:
        again.clock.advance(3600)
        await again.sweep()
        await again.send()
        assert sorted(again.slack.posts) == ["to one", "to two"]
        assert await again.rows("SELECT count(*) AS n FROM deliveries WHERE due_at IS NOT NULL") == [{"n": 0}]
        assert (await again.inbox_message(first)).status == "responded"
        assert await again.rows("SELECT DISTINCT context FROM threads") == [{"context": "stale"}]


async def test_work_that_was_under_way_is_handed_out_again_after_a_restore(database_url: str, file: Path) -> None:
    async with world_on(database_url) as world:
        lead = await world.lead()
        root = await world.says(f"{BOT} one")
        await world.only(lead)
        await asyncio.to_thread(save, database_url, file)
    put_back(database_url, file, force=True)
    async with world_on(database_url, world) as again:
        await again.later(3600)
        lead = await again.services.agents.get("lead")
        await again.is_here(lead)
        again.slack.threads["C1", root.ts] = [root]
        assert (await again.only(lead)).attempt == 2


async def test_a_backup_is_one_state_while_others_write(database_url: str, file: Path) -> None:
    """Each transaction writes two rows; a copy that had one of them alone would be torn."""
    done = asyncio.Event()

    async def write(world: World) -> int:
        number = 0
        while not done.is_set():
            await world.says(f"{BOT} {number}" + "x" * 5_000)
            number += 1
        return number

    async with world_on(database_url) as world:
        await world.lead()
        writing = asyncio.create_task(write(world))
        while (await world.rows("SELECT count(*) AS n FROM inbox_messages"))[0]["n"] < 5:
            await asyncio.sleep(0)
        before = (await world.rows("SELECT count(*) AS n FROM inbox_messages"))[0]["n"]
        manifest = await asyncio.to_thread(save, database_url, file)
        done.set()
        written = await writing
    assert manifest.revision == revisions.newest()
    assert written > before, "it was written to meanwhile"
    put_back(database_url, file, force=True)
    async with world_on(database_url) as again:
        rows = await again.rows(
            "SELECT count(*) AS inbox_messages, count(t.ts) AS messages FROM inbox_messages i "
            "LEFT JOIN thread_messages t ON t.team = i.team AND t.channel = i.channel AND t.ts = i.ts"
        )
        assert before <= rows[0]["inbox_messages"] == rows[0]["messages"] <= written


def test_a_backup_is_for_its_owner_alone_and_replaces_nothing_unasked(sqlite_url: str, file: Path) -> None:
    save(sqlite_url, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    whole = file.read_bytes()
    with pytest.raises(Conflict, match="already exists"):
        save(sqlite_url, file)
    save(sqlite_url, file, force=True)
    assert file.read_bytes() != b"" != whole
    assert [path.name for path in file.parent.iterdir()] == [file.name], "nothing half is left"


def test_a_backup_that_is_interrupted_leaves_nothing(
    sqlite_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(done: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup.make(sqlite_url, file.parent, file, force=False, progress=interrupted)
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "missing"])
def test_what_is_no_backup_or_a_damaged_one_is_refused(sqlite_url: str, file: Path, damage: str) -> None:
    save(sqlite_url, file)
    content = file.read_bytes()
    middle = len(content) // 2
    match damage:
        case "cut":
            file.write_bytes(content[:middle])
        case "changed":
            file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        case "other":
            file.write_text("hello")
        case _:
            file.unlink()
    with pytest.raises(ConfigurationError, match=r"monday\.tar (is not a backup|cannot be read)"):
        put_back(sqlite_url, file)


def test_a_backup_of_a_newer_version_is_refused_and_of_another_kind_of_database(
    sqlite_url: str, postgres_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(sqlite_url, file)
    with pytest.raises(ConfigurationError, match="backup of sqlite, and the database is postgresql"):
        put_back(postgres_url, file)
    monkeypatch.setattr(revisions, "newest", lambda: "0001")
    with pytest.raises(ConfigurationError, match="newer"):
        put_back(sqlite_url, file)


@pytest.mark.parametrize("revision", ["0001", "0014", "0017"])  # 0015 and 0018 rename tables
def test_a_backup_of_an_older_version_is_migrated(
    empty_database_url: str, file: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", lambda config, to: UPGRADE(config, revision))
        migrations.upgrade(empty_database_url)
    assert save(empty_database_url, file).revision == revision
    put_back(empty_database_url, file)
    assert preparation.is_current(empty_database_url)


UPGRADE = command.upgrade


def test_edited_prompts_come_along_and_tokens_do_not(sqlite_url: str, file: Path) -> None:
    prompts = file.parent / "prompts"
    prompts.mkdir()
    (prompts / "lead.md").write_text("You lead.")
    (file.parent / "operator.token").write_text("swarm_operator_hush")
    save(sqlite_url, file)
    assert b"swarm_operator_hush" not in file.read_bytes()
    (prompts / "lead.md").unlink()
    put_back(sqlite_url, file)
    assert (prompts / "lead.md").read_text() == "You lead."


def test_the_password_is_on_no_command_line(postgres_url: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    passwords: list[str | None] = []
    real = subprocess.Popen

    def watched(command: list[str], **options: object) -> subprocess.Popen[str]:
        started.extend(command)
        passwords.append(dict(options.get("env") or {}).get("PGPASSWORD"))  # type: ignore[call-overload]
        return real(command, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "Popen", watched)
    save(postgres_url.replace("postgres@", "postgres:hush-hush@"), file)
    assert passwords[-1] == "hush-hush"
    assert not any("hush-hush" in word for word in started)


def test_without_the_programs_of_postgresql_it_is_said_what_to_install(
    postgres_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(file.parent))
    with pytest.raises(ConfigurationError, match="pg_dump is not on the PATH"):
        save(postgres_url, file)
    old = file.parent / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    old.chmod(0o755)
    with pytest.raises(ConfigurationError, match="older than the server"):
        save(postgres_url, file)


def test_other_tables_of_the_same_database_stay(postgres_url: str, file: Path) -> None:
    save(postgres_url, file)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE of_others (n INT)")
        connection.execute("INSERT INTO of_others VALUES (7)")
    put_back(postgres_url, file)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT n FROM of_others").fetchall() == [(7,)]
