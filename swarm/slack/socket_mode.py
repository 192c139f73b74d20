"""The Socket Mode connection: slack_sdk's client, corrected for a service that runs for months.

An address from Slack opens one connection and is valid for half a minute; slack_sdk would try the same one for ever, so
one broken handshake could cut us off from events. Here an attempt is bounded and the next one asks for a new address.
And the first connection tells a wrong token, which only the operator can replace, from a network failure that will
pass.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest

from swarm.domain.errors import Unavailable
from swarm.slack.incoming.fields import JsonObject, count_at, text_at
from swarm.slack.outgoing.gateway import Gateway

PING_SECONDS: Final = 5.0
"""A connection whose pong is missing for half this time is closed; a closed one is replaced within this time."""

_ATTEMPT_SECONDS: Final = 12.0
BACKOFF_SECONDS: Final = 1.0
_LONGEST_BACKOFF_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)

T = TypeVar("T")

OnConnected = Callable[[], Awaitable[None]]
OnRequest = Callable[[AsyncBaseSocketModeClient, SocketModeRequest], Awaitable[None]]


async def until_reachable(ask: Callable[[], Awaitable[T]], *, backoff_seconds: float = BACKOFF_SECONDS) -> T:
    """Slack's answer, as soon as Slack can be asked; the pause between attempts doubles up to half a minute."""
    while True:
        try:
            return await ask()
        except Unavailable as error:
            _log.warning("Slack cannot be reached; trying again.", action="slack_connect", error=error.message)
        await asyncio.sleep(backoff_seconds)
        backoff_seconds = min(2 * backoff_seconds, _LONGEST_BACKOFF_SECONDS)


class SocketMode(SocketModeClient):
    """One connection to Slack, renewed on Slack's request and after a break. To be made within a running event loop.

    Each request runs in a task of its own, so that one acknowledgement does not wait for another.
    """

    def __init__(
        self,
        gateway: Gateway,
        app_token: str,
        on_request: OnRequest,
        *,
        on_connected: OnConnected | None = None,
        ping_seconds: float = PING_SECONDS,
    ) -> None:
        web_client = gateway.client
        super().__init__(app_token, web_client.logger, web_client, ping_interval=ping_seconds)
        self.proxy = web_client.proxy
        self._gateway = gateway
        self._on_connected = on_connected
        self._connections = 0  # of the app, by Slack's count when this one was made
        self.message_listeners.append(self._note_hello)
        self.socket_mode_request_listeners.append(on_request)

    @property
    def connected(self) -> bool:
        """Whether there is a connection that works, as far as known."""
        session = self.current_session
        return not (self.closed or self.stale or session is None or session.closed)

    @property
    def is_only_one(self) -> bool:
        """Whether the app had no other connection when this one was made."""
        return self._connections == 1

    async def replace(self) -> None:
        """Connect anew, whatever the connection's state."""
        await self.connect_to_new_endpoint(force=True)

    async def _note_hello(self, client: AsyncBaseSocketModeClient, message: JsonObject, raw: str | None = None) -> None:
        """Handle Slack's first message on a connection, which brings events from then on."""
        if text_at(message, "type") == "hello":
            self._connections = count_at(message, "num_connections") or 0
            if self._on_connected:
                await self._on_connected()

    async def open(self, *, backoff_seconds: float = BACKOFF_SECONDS) -> None:
        """Connect, trying until success. Raises ConfigurationError if Slack does not accept the app-level token."""
        self.wss_uri = await until_reachable(self.issue_new_wss_url, backoff_seconds=backoff_seconds)
        await self.connect()
        _log.info("Connected to Slack.", action="slack_connected")

    async def issue_new_wss_url(self) -> str:
        """A new address, requested over the gateway like every call."""
        return await self._gateway.socket_url(self.app_token)

    async def connect(self) -> None:
        """Replace the connection, trying until success or :meth:`close`."""
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ATTEMPT_SECONDS):
                    await super().connect()  # type: ignore[no-untyped-call]
                    return
            self.wss_uri = None  # used up or too old

    async def close(self) -> None:
        """Close the connection, for good, without waiting for a silent Slack."""
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
