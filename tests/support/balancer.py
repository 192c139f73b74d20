"""A load balancer in front of coordinators: plain TCP, each connection to the next backend that takes it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

LOCALHOST = "127.0.0.1"


@dataclass
class Balancer:
    """Where to send connections, by port; a test changes it as a health check would."""

    backends: list[int]
    port: int = 0
    _turns: int = 0
    _open: set[tuple[int, asyncio.StreamWriter]] = field(default_factory=set)

    @property
    def base(self) -> str:
        return f"http://{LOCALHOST}:{self.port}"

    def drop(self, port: int) -> None:
        """Send nothing more to a backend, and cut what it has."""
        self.backends.remove(port)
        for of, writer in list(self._open):
            if of == port:
                writer.close()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        try:
            with contextlib.suppress(OSError):
                port, upstream, downstream = await self._connect()
                self._open.add((port, writer))
                try:
                    await asyncio.gather(_copy(reader, downstream), _copy(upstream, writer))
                finally:
                    self._open.discard((port, writer))
        finally:
            writer.close()

    async def _connect(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in range(len(self.backends)):
            self._turns += 1
            port = self.backends[self._turns % len(self.backends)]
            with contextlib.suppress(ConnectionRefusedError):
                return port, *await asyncio.open_connection(LOCALHOST, port)
        raise ConnectionRefusedError("no backend takes a connection")


@contextlib.asynccontextmanager
async def balancing(backends: list[int]) -> AsyncIterator[Balancer]:
    """A balancer on a free port. What is open at the end is closed."""
    balancer = Balancer(backends)
    server = await asyncio.start_server(balancer.handle, LOCALHOST, 0)
    balancer.port = server.sockets[0].getsockname()[1]
    try:
        yield balancer
    finally:
        server.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()
