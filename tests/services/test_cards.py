"""Cards of requests come after the text that leads to them, whoever streams it, and wait for it a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from swarm.domain.answers import sending as sending_of_answers
from swarm.domain.answers.calls import AppendStream, CloseStream, OpenStream, Slot, StreamCall
from swarm.domain.answers.events import Asked, Interrupted, RunInput, TextDelta
from swarm.domain.model.requests import HumanDecision, NewRequest
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.requests.human_requests import AskedWork
from swarm.services.runs import active_runs
from swarm.services.runs.active_runs import ActiveRuns
from swarm.store import agents
from swarm.store.bridge.statements import Row
from tests.support.live import Events, FakeLive, Gate, Scripted, Show, hired, playing
from tests.support.streams import Writing, begun
from tests.support.waiting import wait_until
from tests.support.world import BOT, HTTP_TIMEOUT_SECONDS, ME, World

pytestmark = [pytest.mark.req("HITL-01", "STREAM-11")]

NEW = NewRequest(
    key="q", title="May I edit?", decisions=(HumanDecision.APPROVE, HumanDecision.REJECT), expires_seconds=1800
)


@dataclass
class Cards:
    """The cards that the sender has come to, and those that it has posted."""

    world: World
    has_come: asyncio.Event = field(default_factory=asyncio.Event)
    may_go: bool = False

    @asynccontextmanager
    async def wait(self, running: ActiveRuns, card: Row) -> AsyncIterator[None]:
        self.has_come.set()
        async with running.around_card(card):
            self.may_go = True
            yield

    async def waits(self) -> None:
        """The sender has come to a card, and does not post it."""
        async with asyncio.timeout(10):
            await self.has_come.wait()
        for _ in range(20):  # the time in which a card that does not wait is posted
            await self.world.database.read(agents.everyone)
        assert not self.may_go

    async def posted(self) -> None:
        async def look() -> bool:
            return any("May I" in text for text in self.world.slack.posts)

        await wait_until(look, what="the card is posted")


@asynccontextmanager
async def sending(world: World, show: Show) -> AsyncIterator[Cards]:
    """The sender runs beside the runs, as in the elected process."""
    cards = Cards(world)
    sender = OutboxSender(
        world.database,
        world.slack,
        ME.team,
        http_timeout_seconds=HTTP_TIMEOUT_SECONDS,
        around_card=partial(cards.wait, show.running),
    )
    task = asyncio.create_task(sender.run())
    try:
        yield cards
    finally:
        task.cancel()
        await asyncio.wait({task})


async def asks(writing: Writing) -> None:
    work = AskedWork(inbox_message_id=writing.trigger.inbox_messages[0].id)
    await writing.world.services.requests.ask(writing.caller, work, NEW, wait=True)


async def until_called(live: FakeLive, kind: type[StreamCall]) -> None:
    async def look() -> bool:
        return any(isinstance(call, kind) for _, call in live.calls)

    await wait_until(look, what=f"{kind.__name__} is called")


@pytest.mark.both_engines
async def test_the_card_of_a_polling_agent_waits_for_its_stream(world: World) -> None:
    live = FakeLive(hold={OpenStream: asyncio.Event()})
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("I have corrected `zero")  # which is held back: it may become code
        await asks(writing)
        await until_called(live, OpenStream)
        await cards.waits()
        live.hold.pop(OpenStream).set()
        await cards.posted()
        assert "".join(shown.text for shown in live.of(writing.root)) == "I have corrected `zero"


async def test_text_that_is_appended_to_a_growing_message_comes_first_without_its_pause(world: World) -> None:
    live = FakeLive()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("One.\n")
        await writing.until_shown(show, "One.")
        live.hold[AppendStream] = asyncio.Event()
        await writing.append("Two, and [half of")
        await asks(writing)
        await until_called(live, AppendStream)
        await cards.waits()
        live.hold.pop(AppendStream).set()
        await cards.posted()
        assert live.of(writing.root)[0].text == "One.\nTwo, and [half of"


async def test_a_card_does_not_wait_for_ever_for_a_stream_that_slack_does_not_accept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_runs, "CARD_WAITS_SECONDS", 0.3)
    live = FakeLive(hold={OpenStream: asyncio.Event()})
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("I have corrected it.")
        await asks(writing)
        await until_called(live, OpenStream)
        await cards.posted()
        live.hold.pop(OpenStream).set()


async def test_a_card_without_text_before_it_does_not_wait(world: World) -> None:
    async with playing(world) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await asks(writing)
        await cards.posted()


async def test_the_card_of_an_agent_that_the_coordinator_runs_waits_for_its_last_text(world: World) -> None:
    """The question is stored before the last call of the answer, which brings the rest of the text."""
    live = FakeLive(hold={OpenStream: asyncio.Event(), CloseStream: asyncio.Event()})

    async def script(run: RunInput) -> Events:
        yield TextDelta(text="One. ", message_id="1")
        await until_called(live, OpenStream)
        yield TextDelta(text="Two.", message_id="1")
        yield Interrupted(asked=(Asked(id="1", prompt="May I?"),))

    async with playing(world, hired("ada", Scripted(script)), live=live) as show, sending(world, show) as cards:
        root = await world.says(f"{BOT} hello")
        await until_called(live, OpenStream)
        live.hold.pop(OpenStream).set()
        await until_called(live, CloseStream)
        await cards.waits()
        live.hold.pop(CloseStream).set()
        await cards.posted()
        assert "One. Two." in live.of(root)[0].text
        await show.over(root)


async def test_the_card_of_a_tool_that_waits_comes_after_the_text_before_the_call(world: World) -> None:
    live = FakeLive(hold={OpenStream: asyncio.Event()})
    gate, ada = Gate(before="I need a hat"), Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada), live=live) as show, sending(world, show) as cards:
        root = await world.says(f"{BOT} hello")
        async with asyncio.timeout(10):
            await gate.arrived.wait()
        (run,) = await show.runs(root)
        asking = asyncio.create_task(world.services.requests.ask_during_run(run.id, "buy", NEW))
        await until_called(live, OpenStream)
        await cards.waits()
        live.hold.pop(OpenStream).set()
        await cards.posted()
        asking.cancel()
        await asyncio.wait({asking})
        gate.opened.set()
        await show.over(root)


async def test_an_answer_that_ends_early_still_comes_before_its_card(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not handed over to a post below the card because Slack's limit for streams makes it wait."""

    monkeypatch.setattr(sending_of_answers, "OPEN_PATIENCE_SECONDS", 0.2)

    class Slow(FakeLive):
        async def acquire_slot(self, slot: Slot, channel: str) -> None:
            await asyncio.sleep(0.7 if slot is Slot.OPEN else 0)

    live = Slow()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("I have corrected it.")
        await asks(writing)
        await cards.waits()
        await writing.close()
        await cards.posted()
        assert [shown.text for shown in live.of(writing.root)] == ["I have corrected it."]
