"""Notices: beside the work, by poll or with a renewal, and dropped without a word when nobody takes them."""

from __future__ import annotations

import pytest

from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.triggers import Trigger
from tests.support.world import BOT, World, edit

pytestmark = pytest.mark.req("LOOP-05")


async def notice_while_working(world: World) -> tuple[Agent, Trigger]:
    """A lead that works on a message which has just been edited."""
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    trigger = await world.only(lead)
    await world.ingest.handle(edit(message, f"{BOT} two"))
    return lead, trigger


async def test_a_notice_rides_on_a_renewal_and_comes_once(world: World) -> None:
    lead, trigger = await notice_while_working(world)
    heartbeat = await world.services.work.renew(lead, [trigger.lease_token])
    assert [token for token, _ in heartbeat.renewed.expiries] == [trigger.lease_token]
    (notice,) = heartbeat.notices
    assert notice.notice is not None
    assert await world.poll(lead) == []
    assert (await world.services.work.renew(lead, [trigger.lease_token])).notices == ()


async def test_a_finished_notice_does_not_come_again(world: World) -> None:
    lead, _ = await notice_while_working(world)
    notice = await world.only(lead)
    done = await world.services.work.finish(lead, [notice.lease_token], FinishOutcome.DONE)
    assert done.ended == (notice.lease_token,)
    await world.later(LEASE_SECONDS)
    assert [one.notice for one in await world.poll(lead)] == [None]  # only the work, whose lease has expired


async def test_a_lost_notice_comes_again_with_one_attempt_more(world: World) -> None:
    lead, _ = await notice_while_working(world)
    first = await world.only(lead)
    await world.later(LEASE_SECONDS)
    again = [one for one in await world.poll(lead) if one.notice]
    assert [(one.id, one.attempt) for one in again] == [(first.id, 2)]


async def test_a_released_notice_comes_again_and_no_attempt_is_counted(world: World) -> None:
    lead, _ = await notice_while_working(world)
    notice = await world.only(lead)
    await world.services.work.release(lead, [notice.lease_token])
    assert (await world.only(lead)).attempt == 1


async def test_a_notice_that_is_lost_five_times_is_dropped_and_the_thread_is_not_told(world: World) -> None:
    lead, trigger = await notice_while_working(world)
    for attempt in range(1, 6):
        notice = await world.only(lead)
        assert notice.attempt == attempt
        await world.services.work.finish(lead, [notice.lease_token], FinishOutcome.FAILED, "no idea")
    assert await world.poll(lead) == []
    await world.answers(lead, trigger, "answer")
    await world.send()
    assert world.slack.posts == ["answer"]
    assert [row["change"] for row in await world.rows("SELECT change FROM history WHERE change = 'notice.drop'")]


async def test_a_notice_locks_no_thread(world: World) -> None:
    lead, trigger = await notice_while_working(world)
    await world.only(lead)
    await world.answers(lead, trigger, "answer")
    await world.says(f"{BOT} three", thread=None)
    assert len(await world.poll(lead)) == 1
