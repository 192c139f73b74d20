"""Runs over HTTP: who may end them, and that none lives longer than somebody listens."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import aclosing

import pytest
from structlog.testing import capture_logs

from packages.swarm_agents.tests.contract.agui_api.scene import (
    FOREVER,
    HELLO,
    INVOKE,
    PATIENCE_SECONDS,
    START,
    Client,
    Place,
    Scripted,
    agui_input,
    events_of,
    kinds,
    place,
    run_input,
    start,
)
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import AgentEvent, Cancelled, Failed, Finished, Interrupted, TextDelta
from swarm.services.builtin.conversation_locks import ConversationKey

pytestmark = pytest.mark.req("AGENT-09")

STAYS = (TextDelta(text="so far"), FOREVER)


async def all_of(client: Client, path: str = START, **body: object) -> list[str]:
    return kinds(await client.said(path, {**start(), **body}))


@pytest.mark.req("STREAM-04")
async def test_an_event_is_told_before_the_next_one_happens(here: Place, wim: Client, router: Scripted) -> None:
    go_on = asyncio.Event()
    router.script = lambda run_input: [TextDelta(text="first"), go_on, TextDelta(text="second"), Finished()]
    async with wim.stream(START, start()) as response, aclosing(events_of(response)) as events:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await anext(events)).get("delta") != "first":
                pass
            go_on.set()
            assert [event["delta"] async for event in events if "delta" in event] == ["second"]


async def test_cancelling_ends_the_run_and_its_stream_says_so(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: STAYS
    async with wim.stream(START, start()) as response, aclosing(events_of(response)) as events:
        ran = await router.began()
        assert await wim.cancels(conversation_id="c1")
        last = [event async for event in events][-1]
    assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    await asyncio.wait_for(ran.over.wait(), PATIENCE_SECONDS)
    assert not await wim.cancels(conversation_id="c1"), "there is nothing left to cancel"


@pytest.mark.parametrize("dialect", Dialect)
async def test_our_client_understands_that_a_run_was_cancelled(
    dialect: Dialect, here: Place, wim: Client, router: Scripted
) -> None:
    router.script = lambda run_input: STAYS
    async with wim.agent("router", dialect) as agent:
        reading = asyncio.create_task(_read(agent.run(run_input())))
        await router.began()
        assert await wim.cancels(conversation_id="c1", agent_id="router")
        assert (await reading)[-1] == Cancelled()


async def test_a_cancelled_stream_ends_at_once_though_the_agent_takes_its_time(sqlite_url: str) -> None:
    clears_up = asyncio.Event()
    slow = Scripted(*STAYS, clears_up=clears_up)
    async with place(sqlite_url, {"slow": slow}) as here:
        wim = await here.client()
        reading = asyncio.create_task(all_of(wim))
        ran = await slow.began()
        assert await wim.cancels(conversation_id="c1")
        assert (await asyncio.wait_for(reading, 1))[-1] == "RUN_FINISHED"
        with here.impatient():
            status, error = await wim.refusal(START, start())
        assert (status, error["code"]) == (409, "conflict")
        clears_up.set()
        await asyncio.wait_for(ran.over.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize("dialect", Dialect)
async def test_a_client_that_goes_away_ends_its_run(
    dialect: Dialect, here: Place, wim: Client, router: Scripted
) -> None:
    router.script = lambda run_input: STAYS
    async with wim.agent("router", dialect) as agent:
        events = agent.run(run_input())
        await anext(events)
        await events.aclose()
        await asyncio.wait_for((await router.began()).over.wait(), 1)


@pytest.mark.parametrize("path", [START, INVOKE])
async def test_a_client_that_goes_away_while_the_agent_thinks_ends_its_run(
    path: str, here: Place, wim: Client, router: Scripted
) -> None:
    router.script = lambda run_input: [FOREVER]
    with _send(here, wim, path):
        ran = await router.began()
    await asyncio.wait_for(ran.over.wait(), PATIENCE_SECONDS)


async def test_after_it_has_left_a_client_may_ask_again_at_once(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: STAYS
    async with wim.stream(START, start()):
        await router.began()
    router.script = lambda run_input: HELLO
    assert (await all_of(wim))[-1] == "RUN_FINISHED"


async def test_a_conversation_has_one_run_at_a_time(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: STAYS
    async with wim.stream(START, start()):
        await router.began()
        for path, body in ((START, start()), (INVOKE, start()), ("/agui/router", agui_input())):
            with here.impatient():
                status, error = await wim.refusal(path, body)
            assert (status, error["code"]) == (409, "conflict")
            assert "cancel" in error["hint"]
        router.script = lambda run_input: HELLO
        assert (await all_of(wim, conversation_id="c2"))[-1] == "RUN_FINISHED"
        assert (await all_of(wim, agent_id="assistant"))[-1] == "RUN_FINISHED", "another agent, another conversation"
        assert len(router.ran) == 2


async def test_two_clients_with_the_same_conversation_never_meet(here: Place, wim: Client, router: Scripted) -> None:
    ada = await here.client("ada")
    router.script = lambda run_input: STAYS
    async with wim.stream(START, start()) as of_wim, ada.stream("/agui/router", agui_input()) as of_ada:
        await router.began(2)
        assert [ran.input.origin.client for ran in router.ran] == [wim.id, ada.id]
        assert not await here.operator.cancels(conversation_id="c1")
        assert not await ada.cancels(conversation_id="c1", agent_id="assistant")
        assert await ada.cancels(conversation_id="c1")
        assert [event async for event in events_of(of_ada)][-1]["outcome"] == {"type": "cancelled"}
        assert not router.ran[0].over.is_set()
        assert await wim.cancels(conversation_id="c1")
        assert [event async for event in events_of(of_wim)][-1]["outcome"] == {"type": "cancelled"}


async def test_silence_is_filled_with_comments(sqlite_url: str) -> None:
    quiet = Scripted(TextDelta(text="hm"), FOREVER)
    async with place(sqlite_url, {"quiet": quiet}, door={"keep_alive_seconds": 0.05}) as here:
        wim = await here.client()
        async with wim.stream(START, start()) as response, asyncio.timeout(PATIENCE_SECONDS):
            comments = 0
            async for line in response.aiter_lines():
                comments += line.startswith(":")
                if comments == 3:
                    break
        async with wim.agent("quiet", Dialect.AGUI, timeout_seconds=0.2) as agent:
            events = agent.run(run_input(conversation="c2"))
            await anext(events)
            with pytest.raises(TimeoutError):  # longer than its patience with silence
                await asyncio.wait_for(anext(events), 0.5)


async def test_a_client_that_does_not_read_holds_up_the_agent(sqlite_url: str) -> None:
    big = TextDelta(text="x" * 10_000)
    eager = Scripted(*(big for _ in range(5_000)), Finished())
    async with place(sqlite_url, {"eager": eager}, door={"stalled_seconds": 0.5}) as here:
        with _send(here, await here.client(), START):
            ran = await eager.began()
            await asyncio.wait_for(ran.over.wait(), PATIENCE_SECONDS)  # given up, half a second later
            assert ran.told < 2_000, "what the connection's buffers take, and no more"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([TextDelta(text="a"), ValueError("secret")], "something went wrong on our side"),
        ([TextDelta(text="a")], "it stopped in the middle of its answer"),
        ([TextDelta(text="a"), FOREVER], "it did not finish within 0.3 s"),
        ([TextDelta(text="a"), TimeoutError()], "something went wrong on our side"),
    ],
    ids=["an error", "no end", "too long", "a timeout of its own"],
)
async def test_a_run_always_has_an_end(steps: list[AgentEvent], message: str, sqlite_url: str) -> None:
    with capture_logs() as logs:
        async with place(sqlite_url, {"ada": Scripted(*steps)}, longest_run_seconds=0.3) as here:
            told = await (await here.client()).said(START, start())
    assert (told[-1]["type"], told[-1]["code"]) == ("RUN_ERROR", "broken")
    assert told[-1]["message"] == f"The agent could not answer: {message}."
    assert [line["how"] for line in logs if line["action"] == "agent_run"] == ["broken"]


async def test_stopping_the_coordinator_ends_all_runs_quickly_and_says_so(sqlite_url: str) -> None:
    stuck = Scripted(*STAYS)
    async with place(sqlite_url, {"stuck": stuck}) as here:
        wim = await here.client()
        readings = [asyncio.create_task(wim.said(START, start(conversation=str(at)))) for at in range(5)]
        readings.append(asyncio.create_task(wim.said("/agui/stuck", agui_input(thread="six"))))
        await stuck.began(6)
        begun = asyncio.get_running_loop().time()
        await here.runs.close()
        ends = [events[-1] for events in await asyncio.gather(*readings)]
        assert {(end["type"], end["code"]) for end in ends} == {("RUN_ERROR", "unavailable")}
        assert (await wim.refusal(START, start()))[0] == 503
    assert asyncio.get_running_loop().time() - begun < 3
    assert all(ran.over.is_set() for ran in stuck.ran)


async def test_no_more_runs_than_there_is_room_for(sqlite_url: str) -> None:
    ada = Scripted(*STAYS)
    async with place(sqlite_url, {"ada": ada}, most_runs=1) as here:
        wim = await here.client()
        async with wim.stream(START, start()):
            await ada.began()
            answer = await wim.ask("POST", START, start(conversation="c2"))
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) > 0


@pytest.mark.req("SEC-05")
async def test_one_client_does_not_take_the_room_of_all(sqlite_url: str) -> None:
    ada = Scripted(*STAYS)
    async with place(sqlite_url, {"ada": ada}, most_runs_each=1) as here:
        wim, other = await here.client(), await here.client("other")
        async with wim.stream(START, start()):
            await ada.began()
            answer = await wim.ask("POST", START, start(conversation="c2"))
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
            assert "You have 1 concurrent runs" in answer.json()["error"]["message"]
            async with other.stream(START, start()):
                await ada.began(2)


async def test_of_many_conversations_only_the_latest_questions_are_kept(sqlite_url: str) -> None:
    async with place(sqlite_url, {"ada": Scripted(Interrupted(asked=()))}) as here:
        for at in range(1002):
            run = await here.runs.begin(ConversationKey(client="wim", agent="ada", id=str(at)), run_input())
            await run.next()
            await asyncio.wait({run.task})
        assert len(here.runs._questions) == 1000


async def test_what_an_agent_does_after_its_end_is_done_and_told_to_nobody(sqlite_url: str) -> None:
    stored = asyncio.Event()
    ada = Scripted(Finished(), TextDelta(text="late"), Failed(message="no"), clears_up=stored)
    async with place(sqlite_url, {"ada": ada}) as here:
        run = await here.runs.begin(ConversationKey(client="wim", agent="ada", id="c1"), run_input())
        assert await run.next() == Finished()
        run.leave()
        stored.set()
        await asyncio.wait({run.task})
    assert not run.task.cancelled(), "it may still have to store what was said"
    assert run._waiting.empty()


async def _read(events: object) -> list[AgentEvent]:
    return [event async for event in events]  # type: ignore[attr-defined]


def _send(here: Place, client: Client, path: str) -> socket.socket:
    """A request whose answer nobody reads."""
    host, _, port = here.base.removeprefix("http://").partition(":")
    raw = socket.create_connection((host, int(port)))
    body = json.dumps(start()).encode()
    head = ["Host: localhost", f"Authorization: Bearer {client.token}", f"Content-Length: {len(body)}"]
    raw.sendall("\r\n".join([f"POST {path} HTTP/1.1", *head, "", ""]).encode() + body)
    return raw
