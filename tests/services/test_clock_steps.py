"""The database's clock is set forth or back while there is work: nothing ends early, and nothing waits for tomorrow."""

from __future__ import annotations

from typing import Final

import pytest

from swarm.domain.answers.calls import NOTHING_BELOW
from swarm.domain.model.runs import PageKind, RunOutcome, RunStep
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.services.runs.run_input import heard_before
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_pages, runs
from tests.support.policies import governing
from tests.support.runs import begun
from tests.support.scan import places_of
from tests.support.slack import is_busy, takes_but_the_answer_is_lost
from tests.support.tasks import work_of
from tests.support.world import BOT, World, delete, holding

pytestmark = [
    pytest.mark.req("OPS-03"),
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),  # each engine: tests/store/test_clock_steps.py
]

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR

steps = pytest.mark.parametrize("seconds", [HOUR, -HOUR, DAY, -DAY])


@steps
async def test_a_lease_and_the_presence_of_its_holder_outlast_a_step(world: World, seconds: float) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    world.clock.step(seconds)
    await world.sweep()
    assert (await world.inbox_message(message)).attempts == 0
    renewed = (await world.services.work.renew(lead, [trigger.lease_token])).renewed
    assert not renewed.lost
    await world.answers(lead, trigger, "still here")
    await world.send()
    assert world.slack.posts == ["still here"]


@steps
async def test_what_is_tried_again_soon_is_tried_again_soon_after_a_step(world: World, seconds: float) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.send()
    await world.answers(lead, await world.only(lead), "late")
    await world.says(f"{BOT} and this?")
    await world.send()
    await world.answers(lead, await world.only(lead), "in doubt")
    world.slack.script.extend([is_busy(60), takes_but_the_answer_is_lost])
    await world.send()
    world.clock.step(seconds)
    world.clock.advance(120)
    await world.send()
    await world.send()
    assert sorted(world.slack.posts) == ["in doubt", "late"]


@steps
async def test_what_an_agent_was_told_before_a_step_is_known_after_it(world: World, seconds: float) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    world.clock.advance(2)
    run = await begun(world, lead, trigger)
    world.clock.advance(2)
    late = await world.says("earlier, and read late", thread=message)
    await world.change("UPDATE inbox_messages SET ts = :ts WHERE ts = :was", ts=f"{late.ts}1", was=message.ts)

    def finish(tx: Transaction) -> None:
        runs.closing(tx, run.id, text="hi", closing=NOTHING_BELOW, outcome=RunOutcome.ANSWERED)
        runs.end(tx, run.id, RunStep.ANSWER)

    await world.database.write(finish)
    world.clock.step(seconds)
    await world.is_here(lead)
    assert (await heard_before(world.database, trigger, lead.id)).timestamps == {message.ts}


@pytest.mark.parametrize("seconds", [HOUR, -HOUR, 3650 * DAY])
async def test_copies_of_a_message_are_found_after_a_step(world: World, seconds: float) -> None:
    """Identifiers are made by another clock, of today: only a step of years shows whether they decide."""
    lead, secret = await world.lead(), "the launch code is zebra-4711 and more"
    await world.worker()
    message = await world.says(f"{BOT} {secret}")
    run = await work_of(world, lead)
    copied = [SessionMessage(role=MessageRole.USER, text=f"he said: {secret}")]
    await DatabaseMemory(world.database, "worker", None).add_run("s", "r", copied)
    await world.services.messages.send(holding(run, lead), f"he said: {secret}", to="worker")
    world.clock.step(seconds)
    await world.is_here(lead)
    assert await places_of(world.database, "zebra-4711")
    await world.ingest.handle(delete(message))
    assert await places_of(world.database, "zebra-4711") == {}


async def test_what_was_said_before_a_step_back_is_handed_out_first(world: World) -> None:
    lead = await world.lead()
    before = await world.says(f"{BOT} before")
    world.clock.advance(10)
    world.clock.step(-DAY)
    after = await world.says(f"{BOT} after")
    triggers = await world.poll(lead)
    assert [trigger.inbox_messages[0].ts for trigger in triggers] == [before.ts, after.ts]


async def test_the_minute_in_which_somebody_has_written_much_ends_after_a_step_back(world: World) -> None:
    world = world.governed_by(governing(messages_per_minute=1))
    lead = await world.lead()
    await world.says(f"{BOT} one")
    world.clock.step(-DAY)
    world.clock.advance(61)
    await world.is_here(lead)
    await world.says(f"{BOT} two")
    assert len(await world.poll(lead)) == 2


async def test_a_message_of_an_answer_is_looked_for_by_slacks_time(world: World) -> None:
    """A clock an hour ahead would look where it cannot be, and show the answer twice."""
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    world.clock.step(HOUR)
    trigger = await world.only(lead)

    def begin(tx: Transaction) -> tuple[int, int]:
        run = runs.start(
            tx,
            agent_id=lead.id,
            thread_id=trigger.thread.id if trigger.thread else None,
            lease_token=trigger.lease_token,
            trigger_id=trigger.id,
            inbox_message_ids=[trigger.inbox_messages[0].id],
            attempt=1,
            conversation_id="c",
            agui_run_id="r",
        )
        assert run is not None
        run_pages.open_page(tx, run.id, 1, PageKind.STREAM)
        run_pages.page_opened(tx, run.id, 1, "9000000000.000100")
        return run_pages.begins_after(tx, run.id, 1), run_pages.begins_after(tx, run.id, 2)

    first, second = await world.database.write(begin)
    seconds, _, fraction = message.ts.partition(".")
    assert first == int(seconds) * 1_000_000 + int(fraction)
    assert second == 9_000_000_000_000_100
