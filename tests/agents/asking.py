"""Turns, and agents to run them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from swarm.agents.remote.agui import AguiAgent
from swarm.domain.answers.agents import Dialect, RemoteAgent
from swarm.domain.answers.events import AgentEvent, InputMessage, RunInput, Speaker, TextDelta


def run_input(text: str = "hello", **more: Any) -> RunInput:
    """A run_input of one message."""
    message = InputMessage(id="1700000000.000100", speaker=Speaker.USER, text=text, author="Ada Lovelace")
    given = {"messages": (message,), **more}
    return RunInput(run_id="t1", agui_run_id="r1", trace_id="trace1", conversation_id="c1", **given)


@contextlib.asynccontextmanager
async def reached(
    url: str, *, tls: Any = None, clock: Any = None, patience_seconds: float = 0.5, **settings: Any
) -> AsyncIterator[AguiAgent]:
    """An agent at an address, impatient as far as the test does not say otherwise."""
    remote = RemoteAgent(**{"name": "ada", "url": url, "timeout_seconds": 5.0, **settings})
    agent = AguiAgent(remote, tls=tls, clock=clock, connect_patience_seconds=patience_seconds)
    try:
        yield agent
    finally:
        await agent.aclose()


async def run(url: str, *, of: RunInput | None = None, **settings: Any) -> list[AgentEvent]:
    """All that an agent at an address does in one run."""
    async with reached(url, **settings) as agent:
        return [event async for event in agent.run(of or run_input())]


def text_of(events: list[AgentEvent]) -> str:
    """What was said."""
    return "".join(event.text for event in events if isinstance(event, TextDelta))


CAIPE = Dialect.CAIPE
