"""Remote agents in the middle of a discussion, as people see it: the twin, a coordinator, and services over HTTP."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.adviser import adviser
from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.doors import serving
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]

AGENTS = {
    "old": {"thread_context": "client_context"},
    "present": {"thread_context": "client_context"},
    "inline": {"thread_context": "message"},
}


async def answered(twin: TwinClient, ts: str, count: int) -> dict[str, Any]:
    """The last answer in a thread once there are so many, whole and marked as such."""

    async def look() -> list[dict[str, Any]]:
        return list(await twin.messages(thread_ts=ts))

    def are_whole(messages: list[dict[str, Any]]) -> bool:
        bots = [message for message in messages if message["kind"] == "bot"]
        marks = [one for one in messages if ANSWERED in {reaction["name"] for reaction in one["reactions"]}]
        return len(bots) == len(marks) == count and not any(message["streaming"] for message in bots)

    seen = await wait_until(look, are_whole, within_seconds=40, what=f"answer {count} is there")
    return [message for message in seen if message["kind"] == "bot"][-1]


@pytest.mark.req("STREAM-13", "STREAM-01")
async def test_each_agent_that_is_mentioned_in_a_discussion_knows_it(tmp_path: Path, migrated_sqlite: Path) -> None:
    services = {name: Caipe(Shape.OLD if name == "old" else Shape.PRESENT, name != "inline") for name in AGENTS}
    async with AsyncExitStack() as stack:
        remote: dict[str, Any] = {"adviser": {"url": f"{await stack.enter_async_context(serving(adviser()))}/"}}
        for name, chosen in AGENTS.items():
            url = await stack.enter_async_context(serving(services[name].app()))
            several = {"agent_ids": {name: AGENT, f"{name}-two": "agent-18"}}
            remote[f"caipe-{name}"] = {"url": url, "dialect": "caipe", **chosen, **several}
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        stage.use_sqlite(migrated_sqlite)
        settings = {"slack": {"pace": False}, "agents": {"remote": remote}}
        (tmp_path / "swarm.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        http = await stack.enter_async_context(http_client(timeout=30))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        await stage.agents_are_known(http, (*AGENTS, "adviser"))
        twin = stage.person(http)
        for name in (*AGENTS, "adviser"):
            root = await twin.say("shall we deploy?", user="bob")
            await twin.say("the tests are <!channel> red", thread=root)
            await twin.say(f"@swarm swarm#{name} what do you think?", thread=root, user="carol")
            answer = await answered(twin, root, 1)
            assert "shall we deploy?, the tests are" in answer["text"], name
            assert f"I remember [], you say: swarm#{name} what do you think?" in answer["text"]
            await twin.say(f"swarm#{name} and now?", thread=root, user="bob")
            answer = await answered(twin, root, 2)
            if name == "adviser":
                assert f"red, swarm#{name} what do you think?], I remember [], you say" in answer["text"]
            else:
                assert f"I am told [], I remember [swarm#{name} what do you think?], you say" in answer["text"]
                (plan,) = [block for block in answer["blocks"] if block["type"] == "plan"]
                assert [(task["title"], task["status"]) for task in plan["tasks"]] == [("search", "complete")]
        assert all(len(service.bodies) == 2 for service in services.values())
