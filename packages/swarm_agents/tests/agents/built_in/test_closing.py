"""The end of the built-in agents while all that they use hangs: within one time limit, and nothing is left of it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from swarm.app.process import StopDeadline
from swarm.config import load
from swarm.domain.answers.events import InputMessage, Origin, RunInput, Speaker
from swarm.store.bridge.database import Database
from swarm_agents.app import built_in
from tests.support.hanging import web_tools
from tests.support.processes import processes_in
from tests.support.providers import Call, Reply, Request, Silent, openai_server
from tests.support.waiting import wait_until

MARK = "SWARM_TEST_MARK"
PLAIN_SERVER = Path(__file__).parents[1] / "mcp" / "programs" / "plain_server.py"


def run_input(text: str) -> RunInput:
    message = InputMessage(id=text, speaker=Speaker.USER, text=text)
    return RunInput(
        run_id="",
        agui_run_id=text,
        trace_id=text,
        conversation_id=text,
        messages=(message,),
        origin=Origin(client=text),
    )


def answer(request: Request) -> Reply:
    return Call("wait", {}) if "wait" in request.last_text else Silent()


async def read(agents: built_in.BuiltInAgentSet, text: str) -> None:
    async for _ in agents.agents["helper"].run(run_input(text)):
        pass


@pytest.mark.req("OPS-12", "AGENT-02")
async def test_all_that_hangs_is_ended_side_by_side_and_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "tools.json").write_text('["echo"]')
    settings = {"model": {"check_at_start": False}, "agents": {"builtin": {"helper": {"kind": "assistant"}}}}
    (tmp_path / "swarm.yaml").write_text(yaml.safe_dump(settings))
    with processes_in(tmp_path) as processes, capture_logs() as logs:
        async with web_tools() as web, openai_server(answer) as model:
            program = ["-I", "-S", str(PLAIN_SERVER), str(tmp_path / "plain"), "deaf", "child"]
            deaf = {"command": sys.executable, "args": program, "env": {MARK: processes._mark}}
            servers = {"deaf": {**deaf, "allowedTools": ["echo"]}, "web": {"url": web.url, "allowedTools": ["wait"]}}
            (tmp_path / "servers_config.json").write_text(json.dumps({"mcpServers": servers}))
            environment = {"LLM_MODEL": "gpt-5-mini", "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": model.base_url}
            deadline = StopDeadline(1.0)
            loaded = load(environment, folder=tmp_path, user_home=tmp_path / "nobody")
            async with built_in.opened(loaded, database, deadline) as agents:
                await wait_until(lambda: asyncio.sleep(0, len(processes.alive())), lambda count: count == 2)
                await until_offered(agents, model.requests)
                reading = [asyncio.create_task(read(agents, text)) for text in ("think for ever", "wait")]
                await asyncio.wait_for(web.called.wait(), 20)
                began = time.monotonic()
            took = time.monotonic() - began
            await asyncio.wait_for(asyncio.gather(*reading), 20)
    assert processes.alive() == []
    assert took < 4  # the farewell to the one server alone would take five seconds, the end of the other three
    assert [line["late"] for line in logs if line["action"] == "stop_late"] == [["MCP servers"]]


async def until_offered(agents: built_in.BuiltInAgentSet, requests: list[Request]) -> None:
    """Ask until the tool is offered, on a machine that is busy."""
    while not any("wait" in request.tools for request in requests):
        asking = asyncio.create_task(read(agents, "what is there?"))
        count = len(requests)
        await wait_until(lambda: asyncio.sleep(0, len(requests)), lambda now, count=count: now > count)  # type: ignore[misc]
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
