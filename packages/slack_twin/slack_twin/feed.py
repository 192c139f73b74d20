"""Live updates of the page: each open page gets its person's updates over its own WebSocket.

Server-sent events are not used, because a browser opens at most six HTTP/1.1 connections to one host, and each window
would occupy one.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from slack_twin import changes
from slack_twin.errors import Json
from slack_twin.updates import update_of
from slack_twin.workspace import Workspace

_MOST_WAITING = 1_000
_KEEPALIVE_SECONDS = 15.0
_GOING_AWAY = 1001  # RFC 6455, section 7.4.1


class Subscriber:
    """One open page. `None` in the queue ends its updates."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(self, update: bytes) -> None:
        """Queues an update. A page that leaves a thousand updates unread is disconnected and reconnects by itself."""
        self._queue.put_nowait(update if self._queue.qsize() < _MOST_WAITING else None)

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def next(self) -> bytes | None:
        """Returns the next update, or a keep-alive message after a silent period; None at the end."""
        try:
            return await asyncio.wait_for(self._queue.get(), _KEEPALIVE_SECONDS)
        except TimeoutError:
            return _KEEPALIVE


class Feed:
    """All open pages."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._subscribers: set[Subscriber] = set()
        self._closed = False
        self.seen = 0  # number of changes so far

    @property
    def open_pages(self) -> int:
        return len(self._subscribers)

    def on_change(self, change: changes.Change) -> None:
        self.seen += 1
        audience = [reader for reader in self._subscribers if _concerns(change, reader.user_id)]
        if audience:
            update = update_of(self._workspace, change)
            encoded = _encoded(update | {"seen": self.seen}) if update else b""
            for reader in audience if encoded else ():
                reader.tell(encoded)
        if isinstance(change, changes.StatusChanged) and change.text:
            self._expire_status(change)

    def _expire_status(self, change: changes.StatusChanged) -> None:
        """Updates the pages when a status expires."""
        status = self._workspace.status(change.channel, change.thread_ts)
        if status is not None:
            ended = replace(change, text="")
            self._workspace.clock.call_at(status.expires_at, lambda: self._end_status(ended))

    def _end_status(self, ended: changes.StatusChanged) -> None:
        if self._workspace.status(ended.channel, ended.thread_ts) is None:
            self.on_change(ended)

    def tell(self, user_id: str, update: Json) -> None:
        """Sends an update to every page of one person."""
        encoded = _encoded(update)
        for reader in self._subscribers:
            if reader.user_id == user_id:
                reader.tell(encoded)

    def reload(self) -> None:
        """Makes every page reload its state."""
        encoded = _encoded({"kind": "reload"})
        for reader in self._subscribers:
            reader.tell(encoded)

    def hang_up(self) -> None:
        """Closes every connection; pages reconnect by themselves."""
        for reader in self._subscribers:
            reader.end()

    def close(self) -> None:
        """Closes every connection, and every later one immediately."""
        self._closed = True
        self.hang_up()

    async def serve(self, socket: WebSocket, user_id: str) -> None:
        """Sends one person's updates on an accepted socket, until the page disconnects or the feed is closed."""
        with self._subscribed(user_id) as reader:
            watching = asyncio.create_task(_end_when_gone(socket, reader))
            try:
                await socket.send_bytes(_encoded({"kind": "hello", "seen": self.seen}))
                while not self._closed and (update := await reader.next()) is not None:
                    await socket.send_bytes(update)
                if not watching.done():
                    await socket.close(_GOING_AWAY)
            except WebSocketDisconnect:
                return
            finally:
                watching.cancel()

    @contextmanager
    def _subscribed(self, user_id: str) -> Iterator[Subscriber]:
        reader = Subscriber(user_id)
        self._subscribers.add(reader)
        try:
            yield reader
        finally:
            self._subscribers.discard(reader)


def _concerns(change: changes.Change, user_id: str) -> bool:
    if isinstance(change, changes.EphemeralPosted | changes.ViewChanged):
        return change.user == user_id
    if isinstance(change, changes.MemberLeft) and change.user == user_id:
        return True
    if isinstance(change, changes.MessageChanged) and change.is_live and change.message.live_for not in (None, user_id):
        return False
    return user_id in change.channel.members


async def _end_when_gone(socket: WebSocket, reader: Subscriber) -> None:
    """Ends the updates when the page disconnects. Pages send no messages."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        continue
    reader.end()


def _encoded(update: Json) -> bytes:
    return orjson.dumps(update)


# Sent to a page after a silent period, so that the page can distinguish a silent connection from a dead one.
_KEEPALIVE = _encoded({"kind": "still here"})
