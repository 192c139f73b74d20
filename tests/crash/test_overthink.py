"""A Q&A channel in which agents speak only when they are sure: what Slack is called for, with each kind of agent.

Real processes: the twin, and a coordinator that is killed in the middle of a silent run. A CAIPE service, a built-in
agent whose model is a rule, and a polling agent that the test plays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.providers import openai_server
from tests.support.providers.request import Request
from tests.support.providers.script import Reply, Say
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, STORED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(240), pytest.mark.req("CHAN-02")]

SETTINGS = """
slack: {{pace: false}}
agents:
  remote:
    caipe: {{url: '{caipe}', dialect: caipe, agent_id: {agent}}}
  builtin:
    helper: {{kind: assistant}}
model: {{name: gpt-5-mini, check_at_start: false}}
providers: {{openai: {{base_url: '{model}', api_key: not-needed}}}}
channel_defaults: {{listen: all, overthink: true, agent: {name}}}
"""
WRITING = ("chat.", "reactions.", "assistant.", "files.", "views.", "conversations.open")


@dataclass
class Gated(Caipe):
    """The service, which answers when the gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: int = 0

    async def _start(self, request: HttpRequest) -> Response:
        self.arrived += 1
        await self.gate.wait()
        return await super()._start(request)


@dataclass
class Model:
    """Repeats what it is told, after its system prompt is noted."""

    prompts: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        self.prompts.append(request.system)
        return Say(request.last_text)


@dataclass
class Scene:
    stage: Stage
    twin: TwinClient
    operator: Visitor
    caipe: Gated
    model: Model
    folder: Path
    settings: dict[str, str]

    async def listens(self, name: str) -> None:
        """Let this agent read the channels."""
        (self.folder / "swarm.yaml").write_text(SETTINGS.format(name=name, **self.settings))
        await self.operator.post("/reload")

    async def ended(self, ts: str) -> dict[str, Any]:
        """The message that ends without an answer."""

        async def look() -> list[dict[str, Any]]:
            found = (await self.operator.get("/inbox?status=dismissed"))["inbox_messages"]
            return [one for one in found if one["ts"] == ts]

        (message,) = await wait_until(look, bool, within_seconds=60, what="it is dismissed")
        return dict(message)

    async def written(self, since: int) -> list[str]:
        """The calls that people could see."""
        calls = await self.twin.calls(since=since)
        return [call["method"] for call in calls if call["method"].startswith(WRITING)]

    async def answered(self, ts: str) -> tuple[str, ...]:
        # The post and the reaction are deliveries of their own: either may be the first in Slack.
        seen = await self.twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji, within_seconds=60)
        assert seen.emoji == (ANSWERED,)  # 👀 would have said too much
        return seen.answers

    async def explained(self, message: dict[str, Any]) -> str:
        return str(await self.operator.get(f"/explain?message={message['channel']}:{message['ts']}"))


@pytest.fixture
async def scene(migrated_sqlite: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    caipe, model = Gated(Shape.PRESENT), Model()
    caipe.gate.set()
    async with contextlib.AsyncExitStack() as stack:
        settings = {
            "agent": AGENT,
            "caipe": await stack.enter_async_context(serving(caipe.app())),
            "model": (await stack.enter_async_context(openai_server(model))).base_url,
        }
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        stage.use_sqlite(migrated_sqlite)
        (tmp_path / "swarm.yaml").write_text(SETTINGS.format(name="caipe", **settings))
        http = await stack.enter_async_context(http_client(timeout=30))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        twin, operator = stage.person(http), stage.visitor(http)
        await stage.until_online(http, "caipe", "helper")
        yield Scene(
            stage=stage, twin=twin, operator=operator, caipe=caipe, model=model, folder=tmp_path, settings=settings
        )


@pytest.mark.parametrize("agent", ["caipe", "helper"])
async def test_an_agent_speaks_only_if_it_is_sure_and_a_mention_is_answered_humbly(scene: Scene, agent: str) -> None:
    await scene.listens(agent)
    since = await scene.twin.now()
    unsure = await scene.twin.say("Which port? [LOW_CONFIDENCE]")
    end = await scene.ended(unsure)
    other = await scene.twin.say("never mind", thread=unsure)
    await scene.ended(await scene.twin.say("lunch? [DEFER]", channel="random"))
    assert await scene.written(since) == []
    assert "low confidence" in await scene.explained(end)

    sure = await scene.twin.say("How do I get a token?")
    (answer,) = await scene.answered(sure)
    assert "How do I get a token?" in answer
    assert sorted(set(await scene.written(since))) == ["chat.postMessage", "reactions.add"]
    (post,) = await scene.twin.posts(sure)
    assert "feedback" in str(post["args"])

    asked = await scene.twin.say("@swarm try it [LOW_CONFIDENCE]", thread=unsure)
    seen = await scene.twin.until(unsure, lambda seen: seen.answers and not seen.is_growing, within_seconds=60)
    assert "try it" in seen.answers[0]
    assert "[LOW_CONFIDENCE]" not in seen.answers[0]

    async def reactions() -> dict[str, set[str]]:
        messages = await scene.twin.messages(thread_ts=unsure)
        return {one["ts"]: {reaction["name"] for reaction in one["reactions"]} for one in messages}

    shown = await wait_until(reactions, lambda found: ANSWERED in found[asked])
    assert (shown[unsure], shown[other], STORED in shown[asked]) == (set(), set(), True)
    if agent == "caipe":
        contexts = [body["client_context"] for body in scene.caipe.bodies]
        assert [one.get("overthink") for one in contexts] == [True, True, True, None]
        assert [one.get("humble_followup") for one in contexts] == [None, None, None, True]
    else:
        assert ["When to stay silent" in prompt for prompt in scene.model.prompts] == [True, True, True, False]
        assert ["You stayed silent in this thread" in prompt for prompt in scene.model.prompts] == [False] * 3 + [True]
    metrics = (await scene.operator.ask("GET", "/metrics")).text
    for outcome in ("answered", "deferred", "low_confidence"):
        assert f'swarm_silent_runs_total{{outcome="{outcome}"}} 1.0' in metrics


async def test_a_polling_agent_speaks_only_if_it_is_sure(scene: Scene) -> None:
    lea = scene.stage.visitor(scene.operator.http, await scene.stage.register(scene.operator.http, "lea"))
    assert await lea.poll() == []
    await scene.listens("lea")
    since = await scene.twin.now()

    async def replies(ts: str, text: str) -> dict[str, Any]:
        (trigger,) = await lea.poll(wait_seconds=20)
        assert trigger["inbox_messages"][0]["ts"] == ts
        about = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "message": text}
        await lea.uses("slack-reply", lease=trigger["lease"]["token"], **about)
        return dict(trigger)

    unsure = await scene.twin.say("Which port?")
    first = await replies(unsure, "80? [LOW_CONFIDENCE]")
    assert (first["overthink"], first["humble_followup"]) == (True, False)
    await scene.ended(unsure)
    await scene.twin.say("never mind", thread=unsure)
    assert await lea.poll() == []
    assert await scene.written(since) == []
    sure = await scene.twin.say("How do I get a token?")
    await replies(sure, "In the portal. [CONFIDENCE: high]")
    assert await scene.answered(sure) == ("In the portal.",)
    asked = await scene.twin.say("@swarm please", thread=unsure)
    later = await replies(asked, "Perhaps 80.")
    assert (later["overthink"], later["humble_followup"]) == (False, True)
    await scene.twin.until(unsure, lambda seen: seen.answers == ("Perhaps 80.",))


async def test_a_coordinator_that_is_killed_in_a_silent_run_runs_it_again_once_and_stays_silent(scene: Scene) -> None:
    scene.caipe.gate.clear()
    since = await scene.twin.now()
    ts = await scene.twin.say("Which port? [DEFER]")
    await wait_until(lambda: _count(scene), lambda n: n == 1, what="the run has begun")
    await scene.stage.restart_coordinator()
    await wait_until(lambda: _count(scene), lambda n: n == 2, within_seconds=60, what="it runs again")
    scene.caipe.gate.set()
    await scene.ended(ts)
    await scene.stage.restart_coordinator()  # the silence is remembered
    await scene.twin.say("hello?", thread=ts)
    await scene.twin.say("@swarm hello", thread=ts)
    await scene.twin.until(ts, lambda seen: bool(seen.answers), within_seconds=60)
    assert scene.caipe.arrived == 3
    assert scene.caipe.bodies[-1]["client_context"]["humble_followup"] is True
    first = next(call for call in await scene.twin.calls(since=since) if call["method"].startswith(WRITING))
    assert first["args"].get("timestamp") != ts


async def _count(scene: Scene) -> int:
    return scene.caipe.arrived
