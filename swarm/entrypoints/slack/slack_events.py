"""The entry point for Slack's events, over Socket Mode or HTTP.

An event is acknowledged after ``handle`` has returned, and therefore after its commit. If ``handle`` raises, the event
is not acknowledged, and Slack sends it again. Events without a listener are acknowledged at once; otherwise Slack would
also send them again, and would finally disable the app.

Bolt parses and dispatches the events. Two of its defaults are switched off: Bolt would ask Slack for our identity and
acknowledge an event without authorisation, and it would hide deletions of our own posts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

import orjson
import structlog
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.adapter.socket_mode.internals import build_headers
from slack_bolt.adapter.starlette.async_handler import to_async_bolt_request, to_starlette_response
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.authorization.async_authorize import AsyncAuthorize
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swarm.domain.errors import BadRequest, ConfigurationError, SwarmError, TooLarge
from swarm.domain.model.threads import AuthorKind, MessageDeleted, MessageEdited, SlackEvent, SlackMessage
from swarm.domain.requests.button_actions import ButtonPressed, PaneOpened, PressResult, SessionStopped
from swarm.entrypoints.slack.button_presses import ButtonDoor, Press
from swarm.entrypoints.slack.commands import CommandDoor
from swarm.entrypoints.slack.request_presses import RequestDoor
from swarm.entrypoints.web.errors import describe
from swarm.slack.incoming.fields import JsonObject, object_at
from swarm.slack.incoming.payloads import pane_opened, session_stopped, slack_event
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.transport import BACKOFF_SECONDS, SocketMode, until_reachable, verify
from swarm_base.processes.background import BackgroundTasks

T = TypeVar("T")

MAX_BODY_BYTES: Final = 1024 * 1024

_DRAIN_SECONDS: Final = 1.5  # time limit of close() for events in progress
_LATE_SECONDS: Final = 0.3  # and for answers after an acknowledgement

_MALFORMED_FOR_BOLT: Final = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)
"""Bolt's errors for a payload that does not have the structure of Slack's payloads."""

_log = structlog.get_logger(__name__)

_BOLT_LOGGER: Final = "swarm.slack.bolt"

Handle = Callable[[SlackEvent], Awaitable[None]]

Stopped = Callable[[SessionStopped], Awaitable[None]]
"""Handles a press of Slack's own Stop button. The same press may arrive more than once."""


Opened = Callable[[PaneOpened], Awaitable[None]]
"""Handles the opening of an assistant pane or of the app's Messages tab. The same event may arrive more than once."""


class _EventMonitor(Protocol):
    """An observer of Slack's events (`swarm.services.intake.event_watchdog`)."""

    def came(self, channel: str = "", ts: str = "", *, is_own: bool = False) -> None:
        """Records that an event has arrived."""
        ...

    def missed(self, ts: str) -> None:
        """Records that an event about the message with timestamp ``ts`` could not be stored."""
        ...

    async def connected(self) -> None:
        """Records that events arrive from now on: over a new Socket Mode connection, or over HTTP since the start."""
        ...


async def ignore_press(press: ButtonPressed) -> PressResult:
    """Ignores a button press; the default handler for entry points without buttons."""
    return None


class SlackEntryPoint:
    """The entry point that passes each of Slack's events to ``handle`` and acknowledges the event afterwards.

    ``app_token`` enables Socket Mode: :meth:`start` and :attr:`connected`. ``signing_secret`` enables HTTP:
    :meth:`routes`. ``handle`` runs concurrently for simultaneous events. ``press`` receives every press of a button
    under one of our messages, whatever its action; ``stopped`` receives every press of Slack's own Stop button;
    ``opened`` receives every opening of an assistant pane or of the app's Messages tab;
    ``requests`` receives what people do about requests, before ``press``; ``commands`` slash commands and Home tabs.
    """

    def __init__(
        self,
        gateway: Gateway,
        handle: Handle,
        press: Press = ignore_press,
        *,
        stopped: Stopped | None = None,
        opened: Opened | None = None,
        requests: RequestDoor | None = None,
        commands: CommandDoor | None = None,
        hearing: _EventMonitor | None = None,
        app_token: str | None = None,
        signing_secret: str | None = None,
        backoff_seconds: float = BACKOFF_SECONDS,
    ) -> None:
        if not app_token and not signing_secret:
            raise ConfigurationError("Slack needs SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP).")
        self._gateway = gateway
        self._app_token = app_token
        self._backoff_seconds = backoff_seconds
        self._verifier = SignatureVerifier(signing_secret, gateway.clock) if signing_secret else None
        self._socket: SocketMode | None = None
        self._takes_http = False
        self._closing = False
        self._running = BackgroundTasks()
        self._hearing = hearing
        self._commands = commands
        doors = [door for door in (commands, requests) if door]
        self.bolt = _bolt_app(gateway, _Events(gateway, handle, press, stopped, opened, doors, hearing))

    @property
    def connected(self) -> bool:
        """Whether the Socket Mode connection is open or, over HTTP, whether events may arrive."""
        return self._takes_http or (self._socket is not None and self._socket.connected)

    @property
    def is_only_one(self) -> bool:
        """Whether the app had no other Socket Mode connection when this one was made."""
        return self._socket is not None and self._socket.is_only_one

    async def replace(self) -> None:
        """Reconnects Socket Mode, whatever the connection's state. Over HTTP, only requests that missed messages be
        read.
        """
        if self._socket is not None:
            await self._socket.replace()
        elif self._hearing:
            _log.warning(
                "Slack's events are not arriving at /slack/events. Check the app's request URL and the proxy.",
                action="slack_deaf",
            )
            await self._hearing.connected()

    async def use_app_token(self, app_token: str) -> None:
        """Reconnects Socket Mode with another app-level token that Slack accepts."""
        self._app_token = app_token
        if self._socket is not None:
            self._socket.app_token = app_token
            await self._socket.replace()

    @property
    def takes_http(self) -> bool:
        """Whether events are accepted by HTTP: not before Slack has answered once."""
        return self._takes_http

    async def start(self) -> None:
        """Connects Socket Mode. Returns once connected, or immediately if only HTTP is used.

        Retries until Slack can be reached. Raises ConfigurationError if Slack rejects one of the tokens.
        """
        await until_reachable(self._gateway.identify, backoff_seconds=self._backoff_seconds)
        if self._app_token:
            on_connected = self._hearing.connected if self._hearing else None
            self._socket = SocketMode(
                self._gateway, self._app_token, self._on_socket_request, on_connected=on_connected
            )
            await self._socket.open(backoff_seconds=self._backoff_seconds)
            return
        self._takes_http = True
        if self._hearing:
            await self._hearing.connected()

    async def close(self) -> None:
        """Stops accepting events, lets running handlers finish, and closes the connection within three seconds."""
        self._closing = True
        await self._running.wait(_DRAIN_SECONDS)
        if self._commands is not None:
            await self._commands.close(_LATE_SECONDS)
        if self._socket is not None:
            await self._socket.close()

    def routes(self) -> list[Route]:
        """Returns the route ``POST /slack/events`` for HTTP mode, or no route without a signing secret."""
        return [Route("/slack/events", self._on_http_request, methods=["POST"])] if self._verifier else []

    async def _on_socket_request(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        if self._closing:
            return  # without an acknowledgement Slack sends the event again, to another process
        task = asyncio.current_task()
        if task is not None:
            self._running.add(task)
        headers = build_headers(request)
        try:
            response = await self.bolt.async_dispatch(
                _bolt_request(lambda: AsyncBoltRequest(mode="socket_mode", body=request.payload, headers=headers))
            )
        except BadRequest as error:
            _log.warning("A payload from Slack is ignored.", action="slack_payload_ignored", reason=error.message)
            response = BoltResponse(status=200)  # repeating the payload would not help
        try:
            await send_async_response(client, request, response, time.time())
        except ConnectionError as error:  # stored events are safe, and Slack sends the others again
            _log.warning(
                "An acknowledgement was lost because its connection closed.", action="slack_ack_lost", error=str(error)
            )

    async def _on_http_request(self, request: Request) -> Response:
        try:
            body = await _read_body(request)
            assert self._verifier is not None
            verify(self._verifier, request.headers, body)
            bolt_request = _bolt_request(lambda: to_async_bolt_request(request, body))
        except SwarmError as error:
            answer = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
            return JSONResponse(answer, status_code=error.status)
        return to_starlette_response(await self.bolt.async_dispatch(bolt_request))


def _bolt_app(gateway: Gateway, events: _Events) -> AsyncApp:
    app = AsyncApp(
        # Without a name, Bolt searches the stack for one. Bolt sets the level of the logger of this name.
        name=_BOLT_LOGGER,
        client=gateway.client,
        authorize=_OneWorkspace(gateway),
        logger=_bolt_logger(),
        process_before_response=True,  # before the acknowledgement
        request_verification_enabled=False,  # done before Bolt; see swarm.slack.transport
        ignoring_self_events_enabled=False,  # done here, only for new posts
        attaching_function_token_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )
    app.use(events)
    return app


class _OneWorkspace(AsyncAuthorize):
    """Middleware that assigns every event to the workspace of our token, whichever team the event names (Slack
    Connect)."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(
        self,
        *,
        context: AsyncBoltContext,
        enterprise_id: str | None,
        team_id: str | None,
        user_id: str | None,
        **actor: str | None,
    ) -> AuthorizeResult:
        me = await self._gateway.identify()
        return AuthorizeResult(
            enterprise_id=enterprise_id,
            team_id=me.team,
            bot_id=me.bot_id,
            bot_user_id=me.user_id,
            bot_token=self._gateway.client.token,
        )


class _Events(AsyncMiddleware):
    """Middleware that passes on events about messages, buttons and Slack's Stop button, and acknowledges all requests.

    The middleware runs before Bolt's listeners, which halves the cost of an event. There are no listeners yet. Bolt
    would answer a request without a listener with 404, and Slack would send the request again.
    """

    def __init__(
        self,
        gateway: Gateway,
        handle: Handle,
        press: Press,
        stopped: Stopped | None,
        opened: Opened | None,
        doors: Sequence[RequestDoor | CommandDoor],
        hearing: _EventMonitor | None,
    ) -> None:
        self._gateway = gateway
        self._handle = handle
        self._stopped = stopped
        self._opened = opened
        self._doors = (*doors, ButtonDoor(gateway, press))  # the last takes every press of a button that is left
        self._hearing = hearing

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse:
        for door in self._doors:
            if answer := await door.handle(req.body):
                return answer
        stop = session_stopped(req.body)
        if stop and self._stopped:
            return await self._take(self._stopped, stop, req.body)
        pane = pane_opened(req.body)
        if pane and self._opened:
            return await self._take(self._opened, pane, req.body)
        try:
            told = object_at(req.body, "event")
            await self._gateway.files.complete(object_at(told, "message") or told)
            event = slack_event(req.body, await self._gateway.identify())
        except BadRequest as error:
            _log.warning("A payload from Slack is ignored.", action="slack_payload_ignored", reason=error.message)
            # Over a socket, Slack would only send the same payload again.
            return BoltResponse(status=200) if req.mode == "socket_mode" else _refusal(error)
        self._note(event)
        if event is None or _is_known(event):
            return BoltResponse(status=200)
        response = await self._take(self._handle, event, req.body)
        if response.status != HTTPStatus.OK and self._hearing:  # Slack sends the event again, but not indefinitely
            self._hearing.missed(_message_of(event).ts)
        return response

    def _note(self, event: SlackEvent | None) -> None:
        if self._hearing is None:
            return
        if event is None:
            self._hearing.came()
        else:
            about = _message_of(event)
            self._hearing.came(about.channel, about.ts, is_own=isinstance(event, SlackMessage) and _is_known(event))

    async def _take(self, handle: Callable[[T], Awaitable[None]], event: T, body: JsonObject) -> BoltResponse:
        try:
            await handle(event)
        except Exception:  # noqa: BLE001  on any error the event is not stored, so Slack must send it again
            _log.exception("An event was not stored.", action="slack_event_failed", event_id=body.get("event_id"))
            return BoltResponse(status=500)
        return BoltResponse(status=200)


def _refusal(error: SwarmError) -> BoltResponse:
    return _json(error.status, {"error": describe(error)})


def _json(status: int, body: object) -> BoltResponse:
    return BoltResponse(status=status, body=orjson.dumps(body).decode(), headers={"content-type": "application/json"})


def _message_of(event: SlackEvent) -> SlackMessage | MessageDeleted:
    return event.message if isinstance(event, MessageEdited) else event


def _is_known(event: SlackEvent) -> bool:
    """Whether the event is about a new post of our own. Such posts are stored when they are sent."""
    return isinstance(event, SlackMessage) and event.author.kind is AuthorKind.AGENT


def _bolt_request(build: Callable[[], AsyncBoltRequest]) -> AsyncBoltRequest:
    """Builds a request for Bolt. Raises BadRequest for a payload that Bolt cannot parse; later the error would become a
    500."""
    try:
        request = build()
    except _MALFORMED_FOR_BOLT as error:
        raise BadRequest("The body is not a payload from Slack.") from error
    if not request.body:
        raise BadRequest("The body is empty.")
    if not isinstance(request.body.get("event", {}), dict):
        raise BadRequest("The event in the body is not an object.")
    return request


async def _read_body(request: Request) -> bytes:
    """Returns the body. Raises TooLarge as soon as the limit is exceeded, and BadRequest if the client disconnects
    meanwhile."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes.")
    except ClientDisconnect as error:
        raise BadRequest("The body is incomplete.") from error
    return bytes(body)


def _bolt_logger() -> logging.Logger:
    """Returns a logger that hides Bolt's warnings, which concern other setups. Without a level, Bolt would build the
    text of every debug line."""
    logger = logging.getLogger(_BOLT_LOGGER)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    return logger
