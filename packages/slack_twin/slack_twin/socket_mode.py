"""Socket Mode: WebSocket connections that deliver events to apps and receive acknowledgements.

Each event goes to one connection of the app, in turn. https://docs.slack.dev/apis/events-api/using-socket-mode
"""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

import orjson
import uuid_utils
from starlette.websockets import WebSocket, WebSocketDisconnect

from slack_twin.arguments import loads
from slack_twin.clock import Clock
from slack_twin.envelopes import Envelope, Parcel, Reply
from slack_twin.errors import Json
from slack_twin.people import App

ACK_SECONDS = 3.0
MAX_CONNECTIONS = 10
_TICKET_SECONDS = 30.0
_LEAVE_SECONDS = 10.0
_CLOSE_GOING_AWAY = 1001


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The number of an attempt, 0 for the first, and the reason of the previous failure."""

    attempt: int = 0
    reason: str = ""


@dataclass(eq=False)
class Connection:
    """One open WebSocket of an app. `None` in the outbox closes it."""

    app_id: str
    outbox: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    pending: set[str] = field(default_factory=set)  # unacknowledged envelopes of this connection
    silent_until: float = 0.0  # in seconds since 1970; until then, its events are dropped

    def tell(self, message: Json) -> None:
        self.outbox.put_nowait(orjson.dumps(message))

    def close(self) -> None:
        self.outbox.put_nowait(None)

    def dismiss(self, reason: str) -> None:
        """Asks the app to reconnect, with Slack's reasons: `warning`, `refresh_requested`, `too_many_websockets`, …"""
        self.tell({"type": "disconnect", "reason": reason, "debug_info": {"host": "twin"}})


class Sockets:
    """All connections of all apps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[str, float]] = {}
        self._connections: defaultdict[str, list[Connection]] = defaultdict(list)
        self._acks: dict[str, tuple[str, asyncio.Future[Reply]]] = {}

    def connection_count(self, app_id: str) -> int:
        return len(self._connections[app_id])

    def new_ticket(self, app: App) -> str:
        """Returns a secret that opens one connection within half a minute."""
        now = self._clock.now()
        self._tickets = {ticket: known for ticket, known in self._tickets.items() if known[1] > now}
        ticket = secrets.token_urlsafe(24)
        self._tickets[ticket] = (app.id, now + _TICKET_SECONDS)
        return ticket

    def close(self, app_ids: Iterable[str], *, reason: str | None = None) -> None:
        """Closes every connection of these apps; with a reason, first asks them to reconnect."""
        for app_id in app_ids:
            for connection in list(self._connections[app_id]):
                self._end(connection, reason)

    def _end(self, connection: Connection, reason: str | None) -> None:
        """Closes a connection immediately, or ten seconds after the request to reconnect. It gets no more events."""
        self._connections[connection.app_id].remove(connection)
        if reason is None:
            connection.close()
            return
        connection.dismiss(reason)
        self._clock.call_at(self._clock.now() + _LEAVE_SECONDS, connection.close)

    def close_unknown(self, app_ids: Container[str]) -> None:
        """Closes every connection of other apps."""
        self.close([app_id for app_id in self._connections if app_id not in app_ids])

    def close_next(self, app_id: str, *, reason: str | None = None) -> None:
        """Closes the connection that would get the next event."""
        connection = self._take_turn(app_id)
        if connection:
            self._end(connection, reason)

    def silence(self, app_id: str, seconds: float | None) -> None:
        """Drops events for the open connections, for some seconds or permanently."""
        until = self._clock.now() + seconds if seconds else float("inf")
        for connection in self._connections[app_id]:
            connection.silent_until = until

    def unsilence(self) -> None:
        for connections in self._connections.values():
            for connection in connections:
                connection.silent_until = 0.0

    async def send(self, app: App, parcel: Parcel, retry: Retry, *, ignore_ack: bool = False) -> Reply:
        """Delivers to one connection and waits up to three seconds of the twin's time for the acknowledgement.

        The errors are `no_connection`, `timeout`, `socket_closed`.
        """
        connection = self._take_turn(app.id)
        if connection is None:
            return Reply(error="no_connection")
        envelope_id = str(uuid_utils.uuid4())
        outcome: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(self._clock.now() + ACK_SECONDS, lambda: _settle(outcome, Reply(error="timeout")))
        if not ignore_ack:
            self._acks[envelope_id] = (app.id, outcome)
            connection.pending.add(envelope_id)
        if connection.silent_until <= self._clock.now():
            connection.tell(_envelope(envelope_id, parcel, retry))
        try:
            return await outcome
        finally:
            timer.cancel()
            self._acks.pop(envelope_id, None)
            connection.pending.discard(envelope_id)

    def _take_turn(self, app_id: str) -> Connection | None:
        connections = self._connections[app_id]
        if not connections:
            return None
        connections.append(connections.pop(0))
        return connections[-1]

    async def serve(self, websocket: WebSocket) -> None:
        """Serves one connection from its handshake to its end."""
        app_id = self._redeem(websocket.query_params.get("ticket", ""))
        if app_id is None:
            await websocket.close()
            return
        await websocket.accept()
        connection = Connection(app_id)
        self._welcome(connection)
        reading = asyncio.create_task(self._read(websocket, connection))
        writing = asyncio.create_task(_write(websocket, connection))
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._forget(connection)
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    def _redeem(self, ticket: str) -> str | None:
        app_id, expires_at = self._tickets.pop(ticket, ("", 0.0))
        return app_id if expires_at > self._clock.now() else None

    def _welcome(self, connection: Connection) -> None:
        """Sends the hello message and activates the connection.

        The app has at most ten connections; additional ones are dismissed with `too_many_websockets`.
        """
        if self.connection_count(connection.app_id) >= MAX_CONNECTIONS:
            connection.dismiss("too_many_websockets")
            connection.close()
            return
        self._connections[connection.app_id].append(connection)
        connection.tell(
            {
                "type": "hello",
                "num_connections": self.connection_count(connection.app_id),
                "connection_info": {"app_id": connection.app_id},
                "debug_info": {"host": "twin", "build_number": 1, "approximate_connection_time": 18060},
            }
        )

    def _forget(self, connection: Connection) -> None:
        if connection in self._connections[connection.app_id]:
            self._connections[connection.app_id].remove(connection)
        for envelope_id in connection.pending:
            _settle(self._acks[envelope_id][1], Reply(error="socket_closed"))

    async def _read(self, websocket: WebSocket, connection: Connection) -> None:
        """Reads acknowledgements until the app disconnects; like Slack, ignores other messages."""
        try:
            while True:
                message = await websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                self._acknowledge(message.get("text") or "", connection.app_id)
        except WebSocketDisconnect:
            return

    def _acknowledge(self, text: str, app_id: str) -> None:
        try:
            message = loads(text)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        envelope_id = message.get("envelope_id")
        owner, outcome = self._acks.get(envelope_id, (None, None)) if isinstance(envelope_id, str) else (None, None)
        if outcome is not None and owner == app_id:
            _settle(outcome, Reply(body=message.get("payload")))


async def _write(websocket: WebSocket, connection: Connection) -> None:
    """Sends the messages in the outbox, in order, until the connection ends."""
    try:
        while (message := await connection.outbox.get()) is not None:
            await websocket.send_text(message.decode())
        await websocket.close(_CLOSE_GOING_AWAY)
    except (WebSocketDisconnect, RuntimeError):
        return  # the app disconnected first, which the reader detects too


def _settle(outcome: asyncio.Future[Reply], result: Reply) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _envelope(envelope_id: str, parcel: Parcel, retry: Retry) -> Json:
    """Returns an envelope. Only events are retried, so only their envelopes contain the attempt."""
    envelope: Json = {
        "envelope_id": envelope_id,
        "payload": parcel.payload,
        "type": parcel.envelope.value,
        "accepts_response_payload": parcel.accepts_response,
    }
    if parcel.envelope is Envelope.EVENTS_API:
        envelope |= {"retry_attempt": retry.attempt, "retry_reason": retry.reason}
    return envelope
