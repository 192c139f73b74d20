"""A token that is rotated or revoked ends what is done for it at that moment, through every door, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import (
    FOREVER,
    INVOKE,
    RESUME,
    START,
    Scripted,
    agui_input,
    events_of,
    start,
)
from swarm.domain.answers.events import TextDelta
from swarm.domain.model.agents import Role
from swarm.domain.model.threads import File
from swarm.domain.policy.access import CallerPolicy
from tests.support.doors import Visitor
from tests.support.quick import quick
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.whole import Deaf, SlowFiles, Whole, whole
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("SEC-01")

POLICIES = {"assistant": CallerPolicy(callers=frozenset({"leads"}), reaches_host=False)}
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}

End = Callable[[World, str], Coroutine[Any, Any, object]]


async def rotate(world: World, agent: str) -> object:
    return await world.services.agents.rotate(agent)


async def revoke(world: World, agent: str) -> object:
    return await world.services.agents.revoke(agent)


# What an agent may be doing. Each returns what the agent gets in the end; `begun` is called when it is under way.


async def poll(at: Whole, lea: Visitor) -> object:
    return (await lea.ask("GET", "/poll?wait_seconds=30")).status_code


async def upload(at: Whole, lea: Visitor) -> object:
    """Over HTTP, of a body that takes for ever to come."""
    path = f"/files?inbox_message_id={await claimed(at, lea)}&name=a.txt"
    url = httpx2.URL(at.base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {lea.token}\r\nContent-Length: 2\r\n\r\nx"
    writer.write(head.encode())
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def download(at: Whole, lea: Visitor) -> object:
    try:
        await lea.ask("GET", f"/files/F1?inbox_message_id={await claimed(at, lea)}")
    except httpx2.RemoteProtocolError:
        return "cut"
    return "whole"


async def tool(at: Whole, lea: Visitor) -> object:
    """An upload that Slack takes for ever to answer."""
    about = {"inbox_message_id": await claimed(at, lea), "name": "b.txt", "text": "b"}
    return (await call_tool(lea, "slack-upload-file", about)).status_code


async def ask(at: Whole, lea: Visitor, path: str, body: dict[str, Any]) -> object:
    headers = {"Authorization": f"Bearer {lea.token}"}
    async with at.http.stream("POST", lea.base + path, json=body, headers=headers) as response:
        if response.status_code != 200:
            return response.status_code
        last = [event async for event in events_of(response)][-1]
        return last["type"], last.get("code")


def stream(path: str, body: dict[str, Any]) -> Callable[[Whole, Visitor], Coroutine[Any, Any, object]]:
    return lambda at, lea: ask(at, lea, path, body)


ENDED = ("RUN_ERROR", "unauthorized")
DOINGS: dict[str, tuple[Callable[[Whole, Visitor], Coroutine[Any, Any, object]], object]] = {
    "a poll": (poll, 401),
    "another poll": (poll, 401),
    "an upload": (upload, 401),
    "a download": (download, "cut"),
    "a tool": (tool, 401),
    "a start": (stream(START, start(conversation="c1")), ENDED),
    "a run": (stream("/agui/assistant", agui_input(thread="c2")), ENDED),
    "an invoke": (stream(INVOKE, start(conversation="c3")), 401),
}


async def call_tool(visitor: Visitor, name: str, arguments: dict[str, Any]) -> httpx2.Response:
    """A call over MCP, by hand: what matters is the answer over HTTP."""
    params = {"name": name, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return await visitor.ask("POST", "/mcp", json=request, headers=MCP_HEADERS)


async def claimed(at: Whole, lea: Visitor) -> str:
    """A message with a file that the agent holds."""
    rows = await at.world.rows("SELECT id FROM inbox_messages WHERE status = 'claimed'")
    return str(rows[0]["id"])


async def prepared(at: Whole, name: str = "lea") -> Visitor:
    """A lead that holds a message with a file."""
    registered = await at.world.services.agents.register(name, Role.LEAD)
    await at.world.is_here(registered.agent)
    at.world.files.keep("F1", b"hello")
    attached = File(id="F1", name="F1.txt", mimetype="text/plain", size_bytes=5)
    await at.world.hears(replace(said(f"{BOT} look"), files=(attached,)))
    lea = at.visitor(registered.token)
    lea.id, lea.name = registered.agent.id, name
    await lea.only(hold="true")
    return lea


async def all_under_way(at: Whole, assistant: Scripted, runs: int) -> None:
    await assistant.began(runs)
    files, watched = at.world.files, at.world.services.agents.credentials._watched
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (files.under_way.is_set() and files.opened and sum(map(len, watched.values())) == len(DOINGS)):
            await asyncio.sleep(0.01)


async def ended_there(at: Whole, elsewhere: Whole, assistant: Scripted, end: End) -> dict[str, object]:
    """What is wrong when an agent does everything here, and its token ends elsewhere."""
    lea = await prepared(at)
    doings = {name: asyncio.create_task(doing(at, lea)) for name, (doing, _) in DOINGS.items()}
    await all_under_way(at, assistant, 3)
    await end(elsewhere.world, lea.id)
    await elsewhere.world.lead("other")
    await elsewhere.world.says(f"{BOT} a secret")
    await asyncio.wait(doings.values(), timeout=PATIENCE_SECONDS / 2)
    got = {name: doing.result() if doing.done() else "it goes on" for name, doing in doings.items()}
    wrong = {name: got[name] for name, (_, wanted) in DOINGS.items() if got[name] != wanted}
    for doing in doings.values():
        doing.cancel()
    wrong |= {path: status for path, status in (await later(lea)).items() if status != 401}
    assert isinstance(at.world.files, SlowFiles)
    assert at.world.files.left.is_set()
    assert all(opened.closed for opened in at.world.files.opened)
    assert all(run.over.is_set() for run in assistant.ran)
    assert not at.world.services.agents.credentials._watched
    return wrong


async def later(lea: Visitor) -> dict[str, int]:
    """What the agent gets when it asks again."""
    asked = {path: await lea.ask("GET", path) for path in ("/poll?wait_seconds=0", "/me", "/tray", "/api/v1/agents")}
    asked["/mcp"] = await call_tool(lea, "list-agents", {})
    asked[RESUME] = await lea.ask("POST", RESUME, json={"conversation_id": "c1", "form_data": "x"})
    return {path: answer.status_code for path, answer in asked.items()}


@pytest.mark.parametrize("end", quick([rotate, revoke]))
async def test_everything_that_is_done_for_a_token_ends_with_it(end: End, sqlite_url: str, tmp_path: Path) -> None:
    assistant = Scripted(TextDelta(text="so far"), FOREVER)
    async with whole(sqlite_url, tmp_path, {"assistant": assistant}, POLICIES, files=SlowFiles()) as here:
        assert await ended_there(here, here, assistant, end) == {}


@pytest.mark.parametrize(
    ("end", "is_deaf"), quick([(revoke, False), (rotate, True), (rotate, False), (revoke, True)], 2)
)
async def test_a_token_that_ends_in_one_process_ends_in_all(
    end: End, is_deaf: bool, postgres_url: str, tmp_path: Path
) -> None:
    assistant = Scripted(TextDelta(text="so far"), FOREVER)
    async with AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(
                whole(postgres_url, tmp_path, {"assistant": assistant}, POLICIES, files=SlowFiles(), wakeups=wakeups)
            )
            for wakeups in (Deaf() if is_deaf else None, None)
        ]
        assert await ended_there(here, there, assistant, end) == {}
