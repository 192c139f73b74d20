"""Sessions at AWS, every one of which is stopped, however its use ends: they cost money as long as they run.

The start, the calls and the stop block, so they run in threads, and a thread cannot be cancelled. So every
session has an *ending*: a task of `AgentCoreSessions` that waits until the session is left, and for the start, if that
is still under way, stops what came of it, and waits for calls that go on. Whoever leaves waits for it a little while
only; `AgentCoreSessions.aclose` waits for the rest.

What even this cannot stop (a start whose answer was lost, a coordinator that was killed) AWS ends: every session is
started with a time limit little longer than the call that it is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from swarm.agents.tools.agentcore.threads import in_thread

PATIENCE_SECONDS: Final = 5.0
CLOSING_SECONDS: Final = 30.0

S = TypeVar("S")
T = TypeVar("T")

_log = structlog.get_logger(__name__)


class AgentCoreSession(Generic[S]):
    """A session that has been started."""

    def __init__(self, client: S, calls: set[asyncio.Future[Any]]) -> None:
        self.client = client
        self._calls = calls

    async def call(self, work: Callable[[S], T]) -> T:
        """Do something that blocks. Cancelled, it goes on in its thread until the session is stopped."""
        calling = in_thread(partial(work, self.client))
        self._calls.add(calling)
        calling.add_done_callback(self._calls.discard)
        return await asyncio.shield(calling)


class AgentCoreSessions:
    """Starts sessions and stops them."""

    def __init__(self, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._endings: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self, start: Callable[[], S], stop: Callable[[S], object]) -> AsyncIterator[AgentCoreSession[S]]:
        """A session for the time of a block. Raises what ``start`` raises; a stop that fails is logged only."""
        starting = in_thread(start)
        calls: set[asyncio.Future[Any]] = set()
        left = asyncio.Event()
        ending = asyncio.create_task(_end(left, starting, calls, stop))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        try:
            yield AgentCoreSession(await asyncio.shield(starting), calls)
        finally:
            left.set()
            await asyncio.wait({ending}, timeout=self._patience_seconds)

    async def aclose(self, *, within_seconds: float = CLOSING_SECONDS) -> None:
        """Wait until all sessions are left and stopped. Those that are not by then are left to AWS.

        If this is cancelled, it waits no longer.
        """
        if not (endings := set(self._endings)):
            return
        try:
            await asyncio.wait(endings, timeout=within_seconds)
        finally:
            _abandon([ending for ending in endings if not ending.done()])


def _abandon(endings: Sequence[asyncio.Task[None]]) -> None:
    for ending in endings:
        ending.cancel()
    if endings:
        _log.warning("sessions at AWS may go on until their time is over", action="agentcore_left", count=len(endings))


async def _end(
    left: asyncio.Event, starting: asyncio.Future[S], calls: set[asyncio.Future[Any]], stop: Callable[[S], object]
) -> None:
    await left.wait()
    try:
        started = await starting
    except Exception:  # noqa: BLE001 - whoever wanted the session has been told; there is nothing to stop
        return
    try:
        await in_thread(partial(stop, started))
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody waits for it
        _log.warning("a session at AWS could not be stopped", action="agentcore_stop", error=type(error).__name__)
    if calls:
        await asyncio.wait(calls)
