"""The one place where everything is put together; start reading here.

``run`` takes the settings, builds database, Slack and use cases, opens the doors, and keeps the background tasks alive
until it is told to stop. Nothing else in the system reads the configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from pydantic import SecretStr

from swarm.clock import SystemClock
from swarm.config import ChannelSettings, Settings, SlackMode
from swarm.domain.access import ChannelPolicy
from swarm.domain.conduct import Conduct, Reactions
from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.domain.routing import Me
from swarm.entrypoints.health import Readiness
from swarm.entrypoints.http_api import create_app
from swarm.entrypoints.identity import Identities
from swarm.entrypoints.services import Services
from swarm.entrypoints.slack_events import SlackDoor
from swarm.services.agents import Agents
from swarm.services.backfill import Backfill
from swarm.services.claim import Polls
from swarm.services.deliver import Sender
from swarm.services.explain import Explanations
from swarm.services.inbox import Inbox
from swarm.services.ingest import Ingest
from swarm.services.reply import Replies
from swarm.services.roster import Rosters
from swarm.services.sweep import Sweeper
from swarm.services.triggers import Triggers
from swarm.slack.gateway import Gateway
from swarm.slack.names import Names
from swarm.slack.pacing import Pacing
from swarm.store import migrations
from swarm.store.database import Database

SHUTDOWN_SECONDS: Final = 8.0
"""After so long, what still runs is cut off; a supervisor's patience usually ends at ten."""

IDENTIFY_AGAIN_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run a coordinator until SIGINT or SIGTERM. Raises ConfigurationError or Unavailable if it cannot start."""
    with asyncio.Runner(loop_factory=_fast_loop) as runner:
        runner.run(serve(settings))


async def serve(settings: Settings) -> None:
    """The coordinator's whole life."""
    stop = _stop_on_signals()
    _prepare_home(settings)
    with _listening(settings) as listener:
        async with _database(settings) as database, _slack(settings) as gateway:
            me = await _identified(gateway, stop)
            if me:
                await _live(settings, database, gateway, me, listener, stop)


@dataclass(frozen=True, kw_only=True, slots=True)
class Coordinator:
    """The parts that live while the coordinator does."""

    services: Services
    door: SlackDoor
    sender: Sender
    sweeper: Sweeper
    backfill: Backfill


def build(settings: Settings, database: Database, gateway: Gateway, me: Me) -> Coordinator:
    """Wire the use cases to database and Slack."""
    conduct = _conduct(settings)
    rosters = Rosters(database, conduct)
    triggers = Triggers(database, Names(gateway), me)
    ingest = Ingest(database, rosters, me, conduct)
    door = SlackDoor(
        gateway,
        ingest.handle,
        app_token=_secret(settings.slack.app_token) if settings.slack.mode is SlackMode.SOCKET else None,
        signing_secret=_secret(settings.slack.signing_secret),
    )
    services = Services(
        database=database,
        agents=Agents(database, conduct),
        polls=Polls(database, triggers),
        replies=Replies(database, conduct.reactions),
        inbox=Inbox(database, triggers),
        explanations=Explanations(database, me.team),
        conduct=conduct,
        readiness=Readiness(database, slack_connected=lambda: _slack_is_connected(settings, door)),
    )
    timeout = settings.slack.timeout_seconds
    return Coordinator(
        services=services,
        door=door,
        sender=Sender(database, gateway, me.team, http_timeout_seconds=timeout),
        sweeper=Sweeper(database, conduct),
        backfill=Backfill(database, gateway, me),
    )


async def _live(
    settings: Settings, database: Database, gateway: Gateway, me: Me, listener: socket.socket, stop: asyncio.Event
) -> None:
    """Open the doors, work, and close them in an order in which nothing gets lost.

    Slack first, so that nothing new is accepted; then the waiting polls, which answer empty; then HTTP, so that runs
    can still answer; then the background tasks, which bring the calls at hand to their end.
    """
    coordinator = build(settings, database, gateway, me)
    identities = Identities(coordinator.services.agents, _operator_token(settings), _secret(settings.enrolment_key))
    app = create_app(coordinator.services, identities, routes=coordinator.door.routes())
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=4))
    background = [
        asyncio.create_task(work, name=name)
        for name, work in {
            "http": server.serve(sockets=[listener]),
            "sender": coordinator.sender.run(),
            "sweeper": coordinator.sweeper.run(),
            "backfill": coordinator.backfill.run(),
        }.items()
    ]
    connecting = asyncio.create_task(coordinator.door.start(), name="slack")
    _settle_memory()
    _log.info("the coordinator is up", action="start", address=_address(listener), team=me.team)
    try:
        await _first_failure([connecting], background, stop)
    finally:
        _log.info("stopping", action="stop")
        async with asyncio.timeout(SHUTDOWN_SECONDS):
            connecting.cancel()
            await coordinator.door.close()
            database.wakeups.close()
            server.should_exit = True
            await asyncio.gather(background[0], return_exceptions=True)
            for task in background[1:]:
                task.cancel()
            await asyncio.gather(connecting, *background, return_exceptions=True)


class _Server(uvicorn.Server):
    """A uvicorn that leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _first_failure(
    until_done: list[asyncio.Task[None]], forever: list[asyncio.Task[None]], stop: asyncio.Event
) -> None:
    """Return when told to stop; raise what a background task raised, since none of them may end by itself."""
    stopped = asyncio.create_task(stop.wait())
    waiting: set[asyncio.Task[object]] = {stopped, *until_done, *forever}  # type: ignore[arg-type]
    while not stop.is_set():
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
            if task in forever:
                raise RuntimeError(f"the background task {task.get_name()} ended")
            waiting.discard(task)
    stopped.cancel()


def _stop_on_signals() -> asyncio.Event:
    """An event that the first SIGINT or SIGTERM sets; the second one ends the process at once."""
    stop = asyncio.Event()

    def heard(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, heard, number)
    return stop


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


@asynccontextmanager
async def _database(settings: Settings) -> AsyncIterator[Database]:
    """The database, migrated: the embedded one by us, a PostgreSQL by its operator."""
    await asyncio.to_thread(migrations.prepare, settings.database_url)
    async with Database(settings.database_url) as database:
        yield database


@asynccontextmanager
async def _slack(settings: Settings) -> AsyncIterator[Gateway]:
    token = _secret(settings.slack.bot_token)
    if token is None:
        raise ConfigurationError(
            "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set. `swarm slack manifest` helps to create the Slack app; "
            "`swarm demo` runs everything against a local twin of Slack."
        )
    gateway = Gateway(
        token,
        pacing=Pacing(),
        base_url=settings.slack.api_base_url,
        timeout_seconds=settings.slack.timeout_seconds,
    )
    try:
        yield gateway
    finally:
        await gateway.close()


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The listening socket, bound before anything else is done, so that a port in use is said in one line."""
    host, port = settings.http.host, settings.http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"http.port (PORT) is {port}: {host}:{port} cannot be used ({error.strerror}). "
                "Stop what listens there, or choose another port."
            ) from error
        listener.listen(2048)
        yield listener


def _conduct(settings: Settings) -> Conduct:
    return Conduct(
        default_agent=settings.agents.default,
        offline_after_seconds=settings.agents.offline_after_seconds,
        started_at=SystemClock().now_us(),
        reactions=Reactions(
            stored=settings.reactions.stored,
            answered=settings.reactions.answered,
            failed=settings.reactions.failed,
        ),
        channels={channel: _policy(chosen) for channel, chosen in settings.channels.items()},
        everywhere=_policy(settings.channel_defaults),
    )


def _policy(chosen: ChannelSettings) -> ChannelPolicy:
    return ChannelPolicy(
        agent=chosen.agent,
        enabled=chosen.enabled,
        listen=chosen.listen,
        allowed_users=chosen.allowed_users,
        allowed_bots=chosen.allowed_bots,
    )


def _prepare_home(settings: Settings) -> None:
    try:
        settings.home.expanduser().mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(f"home (SWARM_HOME) is {settings.home}: {error.strerror}") from error


def _operator_token(settings: Settings) -> str:
    """The operator's token: the configured one, or one that is made once and kept in the home folder."""
    configured = _secret(settings.operator_token)
    if configured:
        return configured
    path = settings.home.expanduser() / "operator.token"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return _write_secret(path, "swarm_operator_" + secrets.token_urlsafe(32))


def _write_secret(path: Path, value: str) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(value + "\n")
    return value


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value else None


def _slack_is_connected(settings: Settings, door: SlackDoor) -> bool:
    return settings.slack.mode is SlackMode.HTTP or door.connected


def _settle_memory() -> None:
    """What exists now lives as long as the process; with it in the collector's way, held polls stall the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


def _fast_loop() -> asyncio.AbstractEventLoop:
    make: Callable[[], asyncio.AbstractEventLoop]
    try:
        import uvloop
    except ImportError:  # not on every platform
        make = asyncio.new_event_loop
    else:
        make = uvloop.new_event_loop
    return make()
