"""A twin, a coordinator with a router and an assistant, and the demo's rules in place of their model, as processes."""

from __future__ import annotations

import json
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml

from swarm_lab.demo.settings_file import PAPERS
from tests.support.http import client as http_client
from tests.support.processes import Process, Processes, free_port, until_ready
from tests.support.stage import OPERATOR_TOKEN, Stage

MODEL: Final = "gpt-5-mini"
"""A name whose price is known; who answers to it are the demo's rules."""

REQUESTS: Final = 3
"""So many calls of the model a run may make: just enough to search, to read, and to answer."""

THRESHOLD: Final = 4
KEPT: Final = 2

SETTINGS: Final = {
    "agents": {
        "default": "assistant",
        "builtin": {
            "assistant": {"kind": "assistant", "description": "Converses."},
            "tools": {"kind": "router", "description": "Calculates."},
            "frugal": {"kind": "assistant", "role": "worker", "limits": {"thread": {"requests": 1}}},
        },
    },
    "documents": {"folder": str(PAPERS)},
    "limits": {"requests": REQUESTS},
    "tools": {"search_max_calls": None},
    "runtime": {"session": {"compaction_threshold": THRESHOLD, "keep_recent_messages": KEPT}},
}


@dataclass
class Session:
    """What is kept of a session."""

    summary: str | None
    roles: list[str]
    texts: list[str]


class BuiltInStage:
    """Started when it is wanted; the tests share it."""

    def __init__(self, processes: Processes) -> None:
        self.model_port = free_port()
        self.processes = processes
        self.stage = Stage(processes, settings=self._environment())
        self._model: Process | None = None

    async def open(self) -> None:
        """Start everything unless it runs."""
        if self._model is None:
            await self.stage.start_twin(rates=False)
            await self.start_model()
            await self.stage.start_coordinator()
            await self.until_online()

    async def start_model(self) -> None:
        """Write the settings, and start what takes the model's place."""
        self._write_files()
        command = (sys.executable, "-m", "swarm_lab.demo.rules.model_server")
        self._model = self.processes.start("model", *command, env={"MODEL_PORT": str(self.model_port)})
        await until_ready(self._model, f"http://127.0.0.1:{self.model_port}/")

    async def restart(self) -> None:
        """End the coordinator as a power cut would, and start it again."""
        await self.stage.restart_coordinator()
        await self.until_online()

    async def until_online(self) -> None:
        """Wait until the agents take work."""

        async with http_client(timeout=5) as http:
            await self.stage.until_online(http, "assistant", "tools", "frugal")

    def _environment(self) -> dict[str, str]:
        return {
            "LLM_MODEL": MODEL,
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.model_port}/v1",
            "OPENAI_API_KEY": "of-nobody",
        }

    def _write_files(self) -> None:
        folder = self.processes.folder
        (folder / "swarm.yaml").write_text(yaml.safe_dump(SETTINGS), encoding="utf-8")
        program = str(Path(__file__).parent / "careful_calculator.py")
        calculator = {"command": sys.executable, "args": [program]}
        servers = {"mcpServers": {"calculator": calculator}, "allowedTools": ["add", "multiply", "divide"]}
        (folder / "servers_config.json").write_text(json.dumps(servers), encoding="utf-8")

    async def get(self, http: httpx2.AsyncClient, path: str, **query: str) -> Any:
        """What the operator is told."""
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        answer = await http.get(f"{self.stage.base}{path}", params=query, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    def sessions(self, agent: str = "assistant") -> dict[str, Session]:
        """All sessions of an agent, by id, with everything that was ever said in them."""
        with sqlite3.connect(f"file:{self._database}?mode=ro", uri=True) as database:
            (owner,) = database.execute(
                "SELECT id FROM agents WHERE name = ? AND revoked_at IS NULL", (agent,)
            ).fetchone()
            found = {
                name: Session(summary=summary, roles=[], texts=[])
                for name, summary in database.execute("SELECT id, summary FROM sessions WHERE agent = ?", (owner,))
            }
            rows = database.execute(
                "SELECT session_id, role, content FROM session_messages WHERE agent = ? ORDER BY session_id, position",
                (owner,),
            )
            for name, role, content in rows:
                found[name].roles.append(role)
                found[name].texts.append(str(json.loads(content).get("text", "")))
        database.close()
        return found

    @property
    def _database(self) -> Path:
        return self.stage.home / "swarm.db"
