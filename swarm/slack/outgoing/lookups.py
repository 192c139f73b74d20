"""A cache of lookups in Slack by id. Concurrent requests for one id share a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from swarm.domain.errors import SwarmError

RETRY_SECONDS: Final = 60.0
"""The time after which Slack is asked again for a lookup without an answer."""

REMEMBERED: Final = 20_000
"""The number of kept answers; beyond, the oldest ones are dropped."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupTimeouts:
    """How long an answer is fresh, and how long to wait for a new one."""

    fresh_seconds: float
    wait_seconds: float  # longest wait for Slack
    waits_for_news: bool = False  # with an old answer: whether to wait for the new one
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known(Generic[T]):
    value: T
    fresh_until: float
    is_answer: bool = True  # False: Slack's last reply was an error


class Lookups(Generic[T]):
    """Answers of one kind. Never fails: without an answer of Slack's, returns the old one, or ``unknown(id)``."""

    def __init__(
        self,
        what: str,
        look_up: Callable[[str], Awaitable[T]],
        unknown: Callable[[str], T],
        patience: LookupTimeouts,
    ) -> None:
        self._what = what
        self._look_up = look_up
        self._unknown = unknown
        self._patience = patience
        self._known: dict[str, _Known[T]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def get(self, id: str) -> T:
        """The answer for an id, old or new."""
        known = self._known.get(id)
        if known is None or not self._is_fresh(id):
            lookup = self._lookup(id)
            if known is None or self._patience.waits_for_news:
                await asyncio.wait((lookup,), timeout=self._patience.wait_seconds)
                known = self._known.get(id)
        return known.value if known else self._unknown(id)

    async def answered(self, id: str, wait_seconds: float) -> T | None:
        """Slack's answer for an id while fresh; None if Slack does not answer in time, even with an old answer."""
        if not self._is_answered(id):
            await asyncio.wait((self._lookup(id),), timeout=wait_seconds)
        return self._known[id].value if self._is_answered(id) else None

    def _is_answered(self, id: str) -> bool:
        return self._is_fresh(id) and self._known[id].is_answer

    def _is_fresh(self, id: str) -> bool:
        known = self._known.get(id)
        return known is not None and known.fresh_until > self._patience.monotonic()

    def forget(self, id: str) -> None:
        """Drop the answer, so the next request asks Slack."""
        self._known.pop(id, None)

    async def close(self) -> None:
        """End the lookups under way."""
        lookups = list(self._under_way.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    def _lookup(self, id: str) -> asyncio.Task[None]:
        """The lookup under way, or a new one."""
        if id not in self._under_way:
            lookup = asyncio.create_task(self._ask(id), name=f"{self._what} of {id}")
            self._under_way[id] = lookup
            lookup.add_done_callback(lambda _: self._under_way.pop(id, None))
        return self._under_way[id]

    async def _ask(self, id: str) -> None:
        """Store Slack's answer; after an error the old answer or ``unknown(id)``, for a short while."""
        is_answer = True
        try:
            value, seconds = await self._look_up(id), self._patience.fresh_seconds
        except SwarmError as error:
            _log.info("Slack does not tell.", action="slack_name", what=self._what, id=id, error=error.message)
            is_answer = False
            value, seconds = self._known[id].value if id in self._known else self._unknown(id), RETRY_SECONDS
        if id not in self._known and len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]  # the oldest one
        self._known[id] = _Known(value=value, fresh_until=self._patience.monotonic() + seconds, is_answer=is_answer)
