"""The real coding CLIs and model servers of this machine. ``SWARM_TEST_CODING_CLIS``: the folder of their commands."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarm.runner.doors.acp import codex_door, opencode_door
from swarm.runner.doors.claude import ClaudeDoor
from swarm.runner.port import CliDoor, LogLine, PermissionAsked, SessionMissing, StepShown, TurnOutcome, UsageReported
from tests.runner.doors.conftest import Desk, text_in, turn_of
from tests.support.providers.anthropic_wire import AnthropicWire
from tests.support.providers.openai_wire import OpenAIWire
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reason, Reply, Say, Used
from tests.support.providers.server import serve
from tests.support.providers.wire import Encoder

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
MISSING = "11111111-1111-4111-8111-111111111111"


def needs(name: str) -> str:
    """The PATH with the command, or a skipped test."""
    path = os.pathsep.join([os.environ.get("SWARM_TEST_CODING_CLIS", ""), os.environ["PATH"]]).strip(os.pathsep)
    if shutil.which(name, path=path) is None:
        pytest.skip(f"NOT TESTED HERE: {name} is not installed; SWARM_TEST_CODING_CLIS may name its folder")
    return path


class ResponsesWire(OpenAIWire):
    """POST /v1/responses, for text only."""

    def is_for(self, request: Request) -> bool:
        return request.path == "/v1/responses"

    def encoder(self, request: Request) -> Encoder:
        return _ResponsesEncoder()


class _ResponsesEncoder:
    def __init__(self) -> None:
        self.text = ""

    def start(self) -> bytes:
        item = {"type": "message", "role": "assistant", "id": "m", "content": []}
        return _event("response.created", response={"id": "r"}) + _event("response.output_item.added", item=item)

    def say(self, piece: str) -> bytes:
        self.text += piece
        return _event("response.output_text.delta", delta=piece, item_id="m", output_index=0, content_index=0)

    def call(self, id: str, call: Call) -> Iterable[bytes]:
        return ()

    def fail(self, fails: Fails) -> bytes:
        return b""

    def finish(self, reason: Reason, used: Used) -> bytes:
        content = [{"type": "output_text", "text": self.text}]
        item = {"type": "message", "role": "assistant", "id": "m", "content": content}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        done = _event("response.output_item.done", item=item, output_index=0)
        return done + _event("response.completed", response={"id": "r", "usage": usage})


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def at(desk: Desk, path: str, **environment: str) -> Desk:
    """The desk with the environment of a CLI, which reaches no network."""
    home = desk.folder.parent
    common = {"HOME": str(home), "PATH": path, "SWARM_DOOR_MARK": desk.wanted.environment["SWARM_DOOR_MARK"]}
    desk.wanted = replace(desk.wanted, environment={**common, **environment})
    return desk


def claude_environment(base_url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-ant-nobody",
        "ANTHROPIC_BASE_URL": base_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def uses_bash(request: Request) -> Reply:
    """Wants to make a file, and says then that it did."""
    body = request.json
    if request.wire.results(body):
        return Say("I made the file.")
    if "Bash" not in request.wire.tools(body):
        return Say("A title")
    return Call("Bash", {"command": "echo made > made.txt", "description": "Make a file"})


@pytest.mark.parametrize("allowed", [True, False])
async def test_claude_asks_and_obeys(desk: Desk, *, allowed: bool) -> None:
    path = needs("claude")
    async with serve(AnthropicWire(), uses_bash) as model:
        session = await at(desk, path, **claude_environment(model.base_url)).open(ClaudeDoor())
        asked: list[PermissionAsked] = []

        async def decide(event: object) -> None:
            if isinstance(event, PermissionAsked):
                asked.append(event)
                await session.permit(event.id, allowed=allowed, reason="Not today.")

        events, ended = await turn_of(session, "Make a file.", decide)
        assert [one.tool for one in asked] == ["Bash"]
        assert asked[0].arguments["command"] == "echo made > made.txt"
        assert (desk.folder / "made.txt").exists() is allowed
        assert "I made the file." in text_in(events)
        assert ended.outcome is TurnOutcome.DONE
        assert ended.refused_tools == (() if allowed else ("Bash",))
        assert any(isinstance(event, StepShown) for event in events)
        assert any(isinstance(event, UsageReported) and event.output_tokens for event in events)
        assert any("not connected" in event.text for event in events if isinstance(event, LogLine))

        await session.close(20)
        again = await desk.open(ClaudeDoor(), resume=session.id)
        await turn_of(again, "More.", decide)
        assert again.id == session.id
        assert sum("Make a file." in said for said in model.wire.said(model.requests[-1].json)) >= 1


async def test_claude_says_that_a_session_is_missing(desk: Desk) -> None:
    path = needs("claude")
    with pytest.raises(SessionMissing):
        await at(desk, path, **claude_environment("http://127.0.0.1:9")).open(ClaudeDoor(), resume=MISSING)


def opencode_environment(base_url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": base_url, "apiKey": "sk-nobody"},
        "models": {"m": {"name": "m"}},
    }
    config = {"provider": {"local": provider}, "model": "local/m", "small_model": "local/m", "autoupdate": False}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def codex_environment(base_url: str, home: Path) -> dict[str, str]:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "local"\n[model_providers.local]\nname = "local"\n'
        f'base_url = "{base_url}"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    )
    return {"OPENAI_API_KEY": "sk-nobody", "CODEX_HOME": str(folder)}


@pytest.mark.parametrize(
    ("command", "door", "wire"),
    [("opencode", opencode_door, OpenAIWire), ("codex-acp", codex_door, ResponsesWire)],
)
async def test_agents_by_acp_stream_a_turn(
    desk: Desk, command: str, door: Callable[[], CliDoor], wire: Callable[[], OpenAIWire]
) -> None:
    path = needs(command)
    async with serve(wire(), lambda _request: Say("Hello from the model.")) as model:
        if command == "opencode":
            environment = opencode_environment(model.base_url)
        else:
            environment = codex_environment(model.base_url, desk.folder.parent)
        session = await at(desk, path, **environment).open(door())
        events, ended = await turn_of(session, "Say hello.")
        assert text_in(events).strip().endswith("Hello from the model.")  # codex warns of a model that it does not know
        assert ended.outcome is TurnOutcome.DONE

        await session.close(20)
        again = await desk.open(door(), resume=session.id)
        events, _ = await turn_of(again, "Again.")
        assert text_in(events).strip().endswith("Hello from the model.")
        await again.close(20)
        with pytest.raises(SessionMissing):
            await desk.open(door(), resume=MISSING)
