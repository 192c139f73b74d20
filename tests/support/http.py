"""The HTTP client of the tests, which never speak TLS, and the connections of servers that speak HTTP by hand."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Any

import httpx2


def client(**options: Any) -> httpx2.AsyncClient:
    """A client for plain HTTP: without certificates, which take a tenth of a second to load."""
    return httpx2.AsyncClient(verify=False, **options)


class PlayedServer(ABC):
    """A server in the loop of the test: each connection is one request."""

    def __init__(self) -> None:
        self._came = asyncio.Condition()  # of requests
        self._connections: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._handle(reader, writer)
        finally:
            writer.close()

    async def stop(self) -> None:
        """Break off what still plays."""
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @abstractmethod
    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the request of one connection."""
