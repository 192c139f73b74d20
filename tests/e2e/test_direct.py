"""Direct messages and the pane as people meet them, with an AG-UI agent, a polling agent and a built-in one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import yaml

from swarm.services.intake.panes import GREETING
from tests.e2e.built_in import BuiltInStage
from tests.support.agui_server import FINISHED, STARTED, AguiServer, Request, agui_server, said
from tests.support.doors import Visitor
from tests.support.processes import processes_in
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.req("CHAN-01", "CHAN-08")]

PATIENCE = 60.0
PEOPLE = {"streams": "alice", "polls": "bob", "assistant": "carol"}
"""Who writes to which agent."""

PROMPT = {"title": "Say hello", "message": "hello"}


@dataclass
class Direct:
    """Everything that runs, with one direct message for each agent."""

    built_in: BuiltInStage
    person: TwinClient
    agui: AguiServer
    http: httpx2.AsyncClient
    channels: dict[str, str]  # by agent
    poller: Visitor
    polled: list[list[str]]  # the new messages of each trigger of the polling agent
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_online(self) -> None:
        await self.built_in.stage.until_online(self.http, *PEOPLE)

    async def answers_polls(self) -> None:
        """The polling agent: answers everything it gets, also after the coordinator was gone."""
        while True:
            with contextlib.suppress(httpx2.HTTPError, ExceptionGroup, AssertionError):
                for trigger in await self.poller.poll(wait_seconds=1):
                    new = [one["text"] for one in trigger["inbox_messages"]]
                    await self.may_answer.wait()
                    about, lease = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
                    await self.poller.uses(
                        "slack-reply", lease, inbox_message_id=about, message=f"got {len(new)}", request_id=lease
                    )
                    self.polled.append(new)
            await asyncio.sleep(0.05)

    async def messages(self, agent: str) -> list[dict[str, Any]]:
        return list(await self.person.messages(channel="@swarm", user=PEOPLE[agent]))

    async def until_answered(self, agent: str, count: int) -> list[dict[str, Any]]:
        """All messages, once so many by the person have their mark."""

        def met(messages: list[dict[str, Any]]) -> bool:
            wrote = [one for one in messages if one["kind"] == "user"]
            marks = [any(mark["name"] == ANSWERED for mark in one["reactions"]) for one in wrote]
            return len(wrote) == count and all(marks)

        return await wait_until(lambda: self.messages(agent), met, within_seconds=PATIENCE, what=agent)

    def threads(self, agent: str) -> list[str]:
        """The threads of a direct message, as the coordinator knows them."""
        path = self.built_in.stage.home / "swarm.db"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT thread_ts FROM threads WHERE channel = ?", (self.channels[agent],))
            return [row[0] for row in rows]


@pytest.fixture
async def direct(
    tmp_path_factory: pytest.TempPathFactory, http: httpx2.AsyncClient, request: pytest.FixtureRequest
) -> AsyncIterator[Direct]:
    replies: str = request.param
    with processes_in(tmp_path_factory.mktemp("direct")) as processes:
        async with agui_server() as agui:
            built_in = BuiltInStage(processes)
            agui.on("/", STARTED, *said("streamed"), FINISHED)
            await built_in.stage.start_twin(rates=False)
            person = built_in.stage.person(http)
            channels = {name: await _direct(person, http, user) for name, user in PEOPLE.items()}
            await _start(built_in, agui, channels, replies)
            token = await built_in.stage.register(http, "polls")
            poller = built_in.stage.visitor(http, token)
            scene = Direct(built_in, person, agui, http, channels, poller, [])
            scene.may_answer.set()
            polling = asyncio.create_task(scene.answers_polls())
            await scene.until_online()
            yield scene
            polling.cancel()
            processes.show_logs()


async def _direct(person: TwinClient, http: httpx2.AsyncClient, user: str) -> str:
    answer = await http.post(f"{person.base_url}/page/direct", json={"user": user, "with": "U000SWARM"})
    assert answer.is_success, answer.text
    return str(answer.json()["channel"])


async def _start(built_in: BuiltInStage, agui: AguiServer, channels: dict[str, str], replies: str) -> None:
    """Starts the coordinator with an agent for each direct message."""
    await built_in.start_model()
    path = built_in.processes.folder / "swarm.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["agents"]["remote"] = {"streams": {"url": agui.url, "suggested_prompts": [PROMPT]}}
    settings["leases"] = {"seconds": 15}
    settings["channels"] = {channel: {"agent": name, "dm_replies": replies} for name, channel in channels.items()}
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    await built_in.stage.start_coordinator()


def _runs(agui: AguiServer) -> list[Request]:
    """The runs that came whole: a coordinator that is killed may leave half a request."""
    return [request for request in agui.to("/") if request.body]


def _asked(agui: AguiServer) -> list[str]:
    """The new messages of all runs of the AG-UI agent, in order: those that follow its last own message."""
    seen: list[str] = []
    for request in _runs(agui):
        for message in request.json["messages"]:
            if message["role"] == "user" and message["content"] not in seen:
                seen.append(message["content"])
    return seen


async def _opens_the_tab(direct: Direct) -> None:
    """The Messages tab greets once, and its prompts are answered beside them."""
    for _ in range(2):
        home = {"user": "alice", "app": "swarm", "tab": "messages", "channel": "general"}
        await direct.person.ask("POST", "homes", json=home)

    async def prompts() -> list[dict[str, str]]:
        found = (await direct.person.ask("GET", "assistant"))["assistants"]
        return next((one["prompts"] for one in found if one["thread_ts"] == ""), [])

    assert await wait_until(prompts, bool, within_seconds=PATIENCE) == [PROMPT]
    await direct.person.say(PROMPT["message"], channel="@swarm", user="alice")

    def is_answered(messages: list[dict[str, Any]]) -> bool:
        return messages[-1]["text"].startswith("streamed") and not messages[-1]["streaming"]

    messages = await wait_until(lambda: direct.messages("streams"), is_answered, within_seconds=PATIENCE)
    assert [one["text"] for one in messages[-3:-1]] == [GREETING.format(agent="streams"), "hello"]
    assert {one["thread_ts"] for one in messages} == {None}


@pytest.mark.parametrize("direct", ["flat"], indirect=True)
async def test_ten_messages_in_a_row_are_one_flat_conversation_over_a_restart(direct: Direct) -> None:
    begun = await direct.person.now()
    for number in range(10):
        for user in PEOPLE.values():
            await direct.person.say(f"hello {number}", channel="@swarm", user=user)
        if number == 4:
            await direct.built_in.stage.restart_coordinator()
    for agent in PEOPLE:
        messages = await direct.until_answered(agent, 10)
        wrote = [one["text"] for one in messages if one["kind"] == "user"]
        answers = [one["text"] for one in messages if one["kind"] == "bot"]
        assert wrote == [f"hello {number}" for number in range(10)]
        assert 0 < len(answers) <= 10
        assert {one["thread_ts"] for one in messages} == {None}
        assert direct.threads(agent) == [""]
    calls = [call for call in await direct.person.calls(since=begun) if call["ok"]]
    in_threads = [call for call in calls if call["args"].get("thread_ts")]
    assert [call["method"] for call in in_threads] == []
    assert not [call for call in calls if call["method"] == "chat.startStream"]
    assert len({request.json["threadId"] for request in _runs(direct.agui)}) == 1
    assert _asked(direct.agui) == [f"hello {number}" for number in range(10)]
    # A claim that was lost with the coordinator comes again when its lease ends, after newer messages.
    assert all(new == sorted(new) for new in direct.polled)
    assert sorted(text for new in direct.polled for text in new) == [f"hello {number}" for number in range(10)]
    await _opens_the_tab(direct)
    (session,) = direct.built_in.sessions().values()
    asked = "\n".join(text for role, text in zip(session.roles, session.texts, strict=True) if role == "user")
    assert [asked.count(f"hello {number}") for number in range(10)] == [1] * 10


@pytest.mark.parametrize("direct", ["thread"], indirect=True)
async def test_a_pane_greets_suggests_answers_and_is_named_once(direct: Direct) -> None:
    for agent, user in PEOPLE.items():
        pane = {"user": user, "app": "swarm", "channel": "general"}
        opened = await direct.person.ask("POST", "assistant", json=pane)
        await direct.person.ask(
            "POST", "assistant", json={**pane, "channel": "random", "thread_ts": opened["thread_ts"]}
        )
        root = opened["thread_ts"]

        async def shown(root: str = root) -> dict[str, Any]:
            found = (await direct.person.ask("GET", "assistant"))["assistants"]
            return next((one for one in found if one["thread_ts"] == root), {"prompts": [], "title": ""})

        prompts = (await wait_until(shown, lambda one: one["prompts"], within_seconds=PATIENCE))["prompts"]
        expected = (
            PROMPT if agent == "streams" else {"title": "What can you do?", "message": "What can you help me with?"}
        )
        assert prompts == [expected]
        seen = await direct.person.until(root, lambda seen: seen.answers, channel="@swarm", user=user)
        assert seen.answers == (GREETING.format(agent=agent),)
        chosen = prompts[0]["message"]
        await direct.person.say(chosen, channel="@swarm", user=user, thread=root)
        await direct.person.until(
            root,
            lambda seen: len(seen.answers) == 2 and not seen.is_growing,
            channel="@swarm",
            user=user,
            within_seconds=PATIENCE,
        )
        await direct.person.say("thanks", channel="@swarm", user=user, thread=root)
        await direct.person.until(
            root, lambda seen: len(seen.answers) == 3, channel="@swarm", user=user, within_seconds=PATIENCE
        )
        assert (await shown())["title"] == chosen
        assert sorted(direct.threads(agent)) == [root]
    calls = [call for call in await direct.person.calls() if "title" in call["args"] and call["ok"]]
    assert sorted(json.dumps(call["args"]["title"]) for call in calls if call["args"]["title"]) == sorted(
        json.dumps(text) for text in (PROMPT["message"], *["What can you help me with?"] * 2)
    )


@pytest.mark.parametrize("direct", ["thread"], indirect=True)
async def test_people_see_that_a_polling_agent_works_over_a_kill_of_the_coordinator(direct: Direct) -> None:
    direct.may_answer.clear()
    ts = await direct.person.say("take your time", channel="@swarm", user=PEOPLE["polls"])

    async def session() -> str | None:
        shown = (await direct.person.ask("GET", "assistant"))["assistants"]
        return next((one["session"] for one in shown if one["thread_ts"] == ts), None)

    await wait_until(session, lambda state: state == "processing", within_seconds=PATIENCE)
    direct.built_in.stage.kill_coordinator()
    direct.may_answer.set()
    await direct.built_in.stage.start_coordinator()
    await direct.until_answered("polls", 1)
    await wait_until(session, lambda state: state == "active", within_seconds=PATIENCE)
