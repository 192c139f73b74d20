"""Alerts as people see them: the twin, a coordinator, and an agent of each kind, as processes."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from slack_sdk.web.async_client import AsyncWebClient

from tests.e2e.built_in import MODEL
from tests.support.caipe import AGENT, Caipe, Shape
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.processes import free_port, processes_in, until_ready
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, Conversation, TwinClient

pytestmark = [pytest.mark.long, pytest.mark.timeout(240), pytest.mark.req("CHAN-04", "CHAN-01", "CHAN-10")]

TEMPLATE = "{{alert}} of {bot_username} for {team}: {alert_text}"
HOSTILE = "[FIRING:1] disk of {team} {{x}} {alert_text.__class__} <!channel> swarm#all at 93%"
READ = "{alert} of pager for payments: [FIRING:1] disk of {team} {{x}} {alert_text.__class__} @channel swarm#all at 93%"
FIELDS = [{"title": "Severity", "value": "critical"}, {"title": "Host", "value": "db1"}]
CHANNELS = {"caipe-alerts": {"agent_id": AGENT}, "poll-alerts": {"agent": "lea"}, "own-alerts": {"agent": "assistant"}}


@dataclass
class Scene:
    """Three channels with alerts: of an agent in a CAIPE service, of a polling agent, and of the built-in assistant."""

    stage: Stage
    twin: TwinClient
    caipe: Caipe
    pager: AsyncWebClient
    lea: Visitor

    async def post(self, channel: str, text: str = HOSTILE) -> str:
        """A bot's post with fields; its timestamp."""
        sent = await self.pager.chat_postMessage(channel=f"#{channel}", text=text, attachments=[{"fields": FIELDS}])
        return str(sent["ts"])

    async def answered(self, channel: str, ts: str) -> Conversation:
        def is_answered(seen: Conversation) -> bool:
            return len(seen.answers) > 0 and ANSWERED in seen.emoji and not seen.is_growing

        return await self.twin.until(ts, is_answered, channel=channel, user="alice", within_seconds=60)


@pytest.fixture
async def scene(tmp_path: Path, migrated_sqlite: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        processes = stack.enter_context(processes_in(tmp_path))
        http = await stack.enter_async_context(http_client(timeout=30))
        caipe = Caipe(Shape.PRESENT)
        url = await stack.enter_async_context(serving(caipe.app()))
        port = free_port()
        model = {"LLM_MODEL": MODEL, "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "of-nobody"}
        rules = (sys.executable, "-m", "swarm_lab.demo.rules.model_server")
        started = processes.start("model", *rules, env={"MODEL_PORT": str(port)})
        stage = Stage(processes, settings=model)
        stage.use_sqlite(migrated_sqlite)
        await stage.start_twin(rates=False)
        await until_ready(started, f"http://127.0.0.1:{port}/")
        twin = stage.person(http)
        await twin.ask("POST", "seed", json={"apps": ["pager"], "channels": [{"name": name} for name in CHANNELS]})
        pager = AsyncWebClient("xoxb-twin-pager", base_url=f"{stage.twin_url}/api/")
        listed: list[dict[str, Any]] = (await pager.conversations_list())["channels"]
        ids = {channel["name"]: str(channel["id"]) for channel in listed}
        bot = str((await pager.auth_test())["bot_id"])
        (tmp_path / "template.txt").write_text(TEMPLATE, encoding="utf-8")
        (tmp_path / "swarm.yaml").write_text(yaml.safe_dump(settings(url, ids, bot)), encoding="utf-8")
        await stage.start_coordinator()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        await lea.poll(wait_seconds=0)
        await stage.agents_are_known(http, (AGENT, "assistant", "lea"))
        yield Scene(stage, twin, caipe, pager, lea)
        processes.show_logs()


def settings(url: str, ids: dict[str, str], bot: str) -> dict[str, Any]:
    alerts = {"template_file": "template.txt", "variables": {"team": "payments"}}
    return {
        "slack": {"pace": False},
        "agents": {
            "remote": {"caipe": {"url": url, "dialect": "caipe", "agent_ids": {"other": "agent-18"}}},
            "builtin": {"assistant": {"kind": "assistant"}},
        },
        "channel_defaults": {"listen": "alerts", "allowed_bots": [bot], "alerts": alerts},
        "channels": {ids[name]: chosen for name, chosen in CHANNELS.items()},
    }


def remembered(stage: Stage) -> list[str]:
    """What the built-in assistant was asked."""
    with closing(sqlite3.connect(f"file:{stage.home / 'swarm.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT content FROM session_messages WHERE role = 'user' ORDER BY position").fetchall()
    return [json.loads(content)["text"] for (content,) in rows]


async def test_each_kind_of_agent_explains_an_alert_in_its_thread_and_not_its_repeats(scene: Scene) -> None:
    expected = f"{READ}\nSeverity: critical\nHost: db1"
    # An agent of a CAIPE service, named by its id
    first = await scene.post("caipe-alerts")
    seen = await scene.answered("caipe-alerts", first)
    (body,) = scene.caipe.bodies
    assert (body["message"], body["agent_id"]) == (expected, AGENT)
    assert "{alert} of pager for payments" in seen.answers[0]
    # The built-in assistant
    own = await scene.post("own-alerts")
    assert (await scene.answered("own-alerts", own)).answers
    assert remembered(scene.stage) == [expected]
    # A polling agent
    polled = await scene.post("poll-alerts")
    trigger = await scene.lea.only(wait_seconds=30)
    (message,) = trigger["inbox_messages"]
    assert (message["text"], message["matched_by"], message["ts"]) == (expected, "alert", polled)
    assert message["preview"].startswith("[FIRING:1] disk of {team}")
    assert "{alert} of pager for payments: [FIRING:1] disk of {team} {{x}}" in trigger["prompt"]
    details = await scene.lea.uses("read-inbox-message", inbox_message_id=message["id"])
    assert details["text"] == expected
    arguments = {"inbox_message_id": message["id"], "message": "It is the log."}
    await scene.lea.uses("slack-reply", lease=trigger["lease"]["token"], **arguments)
    assert "It is the log." in (await scene.answered("poll-alerts", polled)).answers[0]
    # Repeats, in every channel; then the end of the problem, which is no repeat
    for channel, root in (("caipe-alerts", first), ("own-alerts", own), ("poll-alerts", polled)):
        await scene.post(channel, HOSTILE.replace("93%", "97%"))
        await scene.twin.until(
            root, lambda now: any("came again at" in text for text in now.answers), channel=channel, user="alice"
        )
    over = await scene.post("caipe-alerts", HOSTILE.replace("FIRING:1", "RESOLVED"))
    await scene.answered("caipe-alerts", over)
    assert [body["message"].count("RESOLVED") for body in scene.caipe.bodies] == [0, 1]
    assert await scene.lea.poll(wait_seconds=0) == []
    await an_edit_to_resolved_makes_the_next_firing_a_new_alert(scene, polled)
    posts = [call for call in await scene.twin.calls() if call["method"] in ("chat.postMessage", "chat.startStream")]
    assert all(call["args"].get("thread_ts") for call in posts if call["args"].get("attachments") is None)


async def an_edit_to_resolved_makes_the_next_firing_a_new_alert(scene: Scene, first: str) -> None:
    channel = next(
        str(call["args"]["channel"])
        for call in await scene.twin.calls("reactions.add")
        if call["args"]["timestamp"] == first
    )
    text = HOSTILE.replace("FIRING:1", "RESOLVED")
    await scene.pager.chat_update(channel=channel, ts=first, text=text, attachments=[{"fields": FIELDS}])
    anew = await scene.post("poll-alerts")
    trigger = await scene.lea.only(wait_seconds=30)
    assert [message["ts"] for message in trigger["inbox_messages"]] == [anew], "nothing is asked about the edit"
    arguments = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "message": "It is the log again."}
    await scene.lea.uses("slack-reply", lease=trigger["lease"]["token"], **arguments)
    assert "It is the log again." in (await scene.answered("poll-alerts", anew)).answers[0]
