"""The one place where everything is put together; start reading here.

``run`` takes the settings, builds database, Slack and use cases, opens the doors, and keeps the background tasks alive
until it is told to stop. Nothing else in the system reads the configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import structlog
import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from swarm import clock
from swarm.app import built_in, home, managed_agents, preflight, process, settings_mapping
from swarm.app.built_in import BuiltInAgentSet
from swarm.app.reload import Reloader
from swarm.app.settings_mapping import secret
from swarm.app.shutdown import Close, StopDeadline, close_all
from swarm.config import Settings, SlackMode
from swarm.config import secrets as config_secrets
from swarm.domain.errors import Unavailable
from swarm.domain.routing import Me
from swarm.domain.text import secrets as text_secrets
from swarm.domain.watchers import Watchers
from swarm.entrypoints.http.agents_api import Warnings, no_warnings
from swarm.entrypoints.http.http_api import PAGES_MAY_CALL, create_app
from swarm.entrypoints.http.metrics import Measured, MetricsDoor
from swarm.entrypoints.http.operator_api import Reload
from swarm.entrypoints.mcp.mcp_door import McpDoor
from swarm.entrypoints.slack.slack_events import Handle, Press, SlackDoor, Stopped
from swarm.entrypoints.web.access import Access
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.server import Config, ConnectionLimits
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.services.intake.backfill import Backfill
from swarm.services.intake.catch_up import CatchUp
from swarm.services.intake.event_watchdog import EventWatchdog
from swarm.services.intake.ingest import Ingest
from swarm.services.intake.verify import Verifier
from swarm.services.operate.statistics import FigureReader
from swarm.services.operate.sweep import Sweeper, listen
from swarm.services.operate.ticker import Ticker
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.outbox.elections import Election, OfficeTerm, boottime
from swarm.services.rules.roster import Rosters
from swarm.services.rules.standings import Standings
from swarm.services.runs.buttons import Buttons
from swarm.services.runs.converse import Converse
from swarm.services.runs.run_control import RunControl
from swarm.services.use_cases import Services
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.live import LiveStage
from swarm.slack.outgoing.names import Names
from swarm.slack.outgoing.pacing import Pacing
from swarm.store.admin import preparation
from swarm.store.bridge import clock_changes
from swarm.store.bridge.database import Database
from swarm.store.bridge.urls import PostgresUrl, parse_url
from swarm.telemetry import loop_lag
from swarm.telemetry.setup import Telemetry, watching
from swarm.telemetry.slack import WatchedSender, watched_events

TOOLS_SECONDS: Final = 3.5
"""So much of the time for a stop is kept for what runs have used: MCP servers, sessions at AWS, models."""

DRAIN_SECONDS: Final = 3
"""So long answers over HTTP that have begun may take at a stop, in whole seconds."""

IDENTIFY_AGAIN_SECONDS: Final = 2.0

UPKEEP: Final = "upkeep"
"""The office of the one coordinator process that sends, sweeps and reads threads."""

_elapsed = clock.offset.after(time.monotonic)

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run a coordinator until SIGINT or SIGTERM. Raises ConfigurationError or Unavailable if it cannot start.

    The settings have passed `preflight.check`.
    """
    os.umask(0o077)  # what is written from now on holds what people said
    if settings.test_clock:
        process.follow_test_clock(settings.test_clock)
    text_secrets.switch(on=settings.remove_secrets)
    text_secrets.hide(config_secrets(settings))
    with asyncio.Runner(loop_factory=process.fast_loop) as runner:
        runner.run(serve(settings))


async def serve(settings: Settings) -> None:
    """The coordinator's whole life."""
    stop = process.stop_on_signals()
    hangup = process.told_by_hangup(stop)
    deadline = StopDeadline()
    with process.listening(settings.http) as listener, _telemetry(settings) as telemetry:
        async with (
            _slack(settings, telemetry) as slack,
            _database(settings, telemetry) as database,
            AsyncExitStack() as stack,
        ):
            try:
                opening = built_in.opened(settings, database, deadline)
                agents = await process.unless_stopped(stack.enter_async_context(opening), stop)
                me = await process.unless_stopped(_identified(slack.gateway, stop), stop)
                if me and agents:
                    coordinator = build(settings, database, slack, me, telemetry, agents)
                    await process.unless_stopped(_introduced(coordinator), stop)
                    await _live(coordinator, database, listener, stop, hangup, deadline)
            finally:
                stop.begin()


@dataclass(frozen=True, kw_only=True, slots=True)
class Slack:
    """What calls Slack, and how often."""

    gateway: Gateway
    names: Names
    pacing: Pacing


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinator:
    """Everything that lives while the coordinator does."""

    app: ASGIApp
    limits: ConnectionLimits  # of what clients may take
    slack_door: SlackDoor
    election: Election
    terms: dict[str, OfficeTerm]  # of the offices that this process has held, by role
    pacing: Pacing
    sender: OutboxSender
    sweeper: Sweeper
    backfill: Backfill
    verifier: Verifier
    catch_up: CatchUp
    hearing: EventWatchdog
    converse: Converse
    agent_runs: AgentRuns
    reloader: Reloader
    telemetry: Telemetry
    lease_seconds: float


def build(
    settings: Settings, database: Database, slack: Slack, me: Me, telemetry: Telemetry, agents: BuiltInAgentSet
) -> Coordinator:
    """Wire doors, use cases, database, Slack and the built-in agents."""
    conduct = settings_mapping.operating_policy(settings)
    services = Services.over(
        database,
        slack.names,
        me,
        conduct,
        slack.gateway.files,
        file_cap_bytes=settings.files.cap_bytes,
        forget_name=slack.names.forget,
    )
    rosters = Rosters(database, conduct)
    standings = Standings(database, slack.names, me)
    ingest = Ingest(database, rosters, me, conduct, standings)
    stage = LiveStage(slack.gateway.streams, doubt_seconds=2 * settings.slack.timeout_seconds + 1)
    converse = managed_agents.converse(settings, database, services, slack.names, stage, me, conduct, agents.hired)
    reloader = Reloader(settings, conduct.book, rosters, introduce=converse.introduce)
    hearing = EventWatchdog(
        database,
        slack.gateway,
        me,
        watcher=telemetry.watcher,
        monotonic=_elapsed,
        sleep=clock.offset.sleep,
    )
    handle = watched_events(ingest.handle, telemetry.watcher)
    slack_door = _slack_door(
        settings,
        slack.gateway,
        hearing,
        handle,
        Buttons(database, conduct, standings, me.team).press,
        RunControl(database, conduct, me.team, standings).stop_session,
    )
    terms: dict[str, OfficeTerm] = {}
    figures = FigureReader(database, conduct)
    runs = AgentRuns(agents.agents, ConversationLocks(database), settings_mapping.caller_policies(settings))
    return Coordinator(
        app=_application(
            settings, services, slack_door, hearing, figures, telemetry, terms, reloader.reload, runs, reloader.warnings
        ),
        limits=ConnectionLimits(connections=process.possible_connections(settings.http.most_connections)),
        agent_runs=runs,
        terms=terms,
        slack_door=slack_door,
        election=Election(database, UPKEEP, process.who_we_are(settings.http.port), clock=clock.offset.after(boottime)),
        pacing=slack.pacing,
        sender=OutboxSender(
            database,
            WatchedSender(slack.gateway, Watchers([telemetry.watcher, hearing])),
            me.team,
            http_timeout_seconds=settings.slack.timeout_seconds,
            reactions=conduct.reactions,
        ),
        sweeper=Sweeper(database, conduct),
        backfill=Backfill(database, slack.gateway, me, conduct, standings, handle, telemetry.watcher),
        verifier=Verifier(database, ingest, standings),
        catch_up=CatchUp(database, slack.gateway, me, handle, telemetry.watcher),
        hearing=hearing,
        converse=converse,
        reloader=reloader,
        telemetry=telemetry,
        lease_seconds=conduct.lease_seconds,
    )


def _application(
    settings: Settings,
    services: Services,
    slack_door: SlackDoor,
    hearing: EventWatchdog,
    figures: FigureReader,
    telemetry: Telemetry,
    terms: Mapping[str, OfficeTerm],
    reload: Reload,
    runs: AgentRuns,
    warnings: Warnings = no_warnings,
) -> Measured:
    """Everything that is served over HTTP."""
    identities = Identities(services.agents, home.make_operator_token(settings), secret(settings.enrolment_key))
    mcp_door = McpDoor(services, identities, watcher=telemetry.watcher)

    def readiness() -> dict[str, bool]:
        return {"slack": _slack_is_connected(settings, slack_door) and not hearing.is_deaf}

    metrics_door = MetricsDoor(
        telemetry.metrics,
        figures,
        identities,
        readiness,
        services.overview,
        offices=lambda: {UPKEEP: UPKEEP in terms and terms[UPKEEP].holds()},
        token=secret(settings.metrics.token),
        open_to_all=settings.metrics.open,
    )
    app = create_app(
        services,
        identities,
        readiness,
        routes=[*mcp_door.routes(), *slack_door.routes(), *metrics_door.routes(), *_agui_routes(runs, identities)],
        running=[mcp_door.running],
        reload=reload,
        warnings=warnings,
        access=Access(
            bound_to=settings.http.host,
            hosts=settings.http.allowed_hosts,
            origins=settings.http.allowed_origins,
            origin_paths=PAGES_MAY_CALL,
        ),
        version=version("swarm"),
    )
    return Measured(app, telemetry.metrics, plain_paths=app.plain_paths)


def _agui_routes(runs: AgentRuns, identities: Identities) -> list[BaseRoute]:
    """The built-in agents over AG-UI, if there are any."""
    if not runs.names:
        return []
    from swarm.entrypoints.agui.agui_api import AguiDoor  # the protocol's types take a while to load

    return AguiDoor(runs, identities).routes()


async def _introduced(coordinator: Coordinator) -> None:
    """What is done before the doors open."""
    await coordinator.converse.introduce()
    await coordinator.reloader.doubts()


async def _live(
    coordinator: Coordinator,
    database: Database,
    listener: socket.socket,
    stop: process.StopSignal,
    hangup: asyncio.Event,
    deadline: StopDeadline,
) -> None:
    """Open the doors and work until told to stop; then close them so that nothing gets lost."""
    config = Config(coordinator.app, limits=coordinator.limits, backlog=2048, timeout_graceful_shutdown=DRAIN_SECONDS)
    server = _Server(config)
    http = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    slack = asyncio.create_task(coordinator.slack_door.start(), name="slack")
    upkeep = partial(_keep_up, coordinator)
    background = [asyncio.create_task(coordinator.election.run(upkeep), name=UPKEEP)]
    background.append(asyncio.create_task(coordinator.reloader.obey(hangup), name="reload"))
    background.append(asyncio.create_task(coordinator.hearing.run(coordinator.slack_door), name="hearing"))
    background.append(asyncio.create_task(listen(database, coordinator.lease_seconds), name="listen"))
    lag = coordinator.telemetry.metrics.count.event_loop_lag_seconds
    background.append(asyncio.create_task(loop_lag.watch(lag.observe), name="loop lag"))
    if database.dialect == "postgresql":
        background.append(asyncio.create_task(Ticker(database).run(), name="ticker"))
    process.settle_memory()
    _log.info("The coordinator is up.", action="start", address=process.address(listener))
    try:
        await _until_told(stop, slack, [http, *background])
    finally:
        _log.info("Stopping.", action="stop")
        stop.begin()
        for task in (slack, *background):
            task.cancel()  # the calls to Slack that have begun are brought to their end
        doors = partial(_close_doors, coordinator, database, server, http)
        await _ended(coordinator, doors, [slack, *background], deadline)


async def _ended(
    coordinator: Coordinator, close_doors: Close, tasks: list[asyncio.Task[None]], deadline: StopDeadline
) -> None:
    """Take nothing more, and wait for what runs: for all at once, since any may have to wait for somebody else."""
    closings: dict[str, Close] = {
        "doors": close_doors,
        "runs": coordinator.agent_runs.close,  # who listens to one is told
        **{task.get_name(): partial(asyncio.wait, {task}) for task in tasks},
    }
    await close_all(closings, within_seconds=deadline.left(reserve_seconds=TOOLS_SECONDS))
    agents = {"agents": coordinator.converse.close}
    await close_all(agents, within_seconds=deadline.left(reserve_seconds=TOOLS_SECONDS))


async def _close_doors(
    coordinator: Coordinator, database: Database, server: uvicorn.Server, http: asyncio.Task[None]
) -> None:
    try:
        await coordinator.slack_door.close()  # nothing new is accepted, and what was accepted is stored
    finally:
        database.wakeups.close()  # the polls that wait answer with an empty list
        server.should_exit = True  # runs that answer now still get through
        await asyncio.wait({http})


async def _keep_up(coordinator: Coordinator, term: OfficeTerm) -> None:
    """What the elected process does."""
    coordinator.terms[UPKEEP] = term
    coordinator.pacing.take_over()
    async with asyncio.TaskGroup() as works:
        works.create_task(coordinator.sender.run(term.holds, term.is_ours), name="sender")
        works.create_task(coordinator.sweeper.run(), name="sweeper")
        works.create_task(coordinator.backfill.run(), name="backfill")
        works.create_task(coordinator.verifier.run(), name="verifier")
        works.create_task(coordinator.catch_up.run(), name="catch up")
        works.create_task(coordinator.converse.run(term), name="converse")


class _Server(uvicorn.Server):
    """A uvicorn that leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until_told(stop: asyncio.Event, slack: asyncio.Task[None], works: list[asyncio.Task[None]]) -> None:
    """Return when told to stop. Raise what a task raised, since none but the connecting may end by itself."""
    stopped = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Task[Any]] = {stopped, slack, *works}
    while not stop.is_set():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
            if task is not slack:
                raise RuntimeError(f"{task.get_name()} ended, which it never should")
    stopped.cancel()


async def _identified(gateway: Gateway, stop: asyncio.Event) -> Me | None:
    """Who we are in Slack, once it can be asked; None when told to stop before."""
    while not stop.is_set():
        try:
            return await gateway.identify()
        except Unavailable as error:
            _log.warning("Slack cannot be asked who we are", action="identify", error=error.message)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), IDENTIFY_AGAIN_SECONDS)
    return None


def _telemetry(settings: Settings) -> AbstractContextManager[Telemetry]:
    kind = "postgresql" if isinstance(parse_url(settings.database_url), PostgresUrl) else "sqlite"
    return watching(version=version("swarm"), database=kind, traces_endpoint=settings.traces.endpoint)


@asynccontextmanager
async def _database(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Database]:
    """The database, migrated: the embedded one by us, a PostgreSQL by its operator."""
    await asyncio.to_thread(preparation.prepare, settings.database_url)
    tests_clock = clock.SystemClock() if settings.test_clock else None  # without it PostgreSQL's own counts
    async with Database(settings.database_url, clock=tests_clock, watcher=telemetry.watcher) as database:
        await database.write(clock_changes.started)
        yield database


@asynccontextmanager
async def _slack(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Slack]:
    pacing = Pacing(enforced=settings.slack.pace, monotonic=_elapsed, sleep=clock.offset.sleep)
    gateway = Gateway(
        preflight.bot_token(settings),
        pacing=pacing,
        base_url=settings.slack.api_base_url,
        timeout_seconds=settings.slack.timeout_seconds,
        watcher=telemetry.watcher,
        agent_sessions=settings.slack.agent_sessions,
    )
    names = Names(gateway)
    try:
        yield Slack(gateway=gateway, names=names, pacing=pacing)
    finally:
        await names.close()
        await gateway.close()


def _slack_door(
    settings: Settings, gateway: Gateway, hearing: EventWatchdog, handle: Handle, press: Press, stopped: Stopped
) -> SlackDoor:
    return SlackDoor(
        gateway,
        handle,
        press,
        stopped=stopped,
        hearing=hearing,
        app_token=secret(settings.slack.app_token) if settings.slack.mode is SlackMode.SOCKET else None,
        signing_secret=secret(settings.slack.signing_secret),
    )


def _slack_is_connected(settings: Settings, door: SlackDoor) -> bool:
    return settings.slack.mode is SlackMode.HTTP or door.connected
