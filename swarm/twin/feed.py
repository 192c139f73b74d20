"""Live updates for the page: each open page gets what its person may see, as server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import orjson

from swarm.twin import changes
from swarm.twin.errors import Json
from swarm.twin.views import View
from swarm.twin.workspace import Workspace

_MOST_WAITING = 1_000
_KEEPALIVE_SECONDS = 15.0
_KEEPALIVE = b": still here\n\n"


class Subscriber:
    """One open page. `None` in the queue ends it."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(self, update: bytes) -> None:
        """A page that does not read for a thousand updates is ended; the browser opens a new stream by itself."""
        if self.queue.qsize() >= _MOST_WAITING:
            update_or_end: bytes | None = None
        else:
            update_or_end = update
        self.queue.put_nowait(update_or_end)


class Feed:
    """All open pages."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._subscribers: set[Subscriber] = set()
        self._closed = False

    def on_change(self, change: changes.Change) -> None:
        audience = [reader for reader in self._subscribers if _concerns(change, reader.user_id)]
        if audience:
            update = _encoded(View(self._workspace).update(change))
            for reader in audience:
                reader.tell(update)
        if isinstance(change, changes.StatusChanged) and change.text:
            self._expire_status(change)

    def _expire_status(self, change: changes.StatusChanged) -> None:
        """Tell the pages when a status has run out that nothing else has ended."""
        status = self._workspace.status(change.channel, change.thread_ts)
        if status is not None:
            ended = replace(change, text="")
            self._workspace.clock.call_at(status.expires_at, lambda: self._end_status(ended))

    def _end_status(self, ended: changes.StatusChanged) -> None:
        if self._workspace.status(ended.channel, ended.thread_ts) is None:
            self.on_change(ended)

    def reload(self) -> None:
        """Tell every page to load everything anew."""
        for reader in self._subscribers:
            reader.tell(_encoded({"kind": "reload"}))

    def close(self) -> None:
        """End every stream, and those that are opened from now on."""
        self._closed = True
        for reader in self._subscribers:
            reader.queue.put_nowait(None)

    async def stream(self, user_id: str) -> AsyncIterator[bytes]:
        """The updates for one person's page, until the page goes away or the feed is closed."""
        with self._subscribed(user_id) as reader:
            yield b"retry: 1000\n\n" + _encoded({"kind": "hello"})
            while not self._closed:
                try:
                    update = await asyncio.wait_for(reader.queue.get(), _KEEPALIVE_SECONDS)
                except TimeoutError:
                    update = _KEEPALIVE
                if update is None:
                    return
                yield update

    @contextmanager
    def _subscribed(self, user_id: str) -> Iterator[Subscriber]:
        reader = Subscriber(user_id)
        self._subscribers.add(reader)
        try:
            yield reader
        finally:
            self._subscribers.discard(reader)


def _concerns(change: changes.Change, user_id: str) -> bool:
    if isinstance(change, changes.EphemeralPosted):
        return change.user == user_id
    return user_id in change.channel.members


def _encoded(update: Json) -> bytes:
    return b"data: " + orjson.dumps(update) + b"\n\n"
