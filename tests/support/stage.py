"""The system on one machine, as processes: the twin, a coordinator that tests may kill, and agents that tests play."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from swarm.domain.model.agents import Role
from swarm_lab.programs import twin_settings
from tests.support.doors import Visitor
from tests.support.processes import Process, Processes, free_port, until_ready
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

OPERATOR_TOKEN = "operator-of-the-tests"

QUICK = {
    "SWARM_SLACK_TIMEOUT_SECONDS": "3",
    "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN,
    "SWARM_MESSAGES_PER_MINUTE": "0",
}
"""Settings with which a doubt about a call to Slack lasts seven seconds, and one person may play many.

A call that takes three seconds on a busy machine is doubted as well, and some tests count calls.
"""


@dataclass
class Stage:
    """A twin and a coordinator with its home. The coordinator keeps port and database over restarts."""

    processes: Processes
    settings: dict[str, str] = field(default_factory=dict)  # of the coordinator, beside the usual ones
    port: int = field(default_factory=free_port)
    twin_port: int = field(default_factory=free_port)
    preload: Path | None = None  # a library that comes before those of the system, for the coordinator
    twin: Process = field(init=False)
    coordinator: Process = field(init=False)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def twin_url(self) -> str:
        return f"http://127.0.0.1:{self.twin_port}"

    @property
    def home(self) -> Path:
        return self.processes.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """What the coordinator is started with."""
        usual = {"PORT": str(self.port), "SWARM_HOME": str(self.home), **QUICK}
        return {**usual, **self.tokens, **self.settings}

    @property
    def tokens(self) -> dict[str, str]:
        """What leads to the twin: the tokens of its default seed, as `swarm twin` prints them."""
        return twin_settings(self.twin_url)

    async def start_twin(self, *, rates: bool = True) -> None:
        env = {"TWIN_RATES": "on" if rates else "off"}
        self.twin = self.processes.fork("twin", "slack_twin", "--port", str(self.twin_port), env=env)
        await until_ready(self.twin, self.twin_url)

    async def start_coordinator(self) -> None:
        """Start it, and wait until it is connected to Slack."""
        self.launch_coordinator()
        await self.until_ready()

    async def until_ready(self) -> None:
        """Wait until it is connected to Slack."""
        await until_ready(self.coordinator, f"{self.base}/readyz")

    def launch_coordinator(self) -> None:
        """Start it without waiting."""
        command = ("coordinator", "swarm.cli.main", "up")
        self.coordinator = self.processes.fork(*command, env=self.environment, preload=self.preload)

    def kill_coordinator(self) -> None:
        """``kill -9``"""
        self.coordinator.kill()

    def freeze_coordinator(self) -> None:
        """Stop it in the middle of whatever it does; only `thaw_coordinator` and `kill_coordinator` end this."""
        self.coordinator.send(signal.SIGSTOP)

    def thaw_coordinator(self) -> None:
        """Let it go on as if nothing had happened."""
        self.coordinator.send(signal.SIGCONT)

    async def restart_coordinator(self) -> None:
        self.kill_coordinator()
        await self.start_coordinator()

    def use_sqlite(self, migrated: Path) -> None:
        """Begin with a copy of a migrated file, which is quicker than to migrate."""
        self.home.mkdir(exist_ok=True)
        shutil.copyfile(migrated, self.home / "swarm.db")

    def use_postgres(self, url: str) -> None:
        self.settings["SWARM_DATABASE_URL"] = url

    def person(self, http: httpx2.AsyncClient) -> TwinClient:
        return TwinClient(self.twin_url, http)

    def visitor(self, http: httpx2.AsyncClient, token: str = OPERATOR_TOKEN) -> Visitor:
        return Visitor(base=self.base, token=token, http=http)

    async def register(self, http: httpx2.AsyncClient, name: str) -> str:
        """The token of a new lead."""
        added = await self.visitor(http).post("/agents", {"name": name, "role": Role.LEAD.value})
        return str(added["token"])

    async def listen_over_http(self, http: httpx2.AsyncClient, signing_secret: str) -> None:
        """Has the twin send events to the coordinator over HTTP instead of a socket."""
        app = {
            "name": "swarm",
            "bot_token": self.tokens["SLACK_BOT_TOKEN"],
            "app_token": self.tokens["SLACK_APP_TOKEN"],
            "signing_secret": signing_secret,
            "request_url": f"{self.base}/slack/events",
        }
        await self.person(http).ask("POST", "seed", json={"apps": [app]})

    async def agents_are_known(self, http: httpx2.AsyncClient, names: Iterable[str]) -> None:
        """Before a coordinator has reached its agents for the first time, they count as away."""
        wanted = set(names)

        async def look() -> set[str]:
            known = (await self.visitor(http).get("/agents"))["agents"]
            return {agent["name"] for agent in known if agent["last_seen_at"]}

        await wait_until(look, lambda seen: seen >= wanted, what="the agents are there")

    async def until_online(self, http: httpx2.AsyncClient, *names: str, within_seconds: float = 60) -> None:
        """Wait until these agents take work."""

        async def look() -> set[str]:
            known = (await self.visitor(http).get("/agents"))["agents"]
            return {agent["name"] for agent in known if agent["status"] == "online"}

        await wait_until(look, set(names).__le__, within_seconds=within_seconds, what="the agents are online")

    async def backlog(self, http: httpx2.AsyncClient) -> int:
        """How much there is to do, in messages and deliveries."""
        answer = await http.get(f"{self.base}/readyz")
        return int(sum(answer.json()["backlog"].values()))


def stages_at(processes: Processes, count: int, url: str) -> list[Stage]:
    """Several coordinators on one PostgreSQL, at one twin, that of the first."""
    stages = [Stage(processes) for _ in range(count)]
    for number, stage in enumerate(stages):
        stage.twin_port = stages[0].twin_port
        stage.settings["SWARM_HOME"] = str(processes.folder / f"home-{number}")
        stage.use_postgres(url)
    return stages
