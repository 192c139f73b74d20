"""Deliveries: in order, once, whatever breaks between us and Slack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from swarm.clock import SECOND, ManualClock
from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import GIVE_UP_SECONDS, DeliveryKind
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy, Reactions
from swarm.services.outbox import deliver
from swarm.services.outbox.deliver import ATTEMPTS, DeliveryLimits, OutboxSender
from swarm.store import deliveries
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import DELIVERIES, REACTIONS
from tests.support.policies import governing
from tests.support.slack import (
    FakeSlack,
    Killed,
    is_busy,
    is_never_reached,
    kills_the_process,
    refuses,
    takes_and_kills_the_process,
    takes_but_the_answer_is_lost,
)
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS, ME, World, delete, said

pytestmark = pytest.mark.req("OPS-10")

PATIENCE_SECONDS = 20.0
SURELY_OVER_SECONDS = 2 * HTTP_TIMEOUT_SECONDS + 1
"""After this time a call that was under way must have ended one way or the other."""
TERMS = DeliveryLimits(team=ME.team, in_flight_seconds=SURELY_OVER_SECONDS, operating_policy=OperatingPolicy())


async def conversation(world: World, *answers: str) -> tuple[Agent, SlackMessage, Trigger]:
    """A message, and answers to it that wait to be sent; its 👀 was sent."""
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.send()
    trigger = await world.only(lead)
    for answer in answers:
        await world.answers(lead, trigger, answer)
    return lead, message, trigger


async def statuses(world: World) -> list[tuple[str, str | None]]:
    """Of all posts: status and error."""
    rows = await world.rows("SELECT status, error FROM deliveries WHERE kind = 'post' ORDER BY seq")
    return [(row["status"], row["error"]) for row in rows]


async def posts(world: World) -> list[Row]:
    return await world.rows("SELECT * FROM deliveries WHERE kind = 'post' ORDER BY seq")


@pytest.mark.both_engines
async def test_posts_of_a_thread_come_in_order_with_two_senders_at_work(world: World) -> None:
    lead = await world.lead()
    for thread in range(4):
        await world.says(f"{BOT} {thread}")
    for trigger in await world.poll(lead):
        for number in range(5):
            await world.answers(lead, trigger, f"{trigger.inbox_messages[0].text} {number}")
    other = OutboxSender(world.database, world.slack, ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS)
    while world.slack.posts == [] or await open_deliveries(world):
        await asyncio.gather(world.send(), other.send_due())
    assert sorted(world.slack.posts) == sorted(f"@UBOT {thread} {number}" for thread in range(4) for number in range(5))
    for thread in range(4):
        of_thread = [post for post in world.slack.posts if post.startswith(f"@UBOT {thread}")]
        assert of_thread == [f"@UBOT {thread} {number}" for number in range(5)]


async def open_deliveries(world: World) -> int:
    return (await world.services.overview.backlog()).deliveries_open


async def test_a_post_whose_answer_was_lost_is_found_and_not_sent_again(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.append(takes_but_the_answer_is_lost)
    await world.send()
    (post,) = await posts(world)
    assert post["status"] == "unknown"
    world.clock.advance(SURELY_OVER_SECONDS - 1)
    await world.send()
    assert world.slack.looked_up == [], "it could still be under way"
    world.clock.advance(1)
    await world.send()
    assert world.slack.looked_up == [post["id"]]
    assert world.slack.posts == ["answer"]
    (post,) = await posts(world)
    assert (post["status"], post["sent_ts"]) == ("sent", world.slack.timestamps[post["id"]])


async def test_a_post_that_never_arrived_is_looked_up_and_sent_again(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.append(is_never_reached)
    await world.send()
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    (post,) = await posts(world)
    assert world.slack.looked_up == [post["id"]]
    assert (world.slack.posts, post["status"], post["attempts"]) == (["answer"], "sent", 2)


async def test_what_follows_an_unknown_post_waits_for_it(world: World) -> None:
    await conversation(world, "one", "two")
    world.slack.script.append(is_never_reached)
    await world.send()
    assert world.slack.posts == []
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    assert world.slack.posts == ["one", "two"]


@pytest.mark.both_engines
async def test_a_lookup_that_fails_is_tried_again_later(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.append(takes_but_the_answer_is_lost)
    world.slack.lookups_fail.append(Unavailable("Slack is down"))
    await world.send()
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    assert [status for status, _ in await statuses(world)] == ["unknown"]
    world.clock.advance(60)
    await world.send()
    assert [status for status, _ in await statuses(world)] == ["sent"]
    assert world.slack.posts == ["answer"]


@pytest.mark.both_engines
@pytest.mark.parametrize("dies", [kills_the_process, takes_and_kills_the_process], ids=["before", "after"])
async def test_a_process_that_dies_during_a_post_leaves_one_post_in_slack(world: World, dies: object) -> None:
    await conversation(world, "answer", "more")
    world.slack.script.append(dies)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        await world.send()
    restarted = World(world.database, world.clock, world.slack)
    await restarted.send()
    assert [status for status, _ in await statuses(world)] == ["sending", "queued"]
    world.clock.advance(SURELY_OVER_SECONDS)
    await restarted.send()
    assert world.slack.posts == ["answer", "more"]
    assert len(world.slack.looked_up) == 1


@pytest.mark.both_engines
async def test_a_process_that_dies_between_taking_and_calling_leaves_one_post_in_slack(world: World) -> None:
    await conversation(world, "answer")
    (post,) = await posts(world)
    await world.database.write(deliver.take, post["id"], TERMS)
    await world.send()
    assert world.slack.posts == []
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    assert world.slack.posts == ["answer"]


async def test_a_sender_that_comes_back_late_changes_nothing_about_a_later_attempt(world: World) -> None:
    await conversation(world, "answer")
    (post,) = await posts(world)
    late = await world.database.write(deliver.take, post["id"], TERMS)
    assert late is not None
    world.clock.advance(SURELY_OVER_SECONDS)
    doubted = await world.database.read(deliveries.get, post["id"])
    assert doubted is not None
    await world.database.write(deliver.doubt, doubted, "silent", 0.0)
    await world.database.write(deliver.resend, doubted)
    current = await world.database.write(deliver.take, post["id"], TERMS)
    assert current is not None
    for answer in (is_busy(1), is_never_reached, refuses("fatal")):
        outcome = answer(FakeSlack(), deliveries.delivery(late))
        await world.database.write(deliver.settle, late, outcome, TERMS)
    assert [status for status, _ in await statuses(world)] == ["sending"]


async def test_a_refused_post_fails_with_slacks_reason_and_does_not_block_the_next(world: World) -> None:
    await conversation(world, "one", "two")
    world.slack.script.append(refuses("restricted_action"))
    await world.send()
    assert await statuses(world) == [("failed", "restricted_action"), ("sent", None), ("sent", None)]
    assert world.slack.posts[0] == "two"


async def test_a_busy_slack_is_left_alone_for_as_long_as_it_says(world: World) -> None:
    await conversation(world, "one", "two")
    world.slack.script.append(is_busy(30))
    await world.send()
    world.clock.advance(29.9)
    await world.send()
    assert world.slack.posts == []
    world.clock.advance(0.1)
    await world.send()
    assert world.slack.posts == ["one", "two"]


async def test_a_post_that_waits_costs_no_work(world: World) -> None:
    """The sender sleeps, also while posts that are due stand behind one that has to wait."""
    await conversation(world, "one", "two", "three")
    world.slack.script.append(is_busy(30))
    await world.send()
    assert await world.database.read(deliveries.lanes_due, 10) == []


async def test_other_threads_do_not_wait_for_a_busy_one(world: World) -> None:
    lead, _, _ = await conversation(world, "one")
    world.slack.script.append(is_busy(30))
    await world.send()
    await world.says(f"{BOT} another thread")
    await world.answers(lead, await world.only(lead), "other")
    await world.send()
    assert world.slack.posts == ["other"]


async def test_a_post_that_is_lost_again_and_again_fails_in_the_end(world: World) -> None:
    _, message, _ = await conversation(world, "one", "two")
    world.slack.script.extend([is_busy(1), *(is_never_reached for _ in range(ATTEMPTS))])
    for _ in range(ATTEMPTS + 2):
        await world.send()
        world.clock.advance(SURELY_OVER_SECONDS)
    (first, error), second, _told = await statuses(world)
    assert (first, second) == ("failed", ("sent", None))
    assert error == f"the connection broke, {ATTEMPTS} times"
    assert (message.ts, "x") in world.slack.reactions


async def test_an_outage_of_hours_loses_no_post(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.extend(is_busy(1) for _ in range(3 * ATTEMPTS))
    for _ in range(3 * ATTEMPTS):
        await world.send()
        world.clock.advance(60)
    assert [status for status, _ in await statuses(world)] == ["queued"]
    await world.send()
    assert world.slack.posts == ["answer"]


async def test_after_an_outage_a_post_in_doubt_has_all_its_attempts(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.extend([*(is_busy(1) for _ in range(2 * ATTEMPTS)), takes_but_the_answer_is_lost])
    world.slack.lookups_fail.append(Unavailable("Slack is down"))
    for _ in range(2 * ATTEMPTS + 4):
        await world.send()
        world.clock.advance(SURELY_OVER_SECONDS)
    assert world.slack.posts == ["answer"]
    assert [status for status, _ in await statuses(world)] == ["sent"]


async def test_the_longer_an_outage_the_more_rarely_slack_is_tried(world: World) -> None:
    await conversation(world, "answer")
    world.slack.script.extend(is_busy(1) for _ in range(10_000))
    world.clock.advance(3600)
    await world.send()
    world.clock.advance(59)
    calls = len(world.slack.calls)
    await world.send()
    assert len(world.slack.calls) == calls
    world.clock.advance(1)
    await world.send()
    assert len(world.slack.calls) == calls + 1


@pytest.mark.req("LOOP-14", "OPS-10")
async def test_an_answer_that_slack_did_not_take_for_a_day_is_given_up_for_all_to_see(world: World) -> None:
    _, message, _ = await conversation(world, "answer")
    world.slack.script.extend([is_busy(1), is_busy(1)])
    await world.send()
    world.clock.advance(GIVE_UP_SECONDS)
    world.slack.reaction_script.append(is_busy(3600))
    await world.send()
    assert await statuses(world) == [("failed", "rate limited, for 24 hours"), ("sent", None)]
    world.clock.advance(3600)
    await world.send()
    assert world.slack.reactions[-1] == (message.ts, "x"), "it is shown as soon as Slack takes it"


async def test_a_post_that_had_to_wait_for_us_for_days_is_sent(world: World) -> None:
    await conversation(world, "answer")
    world.clock.advance(3 * GIVE_UP_SECONDS)
    await world.send()
    assert world.slack.posts == ["answer"]


@pytest.mark.req("LOOP-14", "OPS-10")
async def test_refused_answers_show_on_their_message_once(world: World) -> None:
    _, message, _ = await conversation(world, "one", "two")
    world.slack.script.extend([refuses("msg_too_long"), refuses("msg_too_long")])
    await world.send()
    await world.send()
    assert world.slack.reactions.count((message.ts, "x")) == 1


@pytest.mark.req("LOOP-14")
async def test_a_refused_answer_shows_with_the_operators_emoji(world: World) -> None:
    _, message, _ = await conversation(world, "answer")
    world.slack.script.append(refuses("msg_too_long"))
    policy = governing(reactions=Reactions(failed="boom"))
    sender = OutboxSender(
        world.database, world.slack, ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS, operating_policy=policy
    )
    await sender.send_due()
    assert (message.ts, "boom") in world.slack.reactions


@pytest.mark.parametrize("error", ["thread_not_found", "message_not_found"])
async def test_where_the_place_is_gone_nothing_is_shown_there(world: World, error: str) -> None:
    _, message, _ = await conversation(world, "answer")
    world.slack.script.append(refuses(error))
    await world.send()
    assert await statuses(world) == [("failed", error), ("sent", None)]
    assert (message.ts, "x") not in world.slack.reactions


async def test_a_post_that_can_never_be_looked_up_fails_in_the_end(world: World) -> None:
    """Slack is asked ever more rarely, then no more."""
    _, message, _ = await conversation(world, "one", "two")
    world.slack.script.append(takes_but_the_answer_is_lost)
    world.slack.lookups_fail.extend(Unavailable("Slack is down") for _ in range(1000))
    await world.send()
    world.clock.advance(SURELY_OVER_SECONDS)
    for _ in range(600):
        await world.send()
        world.clock.advance(1)
    assert len(world.slack.looked_up) == 5 + (600 - 48) // 60 + 1, "after 1, 2, 5, 10, 30 seconds, then each minute"
    for _ in range(ATTEMPTS):
        await world.send()
        world.clock.advance(60)
    assert len(world.slack.looked_up) == ATTEMPTS - 1, "the post itself was the first attempt"
    (first, error), second, _told = await statuses(world)
    assert (first, second) == ("failed", ("sent", None))
    assert error == "in doubt, and could not be looked up: Slack is down"
    assert (message.ts, "x") in world.slack.reactions


@pytest.mark.parametrize("code", ["access_denied", "thread_not_found"])
async def test_a_post_that_may_not_be_looked_up_fails_at_once(world: World, code: str) -> None:
    await conversation(world, "one", "two")
    world.slack.script.append(takes_but_the_answer_is_lost)
    world.slack.lookups_fail.append(RefusedBySlack(code))
    await world.send()
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    (first, error), second, _told = await statuses(world)
    assert (first, second) == ("failed", ("sent", None))
    assert error == f"in doubt, and may not be looked up: Slack answers {code}."


@asynccontextmanager
async def sending(world: World) -> AsyncIterator[None]:
    """The sender runs, within the test's patience."""
    running = asyncio.ensure_future(world.sender.run())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def all_wait(world: World, count: int) -> None:
    while len(world.slack.slots) < count:
        await asyncio.sleep(0)


async def test_reactions_that_wait_hold_up_no_post(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "POST_LANES", 2)
    world.slack.held_up.add(DeliveryKind.REACTION)
    lead = await world.lead()
    for number in range(5):
        await world.says(f"{BOT} {number}")
    async with sending(world):
        await all_wait(world, 1)
        await world.answers(lead, (await world.poll(lead))[-1], "answer")
        while world.slack.posts != ["answer"]:
            await asyncio.sleep(0)
    assert len(world.slack.slots) == 2, "one reaction waits at a time"


async def test_a_slow_channel_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "POST_LANES", 4)
    world.slack.held_up |= {DeliveryKind.REACTION, "C1"}
    lead = await world.lead()
    for number in range(3):
        await world.says(f"{BOT} {number}")
    await world.hears(said(f"{BOT} elsewhere", channel="C2"))
    *slow, fast = await world.poll(lead)
    for trigger in slow:
        await world.answers(lead, trigger, "slow")
    async with sending(world):
        await all_wait(world, 1 + 3)
        await world.answers(lead, fast, "fast")
        while world.slack.posts != ["fast"]:
            await asyncio.sleep(0)


@pytest.mark.req("OPS-12")
async def test_at_a_shutdown_the_sender_does_not_run_flat_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def look(sender: OutboxSender) -> bool:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return False

    monkeypatch.setattr(OutboxSender, "_open_lanes", look)
    monkeypatch.setattr(OutboxSender, "_open_reactions", look)
    world.database.wakeups.close()
    async with sending(world):
        while looks == 0:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
    assert looks == 2, "one for posts, one for reactions"


@pytest.mark.req("LOOP-14", "OPS-10")
async def test_while_nothing_can_be_stored_a_reaction_is_not_tried_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, looks = 0, 0

    def cannot(tx: Transaction, *args: object) -> None:
        nonlocal tries
        tries += 1
        raise Unavailable("The disk is full.")

    async def looked(
        sender: OutboxSender, look: Callable[[OutboxSender], Awaitable[bool]] = OutboxSender._open_reactions
    ) -> bool:
        nonlocal looks
        looks += 1
        return await look(sender)

    await world.lead()
    await world.says(f"{BOT} hello")
    monkeypatch.setattr(deliver, "take", cannot)
    monkeypatch.setattr(OutboxSender, "_open_reactions", looked)
    began = time.monotonic()
    async with sending(world):
        while not tries:
            await asyncio.sleep(0)
        await asyncio.sleep(0.3)
    seconds = time.monotonic() - began
    assert tries <= 1 + seconds
    assert looks <= 10 * (1 + seconds)


@pytest.mark.req("LOOP-14", "OPS-10")
async def test_reactions_that_become_late_while_they_wait_for_slacks_limits_take_none_of_its_calls(
    world: World,
) -> None:
    await world.lead()
    world.slack.wait_seconds, world.slack.reactions_leave = 61, asyncio.Event()
    await world.says(f"{BOT} hello")
    async with sending(world):
        await all_wait(world, 1)
        world.clock.advance(61)
        fresh = await world.says(f"{BOT} and this")
        world.slack.reactions_leave.set()
        while world.slack.reactions == []:
            await asyncio.sleep(0)
    assert world.slack.reactions == [(fresh.ts, "eyes")]


@pytest.mark.req("LOOP-14")
async def test_a_reaction_that_could_not_leave_within_a_minute_expires(world: World) -> None:
    await world.lead()
    await world.says(f"{BOT} hello")
    world.clock.advance(60)
    await world.send()
    assert world.slack.calls == []
    assert await world.rows("SELECT status FROM deliveries") == [{"status": "expired"}]


@pytest.mark.req("LOOP-14")
async def test_a_reaction_whose_outcome_is_unknown_is_simply_repeated_but_not_in_haste(world: World) -> None:
    await world.lead()
    await world.says(f"{BOT} hello")
    world.slack.reaction_script.append(takes_but_the_answer_is_lost)
    await world.send()
    assert len(world.slack.calls) == 1
    world.clock.advance(1)
    await world.send()
    assert len(world.slack.calls) == 2
    assert world.slack.looked_up == []
    assert await world.rows("SELECT status FROM deliveries") == [{"status": "sent"}]


async def test_nothing_is_posted_into_a_channel_because_the_root_of_its_thread_is_gone(world: World) -> None:
    lead, message, _ = await conversation(world)
    await world.says("and this?", thread=message)
    await world.later(60)
    (trigger,) = [one for one in await world.poll(lead) if one.notice is None]
    await world.answers(lead, trigger, "answer")
    await world.ingest.handle(delete(message))
    await world.send()
    assert world.slack.posts == []
    assert await statuses(world) == [("failed", "the thread's first message was deleted")]


async def test_a_shutdown_during_a_call_brings_it_to_its_end(world: World) -> None:
    await conversation(world, "answer", "more")
    world.slack.go_on = asyncio.Event()
    world.slack.under_way.clear()
    running = asyncio.ensure_future(world.sender.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await world.slack.under_way.wait()
        running.cancel()
        await asyncio.sleep(0)
        world.slack.go_on.set()
        await asyncio.gather(running, return_exceptions=True)
    assert [status for status, _ in await statuses(world)] == ["sent", "queued"]
    assert world.slack.posts == ["answer"]


async def test_the_running_sender_sends_what_comes(world: World) -> None:
    lead = await world.lead()
    running = asyncio.ensure_future(world.sender.run())
    await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "answer")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while world.slack.posts != ["answer"]:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.req("LOOP-02")
async def test_an_own_post_enters_the_transcript_when_it_was_sent(world: World) -> None:
    await conversation(world, "answer")
    said = "SELECT author_name, text FROM thread_messages WHERE author_kind = 'agent'"
    assert await world.rows(said) == []
    await world.send()
    assert await world.rows(said) == [{"author_name": "lead", "text": "answer"}]


class Suspended(Database):
    """A process that is stopped right after it has taken a delivery, and goes on when the test says so."""

    def __init__(self, url: str, clock: ManualClock) -> None:
        super().__init__(url, clock=clock)
        self.stopped, self.goes_on = asyncio.Event(), asyncio.Event()

    async def write(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        result = await super().write(fn, *args, **kwargs)
        if fn is deliver.take:
            self.stopped.set()
            await self.goes_on.wait()
        return result


@pytest.mark.both_engines
@pytest.mark.req("OPS-03")
async def test_a_process_that_was_suspended_after_taking_a_delivery_does_not_send_it_beside_its_successor(
    world: World, database_url: str
) -> None:
    await conversation(world, "answer")
    async with Suspended(database_url, world.clock) as database, asyncio.timeout(PATIENCE_SECONDS):
        sender = OutboxSender(
            database,
            world.slack,
            ME.team,
            http_timeout_seconds=HTTP_TIMEOUT_SECONDS,
            clock=lambda: world.clock.now_us() / SECOND,
        )
        sending_ = asyncio.create_task(sender.send_due())
        await database.stopped.wait()
        world.clock.advance(SURELY_OVER_SECONDS)
        await world.send()
        assert world.slack.posts == ["answer"]
        database.goes_on.set()
        await sending_
    assert world.slack.posts == ["answer"]
    assert [status for status, _ in await statuses(world)] == ["sent"]


@pytest.mark.req("OPS-03")
async def test_a_delivery_whose_sender_came_to_itself_too_late_is_sent_at_once_by_whoever_may(
    world: World, database_url: str
) -> None:
    await conversation(world, "answer")
    async with Suspended(database_url, world.clock) as database, asyncio.timeout(PATIENCE_SECONDS):
        in_office = [True]
        sender = OutboxSender(database, world.slack, ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS)
        running = asyncio.create_task(sender.run(lambda: in_office[-1]))
        await database.stopped.wait()
        in_office.append(False)
        database.goes_on.set()
        while await statuses(world) != [("queued", "its sender resumed too late")]:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert world.slack.posts == []
    await world.send()
    assert world.slack.posts == ["answer"]


@pytest.mark.req("OPS-03")
async def test_out_of_office_nothing_is_taken(world: World) -> None:
    await conversation(world, "answer")
    asked = 0

    def out_of_office() -> bool:
        nonlocal asked
        asked += 1
        return False

    running = asyncio.create_task(world.sender.run(out_of_office))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while asked < 3:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [status for status, _ in await statuses(world)] == ["queued"]


@pytest.mark.req("OPS-03")
async def test_by_a_process_that_is_not_certain_of_its_office_nothing_is_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "_UNCERTAIN_SECONDS", 0.01)
    await conversation(world, "answer")
    posted_at_each_answer: list[int] = []

    async def is_certain() -> bool:
        posted_at_each_answer.append(len(world.slack.posts))
        return len(posted_at_each_answer) > 3

    running = asyncio.create_task(world.sender.run(lambda: True, is_certain))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not world.slack.posts:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    # The sender may ask once more before it is stopped: only the answers up to the post count.
    assert (posted_at_each_answer[:4], world.slack.posts) == ([0, 0, 0, 0], ["answer"])


async def test_a_reaction_does_not_wake_the_sender_for_posts(world: World) -> None:
    lead = await world.lead()
    wakeups = world.database.wakeups
    posts, marks = wakeups.generation(DELIVERIES), wakeups.generation(REACTIONS)
    await world.says(f"{BOT} hello")
    assert (wakeups.generation(DELIVERIES), wakeups.generation(REACTIONS)) == (posts, marks + 1)
    await world.answers(lead, await world.only(lead), "answer")
    assert wakeups.generation(DELIVERIES) > posts


async def test_an_end_mark_follows_its_answer_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "_LONGEST_SLEEP_SECONDS", 20 * PATIENCE_SECONDS)  # only a wakeup comes in time
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    async with sending(world):
        await world.answers(lead, await world.only(lead), "answer")
        while (message.ts, "white_check_mark") not in world.slack.reactions:
            await asyncio.sleep(0)


@pytest.mark.both_engines
@pytest.mark.req("OPS-03")
async def test_a_sender_hears_at_once_of_what_another_process_stored(world: World, database_url: str) -> None:
    lead, _, trigger = await conversation(world)
    async with Database(database_url) as elsewhere, asyncio.timeout(PATIENCE_SECONDS):
        seen = elsewhere.wakeups.generation(DELIVERIES)
        await world.answers(lead, trigger, "answer")
        assert await elsewhere.wakeups.wait(DELIVERIES, seen, PATIENCE_SECONDS)
