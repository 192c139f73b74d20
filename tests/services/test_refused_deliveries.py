"""Deliveries that Slack refuses: those that somebody may make possible wait, the loss of others is told."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.errors import RefusedBySlack
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import (
    END_MARK_SECONDS,
    EPHEMERAL_SECONDS,
    GIVE_UP_SECONDS,
    PLACE_SECONDS,
    Answer,
    Delivery,
    DeliveryKind,
)
from swarm.domain.model.requests import RequestStatus
from swarm.domain.model.threads import SlackMessage
from swarm.services.speaking import system_messages
from swarm.store import deliveries
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads
from tests.services.test_requests import Asking
from tests.support.slack import FakeSlack, refuses, takes, takes_but_the_answer_is_lost
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS, ME, World

pytestmark = pytest.mark.req("OPS-15")

LONG_REFUSALS = ["team_access_not_granted", "ekm_access_denied", "missing_scope"]
PLACE_REFUSALS = ["not_in_channel", "channel_not_found", "is_archived"]
TEXTS = system_messages.LOST_TEXT.partition("{")[0]


async def asked(world: World, *answers: str) -> tuple[Agent, SlackMessage]:
    """A message with answers that wait to be sent."""
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.send()
    trigger = await world.only(lead)
    for answer in answers:
        await world.answers(lead, trigger, answer)
    return lead, message


async def tries(world: World, seconds: float, step: float = 5) -> None:
    """The sender works for so long."""
    await world.send()
    for _ in range(int(seconds / step)):
        world.clock.advance(step)
        await world.send()


async def posts(world: World) -> list[tuple[str, str, str | None]]:
    """Text, status and error of all posts."""
    rows = await world.rows("SELECT text, status, error FROM deliveries WHERE kind = 'post' ORDER BY seq")
    return [(row["text"], row["status"], row["error"]) for row in rows]


def refuse_posts(world: World, code: str, times: int) -> None:
    world.slack.script.extend(refuses(code) for _ in range(times))


@pytest.mark.both_engines
@pytest.mark.parametrize("code", PLACE_REFUSALS)
async def test_a_place_that_does_not_admit_us_is_tried_for_ten_minutes(world: World, code: str) -> None:
    await asked(world, "one", "two")
    refuse_posts(world, code, 200)
    await tries(world, 300)
    assert world.slack.posts == []
    world.slack.script.clear()  # somebody has invited us
    await tries(world, 60)
    assert world.slack.posts == ["one", "two"], "in their order"
    assert world.slack.reactions[-1][1] == "white_check_mark"


@pytest.mark.parametrize("code", PLACE_REFUSALS)
async def test_after_ten_minutes_all_of_the_thread_fails_and_the_author_is_told_once(world: World, code: str) -> None:
    await asked(world, "one", "two")

    def refuses_there(slack: FakeSlack, delivery: Delivery) -> Answer:
        return (refuses(code) if delivery.channel == "C1" else takes)(slack, delivery)

    world.slack.script.extend(refuses_there for _ in range(200))
    await tries(world, PLACE_SECONDS - 10)
    assert [status for _, status, _ in await posts(world)] == ["queued", "queued"]
    await tries(world, 20)
    assert [(text, status) for text, status, _ in await posts(world)][:2] == [("one", "failed"), ("two", "failed")]
    (told,) = world.slack.posts
    assert told.startswith(TEXTS)
    assert [done.channel for done in world.slack.landed if done.kind is DeliveryKind.POST] == ["U1"], "a direct message"


@pytest.mark.both_engines
@pytest.mark.parametrize("code", LONG_REFUSALS)
async def test_access_that_an_administrator_has_to_grant_is_waited_for_during_a_day(world: World, code: str) -> None:
    await asked(world, "one", "two")
    refuse_posts(world, code, 2000)
    await tries(world, GIVE_UP_SECONDS - 1200, step=600)  # less than the time after which marks expire
    assert [status for _, status, _ in await posts(world)] == ["queued", "queued"]
    world.slack.script.clear()
    await tries(world, 60, step=60)
    assert world.slack.posts == ["one", "two"]
    assert world.slack.reactions[-1][1] == "white_check_mark", "the mark lives as long as its post"


async def test_a_missing_scope_holds_no_reaction(world: World) -> None:
    await world.lead()
    world.slack.reaction_script.append(refuses("missing_scope"))
    await world.says(f"{BOT} hello")
    await world.send()
    assert await world.rows("SELECT status FROM deliveries") == [{"status": "failed"}]


@pytest.mark.parametrize(
    "code", ["restricted_action", "restricted_action_read_only_channel", "msg_too_long", "no_such"]
)
async def test_the_author_is_told_of_a_final_refusal(world: World, code: str) -> None:
    await asked(world, "one", "two")
    world.slack.script.append(refuses(code))
    await world.send()
    two, told = world.slack.posts
    assert (two, told.startswith(TEXTS)) == ("two", True)
    assert "_" not in told, "no code for people"


async def test_where_no_direct_message_arrives_the_author_is_told_in_the_thread_alone(world: World) -> None:
    await asked(world, "one")
    world.slack.script.extend([refuses("restricted_action"), refuses("cannot_dm_bot")])
    await world.send()
    (told,) = [done for done in world.slack.landed if done.kind is DeliveryKind.POST]
    assert (told.person, told.channel, told.text.startswith(TEXTS)) == ("U1", "C1", True)


async def test_nobody_is_told_of_the_loss_of_what_only_they_would_see(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} swarm#nobody hello")
    assert lead
    world.slack.script.append(refuses("user_not_in_channel"))
    await world.send()
    assert world.slack.posts == []


async def test_a_refused_direct_message_holds_no_thread(world: World) -> None:
    _, message = await asked(world, "one")

    def add_more(tx: Transaction) -> None:
        thread = threads.at(tx, ME.team, "C1", message.ts)
        assert thread
        deliveries.add(tx, DeliveryKind.POST, thread, text="card", to="U9", idempotency_key="k")
        deliveries.add(tx, DeliveryKind.POST, thread, text="two")

    await world.database.write(add_more)
    world.slack.script.extend([refuses("no_such"), refuses("channel_not_found")])
    await world.send()
    assert "two" in world.slack.posts


@pytest.mark.both_engines
async def test_a_lookup_waits_for_the_place_as_a_post_does(world: World) -> None:
    await asked(world, "one", "two")
    world.slack.script.append(takes_but_the_answer_is_lost)
    world.slack.lookups_fail.extend(RefusedBySlack("not_in_channel") for _ in range(5))
    await world.send()
    world.clock.advance(2 * HTTP_TIMEOUT_SECONDS + 1)
    await tries(world, 120)
    assert world.slack.posts == ["one", "two"], "once each, in their order"


@pytest.mark.both_engines
async def test_while_the_token_is_refused_nothing_is_tried_or_lost_and_marks_stay(world: World) -> None:
    await asked(world, "one", "two")
    world.slack.refused_by = "token_revoked"
    running = asyncio.create_task(world.sender.run())
    called = len(world.slack.calls)
    try:
        for _ in range(8):
            world.clock.advance(END_MARK_SECONDS / 2)
            world.sender._keep_at = 0.0
            await world.database.write(lambda tx: tx.wake("reactions"))
            await asyncio.sleep(0.05)
        assert len(world.slack.calls) == called
        assert {row["error"] for row in await world.rows("SELECT error FROM deliveries WHERE due_at IS NOT NULL")} == {
            "token_revoked"
        }
        world.slack.refused_by = None
        world.slack.token_is_good.set()
        async with asyncio.timeout(20):
            while len(world.slack.landed) < called + 3:
                await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert world.slack.posts == ["one", "two"]
    assert world.slack.reactions[-1][1] == "white_check_mark"


async def test_what_one_person_sees_expires(world: World) -> None:
    await world.lead()
    await world.says(f"{BOT} swarm#nobody hello")
    world.clock.advance(EPHEMERAL_SECONDS)
    await world.send()
    assert world.slack.posts == []


@pytest.mark.both_engines
async def test_the_time_of_a_request_counts_from_when_its_card_is_shown(world: World) -> None:
    asking = Asking(world)
    await asking.begin()
    request = await asking.ask(expires_seconds=100)
    refuse_posts(world, "team_access_not_granted", 1000)
    await tries(world, 300, step=60)
    await world.sweep()
    assert (await asking.now(request)).is_open
    world.slack.script.clear()
    await tries(world, 60, step=60)
    await world.later(90)
    assert (await asking.now(request)).is_open, "the card has been there for 90 seconds"
    await world.later(11)
    assert (await asking.now(request)).status is RequestStatus.EXPIRED
