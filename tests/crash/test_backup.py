"""Backups, and forgetting people, with the operator's commands, while people and a coordinator are at work."""

from __future__ import annotations

import contextlib
import sqlite3

import psycopg
import pytest

from tests.crash.scene import Scene, both_engines
from tests.support.processes import Ended
from tests.support.scan import files_with
from tests.support.twin_client import STORED
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("SEC-06"), pytest.mark.xdist_group("processes")]

RETRY_SECONDS = 60  # so long a post that Slack refuses for its rate waits
WORD = "zebra-4711"


async def command(scene: Scene, *words: str) -> Ended:
    return await scene.stage.processes.command(*words, env=scene.stage.environment)


def sql(scene: Scene, statement: str) -> None:
    if url := scene.stage.settings.get("SWARM_DATABASE_URL"):
        with psycopg.connect(url) as postgres:
            postgres.execute(statement.encode())
    else:
        with contextlib.closing(sqlite3.connect(scene.stage.home / "swarm.db")) as connection, connection:
            connection.execute(statement)


@both_engines
async def test_a_post_that_was_queued_at_the_backup_and_went_out_since_is_not_posted_again(scene: Scene) -> None:
    backup = str(scene.stage.processes.folder / "monday.tar")
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("http_429", method="chat.postMessage", seconds=RETRY_SECONDS)
    await scene.reply(trigger, "only once")
    await wait_until(lambda: scene.twin.posts(ts), what="a post was refused")
    made = await command(scene, "backup", backup, "--force")
    assert made.code == 0, made.err
    scene.stage.kill_coordinator()
    sql(scene, "UPDATE deliveries SET due_at = 1 WHERE due_at IS NOT NULL")
    await scene.stage.start_coordinator()
    await scene.answered_once(ts, "only once")
    refused = await command(scene, "restore", backup, "--force")
    assert (refused.code, "Stop every coordinator" in refused.err) == (1, True), refused.err
    scene.stage.kill_coordinator()
    restored = await command(scene, "restore", backup)
    assert (restored.code, "not empty" in restored.err) == (1, True), restored.err
    restored = await command(scene, "restore", backup, "--force")
    assert restored.code == 0, restored.err
    await scene.stage.start_coordinator()
    await scene.answered_once(ts, "only once")
    assert len([post for post in await scene.twin.posts(ts) if post["ok"]]) == 1
    later = await scene.twin.say("@swarm and on")
    await scene.reply(await scene.trigger(later), "it goes on")
    await scene.answered_once(later, "it goes on")


@pytest.mark.long
async def test_a_person_is_forgotten_while_the_coordinator_runs_and_a_deleted_message_is_gone_too(scene: Scene) -> None:
    deleted = await scene.twin.say(f"@swarm {WORD} as well")
    await scene.reply(await scene.trigger(deleted), "noted, too")
    await scene.twin.ask("DELETE", "messages", json={"user": "alice", "channel": "general", "ts": deleted})
    ts = await scene.twin.say(f"@swarm my number is {WORD}", user="bob")
    await scene.reply(await scene.trigger(ts), "noted")
    await scene.twin.until(ts, lambda seen: seen.answers)
    await scene.twin.say(f"@swarm {WORD} again", user="bob")
    await scene.twin.until(ts, lambda seen: STORED in seen.emoji)
    asked = await command(scene, "forget", "@bob")
    assert (asked.code, "Say --yes" in asked.err) == (1, True), asked.err
    done = await command(scene, "forget", "@bob", "--yes")
    assert (done.code, "Removed:" in done.out, "messages" in done.out) == (0, True, True), done.out + done.err
    again = await command(scene, "forget", "@bob", "--yes")
    assert (again.code, "Nobody called @bob" in again.err) == (1, True), again.err
    await scene.settled()
    assert files_with(f"sqlite:///{scene.stage.home / 'swarm.db'}", WORD) == []
    scene.stage.kill_coordinator()
    counted = await command(scene, "forget", "U0123456789", "--dry-run")
    assert (counted.code, counted.out) == (0, "No data of U0123456789 was found.\n"), counted.err
    await scene.stage.start_coordinator()
