"""INV-1: whatever an agent does wrong, its thread gets an honest message with a Retry, and the others their answer.

The agents are behind real HTTP; the table is that of what has gone wrong with agents so far.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from swarm.agents.remote.agui import AguiAgent
from swarm.domain.answers.agents import RemoteAgent
from swarm.domain.answers.calls import Closing
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from tests.services.test_converse import leases_open
from tests.support.agui_server import (
    DROP,
    EOF,
    FINISHED,
    STALL,
    STARTED,
    Answer,
    Drip,
    Step,
    agui_server,
    answering,
    said,
)
from tests.support.conversing import press, pressed
from tests.support.live import Scripted, Show, hired, playing
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, World

pytestmark = [
    pytest.mark.req("STREAM-04", "STREAM-07"),
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),  # the other end is what matters here
]

ERROR = {"type": "RUN_ERROR", "message": "the model is away"}


@dataclass(frozen=True)
class Bad:
    """What an agent does, whether people have seen something of an answer before it, and whether it takes its time."""

    steps: Sequence[Step]
    is_partial: bool = False
    is_endless: bool = False


BAD = {
    "garbage": Bad([b"data: {not json}\n\n", b"\x00\xff\xfe\n\n"]),
    "half a line": Bad([STARTED, b'data: {"type": "TEXT_MESS']),
    "no agent": Bad([Answer(404, {}, b"nothing here")]),
    "no right": Bad([Answer(401, {}, b"who are you?")]),
    "an error": Bad([Answer(500, {}, b"<html>Traceback: secret</html>")]),
    "a redirect": Bad([Answer(302, {"Location": "http://127.0.0.1:1/"}, b"")]),
    "no stream": Bad([Answer(200, {"Content-Type": "text/html"}, b"<html>hello</html>")]),
    "no header": Bad([Answer(0), STALL], is_endless=True),
    "a slow header": Bad([Answer(0), Drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000, 0.02)], is_endless=True),
    "nothing": Bad([]),
    "no end": Bad([STARTED, *said("Half of it.")], is_partial=True),
    "reset": Bad([STARTED, *said("Half of it."), DROP], is_partial=True),
    "cut off": Bad([STARTED, *said("Half of it."), EOF], is_partial=True),
    "an error before": Bad([STARTED, ERROR]),
    "an error after": Bad([STARTED, *said("Half of it."), ERROR], is_partial=True),
    "silence": Bad([STARTED, STALL], is_endless=True),
    "silence after": Bad([STARTED, *said("Half of it."), STALL], is_partial=True, is_endless=True),
    "an end without a word": Bad([STARTED, FINISHED]),
}


@contextlib.asynccontextmanager
async def reached(url: str, *, is_hasty: bool = False) -> AsyncIterator[AguiAgent]:
    seconds = 1.0 if is_hasty else PATIENCE_SECONDS
    agent = AguiAgent(RemoteAgent(name="bad", url=url, timeout_seconds=seconds, longest_run_seconds=2 * seconds))
    try:
        yield agent
    finally:
        await agent.aclose()


async def told(world: World, show: Show, root: str) -> tuple[str, Closing]:
    """What stands below the answer in a thread, wherever that is."""
    await world.send()
    below = [shown.closing for shown in show.live.messages if shown.place.thread_ts == root]
    posts = [done for done in world.slack.landed if done.kind is DeliveryKind.POST and done.thread_ts == root]
    ends = [(closing.note, closing) for closing in below if closing.note]
    ends += [(post.text, post.closing) for post in posts if post.closing]
    (end,) = ends
    return end


@pytest.mark.parametrize("how", BAD)
async def test_a_bad_agent_leaves_an_honest_message_and_a_retry_that_works(world: World, how: str) -> None:
    bad = BAD[how]
    async with (
        agui_server() as server,
        reached(f"{server.url}/", is_hasty=bad.is_endless) as client,
        reached(f"{server.url}/") as patient,
    ):
        agent = Reachable(client)
        async with playing(world, hired("bad", agent), hired("good", Scripted())) as show:
            server.on("/", *bad.steps)
            root = await world.says("swarm#bad hello")
            other = await world.says("swarm#good hello")
            await show.over(other)
            (run,) = await show.over(root)
            note, closing = await told(world, show, root.ts)
            assert note.startswith(
                "⚠️ This answer is not complete: " if bad.is_partial else ("⚠️ *bad* ", "⚠️ There is no answer: ")
            )
            assert "secret" not in note
            assert closing.retry
            assert not closing.feedback
            assert (run.status, (await world.inbox_message(root)).status) == (RunStatus.FAILED, InboxStatus.DEAD)
            assert [shown.streaming for shown in show.live.messages] == [False] * (1 + bad.is_partial)
            assert show.live.statuses[root.ts] == ""
            assert await leases_open(world) == 0
            server.on("/", *answering("All of it."))
            agent.usual = patient.run
            assert await pressed(world, press(RETRY_RUN_ACTION, run.id)) is None
            await show.over(root, 2)
            assert show.live.of(root)[-1].text == "All of it."


class Reachable(Scripted):
    """A remote agent that seems well whatever it does."""

    def __init__(self, client: AguiAgent) -> None:
        super().__init__(client.run)


async def test_two_ends_are_one(world: World) -> None:
    async with agui_server() as server, reached(f"{server.url}/") as client:
        server.on("/", *answering("All of it."), ERROR, *said("more", id="m2"), FINISHED)
        async with playing(world, hired("bad", Reachable(client))) as show:
            root = await world.says(f"{BOT} hello")
            (run,) = await show.over(root)
            (shown,) = show.live.of(root)
    assert (run.status, shown.text, shown.closing.note) == (RunStatus.ANSWERED, "All of it.", "")


async def test_an_agent_that_raises_is_told_like_any_other(world: World) -> None:
    class Raises(Scripted):
        async def invoke(self, run: object) -> object:  # type: ignore[override]
            raise ValueError("a secret")

    def broken(run: object) -> object:
        raise ValueError("a secret")

    async with playing(world, hired("bad", Raises(broken))) as show:  # type: ignore[arg-type]
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
        note, closing = await told(world, show, root.ts)
    assert (run.status, closing.retry) == (RunStatus.FAILED, True)
    assert "secret" not in note
