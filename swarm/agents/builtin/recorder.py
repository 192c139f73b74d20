"""Remembers the runs of an agent, and notes down what they used; each beside everything else, in a task of its own.

The next run of a session waits until those before it are stored: they are what it remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import structlog

from swarm.domain.errors import Unavailable
from swarm.domain.model_runs import ModelRun, RunBook
from swarm.domain.sessions import Memory, SessionMessage

RECORD_SECONDS: Final = 30.0
"""So long a run is tried to be remembered while the database is away."""

AGAIN_SECONDS: Final = 1.0
"""Between two attempts."""

CLOSING_SECONDS: Final = 5.0
"""So long what is still to be stored holds up the end of the coordinator."""

_log = structlog.get_logger(__name__)


class Recorder:
    """The records of one agent."""

    def __init__(self, memory: Memory, runs: RunBook) -> None:
        self._memory = memory
        self._runs = runs
        self._before: dict[str, set[asyncio.Task[Any]]] = {}  # by session: what its next run has to wait for
        self._storing: set[asyncio.Task[Any]] = set()
        self._compacting: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def settled(self, session_id: str) -> None:
        """Wait until the runs of a session that are over, or are being cut off, are stored."""
        while before := self._before.get(session_id):
            await asyncio.wait(set(before))

    def await_end(self, session_id: str, run: asyncio.Task[Any]) -> None:
        """Have the next run of the session wait for the end of this task."""
        if run.done():
            return
        self._before.setdefault(session_id, set()).add(run)
        run.add_done_callback(lambda task: self._is_over(session_id, task))

    def store(self, run: ModelRun, name: str, block: Sequence[SessionMessage]) -> asyncio.Task[None]:
        """Remember a run under its name in the session, and note it down."""
        storing = _owned(self._stored(run, name, block), "store a run", self._storing)
        self.await_end(run.session_id, storing)
        return storing

    async def aclose(self) -> None:
        """Wait for what is being stored, but not for ever; what is being summarised is left for another time."""
        self._is_closed = True
        if self._storing:
            await asyncio.wait(set(self._storing), timeout=CLOSING_SECONDS)
        while left := self._storing | self._compacting:
            for task in left:
                task.cancel()
            await asyncio.wait(left)

    def _is_over(self, session_id: str, task: asyncio.Task[Any]) -> None:
        left = self._before.get(session_id, set())
        left.discard(task)
        if not left:
            self._before.pop(session_id, None)

    async def _stored(self, run: ModelRun, name: str, block: Sequence[SessionMessage]) -> None:
        """What cannot be stored is logged: the answer has been given all the same."""
        ids = {"agent": run.agent, "run_id": run.id}
        try:
            async with asyncio.timeout(RECORD_SECONDS):
                await self._until_stored(run, name, block)
        except TimeoutError:
            _log.error("A run could not be remembered.", action="agent_record", **ids)
        except asyncio.CancelledError:
            _log.error("A run could not be remembered before the end.", action="agent_record", **ids)
            raise
        except Exception:  # noqa: BLE001 - it runs beside everything else
            _log.exception("A run could not be remembered.", action="agent_record", **ids)
        else:
            if not self._is_closed:
                _owned(self._compacted(run), "compact a session", self._compacting)

    async def _until_stored(self, run: ModelRun, name: str, block: Sequence[SessionMessage]) -> None:
        while True:
            try:
                await self._memory.add_run(run.session_id, name, block)
                await self._runs.note(run)
            except Unavailable as error:
                _log.warning(
                    "A run cannot be remembered yet.",
                    action="agent_record",
                    agent=run.agent,
                    run_id=run.id,
                    error=error.message,
                )
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return

    async def _compacted(self, run: ModelRun) -> None:
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
