"""A twin, a coordinator and all askers, in a loop of their own, so that tests of one process share them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sqlite3
import stat
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import yaml

from swarm.domain.model.agents import Role
from swarm.domain.requests.button_actions import DECIDE_ACTION, FORM_ACTION, RETRY_RUN_ACTION
from tests.decisions import acp_program, claude_program
from tests.decisions.expected import Asker
from tests.decisions.journal import Journal
from tests.decisions.local import Model, tool_server
from tests.decisions.polling import Poller
from tests.decisions.remote import AguiAgent, CaipeService
from tests.support.caipe import AGENT, Shape
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.processes import Processes
from tests.support.providers import openai_server
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROOT: Final = Path(__file__).parent.parent.parent
FOUR_EYES: Final = "random"
"""The channel in which nobody decides about their own work."""

ROLES: Final = ("alice", "bob", "carol")
_AT_ONCE: Final = 16
_LOOK_EVERY_SECONDS: Final = 0.25

T = TypeVar("T")


@dataclass
class Scene:
    """What the cells are played on. Each cell has people of its own, so that limits by person do not meet them."""

    stage: Stage
    http: httpx2.AsyncClient
    twin: TwinClient
    operator: Visitor
    journal: Journal
    ids: dict[str, str] = field(default_factory=dict)  # people's names, by id
    _count: int = 0

    def next_cell(self) -> str:
        self._count += 1
        return f"k{self._count}"

    async def people(self, cells: list[str]) -> None:
        """Lets people of their own come for each of these cells."""
        names = [f"{role}{cell}" for cell in cells for role in ROLES]
        users = [{"name": name, "real_name": name.capitalize(), "display_name": name} for name in names]
        seeded = await self.twin.ask("POST", "seed", json={"users": users})
        self.ids |= {id: name for name, id in seeded["users"].items()}

    async def session(self, ts: str) -> str:
        """Returns the state of the agent's session, as Slack shows it; one that never began is at rest."""
        shown = (await self.twin.ask("GET", "assistant"))["assistants"]
        return next((one["session"] for one in shown if one["thread_ts"] == ts and one["session"]), "active")

    def expire(self, request_id: str) -> None:
        """Lets the time of a request be over."""
        with contextlib.closing(sqlite3.connect(self.stage.home / "swarm.db", timeout=20)) as database, database:
            database.execute("UPDATE requests SET expires_at = 1 WHERE id = ?", (request_id,))

    def names_in(self, text: str) -> str:
        """Replaces the mentions in a text by the roles of the people."""
        named = re.sub(r"<@(U\w+)>", lambda found: self.ids.get(found.group(1), found.group(1)), text)
        return re.sub(r"\b(alice|bob|carol)k\d+", r"\1", named, flags=re.IGNORECASE)


def buttons_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the buttons of a message."""
    elements = [element for block in message["blocks"] or [] for element in block.get("elements", [])]
    return [element for element in elements if element.get("type") == "button"]


def request_on(message: dict[str, Any]) -> str:
    """Returns the id of the request that a message offers to decide on; empty if there is none."""
    actions = (DECIDE_ACTION, FORM_ACTION)
    return next((one["value"] for one in buttons_of(message) if one["action_id"].startswith(actions)), "")


def decisions_on(message: dict[str, Any]) -> set[str]:
    """Returns the decisions that a card offers."""
    actions = {button["action_id"] for button in buttons_of(message)}
    return {action.removeprefix(DECIDE_ACTION) for action in actions if action.startswith(DECIDE_ACTION)}


def has_retry(messages: list[dict[str, Any]]) -> list[str]:
    """Returns the messages with a Retry button."""
    return [
        message["ts"]
        for message in messages
        if any(button["action_id"] == RETRY_RUN_ACTION for button in buttons_of(message))
    ]


def words_of(blocks: Any) -> str:
    """Returns everything that people read in blocks, with mentions as they are written in texts."""
    if isinstance(blocks, list):
        return " ".join(filter(None, map(words_of, blocks)))
    if not isinstance(blocks, dict):
        return ""
    if blocks.get("type") == "user":
        return f"<@{blocks['user_id']}>"
    own = blocks["text"] if isinstance(blocks.get("text"), str) else ""
    return " ".join(filter(None, [own, *(words_of(part) for part in blocks.values())]))


class Loop:
    """A loop in a thread of its own, in which a scene lives as long as the tests that share it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scene")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does this in the loop, and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Ends what is left in the loop, so that every connection is closed before the loop is."""
        self.run(_ended_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _ended_all() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    for transport in list(vars(loop).get("_transports", {}).values()):  # left half closed by a process that was killed
        transport.abort()
    rounds = asyncio.Event()
    loop.call_soon(loop.call_soon, rounds.set)  # closed transports let their sockets go in the next round
    await rounds.wait()


@contextlib.contextmanager
def scene_in(processes: Processes, migrated_sqlite: Path) -> Iterator[tuple[Loop, Scene]]:
    """A scene, once every asker is there."""
    loop, stack = Loop(), contextlib.AsyncExitStack()
    try:
        yield loop, loop.run(_open(stack, processes, migrated_sqlite))
    finally:
        processes.end()  # before what they are connected to
        loop.run(stack.aclose())
        loop.close()


async def _open(stack: contextlib.AsyncExitStack, processes: Processes, migrated_sqlite: Path) -> Scene:
    folder = processes.folder
    (folder / "journal").mkdir()
    journal = Journal(folder / "journal")
    urls = {
        Asker.AGUI: await stack.enter_async_context(serving(AguiAgent(journal, is_old=False).app())),
        Asker.AGUI_OLD: await stack.enter_async_context(serving(AguiAgent(journal, is_old=True).app())),
        Asker.CAIPE_FORM: await stack.enter_async_context(serving(CaipeService(journal, Shape.OLD).app())),
        Asker.CAIPE_DATA: await stack.enter_async_context(serving(CaipeService(journal, Shape.PRESENT).app())),
    }
    tools = await stack.enter_async_context(serving(tool_server(journal).streamable_http_app()))
    model = (await stack.enter_async_context(openai_server(Model(journal)))).base_url
    none_kept = httpx2.Limits(max_keepalive_connections=0)  # the coordinator is killed between calls
    http = await stack.enter_async_context(http_client(timeout=60, limits=none_kept))
    stage = Stage(processes)
    stage.use_sqlite(migrated_sqlite)
    await stage.start_twin(rates=False)
    twin, operator = stage.person(http), stage.visitor(http)
    seeded = await twin.ask("POST", "seed", json={"channels": [FOUR_EYES]})
    _write_settings(folder, urls, model, seeded["channels"][FOUR_EYES])
    servers = {"mcpServers": {"tools": {"url": f"{tools}/mcp"}}, "allowedTools": ["act", "sure", "fill"]}
    (folder / "servers_config.json").write_text(json.dumps(servers), encoding="utf-8")
    await stage.start_coordinator()
    scene = Scene(stage=stage, http=http, twin=twin, operator=operator, journal=journal)
    for asker in (Asker.POLLING, Asker.POLLING_LIVE):
        visitor = stage.visitor(http, await stage.register(http, asker))
        poller = Poller(visitor, journal, is_live=asker is Asker.POLLING_LIVE)
        stack.push_async_callback(_ended, asyncio.create_task(poller.serve()))
    for asker, provider in ((Asker.ACP, acp_provider(journal)), (Asker.CLAUDE, "claude")):
        added = await operator.post("/agents", {"name": asker, "role": Role.WORKER.value})
        start_runner(processes, stage, asker, provider, added["token"], journal)
    await stage.agents_are_known(http, list(Asker))
    return scene


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _write_settings(folder: Path, urls: dict[Asker, str], model: str, four_eyes: str) -> None:
    caipe = {"dialect": "caipe", "agent_id": AGENT}
    settings = {
        "slack": {"pace": False},
        "agents": {
            "remote": {
                Asker.AGUI.value: {"url": f"{urls[Asker.AGUI]}/"},
                Asker.AGUI_OLD.value: {"url": f"{urls[Asker.AGUI_OLD]}/"},
                Asker.CAIPE_FORM.value: {"url": urls[Asker.CAIPE_FORM], **caipe},
                Asker.CAIPE_DATA.value: {"url": urls[Asker.CAIPE_DATA], **caipe, "resume": "data"},
            },
            "builtin": {
                Asker.BUILT_IN.value: {"kind": "assistant", "role": "worker", "approve": ["act"]},
                Asker.TOOL_SERVER.value: {
                    "kind": "assistant",
                    "role": "worker",
                    "approve": [],
                    "instructions": "Let the tools elicit.",
                },
            },
        },
        "model": {"name": "gpt-5-mini", "check_at_start": False},
        "providers": {"openai": {"base_url": model, "api_key": "not-needed"}},
        "decisions": [{"channel": four_eyes, "not_requester": True}],
    }
    (folder / "swarm.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def acp_provider(journal: Journal) -> str:
    return f"acp:{sys.executable} {acp_program.__file__} - {journal.folder}"


def start_runner(processes: Processes, stage: Stage, asker: Asker, provider: str, token: str, journal: Journal) -> None:
    """Starts ``swarm run`` for a coding CLI; ``claude`` is found on the PATH, and is our program."""
    programs = processes.folder / "bin"
    programs.mkdir(exist_ok=True)
    claude = programs / "claude"
    words = f"{sys.executable} {claude_program.__file__} - {journal.folder}"
    claude.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {words} "$@"\n', encoding="utf-8")
    claude.chmod(claude.stat().st_mode | stat.S_IXUSR)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SWARM_HOME": str(processes.folder / f"runner-{asker}"),
        "SWARM_URL": stage.base,
        "SWARM_TOKEN": token,
    }
    arguments = ("--provider", provider, "--env", "PYTHONPATH", "--max-concurrent", str(_AT_ONCE))
    processes.fork(f"run-{asker}", "swarm.cli.main", "run", asker, *arguments, env=environment)


async def look_until(
    look: Callable[[], Awaitable[T]],
    met: Callable[[T], object] = bool,
    *,
    within_seconds: float = PATIENCE_SECONDS,
    what: str = "",
) -> T:
    """As `wait_until`, with fewer looks: a hundred cells look at once."""

    async def rested() -> T:
        await asyncio.sleep(_LOOK_EVERY_SECONDS)
        return await look()

    return await wait_until(rested, met, within_seconds=within_seconds, what=what)
