"""Sessions with fake CLIs, and a check that each test leaves no process behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from acp import schema
from pydantic import TypeAdapter

from packages.swarm_runner.tests.doors import acp_agent, claude_cli
from swarm_runner.doors.acp import AcpDoor
from swarm_runner.doors.claude import ClaudeDoor
from swarm_runner.port import CliDoor, CliEvent, CliSession, McpAccess, SessionWanted, TextAdded, TurnEnded

TURN_SECONDS = 60
MODELS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/prompt": schema.PromptResponse,
    "authenticate": schema.AuthenticateResponse,
    acp_agent.UPDATE: schema.SessionNotification,
    acp_agent.PERMISSION: schema.RequestPermissionRequest,
    acp_agent.ELICITATION: schema.CreateElicitationRequest,
}
"""Of what ACP's agents answer, and of what they send."""


@dataclass
class Desk:
    """Where a test opens sessions."""

    folder: Path
    wanted: SessionWanted
    state: Path
    sessions: list[CliSession] = field(default_factory=list)

    async def open(self, door: CliDoor, **changed: Any) -> CliSession:
        """Opens a session, which is closed at the end of the test."""
        async with asyncio.timeout(TURN_SECONDS):
            session = await door.open(replace(self.wanted, **changed))
        self.sessions.append(session)
        return session

    def noted(self) -> list[dict[str, Any]]:
        """What the fake was told."""
        return [one for one in self._lines() if "sent" not in one]

    def check_messages(self) -> None:
        """What the fake of ACP has sent is as the protocol's package has it."""
        for about, message in (one["sent"] for one in self._lines() if "sent" in one):
            if "error" not in message:
                TypeAdapter(MODELS[about]).validate_python(
                    message["params"] if "method" in message else message["result"]
                )

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.state.read_text().splitlines()] if self.state.exists() else []

    def acp(self, habit: str) -> AcpDoor:
        """An ACP agent with a habit."""
        return AcpDoor([sys.executable, str(acp_agent.__file__), habit, str(self.state)])

    def claude(self, habit: str) -> ClaudeDoor:
        """Claude Code with a habit."""
        return ClaudeDoor([sys.executable, "-I", str(claude_cli.__file__), habit, str(self.state)])


async def turn_of(
    session: CliSession, prompt: str = "Go.", seen: Callable[[CliEvent], Any] | None = None
) -> tuple[list[CliEvent], TurnEnded]:
    """Has a turn; ``seen`` may answer each event. Returns the events and the last of them."""
    events: list[CliEvent] = []
    async with asyncio.timeout(TURN_SECONDS):
        async for event in session.turn(prompt):
            events.append(event)
            if seen and asyncio.iscoroutine(answer := seen(event)):
                await answer
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    return events, ended


def text_in(events: list[CliEvent]) -> str:
    """The text of a turn."""
    return "".join(event.text for event in events if isinstance(event, TextAdded))


def running_in(folder: Path) -> list[int]:
    """The process ids of what a session in this folder has started, by the environment that all of it inherits."""
    mark, found = f"SWARM_DOOR_MARK={folder}\0".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A folder of its own; afterwards nothing may run in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SWARM_DOOR_MARK": str(folder),
    }
    mcp = McpAccess(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer t", "X-Swarm-Lease": "l"})
    wanted = SessionWanted(cwd=folder, environment=environment, mcp=mcp, system_prompt="You are a worker.")
    made = Desk(folder, wanted, tmp_path / "state.jsonl")
    yield made
    for session in made.sessions:
        await session.close(0)
    made.check_messages()
    assert running_in(folder) == []
