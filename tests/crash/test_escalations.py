"""Help is asked for once in each thread, while coordinators are killed and paging services fail.

Real processes: the twin and the coordinator. Over HTTP: services that check PagerDuty's and VictorOps' shapes, on-call
agents over AG-UI and with a model, and one that polls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from slack_twin.seed import DEFAULT

from swarm.domain.requests.button_actions import ESCALATE_ACTION
from tests.support.agui_server import FINISHED, STARTED, AguiServer, agui_server, said
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.providers import openai_server
from tests.support.providers.request import Request
from tests.support.providers.script import Reply, Say
from tests.support.services import Call, OtherService, other_service
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(240), pytest.mark.req("CHAN-07")]

GENERAL, RANDOM = "C0GENERAL", "C00RANDOM"
BOB, CAROL = "U00000BOB", "U000CAROL"
KEY = "0123456789abcdef0123456789abcdef"

SETTINGS = """
slack: {{pace: false}}
agents:
  default: lea
  remote:
    ada: {{url: '{ada}/'}}
  builtin:
    helper: {{kind: assistant, role: worker}}
channels:
  C0GENERAL:
    escalation:
      users: [U00000BOB]
      groups: [S00000OPS]
      emoji: rotating_light
      webhook: {{url: '{pager}/v2/enqueue', format: pagerduty, routing_key: {key}}}
      agent: {on_call}
      team: payments
  C00RANDOM:
    escalation:
      webhook: {{url: '{pager}/integrations/generic/1/alert/key/team', format: victorops}}
      agent: helper
model: {{name: gpt-5-mini, check_at_start: false}}
providers: {{openai: {{base_url: '{model}', api_key: not-needed}}}}
"""


@dataclass
class Scene:
    stage: Stage
    twin: TwinClient
    pager: OtherService
    ada: AguiServer
    lea: Visitor
    settings: dict[str, str]
    http: httpx2.AsyncClient

    async def question(self, channel: str = "general") -> tuple[str, dict[str, Any]]:
        """A thread that the lead works on."""
        ts = await self.twin.say("@swarm my refund is stuck", channel=channel)
        (trigger,) = await self.lea.poll(wait_seconds=20)
        assert trigger["inbox_messages"][0]["ts"] == ts
        return ts, trigger

    async def offer(self, ts: str, channel: str = GENERAL) -> None:
        """Shows the button in a thread."""
        button = {"type": "button", "action_id": ESCALATE_ACTION, "value": "run-1"}
        button["text"] = {"type": "plain_text", "text": "Get help"}  # type: ignore[assignment]
        blocks = [{"type": "actions", "elements": [button]}]
        answer = await self.http.post(
            f"{self.stage.twin_url}/api/chat.postMessage",
            headers={"Authorization": f"Bearer {DEFAULT.apps[0].bot_token}"},
            json={"channel": channel, "thread_ts": ts, "text": "Not what you need?", "blocks": blocks},
        )
        assert answer.json()["ok"], answer.text

    async def press(self, ts: str, user: str = "alice", channel: str = "general") -> None:
        await self.twin.press(ts, "Not what you need?", ESCALATE_ACTION, user=user, channel=channel)

    async def posted(self, ts: str, part: str) -> list[str]:
        """The texts that were posted into a thread with this part, as Slack got them."""
        return [text for call in await self.twin.posts(ts) if call["ok"] and part in (text := call["args"]["text"])]

    async def until_posted(self, ts: str, part: str) -> str:
        found = await wait_until(lambda: self.posted(ts, part), len, within_seconds=60, what=f"a post with {part}")
        assert len(found) == 1, found
        return found[0]

    async def whispers(self) -> list[str]:
        return [call["args"]["text"] for call in await self.twin.calls("chat.postEphemeral")]

    async def reload(self, **settings: str) -> None:
        self.settings |= settings
        (self.stage.processes.folder / "swarm.yaml").write_text(SETTINGS.format(**self.settings))
        await self.stage.visitor(self.http).post("/reload")

    async def explained(self, ts: str, channel: str = GENERAL) -> dict[str, Any]:
        found = await self.stage.visitor(self.http).get(f"/explain?message={channel}:{ts}")
        return dict(found["escalation"])


def _model(request: Request) -> Reply:
    assert "Who is on call now?" in str(request)
    return Say("I asked the rota: carol@twin.test")


@pytest.fixture
async def scene(migrated_sqlite: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    async with contextlib.AsyncExitStack() as stack:
        ada = await stack.enter_async_context(agui_server())
        pager = await stack.enter_async_context(other_service())
        model = await stack.enter_async_context(openai_server(_model))
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        stage.use_sqlite(migrated_sqlite)
        settings = {"ada": ada.url, "pager": pager.base, "model": model.base_url, "key": KEY, "on_call": "ada"}
        (tmp_path / "swarm.yaml").write_text(SETTINGS.format(**settings))
        http = await stack.enter_async_context(http_client(timeout=30))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        await lea.poll()
        await stage.until_online(http, "ada", "helper")
        yield Scene(stage, stage.person(http), pager, ada, lea, settings, http)


def check_pagerduty(call: Call, ts: str) -> None:
    """Events API v2, as its reference describes a trigger."""
    body = call.body
    assert set(body) == {
        "routing_key", "event_action", "dedup_key", "client", "client_url", "payload", "links"
    }  # fmt: skip
    assert (body["routing_key"], body["event_action"]) == (KEY, "trigger")
    assert body["dedup_key"].endswith(f":{GENERAL}:{ts}")
    assert len(body["dedup_key"]) <= 255
    assert set(body["payload"]) == {"summary", "source", "severity", "timestamp", "component", "custom_details"}
    assert body["payload"]["summary"] == "Alice asks for help in #general"
    assert body["payload"]["severity"] in {"critical", "error", "warning", "info"}
    assert body["links"][0]["href"].endswith(f"/archives/{GENERAL}/p{ts.replace('.', '')}")
    assert len(call.raw) < 512 * 1024


async def test_two_people_ask_while_the_pager_fails_and_the_coordinator_is_killed(scene: Scene) -> None:
    scene.pager.answers = [(500, {}), (503, {"Retry-After": "1"})]
    goes_on = asyncio.Event()
    scene.ada.next("/", STARTED, goes_on)  # its run is lost with the coordinator
    scene.ada.on("/", STARTED, *said("On call today: ", "bob@twin.test"), FINISHED)
    ts, _ = await scene.question()
    await scene.offer(ts)
    await scene.press(ts)
    await asyncio.gather(scene.press(ts, "alice"), scene.press(ts, "bob"))
    await scene.ada.asked("/")
    await scene.pager.called(1)
    await scene.stage.restart_coordinator()

    calls = await scene.pager.called(3, 60)
    assert {call.path for call in calls} == {"/v2/enqueue"}
    assert len({call.headers["webhook-id"] for call in calls}) == 1
    for call in calls:
        check_pagerduty(call, ts)
    on_call = await scene.until_posted(ts, "is on call")
    assert on_call == f"<@{BOB}> is on call for payments: please look at this thread."
    called = await scene.until_posted(ts, "needs a human")
    assert called == f"<@{BOB}> <!subteam^S00000OPS>: <@U000ALICE> needs a human here."
    seen = await scene.twin.until(ts, lambda seen: "rotating_light" in seen.emoji)
    assert [emoji for emoji, _ in seen.reactions].count("rotating_light") == 1
    # Before the kill, two of the three people's presses were told who had asked.

    async def later() -> list[str]:
        return [text for text in await scene.whispers() if text.startswith("<@U000ALICE> already asked for help here")]

    assert len(await wait_until(later, lambda told: len(told) > 1)) == 2

    async def effects() -> list[str]:
        return list((await scene.explained(ts))["effects"])

    def are_sent(told: list[str]) -> bool:
        return all(any(f"{kind}: sent" in one for one in told) for kind in ("service", "post", "reaction"))

    told = await wait_until(effects, are_sent)
    assert f"on call: found {BOB}" in told


async def test_an_agent_asks_and_victorops_and_a_model_are_told(scene: Scene) -> None:
    ts, trigger = await scene.question("random")
    lease, message_id = trigger["lease"]["token"], trigger["inbox_messages"][0]["id"]
    assert "`escalate` (inbox_message_id" in trigger["prompt"]
    about = {"inbox_message_id": message_id, "reason": "Only a human may refund <!channel>."}
    done = await scene.lea.uses("escalate", lease, **about)
    assert (done["status"], done["by"]) == ("asked", "lea")
    assert await scene.lea.uses("escalate", lease, **about) == done
    (call,) = await scene.pager.called(1)
    assert call.path == "/integrations/generic/1/alert/key/team"
    body = call.body
    assert body["message_type"] == "CRITICAL"
    assert body["entity_id"].endswith(f":{RANDOM}:{ts}")
    assert body["entity_display_name"] == "lea asks for help in #random: Only a human may refund <!channel>."
    assert body["state_message"].startswith(body["entity_display_name"])
    assert f"/archives/{RANDOM}/p" in body["state_message"]
    assert "routing_key" not in body
    await scene.offer(ts, RANDOM)
    await scene.press(ts, "bob", "random")
    assert any(text.startswith("the agent lea already asked for help here") for text in await scene.whispers())
    assert await scene.until_posted(ts, "is on call") == f"<@{CAROL}> is on call: please look at this thread."
    called = await scene.until_posted(ts, "needs a human")
    assert called == "The agent lea needs a human here: Only a human may refund &lt;!channel&gt;."
    assert len(scene.pager.calls) == 1


async def test_an_on_call_agent_that_polls_and_a_pager_that_refuses(scene: Scene) -> None:
    added = await scene.stage.visitor(scene.http).post("/agents", {"name": "rota", "role": "worker"})
    rota = scene.stage.visitor(scene.http, added["token"])
    await rota.poll()
    await scene.reload(on_call="rota")
    scene.pager.answers = [(400, {})]
    ts, _ = await scene.question()
    await scene.offer(ts)
    await scene.press(ts)
    (trigger,) = await rota.poll(wait_seconds=20)
    assert trigger["thread"] is None
    assert "Who is on call for payments now?" in trigger["prompt"]
    await scene.stage.restart_coordinator()  # between the question and its answer
    await rota.uses("task-complete", trigger["lease"]["token"], task_id=trigger["task"]["id"], result=CAROL)
    assert (await scene.until_posted(ts, "is on call")).startswith(f"<@{CAROL}> is on call for payments")
    failed = await scene.until_posted(ts, "could not tell")
    assert failed == "I could not tell PagerDuty: it answered with HTTP 400."
    assert (await scene.explained(ts))["by"] == "U000ALICE"
