"""A coordinator whose doing is watched, and the readings of its metrics."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from swarm.clock import ManualClock
from swarm.domain.watchers import Watcher, Watchers
from swarm.entrypoints.http.http_api import create_app
from swarm.entrypoints.http.metrics import Measured, MetricsEntryPoint
from swarm.entrypoints.mcp.mcp_server import McpEntryPoint
from swarm.entrypoints.web.identity import Identities
from swarm.services.operate.overview import FigureReader
from swarm.services.outbox.deliver import OutboxSender
from swarm.store.bridge.database import Database
from swarm.telemetry.metrics import Metrics
from swarm.telemetry.setup import WatchedSender, watched_events
from tests.support.doors import ENROLMENT_KEY, OPERATOR_TOKEN, PATIENCE_SECONDS, Doors, WatchedWakeups, serving
from tests.support.http import client as http_client
from tests.support.world import HTTP_TIMEOUT_SECONDS, ME, World

METRICS_TOKEN = "scraper-of-the-tests"


@dataclass
class Access:
    """Who may read the metrics, and what the process holds."""

    token: str | None = METRICS_TOKEN
    open_to_all: bool = False
    offices: dict[str, bool] = field(default_factory=lambda: {"upkeep": True})


class Readings:
    """One scrape: the value of each sample, by its name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        """A sample's value, 0 for one that was never counted."""
        return self._values.get((name, frozenset(labels.items())), 0.0)

    def all(self, name: str) -> Mapping[frozenset[tuple[str, str]], float]:
        """All values of a name, by labels."""
        return {labels: value for (found, labels), value in self._values.items() if found == name}


async def read_metrics(base: str, http: httpx2.AsyncClient, token: str) -> Readings:
    """Scrape."""
    answer = await http.get(f"{base}/metrics", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    return Readings(answer.text)


@dataclass
class WatchedDoors(Doors):
    """Doors with ``/metrics``."""

    metrics: Metrics = field(kw_only=True)

    async def readings(self) -> Readings:
        return await read_metrics(self.base, self.http, METRICS_TOKEN)


@contextlib.asynccontextmanager
async def watched_doors(
    url: str, *, access: Access | None = None, watchers: Sequence[Watcher] = ()
) -> AsyncIterator[WatchedDoors]:
    """A coordinator over a database of its own, wired for telemetry as in `swarm.app.bootstrap`."""
    access = access or Access()
    metrics = Metrics(version="1.2.3", database="sqlite")
    watcher = Watchers([metrics, *watchers])
    wakeups, clock = WatchedWakeups(), ManualClock()
    async with Database(url, clock=clock, wakeups=wakeups, watcher=watcher) as database:
        world = World(database, clock)
        world.sender = OutboxSender(
            database, WatchedSender(world.slack, watcher), ME.team, http_timeout_seconds=HTTP_TIMEOUT_SECONDS
        )
        world.ingest.handle = watched_events(world.ingest.handle, watcher)  # type: ignore[method-assign, assignment]
        ready = {"slack": True}
        identities = Identities(world.services.agents, OPERATOR_TOKEN, ENROLMENT_KEY)
        mcp = McpEntryPoint(world.services, identities, watcher=watcher)
        door = MetricsEntryPoint(
            metrics,
            FigureReader(database, world.operating_policy, kept_seconds=0, dead_kept_seconds=0),
            identities,
            lambda: ready,
            world.services.overview,
            offices=lambda: access.offices,
            token=access.token,
            open_to_all=access.open_to_all,
        )
        app = create_app(
            world.services,
            identities,
            lambda: ready,
            routes=[*mcp.routes(), *door.routes()],
            running=[mcp.running],
        )
        measured = Measured(app, metrics, plain_paths=app.plain_paths)
        async with serving(measured) as base, http_client(timeout=PATIENCE_SECONDS * 2) as http:
            yield WatchedDoors(
                world=world, wakeups=wakeups, base=base, http=http, ready=ready, troubles=[], metrics=metrics
            )
            wakeups.close()
