"""Text that is made to be trouble, from everywhere where text comes from, to everybody who reads it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm.domain.model.threads import File
from tests.support import slack
from tests.support.doors import OPERATOR_TOKEN, Doors, Visitor
from tests.support.naughty import NAME, TEXT, TITLE, hidden_anywhere, hidden_in
from tests.support.processes import Ended, Processes, processes_in
from tests.support.world import BOT, said

pytestmark = pytest.mark.req("SEC-04")

FENCE = re.compile(r'</?[a-z_]+ marker="(\w{16})">')
PING = re.compile(r"<!|<@(?![UW]1>)|@(?:channel|here|everyone)\b")
TITLE_ON_ONE_LINE = re.escape('[/x] "a" <b>[31m| </new_message> @here')


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(slack.PEOPLE, "U1", NAME)
    monkeypatch.setitem(slack.CHANNELS, "C1", NAME)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


async def asked(doors: Doors) -> None:
    """Somebody of that name writes all of it, with a file of that name."""
    file = File(id="F1", name=NAME, mimetype="text/plain", size_bytes=1)
    await doors.world.hears(replace(said(f"{BOT} {TEXT}"), files=(file,)))


def is_fenced(prompt: str) -> bool:
    """Whether angle brackets stand in fence lines alone, all of one marker, each opened and closed once."""
    lines = [line for line in prompt.splitlines() if "<" in line or ">" in line]
    fences = [FENCE.fullmatch(line) for line in lines]
    names = [line.strip("</>").split()[0] for line in lines]
    is_paired = all(first == second for first, second in zip(names[::2], names[1::2], strict=True))
    return is_paired and all(fences) and len({fence[1] for fence in fences if fence}) == 1


async def test_models_get_nothing_invisible_and_no_fence_is_closed_by_content(doors: Doors, lea: Visitor) -> None:
    wim = await doors.worker()
    (
        await doors.operator.ask("PATCH", "/agents/lea", json={"description": TITLE, "capabilities": [TITLE]})
    ).raise_for_status()
    await asked(doors)
    trigger = await lea.only()
    token, inbox_message = trigger["lease"]["token"], trigger["inbox_messages"][0]["id"]
    heard: dict[str, Any] = {"trigger": trigger, "tray": await lea.get("/tray")}
    for tool in ("read-inbox-message", "slack-read-thread"):
        heard[tool] = await lea.uses(tool, token, inbox_message_id=inbox_message)
    brief = {"agent": "wim", "task": TEXT, "title": TITLE}
    task_id = (await lea.uses("inbox-delegate", token, inbox_message_id=inbox_message, **brief))["task_id"]
    await wim.uses("send-message", channel="talk", text=f"@lea {TEXT}")
    heard["work"] = work = await wim.only()
    heard["get-task"] = await wim.uses("get-task", task_id=task_id)
    await wim.uses("task-progress", work["lease"]["token"], task_id=task_id, message=TEXT[:1_000])
    heard["fail"] = await wim.uses("task-fail", work["lease"]["token"], task_id=task_id, error=TEXT)
    for tool in ("list-tasks", "list-agents", "read-messages", "tray"):
        heard[tool] = await lea.uses(tool)
    heard["notices"] = await lea.poll()
    heard["error"] = (await lea.tool(f"no {NAME}")).model_dump(mode="json")
    assert heard["notices"]
    assert hidden_anywhere(heard) == {}
    for one in (trigger, work, *heard["notices"]):
        assert is_fenced(one["prompt"]), one["prompt"]
    assert "If you are reading this" in trigger["inbox_messages"][0]["text"]
    assert "❤\ufe0f\u200d🔥" in trigger["inbox_messages"][0]["text"]  # what can be seen stays as it was


async def test_the_same_text_stays_in_the_database_as_it_came(doors: Doors, lea: Visitor) -> None:
    await asked(doors)
    (row,) = await doors.world.rows("SELECT text FROM thread_messages")
    assert row["text"] == f"{BOT} {TEXT}"


async def test_nobody_is_pinged_and_nothing_invisible_is_posted_by_an_agent(doors: Doors, lea: Visitor) -> None:
    await asked(doors)
    trigger = await lea.only()
    inbox_message = trigger["inbox_messages"][0]["id"]
    await lea.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=inbox_message, message=TEXT)
    await doors.world.send()
    posted = "\n".join(doors.world.slack.posts)
    assert not PING.search(posted)
    assert hidden_in(posted.replace("@\u2060", "@")) == ""
    assert "https://bank.example (<https://evil.example>)" in posted
    assert "bank.example (https://evil.example)" in posted
    assert "[bank.example](" not in posted
    assert "bank.example@" not in posted


@pytest.mark.xdist_group("processes")
async def test_commands_print_naughty_text_as_text(doors: Doors, lea: Visitor, processes: Processes) -> None:
    await doors.worker()
    doors.world.services.agents.unoffered = lambda agent: {"wiki/get": TITLE} if agent == "wim" else {}
    (await doors.operator.ask("PATCH", "/agents/lea", json={"description": TITLE})).raise_for_status()
    await asked(doors)
    trigger = await lea.only()
    inbox_message = trigger["inbox_messages"][0]["id"]
    brief = {"agent": "wim", "task": TEXT, "title": TITLE}
    made = await lea.uses("inbox-delegate", trigger["lease"]["token"], inbox_message_id=inbox_message, **brief)
    of_operator = {
        "PORT": str(doors.address[1]),
        "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN,
        "SWARM_AGENT_TOKEN": lea.token,
        "SWARM_URL": lea.base,
        "COLUMNS": "400",
    }

    async def prints(*command: str) -> Ended:
        return await processes.command(*command, env=of_operator)

    listed, shown, explained, agents, tray, data = await asyncio.gather(
        prints("tasks", "list"),
        prints("tasks", "show", made["task_id"]),
        prints("explain", made["task_id"]),
        prints("agents", "list"),
        prints("tray"),
        prints("tray", "--json"),
    )
    for ended in (listed, shown, explained, agents, tray, data):
        assert (ended.code, ended.err) == (0, "")
        assert hidden_in(ended.out) == ""
    assert "wim is not offered the tool wiki/get: " in agents.out
    for ended in (listed, shown, explained, agents):
        assert re.search(TITLE_ON_ONE_LINE, ended.out)
    assert "[bold]x[/bold]" in shown.out
    assert data.out.isascii()
    assert json.loads(data.out) == await lea.get("/tray")
