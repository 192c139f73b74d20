"""Time limits: a call ends in time with a readable answer, and leaves no session behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
import pytest_asyncio

from packages.swarm_agents.tests.agents.built_in_tools.agentcore.conftest import OPTIONS
from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.core import AgentCore
from swarm_agents.built_in_tools.agentcore.sessions import AgentCoreSessions
from swarm_agents.toolbox.tool import Tool
from tests.support.agentcore import FakeAgentCore, Page, environment
from tests.support.idle_time import time_passes

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.asyncio(loop_scope="session")]


Hasty = tuple[AgentCore, Mapping[str, Tool]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hasty(served: FakeAgentCore) -> Hasty:
    """Tools that have little time."""
    return await opened(served, replace(OPTIONS, browse_seconds=0.6, memory_seconds=0.3, code_seconds=60))


async def opened(served: FakeAgentCore, options: AgentCoreOptions) -> Hasty:
    with pytest.MonkeyPatch.context() as patch:
        environment(patch, served.url)
        core = await AgentCore.open(options, automation=served.automation)
    return core, {tool.name: tool for tool in core.tools()}


async def test_code_that_runs_too_long_is_given_up_and_its_session_stopped(aws: FakeAgentCore, hasty: Hasty) -> None:
    core, tools = hasty
    aws.holds["InvokeCodeInterpreter"] = asyncio.Event()
    calling = asyncio.ensure_future(tools["code-execute"].call({"code": "while True: pass"}))
    await aws.arrives("InvokeCodeInterpreter").wait()
    time_passes(60)
    await aws.arrives("StopCodeInterpreterSession").wait()
    aws.holds["InvokeCodeInterpreter"].set()  # as AWS ends what runs in a session that is stopped
    answer = await calling
    assert answer.failed
    assert "within 60 s" in answer.text
    await core.aclose()
    assert aws.started
    assert aws.running == set()


async def test_a_page_that_takes_too_long_is_given_up_and_its_browser_stopped(aws: FakeAgentCore, hasty: Hasty) -> None:
    core, tools = hasty
    aws.holds["StartBrowserSession"] = asyncio.Event()
    browsing = asyncio.ensure_future(tools["web-browse"].call({"url": "https://example.org/"}))
    await aws.arrives("StartBrowserSession").wait()
    await asyncio.wait({browsing}, timeout=1)
    aws.holds["StartBrowserSession"].set()
    answer = await browsing
    assert answer.failed
    assert answer.text == "web-browse was stopped: it did not finish within 0.6 s."
    await core.aclose()
    assert aws.started
    assert aws.running == set()


async def test_a_server_without_an_answer_is_told_apart_from_a_browser_without_one(aws: FakeAgentCore) -> None:
    _, tools = await opened(aws, replace(OPTIONS, browse_seconds=40))
    aws.page = Page(is_answered=False)
    browsing = asyncio.ensure_future(tools["web-browse"].call({"url": "https://example.org/"}))
    await aws.arrives("Page.navigate").wait()
    time_passes(20)  # a page has half of the time
    answer = await browsing
    assert answer.failed
    assert answer.text == "The page could not be opened: its server did not answer within 20 s."
    assert aws.running == set()


async def test_a_memory_without_an_answer_is_given_up(aws: FakeAgentCore, hasty: Hasty) -> None:
    _, tools = hasty
    aws.holds["CreateEvent"] = asyncio.Event()
    answer = await tools["memory-store"].call({"key": "a", "value": "b"})
    assert answer.failed
    assert "within 0.3 s" in answer.text


async def test_whoever_waits_for_a_stop_that_has_no_answer_waits_a_little_only() -> None:
    sessions, stopping = AgentCoreSessions(patience_seconds=0.05), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(_: str) -> None:
        asyncio.run_coroutine_threadsafe(stopping.wait(), loop).result()

    async with sessions.open(lambda: "started", stop) as session:
        assert await session.call(str.upper) == "STARTED"
    closing = asyncio.create_task(sessions.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    stopping.set()
    await closing


async def test_at_the_close_what_does_not_stop_is_left_to_aws() -> None:
    sessions, never = AgentCoreSessions(patience_seconds=0), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(_: str) -> None:
        asyncio.run_coroutine_threadsafe(never.wait(), loop).result()

    async with sessions.open(lambda: "started", stop):
        pass
    await sessions.aclose(within_seconds=0.05)
    never.set()
