"""Deliveries: in order, once, whatever breaks between us and Slack."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.agents import Agent
from swarm.domain.errors import Unavailable
from swarm.domain.transcript import SlackMessage
from swarm.domain.triggers import Trigger
from swarm.services import deliver
from swarm.services.deliver import ATTEMPTS, Sender
from swarm.store import deliveries
from swarm.store.statements import Row
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
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS, ME, World, delete

pytestmark = pytest.mark.req("OPS-10")

PATIENCE_SECONDS = 10.0
SURELY_OVER_SECONDS = 2 * HTTP_TIMEOUT_SECONDS + 1
"""After this time a call that was under way must have ended one way or the other."""


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


async def test_posts_of_a_thread_come_in_order_with_two_senders_at_work(world: World) -> None:
    lead = await world.lead()
    for thread in range(4):
        await world.says(f"{BOT} {thread}")
    for trigger in await world.poll(lead):
        for number in range(5):
            await world.answers(lead, trigger, f"{trigger.inbox_messages[0].text} {number}")
    other = Sender(world.database, world.slack, ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS)
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


async def test_a_process_that_dies_between_taking_and_calling_leaves_one_post_in_slack(world: World) -> None:
    await conversation(world, "answer")
    (post,) = await posts(world)
    await world.database.write(deliver.take, post["id"], SURELY_OVER_SECONDS)
    await world.send()
    assert world.slack.posts == []
    world.clock.advance(SURELY_OVER_SECONDS)
    await world.send()
    assert world.slack.posts == ["answer"]


async def test_a_sender_that_comes_back_late_changes_nothing_about_a_later_attempt(world: World) -> None:
    await conversation(world, "answer")
    (post,) = await posts(world)
    late = await world.database.write(deliver.take, post["id"], SURELY_OVER_SECONDS)
    assert late is not None
    world.clock.advance(SURELY_OVER_SECONDS)
    doubted = await world.database.read(deliveries.get, post["id"])
    assert doubted is not None
    await world.database.write(deliver.doubt, doubted, "silent", 0.0)
    await world.database.write(deliver.resend, doubted)
    current = await world.database.write(deliver.take, post["id"], SURELY_OVER_SECONDS)
    assert current is not None
    for answer in (is_busy(1), is_never_reached, refuses("fatal")):
        outcome = answer(FakeSlack(), deliveries.delivery(late))
        await world.database.write(deliver.settle, late, outcome, ME.team, SURELY_OVER_SECONDS)
    assert [status for status, _ in await statuses(world)] == ["sending"]


async def test_a_refused_post_fails_with_slacks_reason_and_does_not_block_the_next(world: World) -> None:
    await conversation(world, "one", "two")
    world.slack.script.append(refuses("is_archived"))
    await world.send()
    assert await statuses(world) == [("failed", "is_archived"), ("sent", None)]
    assert world.slack.posts == ["two"]


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


async def test_a_post_that_can_never_be_sent_fails_in_the_end(world: World) -> None:
    await conversation(world, "one", "two")
    world.slack.script.extend([is_never_reached, *(is_busy(1) for _ in range(ATTEMPTS - 1))])
    for _ in range(ATTEMPTS + 1):
        await world.send()
        world.clock.advance(SURELY_OVER_SECONDS)
    (first, error), second = await statuses(world)
    assert (first, second) == ("failed", ("sent", None))
    assert error == f"rate limited, {ATTEMPTS} times"


@pytest.mark.req("LOOP-14", "OPS-10")
async def test_a_reaction_that_would_come_too_late_takes_no_place_among_the_calls(world: World) -> None:
    await world.lead()
    world.slack.wait_seconds = 61
    await world.says(f"{BOT} hello")
    await world.send()
    assert world.slack.turns == []
    assert await world.rows("SELECT status FROM deliveries") == [{"status": "expired"}]


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
    await world.ingest.handle(delete(message))
    await world.later(60)
    (trigger,) = [one for one in await world.poll(lead) if one.notice is None]
    await world.answers(lead, trigger, "answer")
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
