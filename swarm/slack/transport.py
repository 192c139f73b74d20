"""The two ways in which Slack's events reach the coordinator: signed HTTP requests, and the Socket Mode connection.

Requests are verified as in https://docs.slack.dev/authentication/verifying-requests-from-slack/. slack_sdk compares the
signatures. The checks before that are made here, because slack_sdk treats a malformed header as a programming error.

Socket Mode is slack_sdk's client, corrected for a service that runs for months. An address from Slack opens one
connection and is valid for half a minute. slack_sdk would retry the same address forever, so one failed handshake could
cut us off from events. Here each attempt is limited, and the next attempt requests a new address. The first connection
also distinguishes a wrong token, which only the operator can replace, from a temporary network failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import structlog
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from swarm.domain.errors import BadRequest, Unauthorized, Unavailable
from swarm.slack.incoming.fields import JsonObject, count_at, text_at
from swarm.slack.outgoing.gateway import Gateway

_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")


def verify(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> None:
    """Returns if Slack signed the body within the last five minutes.

    Otherwise raises Unauthorized, or BadRequest for a body that is not UTF-8. A replay within the five minutes is
    accepted; its ``event_id`` is recognised later.
    """
    timestamp = headers.get("x-slack-request-timestamp", "")
    signature = headers.get("x-slack-signature", "")
    if not _TIMESTAMP.fullmatch(timestamp) or not _SIGNATURE.fullmatch(signature):
        raise Unauthorized("The request has no Slack signature.")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8.") from error
    if not verifier.is_valid(text, timestamp, signature):
        raise Unauthorized("Slack's signature does not match, or is older than five minutes.")


PING_SECONDS: Final = 5.0
"""A connection whose pong is missing for half this time is closed; a closed connection is replaced within this time."""

_ATTEMPT_SECONDS: Final = 12.0
BACKOFF_SECONDS: Final = 1.0
_LONGEST_BACKOFF_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)

T = TypeVar("T")

OnConnected = Callable[[], Awaitable[None]]
OnRequest = Callable[[AsyncBaseSocketModeClient, SocketModeRequest], Awaitable[None]]


async def until_reachable(ask: Callable[[], Awaitable[T]], *, backoff_seconds: float = BACKOFF_SECONDS) -> T:
    """Returns Slack's answer as soon as Slack can be reached. The pause between attempts doubles up to half a
    minute.
    """
    while True:
        try:
            return await ask()
        except Unavailable as error:
            _log.warning("Slack cannot be reached; trying again.", action="slack_connect", error=error.message)
        await asyncio.sleep(backoff_seconds)
        backoff_seconds = min(2 * backoff_seconds, _LONGEST_BACKOFF_SECONDS)


class SocketMode(SocketModeClient):
    """A connection to Slack that is renewed at Slack's request and after a failure. Must be created within a running
    event loop.

    Each request runs in its own task, so that one acknowledgement does not wait for another.
    """

    def __init__(
        self,
        gateway: Gateway,
        app_token: str,
        on_request: OnRequest,
        *,
        on_connected: OnConnected | None = None,
    ) -> None:
        web_client = gateway.client
        super().__init__(app_token, web_client.logger, web_client, ping_interval=PING_SECONDS)
        self.proxy = web_client.proxy
        self._gateway = gateway
        self._on_connected = on_connected
        self._connections = 0  # the app's connections, by Slack's count when this one was opened
        self.message_listeners.append(self._note_hello)
        self.socket_mode_request_listeners.append(on_request)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that appears to work."""
        session = self.current_session
        return not (self.closed or self.stale or session is None or session.closed)

    @property
    def is_only_one(self) -> bool:
        """Whether the app had no other connection when this one was opened."""
        return self._connections == 1

    async def replace(self) -> None:
        """Reconnects, regardless of the connection's state."""
        await self.connect_to_new_endpoint(force=True)

    async def _note_hello(self, client: AsyncBaseSocketModeClient, message: JsonObject, raw: str | None = None) -> None:
        """Handles Slack's first message on a connection, after which the connection delivers events."""
        if text_at(message, "type") == "hello":
            self._connections = count_at(message, "num_connections") or 0
            if self._on_connected:
                await self._on_connected()

    async def open(self, *, backoff_seconds: float = BACKOFF_SECONDS) -> None:
        """Connects, retrying until successful. Raises ConfigurationError if Slack does not accept the app-level
        token.
        """
        self.wss_uri = await until_reachable(self.issue_new_wss_url, backoff_seconds=backoff_seconds)
        await self.connect()
        _log.info("Connected to Slack.", action="slack_connected")

    async def issue_new_wss_url(self) -> str:
        """Returns a new address, requested over the gateway like every call."""
        return await self._gateway.socket_url(self.app_token)

    async def connect(self) -> None:
        """Replaces the connection, retrying until successful or until :meth:`close`."""
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ATTEMPT_SECONDS):
                    await super().connect()  # type: ignore[no-untyped-call]
                    return
            self.wss_uri = None  # already used or too old

    async def close(self) -> None:
        """Closes the connection permanently, without waiting for a Slack server that does not respond."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await super().close()  # type: ignore[no-untyped-call]
        workers = [
            worker
            for worker in (self.message_processor, self.current_session_monitor, self.message_receiver)
            if worker is not None
        ]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await self.aiohttp_client_session.close()
