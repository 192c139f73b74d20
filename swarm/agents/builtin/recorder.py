"""Stores the runs of an agent in sessions and records their usage, both in tasks apart from the run.

The next run of a session waits until earlier runs are stored, because it remembers them. A failure of either store
does not prevent the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

import structlog

from swarm.domain.errors import Unavailable
from swarm.domain.model.models import ModelUsageRecord, UsageOutcome, UsageRecorder
from swarm.domain.model.sessions import Memory, SessionMessage

RECORD_SECONDS: Final = 30.0
"""Attempts to store a run end after this time without the database."""

AGAIN_SECONDS: Final = 1.0
"""Between two attempts."""

CLOSING_SECONDS: Final = 5.0
"""Unfinished stores delay the end of the coordinator for at most this time."""

_log = structlog.get_logger(__name__)


async def recorded(write: Callable[[], Awaitable[None]], what: str, **ids: str) -> bool:
    """Stores a run as ``what``, "remembered" or "noted down", and retries while the database is away. Returns success.

    Raises nothing: the answer has been given already. Failures are logged, with ``ids``.
    """
    try:
        async with asyncio.timeout(RECORD_SECONDS):
            await _insist(write, what, ids)
    except TimeoutError:
        _log.error(f"A run could not be {what}.", action="agent_record", **ids)
    except asyncio.CancelledError:
        _log.error(f"A run could not be {what} before the end.", action="agent_record", **ids)
        raise
    except Exception:  # noqa: BLE001 - it runs beside everything else
        _log.exception(f"A run could not be {what}.", action="agent_record", **ids)
    else:
        return True
    return False


async def _insist(write: Callable[[], Awaitable[None]], what: str, ids: Mapping[str, str]) -> None:
    while True:
        try:
            await write()
        except Unavailable as error:
            _log.warning(f"A run cannot be {what} yet.", action="agent_record", error=error.message, **ids)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return


class Recorder:
    """The records of one agent."""

    def __init__(self, memory: Memory, runs: UsageRecorder) -> None:
        self._memory = memory
        self._runs = runs
        self._before: dict[str, set[asyncio.Task[Any]]] = {}  # by session: tasks before its next run
        self._storing: set[asyncio.Task[Any]] = set()
        self._compacting: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def settled(self, session_id: str) -> None:
        """Waits until the finished and the cancelled runs of a session are stored."""
        while before := self._before.get(session_id):
            await asyncio.wait(set(before))

    def await_end(self, session_id: str, run: asyncio.Task[Any]) -> None:
        """Makes the next run of the session wait for the end of this task."""
        if run.done():
            return
        self._before.setdefault(session_id, set()).add(run)
        run.add_done_callback(lambda task: self._is_over(session_id, task))

    def store(self, run: ModelUsageRecord, block: Sequence[SessionMessage]) -> asyncio.Task[None]:
        """Stores a run in its session, and records its usage."""
        storing = _owned(self._stored(run, block), "store a run", self._storing)
        self.await_end(run.session_id, storing)
        return storing

    async def compacted(self) -> None:
        """Waits until finished runs are stored, and sessions that became too long are summarised."""
        while under_way := self._storing | self._compacting:
            await asyncio.wait(under_way)

    async def aclose(self) -> None:
        """Waits for current stores for a limited time; summaries are left for another time."""
        self._is_closed = True
        for task in self._compacting:
            task.cancel()  # still records its usage
        if ending := self._storing | self._compacting:
            await asyncio.wait(ending, timeout=CLOSING_SECONDS)
        while left := self._storing | self._compacting:
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    def _is_over(self, session_id: str, task: asyncio.Task[Any]) -> None:
        left = self._before.get(session_id, set())
        left.discard(task)
        if not left:
            self._before.pop(session_id, None)

    async def _stored(self, run: ModelUsageRecord, block: Sequence[SessionMessage]) -> None:
        ids = {"agent": run.agent, "run_id": run.id}
        is_remembered, _ = await asyncio.gather(
            recorded(partial(self._remember, run, block), "remembered", **ids),
            recorded(partial(self._runs.note, run), "noted down", **ids),
        )
        if is_remembered and not self._is_closed:
            _owned(self._compacted(run), "compact a session", self._compacting)

    async def _remember(self, run: ModelUsageRecord, block: Sequence[SessionMessage]) -> None:
        has_answered = run.outcome is UsageOutcome.ANSWERED
        await self._memory.add_run(run.session_id, run.id, block, run_id=run.run_id, has_answered=has_answered)

    async def _compacted(self, run: ModelUsageRecord) -> None:
        try:
            await self._memory.compact_session(run.session_id)
        except Exception as error:  # noqa: BLE001 - the session stays as it is, and the next run tries again
            _log.warning(
                "A session could not be compacted.",
                action="session_compact",
                agent=run.agent,
                session=run.session_id,
                error=type(error).__name__,
            )


def _owned(work: Coroutine[Any, Any, None], name: str, tasks: set[asyncio.Task[Any]]) -> asyncio.Task[None]:
    task = asyncio.create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task
