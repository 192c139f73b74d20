"""The core where nothing else of ours is installed, and no library of models: it starts, works, and says what to
install."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx2

from tests.support.processes import Ended, Processes, processes_in, until_ready
from tests.support.stage import Stage

ABSENT = (
    "swarm_agents", "swarm_lab", "swarm_runner", "slack_twin",
    "pydantic_ai", "openai", "anthropic", "boto3", "prompt_toolkit",
)  # fmt: skip
ALONE = f"""
import contextlib, importlib.metadata, runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **wanted: () if wanted.get("group") == "swarm.extensions" else found(**wanted)
sys.meta_path.insert(0, Absent())
for command in sys.argv[1:]:
    sys.argv = ["swarm", *command.split()]
    with contextlib.suppress(SystemExit):
        runpy.run_module("swarm", run_name="__main__")
"""
SLACK = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}


async def test_commands_work_or_say_what_to_install(tmp_path: Path) -> None:
    with processes_in(tmp_path) as processes:
        ended = await run(
            processes, "--help", "config explain dm", "chat hello", "eval lead --provider x", LLM_MODEL="x"
        )
    *_, chat, evaluation = ended.err.splitlines()
    assert "Commands" in ended.out
    assert "Needs the package swarm-agents." in ended.out
    assert chat.startswith("swarm: `swarm chat` needs the package swarm-agents, which is not installed. Install its")
    assert evaluation.startswith("swarm: `swarm eval` needs the package swarm-agents, which is not installed.")


async def test_a_model_without_the_built_in_agents_stops_the_start(tmp_path: Path) -> None:
    with processes_in(tmp_path) as processes:
        ended = await run(processes, "up", LLM_MODEL="openai:gpt", OPENAI_API_KEY="sk-of-nobody", **SLACK)
    (line,) = ended.err.splitlines()
    assert "agents.builtin" in line
    assert "LLM_MODEL" in line
    assert "needs the package swarm-agents, which is not installed. Install its wheel" in line


async def test_a_polling_agent_is_asked_and_answers(
    tmp_path: Path, http: httpx2.AsyncClient, migrated_sqlite: Path
) -> None:
    with processes_in(tmp_path) as processes:
        stage = Stage(processes)
        await stage.start_twin()
        stage.use_sqlite(migrated_sqlite)
        stage.coordinator = processes.start("coordinator", sys.executable, "-c", ALONE, "up", env=stage.environment)
        await until_ready(stage.coordinator, f"{stage.base}/readyz")
        agent = stage.visitor(http, await stage.register(http, "lead"))
        twin = stage.person(http)
        ts = await twin.say("@swarm hello")
        (trigger,) = await agent.poll(wait_seconds=20)
        about = trigger["inbox_messages"][0]["id"]
        await agent.uses("slack-reply", trigger["lease"]["token"], inbox_message_id=about, message="Good morning.")
        await twin.until(ts, lambda seen: any(one.startswith("Good morning.") for one in seen.answers))


async def run(processes: Processes, *commands: str, **env: str) -> Ended:
    return await processes.run(sys.executable, "-c", ALONE, *commands, env=env)
