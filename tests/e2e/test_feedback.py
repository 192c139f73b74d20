"""Feedback from end to end: the twin, a coordinator as a process, agents, and services that get the feedback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx2
import pytest
import yaml

from swarm.domain.model.feedback import INSTRUCTIONS, Reason
from swarm.domain.requests.button_actions import ESCALATE_ACTION, FEEDBACK_ACTION, REASON_ACTION
from swarm.services.runs.feedback import NOTED_TEXT, THANKS_TEXT, UNDER_WAY_TEXT
from tests.support.agui_server import AguiServer, Request, agui_server, answering
from tests.support.doors import Visitor
from tests.support.processes import Processes
from tests.support.services import OtherService, other_service
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("CHAN-05", "STREAM-12")

LANGFUSE_KEYS = {"public_key": "pk-of-the-tests", "secret_key": "sk-of-the-tests"}
SECRET = "a-secret-of-the-tests"


class Scene:
    """Everything that runs, and a person who rates answers."""

    def __init__(self, stage: Stage, http: httpx2.AsyncClient) -> None:
        self.stage = stage
        self.http = http
        self.langfuse, self.caipe, self.hook = OtherService(), OtherService(), OtherService()
        self.agui = AguiServer()

    @property
    def person(self) -> TwinClient:
        return self.stage.person(self.http)

    @property
    def operator(self) -> Visitor:
        return self.stage.visitor(self.http)

    async def open(self, services: AsyncExitStack) -> None:
        self.langfuse, self.caipe, self.hook = [await services.enter_async_context(other_service()) for _ in range(3)]
        self.agui = await services.enter_async_context(agui_server())
        self.agui.on("/", *answering("Hello from the service."))
        settings = {
            "agents": {"remote": {"docs": {"url": f"{self.agui.url}/", "footer": "ask #docs for more"}}},
            "channel_defaults": {"escalation": {"users": ["U000BOB"]}},
            "feedback": {
                "langfuse": {"url": self.langfuse.base, **LANGFUSE_KEYS},
                "caipe_url": self.caipe.base,
                "webhook": {"url": self.hook.base, "secret": SECRET},
            },
        }
        (self.stage.processes.folder / "swarm.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        await self.stage.start_twin(rates=False)
        await self.stage.start_coordinator()

    async def asked(self, count: int = 1) -> Request:
        """The last of so many runs of the service."""

        async def look() -> list[Request]:
            return [request for request in self.agui.to("/") if request.method == "POST"]

        return (await wait_until(look, lambda runs: len(runs) >= count))[count - 1]

    async def agent(self, name: str, role: str = "lead") -> Visitor:
        """A polling agent that is there."""
        added = await self.operator.post("/agents", {"name": name, "role": role})
        agent = self.stage.visitor(self.http, str(added["token"]))
        assert await agent.poll() == []
        return agent

    async def rated(self, root: str, count: int = 1) -> list[dict[str, Any]]:
        """The messages of a thread with 👍 and 👎, once there are so many."""

        async def look() -> list[dict[str, Any]]:
            replies = await self.person.messages(thread_ts=root)
            return [reply for reply in replies if "context_actions" in kinds(reply)]

        return await wait_until(look, lambda found: len(found) >= count)

    async def act(self, ts: str, action_id: str, value: str | None = None) -> dict[str, Any]:
        """Alice presses a button in a message."""
        pressed = {"user": "alice", "channel": "general", "ts": ts, "action_id": action_id, "wait_seconds": 2}
        done: dict[str, Any] = await self.person.ask(
            "POST", "actions", json=pressed | ({"value": value} if value else {})
        )
        assert done["ok"]
        return done

    async def thumb(self, message: dict[str, Any], way: str) -> None:
        (block,) = [block for block in message["blocks"] if block["type"] == "context_actions"]
        button = block["elements"][0]["negative_button" if way == "down" else "positive_button"]
        await self.act(message["ts"], FEEDBACK_ACTION, button["value"])

    async def shown(self) -> dict[str, Any]:
        """The last message that only Alice sees."""
        seen = await self.person.messages(user="alice")
        return dict([message for message in seen if message.get("subtype") == "ephemeral"][-1])

    async def because(self, reason: Reason) -> str:
        """Alice chooses a reason; the text that replaces the choice."""
        choice = await self.shown()
        await self.act(choice["ts"], REASON_ACTION + reason)
        replaced = await self.shown()
        assert replaced["ts"] == choice["ts"], "the choice is replaced"
        return str(replaced["text"])


def kinds(message: dict[str, Any]) -> list[str]:
    return [block["type"] for block in message["blocks"]]


def footer(message: dict[str, Any]) -> str:
    (block,) = [block for block in message["blocks"] if block["type"] == "context"]
    return str(block["elements"][0]["text"])


@pytest.fixture
async def scene(processes: Processes, http: httpx2.AsyncClient) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as services:
        scene = Scene(Stage(processes), http)
        await scene.open(services)
        yield scene


async def test_an_answer_of_a_polling_agent_is_rated_explained_forwarded_and_given_anew(scene: Scene) -> None:
    desk = await scene.agent("desk")
    scene.langfuse.answers = [(500, {})]
    root = await scene.person.say("swarm#desk how many?")
    (trigger,) = await desk.poll(wait_seconds=30)
    message_id = trigger["inbox_messages"][0]["id"]
    assert trigger["instruction"] is None
    await desk.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=message_id, message="42")
    (first,) = await scene.rated(root)
    assert kinds(first) == ["markdown", "context", "context_actions"]
    assert footer(first) == "desk · asked by <@U000ALICE> · Reply in this thread to continue"

    # 👎, the choice, the form, and what is stored of it
    await scene.thumb(first, "down")
    choice = await scene.shown()
    labels = [button["text"]["text"] for button in choice["blocks"][-1]["elements"]]
    assert labels == ["More detail", "Briefer", "Wrong answer", "Other…", "Get help"]
    assert choice["blocks"][-1]["elements"][-1]["action_id"] == ESCALATE_ACTION
    opened = await scene.act(choice["ts"], REASON_ACTION + Reason.OTHER)
    sent = {"user": "alice", "view_id": opened["view"]["id"], "submit": True, "wait_seconds": 0}
    entered = {"feedback_comment": "It is <b>43</b>."}
    assert (await scene.person.ask("POST", "actions", json=sent | {"state": entered}))["ok"]
    replaced = await scene.shown()
    assert (replaced["ts"], replaced["text"]) == (choice["ts"], NOTED_TEXT)
    found = await scene.operator.get("/feedback?agent=desk")
    assert found["counts"] == [{"agent": "desk", "value": "down", "reason": "other", "count": 1}]
    (given,) = found["feedback"]
    assert (given["comment"], given["user_id"], given["run_id"]) == ("It is <b>43</b>.", "U000ALICE", None)
    assert given["message_ts"] == first["ts"]

    # Three services get it, of which one failed at first, and a power cut changes nothing
    scene.stage.kill_coordinator()
    await scene.stage.start_coordinator()
    for service in (scene.langfuse, scene.caipe, scene.hook):
        # A call that was under way when the coordinator was killed is repeated after half a minute.
        await wait_until(partial(last, service), lambda body: "43" in str(body), within_seconds=60)
    assert scene.langfuse.calls[-1].path == "/api/public/scores"
    assert scene.langfuse.calls[-1].body["sessionId"] == given["conversation_id"]
    assert scene.caipe.calls[-1].path == "/api/feedback"
    assert scene.caipe.calls[-1].body["messageId"] == first["ts"]
    assert scene.hook.calls[-1].headers["webhook-signature"].startswith("v1,")

    # More detail: the agent gets the message again, with the instruction
    desk = scene.stage.visitor(scene.http, desk.token)
    await scene.thumb(first, "down")
    assert "answered again" in await scene.because(Reason.MORE_DETAIL)
    await scene.thumb(first, "down")
    assert await scene.because(Reason.BRIEFER) == UNDER_WAY_TEXT
    (again,) = await desk.poll(wait_seconds=30)
    assert again["inbox_messages"][0]["id"] == message_id
    assert again["instruction"] == INSTRUCTIONS[Reason.MORE_DETAIL]
    assert again["instruction"] in again["prompt"]
    await desk.uses("slack-reply", again["lease"]["token"], inbox_message_id=message_id, message="42: forty-two")
    _, second = await scene.rated(root, 2)
    assert "forty-two" in second["text"]

    # A change of mind replaces the reason, also there
    await scene.thumb(first, "up")
    assert (await scene.shown())["text"] == THANKS_TEXT
    score = await wait_until(lambda: last(scene.langfuse), lambda body: body["value"] == 1)
    assert (score["id"], score["comment"]) == (given["id"], None)
    explained = await scene.operator.get(f"/explain?message=C0GENERAL:{root}")
    (entry,) = explained["entries"]
    (rerun,) = [step for step in entry["timeline"] if step["change"] == "inbox.rerun"]
    assert rerun["reason"] == "more detail, for <@U000ALICE>"


async def last(service: OtherService) -> Any:
    """The body of the last call of a service."""
    return service.calls[-1].body if service.calls else {}


async def test_an_answer_of_a_service_is_rated_and_given_anew_with_the_instruction(scene: Scene) -> None:
    root = await scene.person.say("swarm#docs what is new?")
    (first,) = await scene.rated(root)
    assert footer(first).endswith(" · ask #docs for more")
    asked = await scene.asked()
    await scene.thumb(first, "down")
    assert "answered again" in await scene.because(Reason.BRIEFER)
    again = await scene.asked(2)
    newest = again.json["messages"][-1]["content"]
    assert newest == f"{INSTRUCTIONS[Reason.BRIEFER]}\n\nswarm#docs what is new?"
    assert INSTRUCTIONS[Reason.BRIEFER] not in str(asked.json)
    assert len(await scene.rated(root, 2)) == 2
    score = await wait_until(lambda: last(scene.langfuse), lambda body: body.get("comment") == "briefer")
    (given,) = (await scene.operator.get("/feedback"))["feedback"]
    assert given["run_id"] == given["answer_id"]
    assert asked.json["forwardedProps"]["trace_id"] == score["traceId"] == given["trace_id"]
    body = await wait_until(lambda: last(scene.caipe), lambda body: body.get("value") == "too_verbose")
    assert (body["feedbackType"], body["traceId"]) == ("dislike", given["trace_id"])


async def test_the_result_of_a_task_is_rated(scene: Scene) -> None:
    desk, clerk = await scene.agent("desk"), await scene.agent("clerk", "worker")
    root = await scene.person.say("swarm#desk count the lines")
    (trigger,) = await desk.poll(wait_seconds=30)
    message_id = trigger["inbox_messages"][0]["id"]
    token = trigger["lease"]["token"]
    await desk.uses("inbox-delegate", token, inbox_message_id=message_id, agent="clerk", title="Count", task="All.")
    await desk.uses("slack-reply", token, inbox_message_id=message_id, message="The clerk counts.")
    (task,) = await clerk.poll(wait_seconds=30)
    done = {"task_id": task["task"]["id"], "result": "42", "reply": "There are 42 lines."}
    await clerk.uses("task-complete", task["lease"]["token"], **done)
    (rated,) = await scene.rated(root)
    assert "There are 42 lines." in rated["text"]
    assert footer(rated).startswith("clerk · asked by <@U000ALICE>")
    await scene.thumb(rated, "down")
    assert await scene.because(Reason.WRONG_ANSWER) == NOTED_TEXT
    assert (await scene.operator.get("/feedback"))["counts"] == [
        {"agent": "clerk", "value": "down", "reason": "wrong_answer", "count": 1}
    ]
