"""A coordinator with all its entry points, put together by `swarm.app.bootstrap`, over a played Slack and agents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from swarm.app import bootstrap
from swarm.app.reload import Reloader
from swarm.clock import ManualClock
from swarm.config import load
from swarm.domain.answers.agents import AgentClient
from swarm.domain.model.deliveries import Answer
from swarm.domain.model.files import FileInfo, Share
from swarm.domain.policy.access import CallerPolicy
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.watchers import NO_WATCHERS
from swarm.entrypoints.http.http_api import Api
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.services.intake.event_watchdog import EventWatchdog
from swarm.services.operate.overview import FigureReader
from swarm.services.speaking.participants import Rosters
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from swarm.store.bridge.database import Database
from swarm.store.bridge.wakeups import Wakeups
from swarm.telemetry.metrics import Metrics
from swarm.telemetry.setup import Telemetry
from tests.support.doors import ENROLMENT_KEY, OPERATOR_TOKEN, PATIENCE_SECONDS, Visitor, serving
from tests.support.files import FakeContent, FakeFiles
from tests.support.http import client as http_client
from tests.support.world import ME, World

SETTINGS = {
    "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN,
    "SWARM_ENROLMENT_KEY": ENROLMENT_KEY,
    "SLACK_BOT_TOKEN": "xoxb-of-the-tests",
    "SLACK_SIGNING_SECRET": "signing-secret-of-the-tests",
    "SWARM_SLACK_MODE": "http",
}


class Deaf(Wakeups):
    """Hears nothing of other processes, nor of its own: all notifications are lost."""

    def bump(self, topics: Iterable[str]) -> None:
        """Nobody is woken."""

    def bump_all(self) -> None:
        """Nobody is woken."""


@dataclass
class SlowFiles(FakeFiles):
    """Gives the first bytes of a file, and takes for ever to give the rest or to share one."""

    left: asyncio.Event = field(default_factory=asyncio.Event)  # nobody waits for the sharing any more

    async def open(self, file: FileInfo, cap_bytes: int) -> FakeContent:
        opened = _Endless(self.kept[file.id][1], cap_bytes, 1)
        self.opened.append(opened)
        return opened

    async def share(self, share: Share) -> Answer:
        self.under_way.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


class _Endless(FakeContent):
    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.content[:1]
        await asyncio.Event().wait()


@dataclass
class Whole:
    """A coordinator that serves, and clients."""

    world: World
    runs: AgentRuns
    app: Api
    base: str
    http: httpx2.AsyncClient

    @property
    def operator(self) -> Visitor:
        return self.visitor(OPERATOR_TOKEN)

    def visitor(self, token: str) -> Visitor:
        return Visitor(base=self.base, token=token, http=self.http)

    def there(self, visitor: Visitor) -> Visitor:
        """The same client at this coordinator."""
        return Visitor(base=self.base, token=visitor.token, http=self.http, id=visitor.id, name=visitor.name)


async def _ignored(*_: Any) -> None:
    return None


@contextlib.asynccontextmanager
async def whole(
    url: str,
    folder: Path,
    agents: dict[str, AgentClient],
    policies: dict[str, CallerPolicy],
    *,
    wakeups: Wakeups | None = None,
    files: FakeFiles | None = None,
) -> AsyncIterator[Whole]:
    """A coordinator over this database."""
    settings = load({**SETTINGS, "SWARM_HOME": str(folder)}, folder=folder, user_home=folder)
    clock = ManualClock()
    async with Database(url, clock=clock, wakeups=wakeups) as database:
        guarded = frozenset(name for name, policy in policies.items() if policy.reaches_host)
        operating_policy = OperatingPolicy(guarded_agents=guarded)
        world = World(database, clock, operating_policy=operating_policy, files=files or FakeFiles())
        runs = AgentRuns(agents, ConversationLocks(database), policies)
        metrics = Metrics(version="1.2.3", database="sqlite")
        gateway = Gateway("xoxb-of-the-tests", pacing=Pacing(), base_url="http://127.0.0.1:9/api/")
        measured = bootstrap._application(
            settings,
            world.services,
            gateway,
            SlackEntryPoint(gateway, _ignored, signing_secret=SETTINGS["SLACK_SIGNING_SECRET"]),
            EventWatchdog(database, gateway, ME),
            FigureReader(database, operating_policy),
            Telemetry(watcher=NO_WATCHERS, metrics=metrics),
            {},
            Reloader(settings, operating_policy.book, Rosters(database, operating_policy), read=lambda: settings),
            runs,
        )
        app = measured._app
        assert isinstance(app, Api)
        async with serving(measured) as base, http_client(timeout=PATIENCE_SECONDS * 2) as http:
            try:
                yield Whole(world, runs, app, base, http)
            finally:
                await runs.close()
                database.wakeups.close()
        await gateway.close()
