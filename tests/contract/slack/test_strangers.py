"""Strangers through the real doors: signed HTTP and Socket Mode, Bolt, slack_sdk, the twin's users.info."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from swarm.domain.errors import NotFound
from swarm.domain.model.agents import Role
from swarm.domain.policy.channels import ChannelPolicy, External
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.button_actions import STOP_TASK_ACTION
from swarm.entrypoints.slack.request_presses import RequestDoor
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.services.intake.ingest import Ingest
from swarm.services.intake.verify import Verifier
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.runs.run_control import Buttons
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.use_cases import Services
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.names import Names
from swarm.store.bridge.database import Database
from tests.contract.slack.test_door import eventually
from tests.contract.slack.test_http_door import signed
from tests.contract.slack.workspace import Workspace
from tests.support.policies import governing

pytestmark = pytest.mark.req("CHAN-11")

SECRET = "shhh"


class Desk:
    """A coordinator's Slack side: both doors in front of the real use cases."""

    def __init__(self, database: Database, gateway: Gateway, names: Names, workspace: Workspace) -> None:
        self._database = database
        self._gateway = gateway
        self._names = names
        self._workspace = workspace

    async def open(self, operating_policy: OperatingPolicy, *, wait_seconds: float = 5) -> None:
        me = await self._gateway.identify()
        standings = Standings(self._database, self._names, me, operating_policy, wait_seconds=wait_seconds)
        ingest = Ingest(
            self._database, Rosters(self._database, operating_policy), me, operating_policy, standings, self._names
        )
        buttons = Buttons(self._database, operating_policy, standings, me)
        self.services = Services.over(
            self._database,
            self._names,
            me,
            operating_policy,
            self._gateway.files,
            groups=self._names,
            standings=standings,
        )
        self.verifier = Verifier(self._database, ingest, standings)
        self.sender = OutboxSender(self._database, self._gateway, me.team, http_timeout_seconds=5)
        app_token = self._workspace.app.app_token
        self.door = SlackEntryPoint(
            self._gateway,
            ingest.handle,
            buttons.press,
            requests=RequestDoor(self._gateway, self.services.decisions),
            app_token=app_token,
            signing_secret=SECRET,
            backoff_seconds=0.01,
        )
        await self.door.start()
        registered = await self.services.agents.register("lead", Role.LEAD)
        self.lead = registered.agent

    async def triggers(self) -> list[Any]:
        return await self.services.polls.poll(self.lead, wait_seconds=0, limit=20)

    async def post(self, event: dict[str, Any], **envelope: Any) -> int:
        """Send an event as Slack does over HTTP; the status of the answer."""
        base = {"type": "message", "channel": "C0GENERAL", "text": "<@U000SWARM> hello", "ts": "1700000000.000100"}
        sent = {"type": "event_callback", "team_id": "T0TWIN", "event_id": "Ev1", "event": base | event, **envelope}
        body = json.dumps(sent).encode()
        transport = httpx2.ASGITransport(app=Starlette(routes=self.door.routes()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            signature = {name: str(value) for name, value in signed(body, secret=SECRET).items()}
            headers = {**signature, "content-type": "application/json"}
            return (await client.post("/slack/events", content=body, headers=headers)).status_code

    async def told(self) -> list[dict[str, Any]]:
        """What single people were shown."""
        await self.sender.send_due()
        return [call["args"] for call in await self._workspace.calls("chat.postEphemeral")]

    async def decided(self, channel: str, ts: str) -> str:
        """What became of a message, once it was handled."""

        async def look() -> str:
            return await self._explained(channel, ts)

        return str(await eventually(look))

    async def _explained(self, channel: str, ts: str) -> str:
        try:
            explained = await self.services.explanations.explain(f"{channel}:{ts}")
        except NotFound:
            return ""
        return "{change}: {reason}".format(**explained["routing"][0])


@pytest.fixture
async def desk(gateway: Gateway, workspace: Workspace, sqlite_url: str) -> AsyncIterator[Desk]:
    """Not open yet. Beside the members there are a guest and the people of another workspace in #general."""
    seed = {"guests": ["gina"], "teams": [{"name": "umbrella", "users": ["eve"], "channels": ["general"]}]}
    await workspace._post("seed", seed)
    names = Names(gateway)
    async with Database(sqlite_url) as database:
        desk = Desk(database, gateway, names, workspace)
        yield desk
        if hasattr(desk, "door"):
            await desk.door.close()
    await names.close()


async def test_a_signed_event_of_another_workspace_over_http_reaches_nobody(desk: Desk) -> None:
    await desk.open(OperatingPolicy())
    foreign = {"user": "U0000EVE", "user_team": "T9", "source_team": "T9"}
    assert await desk.post(foreign, is_ext_shared_channel=True) == 200
    assert await desk.post({"user": "U000ALICE", "user_team": "T9", "ts": "1700000001.000100"}) == 200
    assert await desk.post({"user": "U0NOBODY", "ts": "1700000002.000100"}) == 200
    assert await desk.triggers() == []
    assert (await desk.decided("C0GENERAL", "1700000000.000100")).startswith("route.stranger: this person belongs to")
    assert "does not say who" in await desk.decided("C0GENERAL", "1700000002.000100")
    assert await desk.post({"user": "U000ALICE", "ts": "1700000003.000100"}) == 200
    assert len(await desk.triggers()) == 1


@pytest.mark.parametrize(
    ("user", "channel", "why"),
    [
        ("eve", "general", "belongs to another workspace"),
        ("gina", "general", "guest of the workspace"),
        ("eve", "@swarm", "belongs to another workspace"),
        ("gina", "@swarm", "guest of the workspace"),
    ],
)
async def test_strangers_over_socket_mode_reach_nobody(
    desk: Desk, workspace: Workspace, user: str, channel: str, why: str
) -> None:
    await desk.open(OperatingPolicy())
    answer = await workspace._post("messages", {"user": user, "channel": channel, "text": "swarm#lead hello"})
    decided = await desk.decided(answer["channel"], answer["ts"])
    assert decided.startswith("route.stranger")
    assert why in decided
    assert await desk.triggers() == []


async def test_a_refused_mention_is_answered_once_and_only_to_that_person(desk: Desk, workspace: Workspace) -> None:
    await desk.open(OperatingPolicy())
    for _ in range(2):
        ts = await workspace.say("@swarm hello", user="gina")
        await desk.decided("C0GENERAL", ts)
    (told,) = await desk.told()
    assert (told["user"], told["channel"], "thread_ts" in told) == ("U0000GINA", "C0GENERAL", False)
    assert "You are a guest of this workspace" in told["text"]
    assert await workspace.calls("chat.postMessage") == []


async def test_where_strangers_are_allowed_their_message_is_routed_and_marked(desk: Desk, workspace: Workspace) -> None:
    await desk.open(governing(everywhere=ChannelPolicy(external=External.ALLOW)))
    await workspace.say("@swarm hello", user="eve")
    (trigger,) = await eventually(desk.triggers)
    assert (trigger.started_by, trigger.thread_context[0].standing) == ("strangers", "external")
    assert "(person U00000EVE, of another workspace)" in trigger.prompt


async def test_a_member_is_heard_when_slack_tells_late_who_they_are(desk: Desk, workspace: Workspace) -> None:
    await desk.open(OperatingPolicy(), wait_seconds=0.05)
    await workspace.fault("http_429", method="users.info", seconds=1)
    ts = await workspace.say("@swarm hello")
    assert (await desk.decided("C0GENERAL", ts)).startswith("route.unverified")
    assert await desk.triggers() == []

    async def routed() -> list[Any]:
        await desk.verifier.verify_due()
        return await desk.triggers()

    (trigger,) = await eventually(routed)
    assert (trigger.inbox_messages[0].ts, trigger.started_by) == (ts, "members")


async def test_a_strangers_click_does_nothing_and_only_they_are_told(desk: Desk, workspace: Workspace) -> None:
    await desk.open(OperatingPolicy())
    blocks = [{"type": "actions", "elements": [
        {"type": "button", "action_id": STOP_TASK_ACTION, "value": "1", "text": {"type": "plain_text", "text": "Stop"}}
    ]}]  # fmt: skip
    posted = await desk._gateway.client.chat_postMessage(channel="C0GENERAL", text="half of it", blocks=blocks)
    await workspace.press(posted["ts"], STOP_TASK_ACTION, user="eve")

    async def whispered() -> list[dict[str, Any]]:
        return await workspace.calls("chat.postEphemeral")

    (call,) = await eventually(whispered)
    assert call["args"]["user"] == "U00000EVE"
    assert "belong to another workspace" in call["args"]["text"]
