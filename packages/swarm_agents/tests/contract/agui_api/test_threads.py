"""What a client of caipe's dialect knows of a thread reaches the built-in agent that it asks."""

from __future__ import annotations

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import START, Client, Place, Scripted, run_input, start
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import Finished, InputMessage, RunInput, Speaker

pytestmark = [pytest.mark.req("STREAM-13", "AGENT-09"), pytest.mark.usefixtures("here")]

LONG = "shall we deploy? " * 5_000
"""More than a client context may have."""


async def test_our_own_client_brings_the_thread_with_it(here: Place, wim: Client, router: Scripted) -> None:
    heard: list[RunInput] = []

    def script(run_input: RunInput) -> list[Finished]:
        heard.append(run_input)
        return [Finished(result="yes")]

    router.script = script
    before = InputMessage(id="1700000000.000100", speaker=Speaker.USER, text=LONG, author="Bob")
    async with wim.agent("router", Dialect.CAIPE) as agent:
        events = [event async for event in agent.run(run_input("well?", history=(before,)))]
    assert events[-1] == Finished(result="yes")
    (got,) = heard
    assert [message.text for message in got.messages] == ["well?"]
    assert [LONG.strip() in message.text for message in got.history] == [True]


async def test_a_client_context_is_small_beside_the_thread(wim: Client) -> None:
    context = {"source": "slack", "thread_context": "short", "other": LONG}
    status, error = await wim.refusal(START, start(client_context=context))
    assert (status, error["code"]) == (422, "invalid")
