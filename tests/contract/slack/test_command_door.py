"""Slash commands and Home tabs in Slack, against the twin. The use cases behind are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.applications import Starlette

from swarm.domain.commands import (
    AgentCard,
    AgentList,
    CommandAnswer,
    CommandHelp,
    CommandRefused,
    DecisionWanted,
    Explanation,
    HomeContent,
    HomeOpened,
    OpenWork,
    RemarkStored,
    RemarkSubmitted,
    RemarkWanted,
    SlashCommand,
    StopChoice,
    WorkList,
    WorkState,
)
from swarm.domain.errors import Unavailable
from swarm.domain.model.agents import Load, Role
from swarm.domain.requests.button_actions import REMARK_FORM
from swarm.entrypoints.slack.commands import FAILED_TEXT, NOT_OPENED_TEXT, CommandDoor
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.slack.outgoing import modals
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.scripted import ScriptedSlack
from tests.contract.slack.test_http_door import SECRET, KnownGateway, signed
from tests.contract.slack.workspace import Workspace

pytestmark = pytest.mark.req("CHAN-08")

ALICE: Final = "U000ALICE"
HELP: Final = CommandHelp(command="/swarm")
BOUND_SECONDS: Final = 20
NASTY: Final = "Pings <!channel> and <@U000BOB>, *boldly*"


class FakeCommands:
    """Gives one answer to every command; can be told to fail or to wait."""

    def __init__(self) -> None:
        self.answers: CommandAnswer = HELP
        self.failure: Exception | None = None
        self.seen: list[SlashCommand] = []
        self.remarks: list[RemarkSubmitted] = []
        self.opened: list[HomeOpened] = []
        self.open = asyncio.Event()
        self.open.set()

    async def answer(self, command: SlashCommand) -> CommandAnswer:
        self.seen.append(command)
        await self.open.wait()
        if self.failure:
            raise self.failure
        return self.answers

    async def remark(self, submitted: RemarkSubmitted) -> CommandRefused | RemarkStored:
        self.remarks.append(submitted)
        if self.failure:
            raise self.failure
        return RemarkStored()


class FakeHomes:
    """Notes the opened tabs."""

    def __init__(self) -> None:
        self.tabs: asyncio.Queue[HomeOpened] = asyncio.Queue()

    def opened(self, opened: HomeOpened) -> None:
        self.tabs.put_nowait(opened)


class Scene:
    """The door over Socket Mode, and people in the twin."""

    def __init__(self, workspace: Workspace, gateway: Gateway) -> None:
        self.workspace = workspace
        self.gateway = gateway
        self.commands = FakeCommands()
        self.homes = FakeHomes()
        self.door = CommandDoor(gateway, self.commands, self.homes)

    async def types(self, text: str = "", *, channel: str = "general", **more: Any) -> dict[str, Any]:
        command = {"user": "alice", "channel": channel, "command": "/swarm", "text": text, "wait_seconds": 0}
        return await self.workspace._post("commands", command | more)

    async def sees(self, user: str = "alice", channel: str = "general") -> list[dict[str, Any]]:
        return list((await self.workspace._get("messages", {"channel": channel, "user": user}))["messages"])

    async def views(self) -> list[dict[str, Any]]:
        return list((await self.workspace._get("views", {"user": "alice"}))["views"])

    async def until(self, met: Callable[[], Awaitable[Any]]) -> Any:
        async with asyncio.timeout(BOUND_SECONDS):
            while not (found := await met()):
                await asyncio.sleep(0.005)
            return found


@pytest.fixture
async def scene(workspace: Workspace, gateway: Gateway) -> AsyncIterator[Scene]:
    scene = Scene(workspace, gateway)
    entry = SlackEntryPoint(gateway, _ignored, commands=scene.door, app_token=workspace.app.app_token)
    await entry.start()
    yield scene
    await entry.close()


async def _ignored(event: object) -> None:
    return None


def work(title: str = "Count", **more: Any) -> OpenWork:
    values: dict[str, Any] = {
        "thread_id": "t1",
        "channel": "C0GENERAL",
        "thread_ts": "1700000000.000100",
        "link": "http://twin.test/archives/C0GENERAL/p1700000000000100",
        "title": title,
        "state": WorkState.RUNNING,
        "agent": "counter",
        "since": 1_700_000_000_000_000,
        "requester": ALICE,
        "task_id": "task1",
    }
    return OpenWork(**values | more)


def card(name: str = "counter", description: str = "", **more: Any) -> AgentCard:
    values: dict[str, Any] = {"role": Role.WORKER, "online": True, "load": Load(running=1, open_tasks=2), **more}
    return AgentCard(name=name, description=description, **values)


# --- Commands


async def test_a_command_is_answered_in_its_acknowledgement_only_to_the_person(scene: Scene) -> None:
    assert await scene.types("Status now") == {"ok": True}
    (command,) = scene.commands.seen
    assert (command.command, command.word, command.argument) == ("/swarm", "status", "now")
    assert (command.user_id, command.channel) == (ALICE, "C0GENERAL")
    (shown,) = await scene.sees()
    assert (shown["subtype"], shown["text"].splitlines()[0]) == ("ephemeral", "*What you can do*")
    assert await scene.sees("bob") == []
    assert [call["method"] for call in await scene.workspace.all_calls()] == ["auth.test", "apps.connections.open"]


async def test_an_answer_that_takes_long_comes_after_the_acknowledgement(scene: Scene) -> None:
    scene.door._ack_seconds = 0.01
    scene.commands.open.clear()
    assert await scene.types("help") == {"ok": True}
    assert await scene.sees() == []
    scene.commands.open.set()
    (shown,) = await scene.until(scene.sees)
    assert shown["subtype"] == "ephemeral"
    assert await scene.sees("bob") == []


@pytest.mark.parametrize(("status", "calls"), [(200, 1), (429, modals.RESPONSE_ATTEMPTS), (404, 1), (500, 1)])
async def test_a_late_answer_is_repeated_only_while_slack_has_not_taken_it(
    scripted: Gateway, script: ScriptedSlack, monkeypatch: pytest.MonkeyPatch, status: int, calls: int
) -> None:
    monkeypatch.setattr(modals, "RESPONSE_PAUSE_SECONDS", 0.0)
    script.answers["response"] = status
    message = {"response_type": "ephemeral", "text": "x"}
    assert await scripted.personal.respond(f"{scripted.client.base_url}response", message) is (status == 200)
    assert script.calls == [("response", message)] * calls


async def test_a_late_answer_to_a_slack_out_of_reach_fails_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modals, "RESPONSE_PAUSE_SECONDS", 0.0)
    gateway = KnownGateway()  # nothing listens there
    assert not await gateway.personal.respond(f"{gateway.client.base_url}response", {"text": "x"})
    await gateway.close()


@pytest.mark.parametrize("url", ["https://evil.example/commands/1", "http://hooks.slack.com/x", "file:///etc/passwd"])
async def test_an_answer_goes_to_slack_and_to_nobody_else(gateway: Gateway, url: str) -> None:
    assert not await gateway.personal.respond(url, {"text": "x"})
    assert not await gateway.replace_ephemeral(url, "x")
    assert gateway.client.session is None  # no connection was tried


@pytest.mark.parametrize("failure", [Unavailable("The database is gone."), RuntimeError("a bug")])
async def test_a_command_that_fails_says_so(scene: Scene, failure: Exception) -> None:
    scene.commands.failure = failure
    assert await scene.types("status") == {"ok": True}
    assert [shown["text"] for shown in await scene.sees()] == [FAILED_TEXT]


async def test_lists_are_accepted_by_slack_however_long_they_are(scene: Scene) -> None:
    many = tuple(work(f"{number} {'x' * 500}", task_id=f"t{number}") for number in range(200))
    for answer in (
        WorkList(own=many, others=many, channel="C0GENERAL"),
        StopChoice(work=many),
        AgentList(agents=tuple(card(f"a{number}", "x" * 5_000) for number in range(500))),
        Explanation(lines=tuple("x" * 1_000 for _ in range(100))),
    ):
        scene.commands.answers = answer
        assert await scene.types("x") == {"ok": True}
    assert len(await scene.sees()) == 4


# --- Feedback


async def test_a_remark_is_entered_in_a_form(scene: Scene) -> None:
    scene.commands.answers = RemarkWanted(channel="C0GENERAL")
    assert (await scene.types("feedback", wait_seconds=10))["view"]["callback_id"] == REMARK_FORM
    assert await scene.sees() == []
    (view,) = await scene.views()
    state = {REMARK_FORM: {REMARK_FORM: "It is slow."}}
    answer = await scene.workspace.act(view_id=view["id"], submit=True, state=state)
    (remark,) = scene.commands.remarks
    assert (remark.key, remark.user_id, remark.channel) == (f"remark:{view['id']}", ALICE, "C0GENERAL")
    assert remark.text == "It is slow."
    assert "Thank you" in str(answer["view"]["blocks"])


async def test_a_remark_that_is_not_stored_stays_in_the_form(scene: Scene) -> None:
    scene.commands.answers = RemarkWanted(channel="C0GENERAL")
    await scene.types("feedback", wait_seconds=10)
    (view,) = await scene.views()
    scene.commands.failure = Unavailable("The database is gone.")
    state = {REMARK_FORM: {REMARK_FORM: "It is slow."}}
    answer = await scene.workspace.act(view_id=view["id"], submit=True, state=state)
    assert answer["errors"] == {REMARK_FORM: FAILED_TEXT}


async def test_a_form_that_cannot_be_opened_is_said(scene: Scene) -> None:
    await scene.workspace.fault("error", method="views.open", error="internal_error")
    scene.commands.answers = RemarkWanted(channel="C0GENERAL")
    await scene.types("feedback")
    assert [shown["text"] for shown in await scene.sees()] == [NOT_OPENED_TEXT]


# --- The Home tab


async def test_an_opened_home_tab_is_handed_over_and_acknowledged(scene: Scene) -> None:
    await scene.workspace._post("homes", {"user": "alice", "app": "swarm"})
    opened = await asyncio.wait_for(scene.homes.tabs.get(), BOUND_SECONDS)
    assert opened.user_id == ALICE
    assert opened.channel.startswith("D")

    async def acknowledged() -> bool:
        return all(entry["acked"] for entry in await scene.workspace.deliveries())

    await scene.until(acknowledged)


CONTENT: Final = HomeContent(
    work=(work(NASTY), work("Wait", state=WorkState.ASKING)),
    decisions=(DecisionWanted(title=NASTY, agent="lead", link="", since=1_700_000_000_000_000),),
    agents=(card(description=NASTY), card("lead", online=False)),
)


async def test_a_home_tab_is_published_for_its_person(gateway: Gateway, workspace: Workspace) -> None:
    assert await gateway.personal.publish_home(ALICE, CONTENT)
    homes = (await workspace._get("views", {"user": "alice"}))["homes"]
    drawn = str(homes["swarm"]["blocks"])
    assert all(part in drawn for part in ("Waiting for your decision", "Your open work", "swarm#counter"))
    assert "<!channel>" not in drawn
    assert (await workspace._get("views", {"user": "bob"}))["homes"] == {}


async def test_a_full_home_tab_is_accepted_and_a_refusal_stands_alone(gateway: Gateway, workspace: Workspace) -> None:
    full = replace(
        CONTENT,
        work=CONTENT.work * 100,
        decisions=CONTENT.decisions * 100,
        agents=tuple(card(f"a{number}", "x" * 5_000) for number in range(500)),
    )
    assert await gateway.personal.publish_home(ALICE, full)
    assert await gateway.personal.publish_home(ALICE, HomeContent(refused="You may not do that here."))
    homes = (await workspace._get("views", {"user": "alice"}))["homes"]
    assert [block["text"]["text"] for block in homes["swarm"]["blocks"]] == ["You may not do that here."]


@pytest.mark.parametrize("fault", [{"kind": "http_500"}, {"kind": "error", "error": "not_enabled"}])
async def test_a_home_tab_that_slack_does_not_accept_does_no_harm(
    gateway: Gateway, workspace: Workspace, fault: dict[str, str]
) -> None:
    await workspace.fault(method="views.publish", **fault)
    assert not await gateway.personal.publish_home(ALICE, CONTENT)
    assert await gateway.personal.publish_home(ALICE, CONTENT)


# --- HTTP


@pytest.mark.parametrize("secret", [SECRET, "guessed"])
@pytest.mark.req("OPS-02")
async def test_over_http_a_signed_form_is_answered_and_any_other_is_refused(secret: str) -> None:
    commands, gateway = FakeCommands(), KnownGateway()
    door = CommandDoor(gateway, commands, FakeHomes())
    entry = SlackEntryPoint(gateway, _ignored, commands=door, signing_secret=SECRET)
    body = urlencode(
        {
            "command": "/swarm",
            "text": "explain <https://a.b/c> & more",
            "user_id": "U1",
            "channel_id": "C1",
            "response_url": "https://hooks.slack.com/commands/T1/1/x",
            "trigger_id": "1.2.3",
        }
    ).encode()
    transport = httpx2.ASGITransport(app=Starlette(routes=entry.routes()))
    headers = {**signed(body, secret=secret), "content-type": "application/x-www-form-urlencoded"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post("/slack/events", content=body, headers=headers)  # type: ignore[arg-type]
    await entry.close()
    if secret != SECRET:
        assert (answer.status_code, commands.seen) == (401, [])
        return
    assert (answer.status_code, answer.json()["response_type"]) == (200, "ephemeral")
    assert commands.seen[0].argument == "<https://a.b/c> & more"
