"""Built-in agents whose messages are answered anew, through the runs that really do so: after Retry, after a restart,
and while a process that has lost its office does not know it yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from packages.swarm_agents.tests.agents.builtin.making import assistant, multiply, router
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Holds, Raises, Scripted
from swarm.domain.model.feedback import INSTRUCTIONS, Reason
from swarm.domain.model.threads import SlackMessage
from swarm.domain.prompts.input import RETRY_PREFIX
from swarm.domain.requests.button_actions import FEEDBACK_ACTION, REASON_ACTION, RETRY_RUN_ACTION, FeedbackChoice
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.database import Database
from tests.support.conversing import press, pressed
from tests.support.live import FakeLive, Show, hired, playing
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("AGENT-05", "STREAM-10")

HERE = "slack:C1:U1"
AGAIN = f"{RETRY_PREFIX}\n\ntell me"
OVERLOADED = Raises(ModelHTTPError(503, "scripted"))
BROKE_OFF = "[This answer broke off: The model scripted has an internal error right now; try again in a moment.]"


@pytest.fixture
async def other_world(world: World, database_url: str) -> AsyncIterator[World]:
    """Another process on the same database."""
    async with Database(database_url, clock=world.clock) as database:
        yield World(database, world.clock, world.slack)


class Late(DatabaseMemory):
    """A memory whose process stands still when a run is to be remembered."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "helper", None)
        self.wants, self.may = asyncio.Event(), asyncio.Event()

    async def add_run(self, *args: Any, **options: Any) -> None:
        self.wants.set()
        await self.may.wait()
        await super().add_run(*args, **options)


def memory(world: World) -> DatabaseMemory:
    return DatabaseMemory(world.database, "helper", None)


async def told(world: World) -> list[str]:
    return [message.text for message in await memory(world).get_messages(HERE)]


async def originals(world: World) -> list[str]:
    return [message.text for message in await memory(world).get_originals(HERE)]


async def retried(show: Show, root: SlackMessage) -> None:
    """Somebody presses Retry below the newest answer."""
    run = (await show.runs(root))[-1]
    assert await pressed(show.world, press(RETRY_RUN_ACTION, run.id, key=f"press:{run.id}")) is None


@pytest.mark.req("CHAN-06")
async def test_a_message_that_is_retried_is_answered_as_if_it_were_for_the_first_time(world: World) -> None:
    script = Scripted("Good morning.", ["Half of it.", OVERLOADED], OVERLOADED, "All of it.", "You are welcome.")
    helper = assistant(script.model, memory(world))
    async with playing(world, hired("helper", helper)) as show:
        root = await world.says(f"{BOT} good morning")
        await show.over(root)
        await world.says("<@U3> look at this", thread=root, by="U2")
        await world.says("tell me", thread=root)
        await show.over(root, 2)
        assert [shown.text for shown in show.live.of(root)] == ["Good morning.", "Half of it."]
        await retried(show, root)
        await show.over(root, 3)
        assert (await told(world))[2:] == ["tell me", "Half of it.", BROKE_OFF, AGAIN, BROKE_OFF]
        await retried(show, root)
        await show.over(root, 4)
        await world.says("thanks", thread=root)
        await show.over(root, 5)
    await helper.aclose()
    for number, request in enumerate(script.told[1:4]):
        *before, question = request.shape
        assert before == ["user: good morning", "model: Good morning."]
        heading, _, in_the_thread, *prefix, asked = question.splitlines()
        assert (RETRY_PREFIX in prefix) == bool(number)
        assert heading.startswith("user: Said before in this conversation")
        assert asked == "tell me"
        assert in_the_thread.endswith("look at this")
    assert script.told[4].shape[2:4] == [f"user: {AGAIN}", "model: All of it."]
    assert (await told(world))[2:4] == [AGAIN, "All of it."]
    assert (await originals(world))[2:9] == [
        *("tell me", "Half of it.", BROKE_OFF),
        *(AGAIN, BROKE_OFF),
        *(AGAIN, "All of it."),
    ]


@pytest.mark.req("CHAN-06", "AGENT-01")
async def test_a_router_whose_message_is_retried_does_not_read_its_earlier_answer_in_the_thread(world: World) -> None:
    script = Scripted(Calls("multiply", {"a": 6, "b": 7}), OVERLOADED, OVERLOADED, Calls("swarm_refuse"))
    helper = router(script.model, memory(world), multiply().tool)
    async with playing(world, hired("helper", helper)) as show:
        root = await world.says(f"{BOT} 6 times 7?")
        await show.over(root)
        await world.says("and again?", thread=root)
        await show.over(root, 2)
        await retried(show, root)
        await show.over(root, 3)
    await helper.aclose()
    assert [request.shape for request in (script.told[0], script.told[3])] == [
        ["user: 6 times 7?"],
        ["user: 6 times 7?", "model: `multiply` answered:\n42", f"user: {RETRY_PREFIX}\n\nand again?"],
    ]


@pytest.mark.req("CHAN-05")
async def test_who_is_asked_for_more_detail_reads_its_answer_and_keeps_it(world: World) -> None:
    script = Scripted("Short.", "Longer, and longer.", "Shorter.", "You are welcome.")
    helper = assistant(script.model, memory(world))
    async with playing(world, hired("helper", helper)) as show:
        root = await world.says(f"{BOT} tell me")
        (run,) = await show.over(root)
        assert isinstance(await pressed(world, press(FEEDBACK_ACTION, f"{run.id}:down")), FeedbackChoice)
        for number, reason in enumerate((Reason.MORE_DETAIL, Reason.BRIEFER), start=2):
            await pressed(world, press(REASON_ACTION + reason, run.id, key=f"press:{reason}"))
            await show.over(root, number)
        await world.says("thanks", thread=root)
        await show.over(root, 4)
    await helper.aclose()
    more, less = (f"user: {INSTRUCTIONS[reason]}\n\ntell me" for reason in (Reason.MORE_DETAIL, Reason.BRIEFER))
    before = ["user: tell me", "model: Short."]
    assert script.told[1].shape == [*before, more]
    assert script.told[2].shape == [*before, more, "model: Longer, and longer.", less]
    assert script.told[3].shape == [*script.told[2].shape, "model: Shorter.", "user: thanks"]


@pytest.mark.parametrize("old_is_late", [False, True])
async def test_a_process_that_was_deposed_does_not_put_its_broken_answer_over_the_new_one(
    world: World, other_world: World, old_is_late: bool
) -> None:
    """Whether what it remembers comes before the new answer or after it."""
    live, may_answer, never = FakeLive(), asyncio.Event(), asyncio.Event()
    deposed_memory = Late(world.database)
    deposed = assistant(Scripted(["Old ", Holds(never.wait)]).model, deposed_memory)
    script = Scripted(["New", Holds(may_answer.wait), " answer."])
    helper = assistant(script.model, memory(other_world))
    async with playing(world, hired("helper", deposed), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await wait_until(lambda: shown(live, root))
        await first.deposed()
    await asyncio.wait_for(deposed_memory.wants.wait(), PATIENCE_SECONDS)
    async with playing(other_world, hired("helper", helper), live=live) as second:
        await wait_until(lambda: shown(live, root, 2))
        if not old_is_late:
            deposed_memory.may.set()
            await deposed.aclose()
            assert (await told(world))[:2] == ["hello", "Old "]
        may_answer.set()
        await second.over(root, 2)
    deposed_memory.may.set()
    await deposed.aclose()
    await helper.aclose()
    assert script.told[0].shape == ["user: hello"]
    assert await told(world) == ["hello", "New answer."]
    old = ["hello", "Old ", "[This answer broke off: it was stopped]"]
    new = ["hello", "New answer."]
    assert await originals(world) == (new + old if old_is_late else old + new)


async def shown(live: FakeLive, root: SlackMessage, count: int = 1) -> bool:
    return len(live.of(root)) >= count
