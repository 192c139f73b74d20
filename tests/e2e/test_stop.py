"""The end of a coordinator while everything that it talks to hangs: gone in time, with all that it has started."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
import pytest
import yaml

from tests.support.agentcore import FakeAgentCore, fake_agentcore
from tests.support.hanging import WebTools, web_tools
from tests.support.processes import Processes
from tests.support.providers import Call, Reply, Request, Say, Silent, openai_server
from tests.support.stage import OPERATOR_TOKEN, Stage
from tests.support.waiting import wait_until

STOP_SECONDS: Final = 10.0
"""What a supervisor's patience usually is, and what is promised."""

MARK: Final = "SWARM_TEST_MARK"  # by which `Processes` finds children; what is started gets it as what is configured
STDIO_SERVER: Final = Path(__file__).parents[1] / "agents" / "mcp" / "programs" / "plain_server.py"

CODING_CLI: Final = """#!{python} -S
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
open("coding", "x").close()
time.sleep(600)
"""

PIECE: Final = "so much to say " * 1_000
PIECES: Final = 2_000
"""More than the buffers between us and a client take that reads nothing."""


def answer(request: Request) -> Reply:
    """The first word that is asked for says what hangs."""
    calls = {
        "code": Call("kiro-delegate", {"task": "mend it"}),
        "wait": Call("wait", {}),
        "compute": Call("code-execute", {"language": "python", "code": "1"}),
    }
    word = next((word for word in (*calls, "shout") if word in request.last_text), None)
    if word == "shout":
        return Say(*[PIECE] * PIECES)
    return calls[word] if word else Silent()


@dataclass
class Scene:
    """A coordinator in which everything hangs."""

    stage: Stage
    processes: Processes
    clients: list[asyncio.StreamWriter]

    def children(self) -> list[int]:
        """All that the coordinator has started, itself included, and a server's daemon that has no mark."""
        noted = map(int, (self.processes.folder / "plain" / "pids").read_text().split())
        found = {*self.processes.alive(), *(pid for pid in noted if _is_alive(pid))}
        return sorted(found - {self.stage.twin.pid})


@asynccontextmanager
async def everything_hangs(processes: Processes) -> AsyncIterator[Scene]:
    """The built-in assistant in six runs at once, of which none ends by itself."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(openai_server(answer))
        aws = await stack.enter_async_context(fake_agentcore())
        web = await stack.enter_async_context(web_tools())
        for operation in ("InvokeCodeInterpreter", "StopCodeInterpreterSession"):
            aws.holds[operation] = asyncio.Event()
        stage = Stage(processes, settings=_environment(model.base_url, aws))
        _write_files(processes.folder, web.url, str(processes._mark))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        scene = Scene(stage=stage, processes=processes, clients=[])
        try:
            await _begin(scene, model.requests, aws, web)
            yield scene
        finally:
            for client in scene.clients:
                client.close()


def _environment(model_url: str, aws: FakeAgentCore) -> dict[str, str]:
    aws_names = {f"AWS_ENDPOINT_URL_{name}": aws.url for name in ("BEDROCK_AGENTCORE", "BEDROCK_AGENTCORE_CONTROL")}
    return {
        "LLM_MODEL": "gpt-5-mini",
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "of-nobody",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "no-secret",
        **aws_names,
    }


def _work_tree(folder: Path) -> Path:
    """Beside the folder in which the coordinator is started."""
    return folder.with_name(f"{folder.name}-work")


def _write_files(folder: Path, web_url: str, mark: str) -> None:
    helper = {"kind": "assistant", "tools": ["kiro-delegate", "code-execute"], "approve": []}
    coding = folder / "kiro"
    coding.write_text(CODING_CLI.format(python=sys.executable))
    coding.chmod(0o755)
    _work_tree(folder).mkdir()
    (folder / "plain").mkdir()
    (folder / "plain" / "tools.json").write_text('["echo"]')
    settings = {
        "model": {"check_at_start": False},
        "agents": {"builtin": {"helper": helper}},
        "tools": {"work_tree": str(_work_tree(folder)), "delegates": {"kiro": str(coding), "environment": [MARK]}},
    }
    (folder / "swarm.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = ["-I", "-S", str(STDIO_SERVER), str(folder / "plain"), "deaf", "child", "daemon"]
    servers = {
        "deaf": {"command": sys.executable, "args": command, "env": {MARK: mark}, "allowedTools": ["echo"]},
        "web": {"url": web_url, "allowedTools": ["wait"]},
    }
    (folder / "servers_config.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


async def _begin(scene: Scene, asked: list[Request], aws: FakeAgentCore, web: WebTools) -> None:
    """Begin the runs, and wait until each hangs."""
    async with httpx2.AsyncClient(verify=False, timeout=30) as http:
        twin = scene.stage.person(http)
        for words in ("think for ever", "code"):  # in Slack
            await twin.say(f"@swarm {words}")
        for words in ("think for ever", "shout", "wait", "compute"):
            scene.clients.append(await _asked(scene.stage, words))

        async def all_hang() -> tuple[bool, ...]:
            thinking = [request for request in asked if "think for ever" in request.last_text]
            is_coding = (_work_tree(scene.processes.folder) / "coding").exists()
            shouted = any("shout" in request.last_text for request in asked)
            computes = aws.arrives("InvokeCodeInterpreter").is_set()
            return len(thinking) == 2, is_coding, shouted, web.called.is_set(), computes

        aws.arrives("InvokeCodeInterpreter")
        await wait_until(all_hang, all, within_seconds=60, what="everything hangs")


async def _asked(stage: Stage, words: str) -> asyncio.StreamWriter:
    """A run whose client keeps the connection, and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", stage.port))
    _, writer = await asyncio.open_connection(sock=connection, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    body = json.dumps({"conversation_id": words, "message": words}).encode()
    head = (
        f"POST /api/v1/chat/stream/start HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR_TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    return writer


def _kept(stage: Stage, query: str) -> list[object]:
    with closing(sqlite3.connect(stage.home / "swarm.db")) as database:
        return [row[0] for row in database.execute(query)]


@pytest.mark.long
@pytest.mark.req("OPS-12")
async def test_a_stop_does_not_wait_for_a_slack_that_is_silent_at_the_start(
    processes: Processes, http: httpx2.AsyncClient
) -> None:
    stage = Stage(processes, settings={"SWARM_SLACK_TIMEOUT_SECONDS": "60"})
    await stage.start_twin(rates=False)
    twin = stage.person(http)
    await twin.fault("delay", method="auth.test", seconds=600)
    stage.launch_coordinator()
    await wait_until(lambda: twin.calls("auth.test"), within_seconds=60)
    stage.coordinator.send(signal.SIGTERM)
    assert await stage.coordinator.exit_code(STOP_SECONDS) == 0
    assert "cut_off" not in stage.coordinator.output


@pytest.mark.long
@pytest.mark.req("SEC-07")
async def test_a_coordinator_that_is_killed_leaves_nothing_of_a_deaf_mcp_server_behind(processes: Processes) -> None:
    nowhere = {"LLM_MODEL": "gpt-5-mini", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "of-nobody"}
    stage = Stage(processes, settings=nowhere)
    folder = processes.folder / "plain"
    folder.mkdir()
    (folder / "tools.json").write_text('["echo"]')
    (processes.folder / "swarm.yaml").write_text("model: {check_at_start: false}\n", encoding="utf-8")
    command = ["-I", "-S", str(STDIO_SERVER), str(folder), "deaf", "child", "daemon"]
    server = {"command": sys.executable, "args": command, "allowedTools": ["echo"]}
    (processes.folder / "servers_config.json").write_text(json.dumps({"mcpServers": {"deaf": server}}))
    await stage.start_twin(rates=False)
    await stage.start_coordinator()

    async def alive() -> int:
        pids = (folder / "pids").read_text().split() if (folder / "pids").exists() else ()
        return sum(_is_alive(int(pid)) for pid in pids)

    await wait_until(alive, lambda count: count == 3, what="the server, its child and its daemon are there")
    stage.coordinator.kill()
    await wait_until(alive, lambda count: count == 0, within_seconds=STOP_SECONDS, what="nothing is left")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.req("OPS-12", "AGENT-02", "TOOL-05", "SEC-07")
async def test_whatever_hangs_a_stop_ends_the_process_in_time_with_all_that_it_has_started(
    processes: Processes,
) -> None:
    async with everything_hangs(processes) as scene:
        assert len(scene.children()) >= 5
        began = time.monotonic()
        scene.stage.coordinator.send(signal.SIGTERM)
        code = await scene.stage.coordinator.exit_code(STOP_SECONDS * 3)
        took = time.monotonic() - began
        left = scene.children()
        sys.stdout.write(f"gone after {took:.2f} s\n")
        assert took < STOP_SECONDS
        assert left == []
        assert code == 0
        assert _kept(scene.stage, "SELECT ended_as FROM leases") == ["released"] * 2  # what came in Slack comes again
        assert _kept(scene.stage, "SELECT holder FROM locks WHERE holder IS NOT NULL") == []
        outcomes = _kept(scene.stage, "SELECT outcome FROM model_usage")
        assert outcomes == ["stopped"] * len(outcomes)
        assert len(outcomes) >= 5  # the longest to end may be cut off before it is noted down


@pytest.mark.long
@pytest.mark.req("OPS-12")
async def test_a_second_signal_ends_everything_at_once_and_leaves_nothing_behind(processes: Processes) -> None:
    async with everything_hangs(processes) as scene:
        scene.stage.coordinator.send(signal.SIGTERM)
        await scene.stage.coordinator.says("Stopping")
        scene.stage.coordinator.send(signal.SIGTERM)
        assert await scene.stage.coordinator.exit_code(30) == 128 + signal.SIGTERM
        assert scene.children() == []
