"""Decisions of people while their coordinator is killed: nothing is lost, and nothing approved happens twice unasked.

Real processes: the twin, the coordinator, and an AG-UI agent over HTTP that counts what it does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from swarm.domain.requests.button_actions import DROP_ACTION, RETRY_RUN_ACTION
from tests.crash.scene import both_engines
from tests.support.caipe import Caipe, Shape
from tests.support.deleter import Deleter
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.providers import openai_server
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Reply, Say
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, Conversation, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(240), pytest.mark.req("HITL-03", "HITL-06")]

CARD = "delete `"
WRITE = "write `notes.txt`"

SETTINGS = """
slack: {{pace: false}}
agents:
  remote:
    ada: {{url: '{ada}/'}}
    old: {{url: '{old}', dialect: caipe, agent_id: agent-17}}
    present: {{url: '{present}', dialect: caipe, agent_id: agent-17, resume: data}}
  builtin:
    helper: {{kind: assistant, role: worker, tools: [file-write], approve: [file-write]}}
model: {{name: gpt-5-mini, check_at_start: false}}
providers: {{openai: {{base_url: '{model}', api_key: not-needed}}}}
tools: {{work_tree: '{tree}'}}
"""


@dataclass
class Scene:
    """A twin, a coordinator with one agent, and people."""

    stage: Stage
    twin: TwinClient
    agent: Deleter
    services: dict[str, Caipe]
    tree: Path
    operator: Visitor

    async def asked(self, cards: int = 1) -> str:
        """Somebody asks, and the agent wants to delete: the thread, once its cards are shown."""
        ts = await self.twin.say("swarm#ada delete it")
        await self.cards(ts, cards)
        return ts

    async def cards(self, ts: str, count: int = 1, text: str = "", title: str = CARD) -> list[dict[str, Any]]:
        async def look() -> list[dict[str, Any]]:
            found = [one for one in await self.twin.messages(thread_ts=ts) if title in one["text"]]
            return [one for one in found if text in str(one) and "✋" in one["text"]]

        return await wait_until(look, lambda found: len(found) == count, within_seconds=40, what=f"{count} cards")

    async def press(self, ts: str, decision: str = "approve", *, user: str = "alice", card: int = 0) -> None:
        under = (await self.cards(ts, self.agent.asks))[card]["ts"]
        action = f"request_decide:{decision}"
        pressed = {"user": user, "channel": "general", "ts": under, "action_id": action}
        assert (await self.twin.ask("POST", "actions", json=pressed))["ok"]

    async def answered(self, ts: str, text: str) -> None:
        def is_over(seen: Conversation) -> bool:
            return ANSWERED in seen.emoji and not seen.is_growing and any(text in answer for answer in seen.answers)

        seen = await self.twin.until(ts, is_over, within_seconds=60)
        assert sum(text in answer for answer in seen.answers) == 1, seen


@pytest.fixture
def database(request: pytest.FixtureRequest, engine: str) -> Iterator[str | Path]:
    if engine == "sqlite":
        yield request.getfixturevalue("migrated_sqlite")
    else:
        url, migrated = request.getfixturevalue("postgres_server_url"), request.getfixturevalue("migrated_postgres")
        with fresh_database(url, migrated) as fresh:
            yield fresh


def _model(request: Request) -> Reply:
    """Writes into a file what it is asked to, and tells what the tool says."""
    if request.results:
        return Say(f"The tool says: {request.results[-1]}")
    return Call("file-write", {"path": "notes.txt", "content": "once\n", "append": True})


@pytest.fixture
def rules() -> str:
    """More settings."""
    return ""


@pytest.fixture
async def scene(
    database: str | Path, rules: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    agent, services = Deleter(), {"old": Caipe(Shape.OLD), "present": Caipe(Shape.PRESENT)}
    tree = tmp_path_factory.mktemp("tree")
    async with contextlib.AsyncExitStack() as stack:
        urls = {name: await stack.enter_async_context(serving(one.app())) for name, one in services.items()}
        urls["ada"] = await stack.enter_async_context(serving(agent.app()))
        urls["model"] = (await stack.enter_async_context(openai_server(_model))).base_url
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        if isinstance(database, Path):
            stage.use_sqlite(database)
        else:
            stage.use_postgres(database)
        (tmp_path / "swarm.yaml").write_text(SETTINGS.format(tree=tree, **urls) + rules)
        http = await stack.enter_async_context(http_client(timeout=30))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        await _agent_is_known(stage, http)
        twin, operator = stage.person(http), stage.visitor(http)
        yield Scene(stage=stage, twin=twin, agent=agent, services=services, tree=tree, operator=operator)


@both_engines
async def test_what_people_decide_survives_kills_at_each_step_and_happens_once(scene: Scene) -> None:
    # Killed while the card is open.
    ts = await scene.asked()
    await scene.stage.restart_coordinator()
    await scene.press(ts)
    await scene.answered(ts, "Done: 0.txt is gone.")
    await scene.cards(ts, 1, "Approved by")
    assert scene.agent.deleted == ["0.txt"]

    # Killed between the decision and the resume.
    ts = await scene.asked()
    await scene.press(ts)
    await scene.stage.restart_coordinator()
    await wait_until(lambda: _is_over(scene, ts), within_seconds=60, what="it went on, or says why not")
    assert scene.agent.deleted.count("0.txt") == 2
    if not await _is_answered(scene, ts):  # the agent had begun, so only a person may repeat it
        assert "may have begun" in str(await scene.twin.messages(thread_ts=ts))

    # Killed in the middle of the resumed run.
    scene.agent.holds = asyncio.Event()
    done = len(scene.agent.deleted)
    ts = await scene.asked()
    await scene.press(ts)
    await wait_until(lambda: _count(scene, done + 1), what="the agent has acted")
    await scene.stage.restart_coordinator()
    await scene.twin.until(ts, lambda seen: any("may have begun" in one for one in seen.answers), within_seconds=60)
    assert len(scene.agent.deleted) == done + 1
    scene.agent.holds.set()
    scene.agent.holds = None
    await scene.twin.press(ts, "may have begun", RETRY_RUN_ACTION)
    await scene.answered(ts, "Done: 0.txt is gone.")
    assert len(scene.agent.deleted) == done + 2
    first, again = [run.resume for run in scene.agent.runs[-2:]]
    assert first == again


@both_engines
@pytest.mark.req("HITL-01", "HITL-02", "STREAM-01")
async def test_every_asker_continues_once_with_what_was_decided_after_a_kill(scene: Scene) -> None:
    """Built in, CAIPE's service in both shapes, and polling; for AG-UI see above."""
    token = await scene.stage.register(scene.operator.http, "lea")
    lea = scene.stage.visitor(scene.operator.http, token)
    assert await lea.poll() == []
    built_in = await scene.twin.say("swarm#helper write it")
    approved = await scene.twin.say("swarm#present delete a.txt")
    filled = await scene.twin.say("swarm#old form")
    polled = await scene.twin.say("swarm#lea may you?")
    (trigger,) = await lea.poll(wait_seconds=20)
    asked = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "title": "May I use delete?"}
    request = await lea.uses("request-human-input", lease=trigger["lease"]["token"], **asked)
    cards = {
        ts: await scene.cards(ts, title=title)
        for ts, title in ((built_in, WRITE), (approved, CARD), (polled, "May I use delete?"))
    }
    await scene.cards(filled, title="✋")
    assert scene.services["present"].ran == []

    await scene.stage.restart_coordinator()
    for (card,) in cards.values():
        pressed = {"user": "alice", "channel": "general", "ts": card["ts"], "action_id": "request_decide:approve"}
        assert (await scene.twin.ask("POST", "actions", json=pressed))["ok"]
    (form,) = (await scene.operator.get("/requests?status=open"))["requests"]
    values = {"decision": "answer", "values": {"repo": "a/b", "where": ["eu"]}}
    await scene.operator.post(f"/requests/{form['id']}/decide", values)

    (again,) = [one for one in await lea.poll(wait_seconds=20) if one["kind"] == "slack_inbox_message"]
    assert [(one["id"], one["status"]) for one in again["requests"]] == [(request["id"], "approved")]
    answer = {"inbox_message_id": again["inbox_messages"][0]["id"], "message": "I did."}
    await lea.uses("slack-reply", lease=again["lease"]["token"], **answer)
    for ts in (built_in, approved, filled, polled):
        await scene.twin.until(ts, lambda seen: ANSWERED in seen.emoji and not seen.is_growing, within_seconds=60)
    assert (scene.tree / "notes.txt").read_text() == "once\n"
    assert scene.services["present"].ran == [{"path": "a.txt"}]
    assert ["form_data" in body for body in scene.services["old"].bodies] == [False, True]
    await wait_until(lambda: _all_accepted(scene), what="all decisions have been received")


@both_engines
@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("rules", ["decisions: [{not_requester: true}]\n"])
async def test_a_bystander_gets_nobody_around_four_eyes_whoever_asks_and_whatever_is_killed(scene: Scene) -> None:
    begun = [
        (await scene.twin.say("swarm#ada delete it"), CARD),
        (await scene.twin.say("swarm#present delete a.txt"), CARD),
        (await scene.twin.say("swarm#helper write it"), WRITE),
    ]
    cards = {ts: (await scene.cards(ts, title=title))[0]["ts"] for ts, title in begun}
    for ts in cards:
        await scene.twin.say("interesting", user="bob", thread=ts)
    await wait_until(partial(_whispers, scene, "reads your message once", 3), what="bob is told in each thread")
    await scene.stage.restart_coordinator()
    for card in cards.values():
        assert (await scene.twin.ask("POST", "actions", json=_pressed(card, "alice")))["ok"]
    await wait_until(partial(_whispers, scene, "somebody else has to decide", 1), what="alice is refused")
    opened = (await scene.operator.get("/requests?status=open"))["requests"]
    assert [[one["id"] for one in request["requesters"]] for request in opened] == [[opened[0]["requester"]["id"]]] * 3
    assert (len(scene.agent.runs), scene.services["present"].ran) == (1, [])

    for card in cards.values():
        assert (await scene.twin.ask("POST", "actions", json=_pressed(card, "carol")))["ok"]
    for ts, title in begun[::2]:  # they ask bob's own question next
        await scene.cards(ts, 2, title=title)
    await scene.twin.until(begun[1][0], lambda seen: any("you say: interesting" in one for one in seen.answers))
    assert [bool(run.resume) for run in scene.agent.runs] == [False, True, False]
    bodies = scene.services["present"].bodies
    assert ["resume_data" in body for body in bodies] == [False, True, False]
    assert (scene.agent.deleted, scene.services["present"].ran) == (["0.txt"], [{"path": "a.txt"}])
    assert (scene.tree / "notes.txt").read_text() == "once\n"


@pytest.mark.req("HITL-09")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_what_is_dropped_reaches_every_asker_as_dismissed_before_the_messages_that_waited(scene: Scene) -> None:
    begun = [
        (await scene.twin.say("swarm#ada delete it"), CARD),
        (await scene.twin.say("swarm#present delete a.txt"), CARD),
    ]
    for ts, title in begun:
        await scene.cards(ts, title=title)
        await scene.twin.say("never mind", thread=ts)
    threads = [ts for ts, _ in begun]
    whispers = await wait_until(partial(_private, scene, threads), what="alice may drop them")
    for whisper in whispers:
        pressed = {"user": "alice", "channel": "general", "ts": whisper["ts"], "action_id": DROP_ACTION}
        assert (await scene.twin.ask("POST", "actions", json=pressed))["ok"]
    await scene.twin.until(threads[1], lambda seen: any("you say: never mind" in one for one in seen.answers))
    await wait_until(lambda: _has_run(scene, 3), what="ada has the message")
    assert [entry.status for entry in scene.agent.runs[1].resume or ()] == ["cancelled"]
    assert [bool(run.resume) for run in scene.agent.runs] == [False, True, False]
    bodies = scene.services["present"].bodies
    assert ["resume_data" in body for body in bodies] == [False, True, False]
    assert '"decision":"reject"' in bodies[1]["resume_data"]
    assert (scene.agent.deleted, scene.services["present"].ran) == ([], [])


@pytest.mark.req("HITL-02", "HITL-04", "HITL-05", "HITL-08")
async def test_several_cards_are_decided_by_who_may_and_resumed_together(scene: Scene) -> None:
    scene.agent.asks = 3
    ts = await scene.asked(3)
    await scene.press(ts, user="bob")
    (whisper,) = await wait_until(lambda: scene.twin.calls("chat.postEphemeral"), what="bob is told")
    assert "can decide this." in whisper["args"]["text"]
    twice = await asyncio.gather(scene.press(ts), scene.press(ts), return_exceptions=True)
    assert None in twice  # the second may find no button any more
    await scene.press(ts, "reject", card=1)
    await scene.cards(ts, 1, "2 of 3")
    listed = (await scene.operator.get("/requests?status=open"))["requests"]
    assert len(scene.agent.runs) == len(listed) == 1
    edited = {"decision": "edit", "arguments": {"path": "other.txt"}, "as": listed[0]["requester"]["id"]}
    await scene.operator.post(f"/requests/{listed[0]['id']}/decide", edited)
    await scene.answered(ts, "Done: 0.txt is gone, kept, because: A person has rejected this call., other.txt is gone.")
    assert scene.agent.deleted == ["0.txt", "other.txt"]
    assert len(scene.agent.runs) == 2
    audit = (await scene.operator.get("/audit"))["audit"]
    assert [line["kind"] for line in audit].count("decided") == 3
    assert [line["outcome"] for line in audit if line["kind"] == "refused"] != []
    await scene.cards(ts, 1, "Approved with changed arguments")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_a_decision_at_one_process_is_carried_out_whichever_process_is_killed(
    scene: Scene, tmp_path: Path
) -> None:
    other = Stage(scene.stage.processes, dict(scene.stage.settings), twin_port=scene.stage.twin_port)
    other.settings["SWARM_HOME"] = str(tmp_path / "home-2")
    await other.start_coordinator()
    at_other = Visitor(base=other.base, token=scene.operator.token, http=scene.operator.http)
    for killed in (scene.stage, other):
        ts = await scene.asked()
        (request,) = (await at_other.get("/requests?status=open"))["requests"]
        wishes = [at_other, scene.operator, at_other, scene.operator]
        answers = await asyncio.gather(
            *(one.ask("POST", f"/requests/{request['id']}/decide", json={"decision": "approve"}) for one in wishes)
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        done = len(scene.agent.deleted)
        killed.kill_coordinator()
        at_other = scene.operator if killed is other else at_other
        await wait_until(partial(_is_over, scene, ts), within_seconds=90, what="it went on, or says why not")
        assert len(scene.agent.deleted) <= done + 1
        await killed.start_coordinator()
        at_other = Visitor(base=other.base, token=scene.operator.token, http=scene.operator.http)
    assert 1 <= len(scene.agent.deleted) <= 2


def _pressed(card: str, user: str) -> dict[str, str]:
    return {"user": user, "channel": "general", "ts": card, "action_id": "request_decide:approve"}


async def _has_run(scene: Scene, count: int) -> bool:
    return len(scene.agent.runs) >= count


async def _private(scene: Scene, threads: list[str]) -> list[dict[str, Any]]:
    """What only alice sees with the button in these threads, once it is there in each."""
    seen = [one for ts in threads for one in await scene.twin.messages(thread_ts=ts, user="alice")]
    found = [one for one in seen if one["subtype"] == "ephemeral" and DROP_ACTION in str(one["blocks"])]
    return found if len(found) == len(threads) else []


async def _whispers(scene: Scene, text: str, count: int) -> bool:
    """Whether so many texts were shown to one person only."""
    calls = await scene.twin.calls("chat.postEphemeral", ok=True)
    return sum(text in call["args"]["text"] for call in calls) >= count


async def _agent_is_known(stage: Stage, http: httpx2.AsyncClient) -> None:
    async def look() -> bool:
        known = (await stage.visitor(http).get("/agents"))["agents"]
        return all(agent["last_seen_at"] for agent in known) and len(known) == 4

    await wait_until(look, what="the agent is there")


async def _all_accepted(scene: Scene) -> bool:
    return {one["resume"] for one in (await scene.operator.get("/requests"))["requests"]} == {"accepted"}


async def _count(scene: Scene, count: int) -> bool:
    return len(scene.agent.deleted) >= count


async def _is_answered(scene: Scene, ts: str) -> bool:
    return ANSWERED in (await scene.twin.conversation(ts)).emoji


async def _is_over(scene: Scene, ts: str) -> bool:
    seen = await scene.twin.conversation(ts)
    return not seen.is_growing and (ANSWERED in seen.emoji or "x" in seen.emoji)
