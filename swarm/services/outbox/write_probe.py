"""Checks whether the database accepts writes, with a cached test write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from swarm.store.admin import probe
from swarm.store.bridge.database import Database

KEPT_SECONDS: Final = 5.0
"""How long the outcome of a test write is cached."""

PATIENCE_SECONDS: Final = 5.0
"""How long a caller waits for a test write."""


_log = structlog.get_logger(__name__)


class Storing:
    """The test write: one at a time and at most every ``kept_seconds``."""

    def __init__(
        self,
        database: Database,
        *,
        kept_seconds: float = KEPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._kept_seconds = kept_seconds
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._problem: str | None = None
        self._probing: asyncio.Task[None] | None = None
        self._next_at = monotonic()

    async def problem(self) -> str | None:
        """Returns the reason why nothing can be stored; None if storing works. Returns within ``patience_seconds``."""
        if self._probing is None and self._monotonic() >= self._next_at:
            self._probing = asyncio.create_task(self._probe())
        if self._probing:
            await asyncio.wait({self._probing}, timeout=self._patience_seconds)
        if self._probing and not self._problem:
            return f"a write takes longer than {self._patience_seconds:g} seconds"
        return self._problem

    async def _probe(self) -> None:
        try:
            await self._database.write(probe.store_something)
            self._problem = None
        except Exception as error:  # noqa: BLE001 - after any failure nothing was stored
            self._problem = probe.reason(error)
            _log.warning("Nothing can be stored.", action="probe", reason=self._problem, error=str(error))
        finally:
            self._next_at = self._monotonic() + self._kept_seconds
            self._probing = None
