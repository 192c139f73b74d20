"""``kill -9`` of the coordinator at each step of a message's way: one inbox message, one answer, 👀 and ✅ once.

The points are reached with the twin's faults, so nothing in the coordinator knows of these tests.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3

import pytest

from tests.crash.scene import Scene, both_engines, lease_of
from tests.support.twin_client import STORED
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("processes")  # what they share is built once

LONG_SECONDS = 600
"""Longer than any test: what is delayed by this never comes by itself."""

RETRY_SECONDS = 60
"""What Slack says: whatever is refused with this is not tried again before the test has killed the coordinator."""


@pytest.mark.req("LOOP-01", "LOOP-04")
async def test_killed_before_the_event_is_stored_it_gets_the_event_again(scene: Scene) -> None:
    scene.stage.freeze_coordinator()
    ts = await scene.twin.say("@swarm hello")
    await scene.stage.restart_coordinator()
    await scene.twin.until_told(ts, "message")
    await scene.reply(await scene.trigger(ts), "here I am")
    await scene.answered_once(ts, "here I am")
    assert (await scene.twin.told(ts))["message"] == 1


@pytest.mark.req("LOOP-01")
async def test_killed_after_the_commit_but_before_the_ack_it_ignores_the_repeated_event(scene: Scene) -> None:
    await scene.twin.fault("drop_ack", event="message")
    await scene.twin.fault("drop_ack", event="app_mention")
    ts = await scene.twin.say("@swarm hello")
    await scene.twin.until(ts, lambda seen: STORED in seen.emoji)
    await scene.stage.restart_coordinator()
    await scene.twin.redeliver()  # the time for the acks is over
    await scene.twin.until_told(ts, "message", "app_mention")
    await scene.reply(await scene.trigger(ts), "once")
    await scene.answered_once(ts, "once")


@pytest.mark.req("LOOP-06")
async def test_killed_after_the_claim_it_still_honours_the_lease(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.stage.restart_coordinator()
    assert await scene.lea.poll() == []
    await scene.reply(trigger, "I kept it")
    await scene.answered_once(ts, "I kept it")


@pytest.mark.long
@pytest.mark.req("LOOP-06")
async def test_a_lease_that_expired_while_it_was_down_is_its_agents_for_one_more(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    lost = await scene.trigger(ts)
    scene.stage.kill_coordinator()
    database = scene.stage.home / "swarm.db"
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        # Instead of a minute's wait.
        connection.execute("UPDATE leases SET expires_at = created_at WHERE token = ?", [lease_of(lost)])

    async def expires_at() -> int:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            (row,) = connection.execute("SELECT expires_at FROM leases WHERE token = ?", [lease_of(lost)])
            return int(row[0])

    expired_at = await expires_at()
    await scene.stage.start_coordinator()
    await wait_until(expires_at, lambda at: at > expired_at, what="the lease is prolonged")
    assert await scene.lea.poll() == []
    await scene.reply(lost, "the only run")
    await scene.answered_once(ts, "the only run")


@pytest.mark.req("LOOP-08")
async def test_killed_after_the_reply_was_taken_but_before_the_post_it_posts_after_the_restart(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("http_429", method="chat.postMessage", seconds=RETRY_SECONDS)  # the answer waits
    await scene.reply(trigger, "promised")
    await wait_until(lambda: scene.twin.posts(ts), what="a post was refused")
    scene.stage.kill_coordinator()
    assert (await scene.twin.conversation(ts)).answers == ()
    _the_wait_is_over(scene)
    await scene.stage.start_coordinator()
    await scene.answered_once(ts, "promised")


@both_engines
@pytest.mark.req("LOOP-08", "OPS-10")
async def test_killed_between_the_post_and_its_mark_it_does_not_post_again(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("delay", method="chat.postMessage", seconds=LONG_SECONDS)  # performed, but not answered
    await scene.reply(trigger, "only once")
    await scene.twin.until(ts, lambda seen: seen.answers)
    await scene.stage.restart_coordinator()
    await scene.answered_once(ts, "only once")
    assert len(await scene.twin.posts(ts)) == 1


@pytest.mark.long
@pytest.mark.req("LOOP-08", "OPS-10")
async def test_killed_while_it_doubts_a_post_whose_connection_broke_it_does_not_post_again(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("cut_after_accept", method="chat.postMessage")
    await scene.reply(trigger, "only once")
    await wait_until(lambda: _doubted(scene), what="the coordinator knows that it does not know")
    await scene.stage.restart_coordinator()
    await scene.answered_once(ts, "only once")
    assert len(await scene.twin.posts(ts)) == 1


@pytest.mark.req("LOOP-14")
async def test_killed_between_the_post_and_the_check_mark_it_sets_the_check_mark(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    await scene.twin.until(ts, lambda seen: STORED in seen.emoji)
    trigger = await scene.trigger(ts)
    await scene.twin.fault("http_429", method="reactions.add", seconds=RETRY_SECONDS)
    await scene.reply(trigger, "half done")
    await scene.twin.until(ts, lambda seen: seen.answers)
    await wait_until(lambda: _is_refused(scene))  # the twin's log of calls also has the refusals of earlier tests
    scene.stage.kill_coordinator()
    seen = await scene.twin.conversation(ts)
    assert (seen.answers, seen.emoji) == (("half done",), (STORED,))
    _the_wait_is_over(scene)
    await scene.stage.start_coordinator()
    await scene.answered_once(ts, "half done")


@pytest.mark.long
@pytest.mark.req("OPS-12", "OPS-10")
async def test_killed_while_it_shuts_down_it_does_not_post_again(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("delay", method="chat.postMessage", seconds=LONG_SECONDS)
    await scene.reply(trigger, "last words")
    await scene.twin.until(ts, lambda seen: seen.answers)
    scene.stage.coordinator.send(signal.SIGTERM)
    await scene.stage.coordinator.says("Stopping")
    await scene.stage.restart_coordinator()
    await scene.answered_once(ts, "last words")
    assert len(await scene.twin.posts(ts)) == 1


def _the_wait_is_over(scene: Scene) -> None:
    """What Slack has refused for its rate may be tried again at once. The coordinator must not run."""
    with contextlib.closing(sqlite3.connect(scene.stage.home / "swarm.db")) as database, database:
        database.execute("UPDATE deliveries SET due_at = 1 WHERE due_at > 1")


async def _is_refused(scene: Scene) -> bool:
    """Whether a refusal of Slack is stored."""
    with contextlib.closing(sqlite3.connect(scene.stage.home / "swarm.db")) as database:
        query = "SELECT 1 FROM deliveries WHERE status = 'queued' AND error = 'ratelimited'"
        return database.execute(query).fetchone() is not None


async def _doubted(scene: Scene) -> bool:
    deliveries = await scene.stage.visitor(scene.http).get("/deliveries?status=unknown")
    return bool(deliveries["deliveries"])
