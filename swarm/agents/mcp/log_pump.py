"""What a server's program says beside its messages: to our log, at debug, and never more than one can read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from swarm.agents.mcp.server import McpServer
from swarm.telemetry.redaction import Redactor

LINE_BYTES: Final = 1_000
LINES_PER_MINUTE: Final = 120

_CHUNK_BYTES: Final = 64 * 1024

_log = structlog.get_logger(__name__)


class LogPump:
    """The words of one program. ``now`` is a clock of seconds that never goes back."""

    def __init__(self, server: McpServer, pid: int, now: Callable[[], float] = time.monotonic) -> None:
        self._server = server.name
        self._redactor = Redactor(server.secrets)
        self._pid = pid
        self._now = now
        self._until = 0.0
        self._left = 0
        self._untold = 0

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Read a stream to its end. It is always read, or its writer would have to wait."""
        rest = b""
        while chunk := await stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:LINE_BYTES]
            for line in lines:
                self.tell(line)
        self.tell(rest)

    def tell(self, line: bytes) -> None:
        """One line, of whatever length."""
        line = line.strip()
        if not line or not self._may_tell():
            self._untold += bool(line)
            return
        untold, self._untold = self._untold, 0
        _log.debug(
            "An MCP server says something.",
            action="mcp_said",
            server=self._server,
            pid=self._pid,
            said=self._redactor.text(line[:LINE_BYTES].decode(errors="replace")),
            **({"untold_lines": untold} if untold else {}),
        )

    def _may_tell(self) -> bool:
        if self._now() >= self._until:
            self._until = self._now() + 60.0
            self._left = LINES_PER_MINUTE
        self._left -= 1
        return self._left >= 0
