"""Polling agents that answer live, with real processes and real MCP: what people see, also when a coordinator dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from swarm.services.ground.locks import TERM_SECONDS
from swarm.services.runs.run_ends import STOP_TEXT
from tests.crash.scene import Scene, Trigger, both_engines, inbox_message_of, lease_of
from tests.support.doors import Visitor, error_of
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.stage import Stage, stages_at
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("STREAM-11")

SOON_SECONDS = 20.0
"""Far more than an append takes to be seen, for a busy machine."""


@dataclass
class Writing:
    """A run of an agent that writes an answer, at whatever door it is told to."""

    twin: TwinClient
    lea: Visitor
    root: str
    trigger: Trigger
    turn_id: str = ""

    async def call(self, action: str, **said: object) -> dict[str, Any]:
        about = {"turn_id": self.turn_id} if self.turn_id else {"inbox_message_id": inbox_message_of(self.trigger)}
        return await self.lea.uses("slack-stream", lease_of(self.trigger), action=action, **about, **said)

    async def open(self) -> None:
        self.turn_id = (await self.call("open"))["turn_id"]

    async def refused(self, action: str, **said: object) -> dict[str, Any]:
        lease = lease_of(self.trigger)
        return error_of(await self.lea.tool("slack-stream", lease, action=action, turn_id=self.turn_id, **said))

    async def messages(self) -> list[dict[str, Any]]:
        """The messages of the answer, without the one with the Stop button."""
        seen = await self.twin.messages(thread_ts=self.root)
        return [message for message in seen if message["kind"] == "bot" and message["text"] != STOP_TEXT]

    async def until_shown(self, piece: str, within_seconds: float = SOON_SECONDS) -> None:
        await wait_until(
            self.messages,
            lambda seen: any(piece in message["text"] for message in seen),
            within_seconds=within_seconds,
            what=f"{piece!r} is shown",
        )

    async def until_answered(self, within_seconds: float = 20) -> list[dict[str, Any]]:
        """The messages once nothing grows any more and ✅ is there."""
        await self.twin.until(self.root, lambda seen: ANSWERED in seen.emoji, within_seconds=within_seconds)
        return await wait_until(self.messages, lambda seen: not any(message["streaming"] for message in seen))


async def writing(scene: Scene, text: str) -> Writing:
    """Somebody asks, and a run begins to answer."""
    root = await scene.twin.say(f"@swarm {text}")
    begun = Writing(scene.twin, scene.lea, root, await scene.trigger(root))
    await begun.open()
    return begun


@pytest.mark.long
@both_engines
async def test_people_read_along_and_the_end_is_one_message_with_a_check_mark(scene: Scene) -> None:
    run = await writing(scene, "tell me")
    since = await scene.twin.now()
    await run.call("task", id="s1", title="Look around")
    for number in range(6):
        await run.call("append", text=f"Line {number}.\n")
        await run.until_shown(f"Line {number}.")
    await run.call("task", id="s1", title="Look around", status="complete")
    assert (await run.call("close", text="The end."))["status"] == "closed"
    (message,) = await run.until_answered()
    assert message["text"] == "".join(f"Line {number}.\n" for number in range(6)) + "The end."
    assert "context_actions" in [block["type"] for block in message["blocks"]]  # what people think of it
    calls = [call for call in await scene.twin.calls(since=since) if call["method"].endswith("Stream")]
    assert (calls[0]["method"], calls[-1]["method"]) == ("chat.startStream", "chat.stopStream")
    assert all(call["ok"] for call in calls)
    assert len(calls) >= 6
    await scene.settled()


@pytest.mark.long
async def test_who_is_stopped_by_a_person_hears_it_by_the_next_call(scene: Scene) -> None:
    run = await writing(scene, "tell me for ever")
    await run.call("append", text="On and on ")
    await run.until_shown("On and on")
    await scene.twin.say("!stop", thread=run.root)
    refused = await wait_until(lambda: run.lea.tool("slack-stream", lease_of(run.trigger), **more(run)), is_refused)
    assert error_of(refused)["code"] == "conflict"
    assert "was stopped by <@" in error_of(refused)["message"]
    (message,) = await wait_until(run.messages, lambda seen: not any(one["streaming"] for one in seen))
    assert "Stopped by" in str(message["blocks"])
    assert (await run.refused("close", text="That was all."))["code"] == "conflict"
    await scene.settled()


def more(run: Writing) -> dict[str, str]:
    return {"action": "append", "turn_id": run.turn_id, "text": "and on "}


def is_refused(result: Any) -> bool:
    return bool(result.is_error)


@both_engines
@pytest.mark.long
@pytest.mark.req("STREAM-10")
async def test_killed_in_the_middle_twice_the_answer_is_whole_and_never_two_messages_grow(scene: Scene) -> None:
    run = await writing(scene, "tell me all")
    said = ""
    for word in ("One. ", "Two. "):
        said += word
        await run.call("append", text=word)
        await run.until_shown(said, within_seconds=20)
        scene.stage.kill_coordinator()
        left = await run.messages()
        assert growing(left) == 1
        await scene.stage.start_coordinator()
        after = await wait_until(run.messages, sealed(len(left)), within_seconds=30, what="what was left is sealed")
        assert growing(after) <= 1
    await run.call("append", text="Three. ")
    await run.call("close", text="The end.")
    *before, whole = await run.until_answered(within_seconds=40)
    assert whole["text"] == "One. Two. Three. The end."
    assert [message["text"] for message in before] == ["One. ", "One. Two. "]
    assert all("starts again" in str(message["blocks"]) for message in before)
    await scene.settled()


def growing(seen: list[dict[str, Any]]) -> int:
    return sum(message["streaming"] for message in seen)


def sealed(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    """Whether the first messages do not grow any more."""
    return lambda seen: not growing(seen[:count])


@pytest.mark.long
async def test_what_was_closed_before_the_kill_is_shown_by_the_next_process(scene: Scene) -> None:
    """The agent is gone by then: nothing depends on it any more."""
    await scene.twin.fault("delay", method="chat.startStream", seconds=600, times=1)
    run = await writing(scene, "tell me and go")
    await run.call("close", text="Everything.")
    await wait_until(run.messages, what="Slack has begun a message that we do not know of")
    await scene.stage.restart_coordinator()
    shown = await run.until_answered(within_seconds=40)
    assert shown[-1]["text"] == "Everything."
    await scene.settled()


# Two coordinators


@pytest.fixture
def pair(tmp_path: Path, postgres_server_url: str, migrated_postgres: str) -> Iterator[list[Stage]]:
    with fresh_database(postgres_server_url, migrated_postgres) as url, processes_in(tmp_path) as processes:
        yield stages_at(processes, 2, url)


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client(timeout=30, limits=httpx2.Limits(max_keepalive_connections=0)) as client:
        yield client


def in_office(stages: list[Stage]) -> tuple[Stage, Stage]:
    """Who is elected, and who is not."""
    with psycopg.connect(stages[0].settings["SWARM_DATABASE_URL"], autocommit=True) as database:
        ((holder,),) = database.execute("SELECT holder FROM locks WHERE kind = 'office'").fetchall()
    first, second = stages
    return (first, second) if f":{first.port} " in holder else (second, first)


@pytest.mark.long
@pytest.mark.req("OPS-03")
async def test_the_door_of_a_process_that_is_not_elected_takes_an_answer_that_the_elected_one_shows(
    pair: list[Stage], http: httpx2.AsyncClient
) -> None:
    await pair[0].start_twin(rates=False)
    for stage in pair:
        stage.launch_coordinator()
    await asyncio.gather(*(stage.until_ready() for stage in pair))
    elected, other = in_office(pair)
    twin = elected.person(http)
    lea = other.visitor(http, await other.register(http, "lea"))
    await lea.poll()
    root = await twin.say("@swarm tell me")
    (trigger,) = await lea.poll(wait_seconds=20, limit=1)
    run = Writing(twin, lea, root, trigger)
    await run.open()
    for number in range(4):
        await run.call("append", text=f"Line {number}.\n")
        await run.until_shown(f"Line {number}.")
    elected.kill_coordinator()
    await run.call("append", text="Line 4.\n")
    await run.until_shown("Line 0.\nLine 1.\nLine 2.\nLine 3.\nLine 4.\n", within_seconds=TERM_SECONDS + 20)
    await lea.post("/leases/renew", {"tokens": [lease_of(trigger)]})
    await run.call("close", text="The end.")
    _, whole = await run.until_answered(within_seconds=30)
    assert whole["text"] == "".join(f"Line {number}.\n" for number in range(5)) + "The end."
