"""Cards of requests come after the text that leads to them, whoever streams it, and wait for it a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from swarm.domain.answers import sending as sending_of_answers
from swarm.domain.answers.calls import (
    ANSWERED_BELOW,
    NOTHING_BELOW,
    CloseStream,
    OpenStream,
    Slot,
    StreamCall,
)
from swarm.domain.answers.events import Asked, Interrupted, RunInput, TextDelta
from swarm.domain.model.requests import Decide, EntryPoint, HumanDecision, NewRequest, RequestStatus
from swarm.domain.model.threads import SlackMessage
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

    async def posted(self, count: int = 1) -> None:
        async def look() -> bool:
            return sum("May I" in text for text in self.world.slack.posts) >= count

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
        live.hold[CloseStream] = asyncio.Event()
        await writing.append("Two, and [half of")
        await asks(writing)
        await until_called(live, CloseStream)
        await cards.waits()
        live.hold.pop(CloseStream).set()
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


# What comes after a card


def thread_of(world: World, live: FakeLive, root: SlackMessage) -> list[str]:
    """What people see in a thread, from top to bottom."""
    posts = [(world.slack.timestamps[done.id], done.text) for done in world.slack.landed if done.kind == "post"]
    seen = [*((shown.ts, shown.text) for shown in live.of(root)), *posts]
    return [text for _, text in sorted(seen)]


async def decide(world: World, decision: HumanDecision = HumanDecision.APPROVE) -> None:
    (request,) = await world.services.requests.latest(RequestStatus.OPEN, 10)
    wish = Decide(request_id=request.id, decision=decision, person="U1", door=EntryPoint.SLACK)
    await world.services.decisions.decide(wish)


@pytest.mark.both_engines
@pytest.mark.req("HITL-12")
async def test_what_a_polling_agent_streams_after_its_card_comes_below_with_one_footer(world: World) -> None:
    live = FakeLive()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("I have found the fault.")
        await asks(writing)
        await cards.posted()
        await decide(world)
        await writing.append("\n\nI have corrected it.")
        await writing.close("\nDone.")
        await writing.ended()
        assert thread_of(world, live, writing.root) == [
            "I have found the fault.", "✋ May I edit?", "I have corrected it.\nDone.",
        ]  # fmt: skip
        assert [shown.closing for shown in live.of(writing.root)] == [NOTHING_BELOW, ANSWERED_BELOW]


@pytest.mark.req("HITL-12")
async def test_text_that_comes_before_the_card_is_posted_waits_for_it(world: World) -> None:
    live = FakeLive()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())

        async def is_seen() -> bool:
            return bool(world.slack.reactions)

        await wait_until(is_seen, what="the message is marked as seen")  # so that the card is the next call
        world.slack.under_way.clear()
        world.slack.go_on = asyncio.Event()
        await writing.append("Before.")
        await asks(writing)
        async with asyncio.timeout(10):
            await world.slack.under_way.wait()
        await writing.append("After.")
        for _ in range(20):
            await world.database.read(agents.everyone)
        assert [shown.text for shown in live.of(writing.root)] == ["Before."]
        world.slack.go_on.set()
        await cards.posted()
        await decide(world)
        await writing.close()
        await writing.ended()
        assert thread_of(world, live, writing.root) == ["Before.", "✋ May I edit?", "After."]


@pytest.mark.req("HITL-12")
async def test_two_cards_in_a_row_have_no_empty_message_between(world: World) -> None:
    live = FakeLive()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("Before.")
        for count in (1, 2):
            work = AskedWork(inbox_message_id=writing.trigger.inbox_messages[0].id)
            new = replace(NEW, key=f"q{count}")
            await world.services.requests.ask(writing.caller, work, new, wait=True)
            await cards.posted(count)
            await decide(world)
        await writing.close("After.")
        await writing.ended()
        await cards.posted()
        assert thread_of(world, live, writing.root) == ["Before.", "✋ May I edit?", "✋ May I edit?", "After."]


@pytest.mark.req("HITL-12")
async def test_an_answer_without_text_after_its_card_ends_on_its_last_message(world: World) -> None:
    live = FakeLive()
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("I have corrected it.")
        await asks(writing)
        await cards.posted()
        await decide(world)
        await writing.close()
        await writing.ended()
        (shown,) = live.of(writing.root)
        assert (shown.text, shown.closing) == ("I have corrected it.", ANSWERED_BELOW)


@pytest.mark.req("HITL-12")
async def test_after_a_crash_behind_the_card_the_answer_is_shown_again_below_it(world: World) -> None:
    live, writing = FakeLive(), None
    async with playing(world, live=live) as show, sending(world, show) as cards:
        writing = await begun(world, await world.lead())
        await writing.append("Before.")
        await asks(writing)
        await cards.posted()
        await show.deposed()
    await decide(world)
    await writing.append(" After.")
    async with playing(world, live=live):
        await writing.close()
        await writing.ended()
    assert thread_of(world, live, writing.root) == ["Before.", "✋ May I edit?", "Before. After."]
    first, last = live.of(writing.root)
    assert "starts again below" in first.closing.note
    assert last.closing == ANSWERED_BELOW


@pytest.mark.req("HITL-12")
async def test_what_an_agent_says_after_its_tool_has_asked_comes_below_the_card(world: World) -> None:
    live, gate, ada = FakeLive(), Gate(before="I need a hat.", after="Bought."), Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada), live=live) as show, sending(world, show) as cards:
        root = await world.says(f"{BOT} hello")
        async with asyncio.timeout(10):
            await gate.arrived.wait()
        (run,) = await show.runs(root)
        asking = asyncio.create_task(world.services.requests.ask_during_run(run.id, "buy", NEW))
        await cards.posted()
        await decide(world)
        await asking
        gate.opened.set()
        await show.over(root)
        assert thread_of(world, live, root) == ["I need a hat.", "✋ May I edit?", "Bought."]
        assert [shown.closing for shown in live.of(root)] == [NOTHING_BELOW, ANSWERED_BELOW]
