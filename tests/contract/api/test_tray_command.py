"""``swarm tray``, as a process of its own against a coordinator: for people, and for the hooks of coding CLIs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from swarm.cli import NoServer
from swarm.cli import tray as tray_command
from swarm.domain.errors import SwarmError
from tests.support.doors import Doors, Visitor, serving
from tests.support.processes import Ended, Processes, processes_in
from tests.support.world import BOT

NOWHERE = "http://127.0.0.1:9"  # nothing listens on the discard port
NO_FLAGS = {"as_json": False, "quiet_when_empty": False, "hook": False}

pytestmark = [pytest.mark.req("LOOP-18"), pytest.mark.xdist_group("processes")]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


@pytest.fixture
async def stranger() -> AsyncIterator[str]:
    """The address of something that is no coordinator."""

    async def page(request: Request) -> Response:
        return PlainTextResponse("hello")

    async def away(request: Request) -> Response:
        return RedirectResponse("/tray")

    async def older(request: Request) -> Response:
        return JSONResponse(["hello"])

    async def newer(request: Request) -> Response:
        return JSONResponse({"unread": 1})

    pages = {"": page, "/moved": away, "/older": older, "/newer": newer}
    async with serving(Starlette(routes=[Route(f"{path}/tray", endpoint) for path, endpoint in pages.items()])) as base:
        yield base


async def tray(processes: Processes, *flags: str, **environment: str) -> Ended:
    return await processes.command("tray", *flags, env=environment)


def of(visitor: Visitor) -> dict[str, str]:
    """The environment of an agent's coding CLI."""
    return {"SWARM_URL": visitor.base, "SWARM_AGENT_TOKEN": visitor.token}


async def test_a_tray_is_printed_for_people_and_as_data(doors: Doors, lea: Visitor, processes: Processes) -> None:
    wim = await doors.worker()
    await doors.world.says(f"{BOT} a question\nin \x1b[31mtwo lines")
    await wim.uses("send-message", channel="talk", text="@lea look")
    shown = await tray(processes, **of(lea))
    assert (shown.code, shown.err) == (0, "")
    inbox = await lea.get("/tray")
    ids = inbox["previews"][0]["inbox_message_id"], inbox["messages"][0]["message_id"]
    assert shown.out.splitlines() == [
        "1 unread message",
        f"  {ids[0]} alice in #general: @UBOT a question in [31mtwo lines",
        "1 unread message of other agents",
        f"  {ids[1]} wim in #talk: @lea look",
        "tasks: none",
        "threads owned: 1",
    ]
    data = await tray(processes, "--json", "--hook", "--quiet-when-empty", **of(lea))
    assert (data.code, json.loads(data.out)) == (0, await lea.get("/tray"))


async def test_an_empty_tray_may_be_passed_over_in_silence(doors: Doors, lea: Visitor, processes: Processes) -> None:
    shown = await tray(processes, **of(lea))
    assert shown.out.splitlines()[0] == "no unread messages"
    silent = await tray(processes, "--quiet-when-empty", **of(lea))
    assert (silent.code, silent.out, silent.err) == (0, "", "")


async def test_what_is_wrong_is_one_line_and_a_hook_goes_on(
    doors: Doors, lea: Visitor, stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mistakes = [
        ({"SWARM_URL": lea.base}, "SWARM_AGENT_TOKEN"),
        (of(lea) | {"SWARM_AGENT_TOKEN": "tokén"}, "SWARM_AGENT_TOKEN"),
        (of(lea) | {"SWARM_AGENT_TOKEN": "another"}, "SWARM_AGENT_TOKEN is not a token of"),
        (of(lea) | {"SWARM_URL": "localhost:8080"}, "http://127.0.0.1:8080"),
        (of(lea) | {"SWARM_URL": "http://[::1"}, "http://127.0.0.1:8080"),
        (of(lea) | {"SWARM_URL": NOWHERE}, "No coordinator answers"),
        (of(lea) | {"SWARM_URL": "", "PORT": NOWHERE.rpartition(":")[2]}, f"{NOWHERE}. SWARM_URL, or PORT"),
        (of(lea) | {"SWARM_URL": stranger}, "is not a coordinator"),
        (of(lea) | {"SWARM_URL": f"{stranger}/moved"}, "is not a coordinator"),
        (of(lea) | {"SWARM_URL": f"{stranger}/older"}, "is not a coordinator"),
    ]
    for environment, word in mistakes:
        with pytest.raises((SwarmError, NoServer), match=word):
            await asyncio.to_thread(tray_command.run, environment, Console(), **NO_FLAGS)
        assert await asyncio.to_thread(tray_command.run, environment, Console(), **NO_FLAGS | {"hook": True}) == 0
        said = capsys.readouterr()
        (line,) = said.err.splitlines()
        assert word in line
        assert said.out == ""
        assert lea.token not in line


async def test_the_exit_code_tells_of_a_mistake_but_not_to_a_hook(processes: Processes) -> None:
    nowhere = {"SWARM_URL": NOWHERE, "SWARM_AGENT_TOKEN": "token"}
    for flags, code in (((), 1), (("--hook",), 0)):
        ended = await tray(processes, *flags, **nowhere)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (code, "", 1)


async def test_a_hook_goes_on_also_with_a_tray_of_another_version(
    stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"SWARM_URL": f"{stranger}/newer", "SWARM_AGENT_TOKEN": "token"}
    assert await asyncio.to_thread(tray_command.run, environment, Console(), **NO_FLAGS | {"hook": True}) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1
