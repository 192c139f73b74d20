"""Builds the coordinator from the settings. Start reading here.

`run` opens the database and the connection to Slack, `build` wires services and entry points, and `swarm.app.lifecycle`
runs them until the process is stopped. Nothing below `swarm.app` reads the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog

from swarm import clock
from swarm.agents.webhooks import HttpWebhookClient
from swarm.app import extending, home, preflight, process, settings_mapping
from swarm.app.extending import AgentSet, RouteHost
from swarm.app.lifecycle import UPKEEP, Coordinator, introduce, live, serving
from swarm.app.process import StopDeadline
from swarm.app.reload import Reloader
from swarm.app.settings_mapping import secret
from swarm.app.slack_check import SlackCheck
from swarm.config import Settings, SlackMode
from swarm.config import secrets as config_secrets
from swarm.config.reading import overruled_tokens
from swarm.domain.answers.agents import conversation_with
from swarm.domain.errors import Unavailable
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.troubles import AUTH_PART
from swarm.domain.watchers import Watcher, Watchers
from swarm.entrypoints.http.health import waiting_app
from swarm.entrypoints.http.http_api import PAGES_MAY_CALL, create_app
from swarm.entrypoints.http.metrics import Measured, MetricsEntryPoint
from swarm.entrypoints.mcp.mcp_server import McpEntryPoint
from swarm.entrypoints.slack.commands import CommandDoor
from swarm.entrypoints.slack.request_presses import RequestDoor
from swarm.entrypoints.slack.slack_events import Handle, SlackEntryPoint
from swarm.entrypoints.web.access import Access
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.server import ConnectionLimits
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.services.ground.locks import Election, LockTerm
from swarm.services.intake.backfill import Backfill
from swarm.services.intake.catch_up import CatchUp
from swarm.services.intake.commands import Commands
from swarm.services.intake.event_watchdog import EventWatchdog
from swarm.services.intake.homes import HomeTabs
from swarm.services.intake.ingest import Ingest
from swarm.services.intake.panes import Panes
from swarm.services.intake.verify import Verifier
from swarm.services.operate.overview import FigureReader
from swarm.services.operate.sweep import Sweeper
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.outbox.status_lines import StatusLines
from swarm.services.outbox.webhooks import WebhookSender
from swarm.services.runs.active_runs import ActiveRuns, RunNotifications
from swarm.services.runs.answer_run import RunContext
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.runs.run_control import Buttons, RunControl
from swarm.services.runs.run_recovery import Recovery
from swarm.services.runs.streaming_agents import StreamingAgentRuns
from swarm.services.speaking.escalations import tell_failed_call
from swarm.services.speaking.participants import Rosters, Standings
from swarm.services.use_cases import Services
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.live import LiveStage
from swarm.slack.outgoing.names import Names
from swarm.slack.outgoing.pacing import Pacing
from swarm.store.admin import preparation
from swarm.store.bridge import clock_changes
from swarm.store.bridge.database import Database
from swarm.store.bridge.engine import PostgresUrl, parse_url
from swarm.store.threads import threads
from swarm.telemetry.setup import Telemetry, WatchedSender, watched_events, watching
from swarm_base import secrets as text_secrets

IDENTIFY_AGAIN_SECONDS: Final = 2.0

_elapsed = clock.offset.after(time.monotonic)

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Runs a coordinator until SIGINT or SIGTERM. Raises ConfigurationError or Unavailable if it cannot start.

    The settings have passed `preflight.check`.
    """
    os.umask(0o077)  # files created from now on contain people's messages
    if settings.test_clock:
        process.follow_test_clock(settings.test_clock)
    text_secrets.switch(on=settings.remove_secrets)
    text_secrets.hide(config_secrets(settings))
    with asyncio.Runner(loop_factory=process.fast_loop) as runner:
        runner.run(serve(settings))


async def serve(settings: Settings) -> None:
    """Opens all parts, serves requests, and closes the parts in reverse order."""
    stop = process.stop_on_signals()
    hangup = process.told_by_hangup(stop)
    deadline = StopDeadline()
    with (
        process.sole_use(settings.database_url),
        process.listening(settings.http) as listener,
        _telemetry(settings) as telemetry,
    ):
        async with (
            _slack(settings, telemetry) as slack,
            _database(settings, telemetry) as database,
            AsyncExitStack() as stack,
        ):
            try:
                opening = extending.opened(settings, database, deadline, settings.remote_in_full)
                agents = await process.unless_stopped(stack.enter_async_context(opening), stop)
                me = await process.unless_stopped(_identified(slack.gateway, settings, listener, stop), stop)
                if me and agents:
                    coordinator = build(_base(settings, database, slack, me), telemetry, agents)
                    await process.unless_stopped(introduce(coordinator), stop)
                    await live(coordinator, database, listener, stop, hangup, deadline)
            finally:
                stop.begin()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slack:
    """The clients of Slack's Web API."""

    gateway: Gateway
    names: Names
    pacing: Pacing


@dataclass(frozen=True, kw_only=True, slots=True)
class _Base:
    """What the services and the entry points are built on."""

    settings: Settings
    database: Database
    slack: _Slack
    me: Me
    operating_policy: OperatingPolicy
    standings: Standings


def _base(settings: Settings, database: Database, slack: _Slack, me: Me) -> _Base:
    operating_policy = settings_mapping.operating_policy(settings, me.url)
    return _Base(
        settings=settings,
        database=database,
        slack=slack,
        me=me,
        operating_policy=operating_policy,
        standings=Standings(database, slack.names, me, operating_policy),
    )


def build(base: _Base, telemetry: Telemetry, agents: AgentSet) -> Coordinator:
    """Wires entry points, services, database, Slack and the agents of extensions."""
    settings, database, slack, me = base.settings, base.database, base.slack, base.me
    gateway, operating_policy, standings = slack.gateway, base.operating_policy, base.standings
    watcher = telemetry.watcher
    services = _services(base)
    connections = process.possible_connections(settings.http.most_connections)
    services.polls.leave_room(connections)
    agents.connect(services)
    rosters = Rosters(database, operating_policy)
    ingest = Ingest(database, rosters, me, operating_policy, standings, slack.names)
    handle = watched_events(ingest.handle, watcher)
    running, streaming_agents = _streaming_agents(base, services, agents.hired)
    added = {one.spec.name for one in agents.hired} - settings.agents.builtin.keys()  # which no settings name
    hearing = EventWatchdog(database, gateway, me, watcher=watcher, monotonic=_elapsed, sleep=clock.offset.sleep)
    homes = HomeTabs(database, gateway.personal, me, operating_policy, standings, slack.names, monotonic=_elapsed)
    slack_entry_point = _slack_entry_point(base, services, rosters, handle, hearing, homes)
    reloader = Reloader(
        settings,
        operating_policy.book,
        rosters,
        overruled=overruled_tokens,
        introduce=lambda names: streaming_agents.introduce({*names, *added}),
        slack_check=SlackCheck(gateway),
        use_tokens=partial(_use_tokens, gateway, slack_entry_point),
    )
    terms: dict[str, LockTerm] = {}
    figures = FigureReader(database, operating_policy)
    runs = AgentRuns(
        agents.agents,
        ConversationLocks(database),
        agents.callers,
        why_not_start=services.run_usage.why_not_start,
    )
    return Coordinator(
        app=_application(
            settings, services, gateway, slack_entry_point, hearing, figures, telemetry, terms, reloader, runs
        ),
        limits=ConnectionLimits(connections=connections),
        agent_runs=runs,
        terms=terms,
        slack_entry_point=slack_entry_point,
        election=_election(base),
        pacing=slack.pacing,
        sender=_sender(base, Watchers([watcher, hearing]), running),
        webhooks=WebhookSender(
            database,
            HttpWebhookClient(),
            lambda: operating_policy.book.current.webhooks,
            on_failure=partial(tell_failed_call, operating_policy=operating_policy),
        ),
        sweeper=Sweeper(database, operating_policy, slack.names, gateway, standings),
        backfill=Backfill(database, gateway, me, operating_policy, standings, handle, watcher),
        verifier=Verifier(database, ingest, standings),
        catch_up=CatchUp(database, gateway, me, handle, watcher),
        hearing=hearing,
        homes=homes,
        streaming_agents=streaming_agents,
        status_lines=StatusLines(database, gateway.streams),
        reloader=reloader,
        telemetry=telemetry,
        lease_seconds=operating_policy.lease_seconds,
    )


async def _use_tokens(gateway: Gateway, door: SlackEntryPoint, bot_token: str | None, app_token: str | None) -> None:
    """Goes on with other tokens of the same app, see `UseTokens`."""
    if bot_token:
        await gateway.check_token(bot_token)
    if app_token:
        await gateway.socket_url(app_token)
    if bot_token:
        gateway.use_token(bot_token)
    if app_token:
        await door.use_app_token(app_token)


def _services(base: _Base) -> Services:
    names, settings = base.slack.names, base.settings
    return Services.over(
        base.database,
        names,
        base.me,
        base.operating_policy,
        base.slack.gateway.files,
        file_cap_bytes=settings.files.cap_bytes,
        run_log_cap_bytes=settings.run_logs.cap_bytes,
        forget_name=names.forget,
        groups=names,
        standings=base.standings,
    )


def _election(base: _Base) -> Election:
    return Election(
        base.database,
        UPKEEP,
        process.who_we_are(base.settings.http.port),
        clock=clock.offset.after(clock.boottime),
        sleep=clock.offset.sleep,
    )


def _sender(base: _Base, watcher: Watcher, running: ActiveRuns) -> OutboxSender:
    return OutboxSender(
        base.database,
        WatchedSender(base.slack.gateway, watcher),
        base.me.team,
        http_timeout_seconds=base.settings.slack.timeout_seconds,
        operating_policy=base.operating_policy,
        around_card=running.around_card,
    )


def _streaming_agents(
    base: _Base, services: Services, added: Sequence[ManagedAgent]
) -> tuple[ActiveRuns, StreamingAgentRuns]:
    """Returns the service that runs all agents, remote ones and those of extensions, and their runs."""
    settings, database = base.settings, base.database
    stage = LiveStage(base.slack.gateway.streams, doubt_seconds=2 * settings.slack.timeout_seconds + 1)
    hired = [*_remote(settings), *added]
    specs = {one.spec.name: one.spec for one in hired}
    recovery = Recovery(database, stage.slack, specs, base.operating_policy)
    run_context = RunContext(
        database=database,
        stage=stage,
        work=services.work,
        directory=base.slack.names,
        me=base.me,
        operating_policy=base.operating_policy,
        recovery=recovery,
        run_usage=services.run_usage,
        stop_button_seconds=settings.slack.stop_button_after_seconds,
    )
    running = ActiveRuns(run_context)
    news = RunNotifications(services.work, services.tasks, services.delegations, running)
    return running, StreamingAgentRuns(database, services.polls, running, recovery, news, hired)


def _remote(settings: Settings) -> list[ManagedAgent]:
    remotes = settings_mapping.remote_agents(settings)
    if not remotes:
        return []
    specs = {spec.name: spec for spec in settings_mapping.streaming_agents(settings)}
    from swarm.agents.remote.agui import AguiAgent  # loading the types takes a while, and many installations need none

    return [
        ManagedAgent(
            spec=specs[remote.name], client=AguiAgent(remote), conversation_id=partial(conversation_with, remote)
        )
        for remote in remotes
    ]


def _application(
    settings: Settings,
    services: Services,
    gateway: Gateway,
    slack_entry_point: SlackEntryPoint,
    hearing: EventWatchdog,
    figures: FigureReader,
    telemetry: Telemetry,
    terms: Mapping[str, LockTerm],
    reloader: Reloader,
    runs: AgentRuns,
) -> Measured:
    """Returns the HTTP application: API, MCP, Slack events, metrics, and the routes of extensions."""
    identities = Identities(services.agents, home.make_operator_token(settings), secret(settings.enrolment_key))
    mcp = McpEntryPoint(services, identities, watcher=telemetry.watcher)

    def readiness() -> dict[str, bool]:
        is_connected = _slack_is_connected(settings, slack_entry_point) and not hearing.is_deaf
        return {"slack": is_connected, AUTH_PART: gateway.refused_by is None}

    metrics = MetricsEntryPoint(
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
        routes=[*mcp.routes(), *slack_entry_point.routes(), *metrics.routes()],
        running=[mcp.running],
        reload=reloader.reload,
        warnings=reloader.warnings,
        troubles=lambda: gateway.troubles,
        since=lambda: {
            "last_event_seconds": hearing.last_event_seconds(),
            "last_post_seconds": gateway.last_post_seconds(),
        },
        access=Access(
            bound_to=settings.http.host,
            hosts=settings.http.allowed_hosts,
            origins=settings.http.allowed_origins,
            origin_paths=PAGES_MAY_CALL,
        ),
        version=version("swarm"),
    )
    host = RouteHost(settings=settings, section=None, services=services, identities=identities, runs=runs)
    app.router.routes.extend(extending.routes(host, app.routes))
    return Measured(app, telemetry.metrics, plain_paths=app.plain_paths)


async def _identified(gateway: Gateway, settings: Settings, listener: socket.socket, stop: asyncio.Event) -> Me | None:
    """Returns our identity in Slack. If Slack does not answer, it is that of the last start with this token; a first
    start waits for Slack, with only the health routes open. Returns None if stopped first."""
    me, is_open = None, False
    async with AsyncExitStack() as meanwhile:
        while not stop.is_set():
            try:
                me = await gateway.identify()
                home.keep_identity(settings, me)
                break
            except Unavailable as error:
                _log.warning("Our identity cannot be read from Slack", action="identify", error=error.message)
                if kept := home.kept_identity(settings):
                    _log.warning("The identity of the last start is used until Slack answers.", action="identify")
                    return kept
                if not is_open:
                    await meanwhile.enter_async_context(serving(waiting_app(), listener))
                    is_open = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), IDENTIFY_AGAIN_SECONDS)
    return me


def _telemetry(settings: Settings) -> AbstractContextManager[Telemetry]:
    kind = "postgresql" if isinstance(parse_url(settings.database_url), PostgresUrl) else "sqlite"
    return watching(version=version("swarm"), database=kind, traces_endpoint=settings.traces.endpoint)


@asynccontextmanager
async def _database(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Database]:
    """Yields the database with the current schema. SQLite is migrated here; PostgreSQL is migrated by its operator
    before the start."""
    await asyncio.to_thread(preparation.prepare, settings.database_url)
    tests_clock = clock.SystemClock() if settings.test_clock else None  # otherwise PostgreSQL uses its own clock
    async with Database(
        settings.database_url,
        pooler_url=settings.database.pooler_url,
        clock=tests_clock,
        watcher=telemetry.watcher,
    ) as database:
        await database.write(clock_changes.started)
        if not await database.read(threads.is_there_any):
            _log.warning(
                f"The database {parse_url(settings.database_url)} holds no conversation yet. If it should, check home "
                "(SWARM_HOME) and database.url (SWARM_DATABASE_URL).",
                action="database_empty",
            )
        yield database


@asynccontextmanager
async def _slack(settings: Settings, telemetry: Telemetry) -> AsyncIterator[_Slack]:
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
        yield _Slack(gateway=gateway, names=names, pacing=pacing)
    finally:
        await names.close()
        await gateway.close()


def _slack_entry_point(
    base: _Base, services: Services, rosters: Rosters, handle: Handle, hearing: EventWatchdog, homes: HomeTabs
) -> SlackEntryPoint:
    settings, database, gateway, names = base.settings.slack, base.database, base.slack.gateway, base.slack.names
    me, operating_policy, standings = base.me, base.operating_policy, base.standings
    return SlackEntryPoint(
        gateway,
        handle,
        Buttons(database, operating_policy, standings, me, names, names).press,
        stopped=RunControl(database, operating_policy, me.team, standings).stop_session,
        opened=Panes(database, operating_policy, me.team, standings, rosters).opened,
        requests=RequestDoor(gateway, services.decisions),
        commands=CommandDoor(gateway, Commands(database, operating_policy, me, standings, names), homes),
        hearing=hearing,
        app_token=secret(settings.app_token) if settings.mode is SlackMode.SOCKET else None,
        signing_secret=secret(settings.signing_secret),
    )


def _slack_is_connected(settings: Settings, door: SlackEntryPoint) -> bool:
    return door.takes_http if settings.slack.mode is SlackMode.HTTP else door.connected
