"""The documented lead with two workers, as processes, judged by Slack's calls. A scripted provider speaks for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.support.http import client as http_client
from tests.support.processes import Processes
from tests.support.providers import Call, Reply, Request, Say, openai_server
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, Conversation, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.req("AGENT-11")]

DOCS = Path(__file__).parents[2] / "docs" / "built-in-agents.md"
PATIENCE = 60.0
NEWS = "news from the coordinator"


def documented() -> str:
    """The settings of the team that the manual shows."""
    found = [text for text in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "default: lead" in text]
    assert len(found) == 1
    return str(found[0])


class Team:
    """What the models of the team do. ``go_on`` lets the analyst answer."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.seen: list[tuple[str, Request]] = []
        self.delegations = 0

    async def __call__(self, request: Request) -> Reply:
        if not request.tools:
            return Say("OK")
        name = next((one for one in ("analyst", "writer") if f"You are the {one}." in request.system), "lead")
        self.seen.append((name, request))
        if name != "lead":
            return await self._works(request)
        return self._leads(request)

    def of(self, name: str) -> list[Request]:
        return [request for who, request in self.seen if who == name]

    def _leads(self, request: Request) -> Reply:
        text, is_first = request.last_text, request.json["messages"][-1]["role"] == "user"
        if NEWS in text:
            return Say("All in all: 5 it is.") if "sum up" in str(request.json) else Say("[DEFER]")
        if is_first:
            return Call("list-agents") if "2 plus 3" in text else Say("You are welcome.")
        if "analyst" in request.results[-1] and "task_id" not in request.results[-1]:
            self.delegations += 1
            return Call("inbox-delegate", {"agent": "analyst", "task": "Add 2 and 3.", "title": "A sum"})
        return Say("The analyst adds it up.")

    async def _works(self, request: Request) -> Reply:
        self.began.set()
        if "and in French" in str(request.json):
            return Say("2 + 3 = 5. En français : cinq.")
        await self.go_on.wait()
        return Say("2 + 3 = 5.")


@pytest.fixture
async def stage(processes: Processes) -> AsyncIterator[tuple[Stage, Team]]:
    team = Team()
    (processes.folder / "swarm.yaml").write_text(documented(), encoding="utf-8")
    async with openai_server(team) as server:
        model = {"LLM_MODEL": "gpt-5-mini", "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "of-nobody"}
        stage = Stage(processes, settings=model)
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        await until_online(stage)
        yield stage, team
        team.go_on.set()


async def until_online(stage: Stage) -> None:
    async with http_client(timeout=5) as http:
        await stage.until_online(http, "lead", "analyst", "writer")


async def when(person: TwinClient, ts: str, text: str) -> Conversation:
    return await person.until(
        ts,
        lambda seen: any(text in answer for answer in seen.answers) and not seen.is_growing,
        within_seconds=PATIENCE,
    )


async def is_told(team: Team, count: int) -> None:
    """The lead has heard of so many ends of tasks."""

    async def heard() -> int:
        return sum(NEWS in request.last_text for request in team.of("lead"))

    await wait_until(heard, lambda times: times >= count, within_seconds=PATIENCE)


async def test_a_lead_delegates_a_follow_up_reaches_the_worker_and_the_thread_comes_back(
    stage: tuple[Stage, Team], http: httpx2.AsyncClient
) -> None:
    there, team = stage
    person = there.person(http)
    ts = await person.say("@swarm what is 2 plus 3?")
    await when(person, ts, "The analyst adds it up.")
    await asyncio.wait_for(team.began.wait(), PATIENCE)
    said = await person.say("and in French", thread=ts)  # no mention: the owner gets it, which is the worker
    await person.until_told(said, "message", within_seconds=PATIENCE)
    team.go_on.set()
    seen = await when(person, ts, "En français")
    assert [text.split(".")[0] for text in seen.answers] == ["The analyst adds it up", "2 + 3 = 5"]
    assert "2 + 3 = 5. En français : cinq." in " ".join(seen.answers[1].split())
    await person.until(ts, lambda seen: ANSWERED in seen.emoji, within_seconds=PATIENCE)
    await is_told(team, 1)
    thanks = await person.say("thanks!", thread=ts)  # the thread is the lead's again
    after = await when(person, ts, "You are welcome.")
    assert len(after.answers) == 3
    assert thanks
    assert "calculations" in str(team.of("lead")[1].results)
    calls = [call for call in await person.calls(ok=True) if call["args"].get("thread_ts") == ts]
    shown = [call for call in calls if call["method"] in ("chat.startStream", "chat.postMessage")]
    assert len(shown) == 3, "one message for each answer, none for a lead that has nothing to add"


async def test_a_coordinator_that_is_killed_while_the_worker_works_finishes_once(
    stage: tuple[Stage, Team], http: httpx2.AsyncClient
) -> None:
    there, team = stage
    person = there.person(http)
    ts = await person.say("@swarm what is 2 plus 3? Please sum up when it is done.")
    await when(person, ts, "The analyst adds it up.")
    await asyncio.wait_for(team.began.wait(), PATIENCE)
    await there.restart_coordinator()
    team.go_on.set()
    seen = await when(person, ts, "All in all: 5 it is.")
    whole = "\n".join(seen.answers)
    assert whole.count("2 + 3 = 5.") == 1
    assert whole.count("The analyst adds it up.") == 1
    assert whole.count("All in all") == 1
    assert team.delegations == 1
    await person.until(ts, lambda seen: ANSWERED in seen.emoji, within_seconds=PATIENCE)
