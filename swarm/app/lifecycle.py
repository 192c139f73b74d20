"""The life cycle of a coordinator: its entry points open, serve until a stop is requested, and close without losing
work."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio.lowlevel
import structlog
import uvicorn
from starlette.types import ASGIApp

from swarm.app import process
from swarm.app.process import Close, StopDeadline, close_all
from swarm.app.reload import Reloader
from swarm.clock import until_next
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.entrypoints.web.server import Config, ConnectionLimits
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.ground.locks import Election, LockTerm
from swarm.services.intake.backfill import Backfill
from swarm.services.intake.catch_up import CatchUp
from swarm.services.intake.event_watchdog import EventWatchdog
from swarm.services.intake.homes import HomeTabs
from swarm.services.intake.verify import Verifier
from swarm.services.operate.sweep import Sweeper, Ticker, listen
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.outbox.status_lines import StatusLines
from swarm.services.outbox.webhooks import WebhookSender
from swarm.services.runs.streaming_agents import StreamingAgentRuns
from swarm.slack.outgoing.pacing import Pacing
from swarm.store.bridge.database import Database
from swarm.telemetry.setup import Telemetry, watch_loop

TOOLS_SECONDS: Final = 3.5
"""Time reserved at shutdown for closing the resources of runs: MCP servers, AWS sessions, models."""

DRAIN_SECONDS: Final = 3
"""Time at shutdown for HTTP responses that have begun, as an integer number of seconds."""

_TICK_SECONDS: Final = 1.0

UPKEEP: Final = "upkeep"
"""The election office of the coordinator process that sends deliveries, runs scheduled jobs and reads threads."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinator:
    """All parts that run for the lifetime of the coordinator."""

    app: ASGIApp
    limits: ConnectionLimits
    slack_entry_point: SlackEntryPoint
    election: Election
    terms: dict[str, LockTerm]  # the latest term of each office held by this process
    pacing: Pacing
    sender: OutboxSender
    webhooks: WebhookSender
    sweeper: Sweeper
    backfill: Backfill
    verifier: Verifier
    catch_up: CatchUp
    hearing: EventWatchdog
    homes: HomeTabs
    streaming_agents: StreamingAgentRuns
    status_lines: StatusLines
    agent_runs: AgentRuns
    reloader: Reloader
    telemetry: Telemetry
    lease_seconds: float


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[None]:
    """Serves an application during the block. The socket stays open for the next one."""
    server = _Server(Config(app, lifespan="off", timeout_graceful_shutdown=1))
    http = asyncio.create_task(server.serve(sockets=[listener.dup()]))
    try:
        yield
    finally:
        server.stop()
        await asyncio.wait({http})


async def introduce(coordinator: Coordinator) -> None:
    """Registers the managed agents and logs doubtful settings before the entry points open."""
    await coordinator.streaming_agents.introduce()
    await coordinator.reloader.doubts()


async def live(
    coordinator: Coordinator,
    database: Database,
    listener: socket.socket,
    stop: process.StopSignal,
    hangup: asyncio.Event,
    deadline: StopDeadline,
) -> None:
    """Serves until ``stop`` is set, then shuts down by ``deadline``. Raises the first error of a background task."""
    await anyio.lowlevel.checkpoint()  # otherwise the first streamed response would load the backend of anyio
    config = Config(coordinator.app, limits=coordinator.limits, backlog=2048, timeout_graceful_shutdown=DRAIN_SECONDS)
    server = _Server(config)
    http = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    slack = asyncio.create_task(coordinator.slack_entry_point.start(), name="slack")
    lag = coordinator.telemetry.metrics.count.event_loop_lag_seconds
    works = {
        UPKEEP: coordinator.election.run(partial(_upkeep, coordinator)),
        "reload": coordinator.reloader.obey(hangup),
        "settings in Slack": coordinator.reloader.watch_slack(),
        "hearing": coordinator.hearing.run(coordinator.slack_entry_point),
        "homes": coordinator.homes.run(),
        "listen": listen(database, coordinator.lease_seconds),
        "loop lag": watch_loop(lag.observe),
        "database": database.until_broken(),
    }
    if database.dialect == "postgresql":
        works["ticker"] = Ticker(database).run()
    background = [asyncio.create_task(work, name=name) for name, work in works.items()]
    process.settle_memory()
    _log.info("The coordinator is up.", action="start", address=process.address(listener))
    try:
        await _until_stopped(stop, slack, [http, *background])
    finally:
        _log.info("Stopping.", action="stop")
        stop.begin()
        for task in (slack, *background):
            task.cancel()  # calls to Slack that have begun are completed
        entry_points = partial(_close_entry_points, coordinator, database, server, http)
        await _shut_down(coordinator, entry_points, [slack, *background], deadline)


async def _shut_down(
    coordinator: Coordinator, close_entry_points: Close, tasks: list[asyncio.Task[None]], deadline: StopDeadline
) -> None:
    """Stops accepting work and waits for all parts at once, since any part may be waiting for another."""
    closings: dict[str, Close] = {
        "doors": close_entry_points,
        "runs": coordinator.agent_runs.close,  # a run's readers learn that it has ended
        **{task.get_name(): partial(asyncio.wait, {task}) for task in tasks},
    }
    await close_all(closings, within_seconds=deadline.left(reserve_seconds=TOOLS_SECONDS))
    agents = {"agents": coordinator.streaming_agents.close}
    await close_all(agents, within_seconds=deadline.left(reserve_seconds=TOOLS_SECONDS))


async def _close_entry_points(
    coordinator: Coordinator, database: Database, server: _Server, http: asyncio.Task[None]
) -> None:
    try:
        await coordinator.slack_entry_point.close()  # accepts no new events and stores the accepted ones
    finally:
        database.wakeups.close()  # waiting polls answer with an empty list
        server.stop()  # runs that answer now are still served
        await asyncio.wait({http})


async def _upkeep(coordinator: Coordinator, term: LockTerm) -> None:
    """Runs the jobs of the elected process."""
    coordinator.terms[UPKEEP] = term
    coordinator.pacing.take_over()
    try:
        async with asyncio.TaskGroup() as works:
            works.create_task(coordinator.sender.run(term.holds, term.is_ours), name="sender")
            works.create_task(coordinator.webhooks.run(), name="webhooks")
            works.create_task(coordinator.sweeper.run(), name="sweeper")
            works.create_task(coordinator.backfill.run(), name="backfill")
            works.create_task(coordinator.verifier.run(), name="verifier")
            works.create_task(coordinator.catch_up.run(), name="catch up")
            works.create_task(coordinator.streaming_agents.run(term), name="streaming_agents")
            works.create_task(coordinator.status_lines.run(term.is_ours), name="status lines")
    finally:
        await coordinator.status_lines.look_once(term.is_ours)  # the runs have ended


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signal handling to `process`, and looks after itself once a second: uvicorn looks
    ten times a second whether it has been stopped."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Accepts no more requests, and completes those that have begun."""
        self.should_exit = True
        self._stopped.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # at each multiple of ten, it updates the header with the date
            with suppress(TimeoutError):
                async with asyncio.timeout(until_next(_TICK_SECONDS)):
                    await self._stopped.wait()


async def _until_stopped(stop: asyncio.Event, slack: asyncio.Task[None], works: list[asyncio.Task[None]]) -> None:
    """Returns once a stop is requested. Raises the error of a task; only the task that connects to Slack may end by
    itself."""
    stopped = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Task[Any]] = {stopped, slack, *works}
    while not stop.is_set():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
            if task is not slack:
                raise RuntimeError(f"{task.get_name()} ended unexpectedly")
    stopped.cancel()
