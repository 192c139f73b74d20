"""The log of one run on its way to the coordinator.

It is kept from its start up to the limit. What comes later is held back, and of that the last part is sent when the run
ends, since the end of a log usually tells why a run has failed. What is between them is left out, and a line says so.
The memory for one log never exceeds `MAX_LOG_BYTES`, however long the coordinator does not answer.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from swarm_base.secrets import Secrets

MAX_LOG_BYTES: Final = 8_000_000
"""Below the coordinator's own limit, if that was not changed; it tells its limit with each answer."""

END_BYTES: Final = 256 * 1024
CHUNK_BYTES: Final = 60_000
"""The coordinator takes 64 KiB at once."""


class RunLog:
    """The lines of a log, until the coordinator has them."""

    def __init__(self, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.offset = 0  # the number of bytes that the coordinator has
        self._limit = max_bytes
        self._secrets = Secrets()
        self._waiting = bytearray()
        self._last: deque[bytes] = deque()
        self._last_bytes = self._left_out = 0
        self._is_full = False
        self._is_line_start = True

    def add(self, line: str) -> None:
        """Adds a line."""
        self.write(("" if self._is_line_start else "\n") + line.rstrip("\n") + "\n")

    def write(self, text: str) -> None:
        """Adds text without secrets of this process; more of its line may follow."""
        if text:
            self._is_line_start = text.endswith("\n")
            self._secrets, safe = self._secrets.feed(text)
            self._add(safe.encode(errors="replace"))

    def end(self) -> None:
        """Adds what was held back: the log's last part. Lines may still follow."""
        self._secrets, rest = self._secrets.end()
        self._add(rest.encode(errors="replace"))
        if self._left_out:
            self._waiting += b"\n(%d bytes are left out here.)\n\n" % self._left_out
        self._waiting += b"".join(self._last)
        self._last.clear()
        self._last_bytes = self._left_out = 0

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that can be sent."""
        return len(self._waiting)

    def chunk(self) -> bytes:
        """Returns the next bytes to send: whole lines if possible, otherwise whole characters."""
        chunk = bytes(self._waiting[:CHUNK_BYTES])
        if len(chunk) == len(self._waiting):
            return chunk
        if end := chunk.rfind(b"\n") + 1:
            return chunk[:end]
        return chunk.decode(errors="ignore").encode() or chunk

    def sent(self, size: int, limit: int | None = None) -> None:
        """Notes that the coordinator has the next ``size`` bytes, and the most that it takes."""
        del self._waiting[:size]
        self.offset += size
        if limit is not None:
            self._limit = min(self._limit, limit)

    def _add(self, data: bytes) -> None:
        end_bytes = min(END_BYTES, self._limit // 4)
        if not self._is_full and self.offset + len(self._waiting) + len(data) <= self._limit - end_bytes - 100:
            self._waiting += data
            return
        self._is_full = True
        self._last.append(data[-end_bytes:] if end_bytes else b"")
        self._last_bytes += len(self._last[-1])
        self._left_out += len(data) - len(self._last[-1])
        while self._last_bytes > end_bytes:
            dropped = self._last.popleft()
            self._last_bytes -= len(dropped)
            self._left_out += len(dropped)
