"""The slash command and the Home tab: real processes, judged by Slack's calls and what each person sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest

from tests.support.doors import Visitor
from tests.support.processes import Processes
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("CHAN-08", "CHAN-09")

SETTINGS: Final = "channel_defaults: {allowed_users: [U000ALICE, U00000BOB]}"
SECRET: Final = "the-signing-secret-of-the-test"
REFUSAL: Final = "You may not do that here"


class People:
    """The people of the twin, with commands and Home tabs."""

    def __init__(self, twin: TwinClient) -> None:
        self.twin = twin

    async def types(self, text: str, *, user: str = "alice", channel: str = "general") -> str:
        """Type a command; the text of the answer, which only this person sees."""
        before = await self.twin.private(user, channel)
        body = {"user": user, "channel": channel, "command": "/swarm", "text": text, "wait_seconds": 0}
        assert await self.twin.ask("POST", "commands", json=body) == {"ok": True}
        seen = await wait_until(lambda: self.twin.private(user, channel), lambda seen: len(seen) > len(before))
        return str(seen[-1]["text"])

    async def opens_home(self, user: str) -> None:
        assert (await self.twin.ask("POST", "homes", json={"user": user, "app": "swarm"}))["ok"]

    async def home(self, user: str) -> str:
        """The texts of a person's Home tab."""
        homes = (await self.twin.ask("GET", "views", params={"user": user}))["homes"]
        blocks = homes["swarm"]["blocks"] if "swarm" in homes else []
        return "\n".join(block["text"]["text"] for block in blocks if "text" in block)

    async def home_with(self, user: str, *texts: str, without: str = "nowhere") -> str:
        def met(shown: str) -> bool:
            return all(text in shown for text in texts) and without not in shown

        return await wait_until(lambda: self.home(user), met, what=f"the Home tab shows {texts}")


@pytest.fixture(params=["socket", pytest.param("http", marks=pytest.mark.long)])
async def stage(request: pytest.FixtureRequest, processes: Processes, http: httpx2.AsyncClient) -> AsyncIterator[Stage]:
    """A coordinator that carol may not use, over either way of Slack."""
    stage = Stage(processes)
    (processes.folder / "swarm.yaml").write_text(SETTINGS, encoding="utf-8")
    await stage.start_twin()
    if request.param == "http":
        stage.settings |= {"SWARM_SLACK_MODE": "http", "SLACK_SIGNING_SECRET": SECRET, "SLACK_APP_TOKEN": ""}
        await stage.listen_over_http(http, SECRET)
    await stage.start_coordinator()
    yield stage
    assert stage.coordinator.alive


async def test_people_look_after_their_own_work_and_nobody_else_sees_it(stage: Stage, http: httpx2.AsyncClient) -> None:
    lead = stage.visitor(http, await stage.register(http, "lead"))
    added = await stage.visitor(http).post("/agents", {"name": "wim", "role": "worker"})
    for agent in (lead, stage.visitor(http, str(added["token"]))):
        await agent.poll()  # it is there
    people = People(stage.person(http))
    await people.opens_home("alice")
    await people.home_with("alice", "Nothing is open.", "swarm#lead")

    assert "Everything is running." in await people.types("status")
    assert "Here: *lead* answers every message." in await people.types("status", channel="@swarm")
    assert "swarm#lead" in await people.types("agents")
    assert "What you can do" in await people.types("")
    assert "/swarm dance" in await people.types("dance", user="bob")

    ts = await people.twin.say("@swarm count the lines")
    (trigger,) = await lead.poll(wait_seconds=30)
    await people.home_with("alice", "count the lines", "is being worked on")
    assert "lead is working on it." in await people.types("explain")
    link = f"{stage.twin_url}/archives/C0GENERAL/p{ts.replace('.', '')}"
    assert "lead is working on it." in await people.types(f"explain {link}", user="bob")
    assert "I explain only messages of this conversation" in await people.types(f"explain {link}", channel="random")

    await tasks_can_be_stopped(people, lead, trigger)
    await people.home_with("alice", "Nothing is open.", without="count the lines")
    assert "Nothing of yours is running or waiting here." in await people.types("stop", user="bob")
    assert "Your remark is stored." in await people.types("feedback It is quick.")

    await who_may_not_is_refused(people)
    await messages_can_be_stopped(people, lead)
    await several_things_are_stopped_one_by_one(people, lead)
    assert all("thread_ts" in call["args"] for call in await people.twin.calls("chat.postMessage"))
    published = await people.twin.calls("views.publish", ok=True)
    assert [call["args"]["user_id"] for call in published].count("U000CAROL") == 1
    assert 3 <= len(published) <= 12


async def several_things_are_stopped_one_by_one(people: People, lead: Visitor) -> None:
    for title in ("one", "two"):
        await people.twin.say(f"@swarm {title}")
        trigger = await asked(lead)
        work = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "agent": "wim", "title": f"Do {title}"}
        await lead.uses("inbox-delegate", trigger["lease"]["token"], task="Do it.", **work)
    assert "You have several things running." in await people.types("stop")
    choice = (await people.twin.private("alice", "general"))[-1]
    first = next(block for block in choice["blocks"] if "accessory" in block)
    assert "Do one" in first["text"]["text"]
    button = {"action_id": "swarm_stop_own", "block_id": first["block_id"]}
    pressed = {"user": "alice", "channel": "general", "ts": choice["ts"], **button}
    assert (await people.twin.ask("POST", "actions", json=pressed))["ok"]
    (told,) = await people.twin.calls("chat.postEphemeral")
    assert (told["args"]["user"], told["args"]["text"]) == ("U000ALICE", "I am stopping it.")
    assert (await people.types("tasks")) == "Open work: Do two"


async def asked(lead: Visitor) -> dict[str, Any]:
    """The next message for the lead; notices about tasks may come first."""
    while True:
        triggers = await lead.poll(wait_seconds=30)
        assert triggers
        for trigger in triggers:
            if trigger["kind"] == "slack_inbox_message":
                return trigger


async def tasks_can_be_stopped(people: People, lead: Visitor, trigger: dict[str, Any]) -> None:
    """The message becomes a task, which only alice's command stops."""
    work = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "agent": "wim", "title": "Count the lines"}
    await lead.uses("inbox-delegate", trigger["lease"]["token"], task="Count them.", **work)
    assert "Count the lines" in await people.types("tasks")
    assert "Count the lines" in await people.types("tasks", user="bob")
    assert "Nothing of yours is running or waiting here." in await people.types("stop", user="bob")
    await people.home_with("alice", "Count the lines")
    assert await people.types("stop") == "I am stopping it."
    assert "Nothing of yours is open" in await people.types("tasks")


async def messages_can_be_stopped(people: People, lead: Visitor) -> None:
    """Work of a polling agent without a stream, by command and by word."""
    for way in ("/swarm stop", "!stop"):
        ts = await people.twin.say("@swarm a long job")
        trigger = await asked(lead)
        if way == "!stop":
            await people.twin.say("!stop", thread=ts)
        else:
            assert "Nothing of yours is running or waiting here." in await people.types("stop", user="bob")
            assert await people.types("stop") == "I am stopping it."
        await people.twin.until(ts, lambda seen: "octagonal_sign" in seen.emoji and len(seen.answers) == 1)
        line = [call for call in await people.twin.calls("chat.postMessage") if call["args"]["thread_ts"] == ts]
        assert [call["args"]["text"] for call in line] == ["🛑 Stopped by <@U000ALICE>."]
        token = trigger["lease"]["token"]
        assert (await lead.post("/leases/renew", {"tokens": [token]}))["lost"] == [token]
        arguments = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "message": "Done."}
        late = await lead.tool("slack-reply", token, **arguments)
        assert (late.is_error, "was stopped by <@U000ALICE>" in str(late.content)) == (True, True)
        assert "(stopped by" in await people.types(
            f"explain {people.twin.base_url}/archives/C0GENERAL/p{ts.replace('.', '')}"
        )


async def who_may_not_is_refused(people: People) -> None:
    for text in ("status", "tasks", "stop", "explain", "feedback Bad.", ""):
        assert (await people.types(text, user="carol")).startswith(REFUSAL)
    assert (await people.types("status", user="carol", channel="@swarm")).startswith(REFUSAL)
    await people.opens_home("carol")
    assert (await people.home_with("carol", REFUSAL)).splitlines()[0].startswith(REFUSAL)
    assert len(await people.twin.private("bob", "general")) == 5  # the answers to his own commands
    assert await people.twin.calls("chat.postEphemeral") == []
