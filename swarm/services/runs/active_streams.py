"""The answers of polling agents that this process shows at the moment, one task each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from swarm.services.outbox.elections import OfficeTerm
from swarm.services.runs.run_context import RunContext
from swarm.services.runs.stream_run import StreamRun
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_events, runs
from swarm.store.runs.runs import Run

_log = structlog.get_logger(__name__)


class ActiveStreams:
    """Begins to show what agents have opened, stops it, and ends it all."""

    def __init__(self, crew: RunContext) -> None:
        self._crew = crew
        self._runs: dict[str, tuple[StreamRun, asyncio.Task[None]]] = {}  # by turn

    async def begin_opened(self, term: OfficeTerm) -> None:
        """Begin to show every answer that is open and that this process does not show yet."""
        for turn in await self._crew.database.read(opened):
            if turn.id not in self._runs:
                self._begin(turn, term)

    def shows(self, turn_id: str) -> bool:
        """Whether this process shows an answer, or is just beginning or ending it."""
        return turn_id in self._runs

    def stop(self, turn_id: str, by: str | None) -> None:
        """A person, by user id, does not want an answer any more."""
        if turn_id in self._runs:
            self._runs[turn_id][0].stop(by)

    async def end_all(self) -> None:
        """End every run, and wait until what it showed is sealed."""
        tasks = [task for _, task in self._runs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, turn: Run, term: OfficeTerm) -> None:
        run = StreamRun(self._crew, turn, term)
        task = asyncio.create_task(run.run(), name=f"stream {turn.id}")
        self._runs[turn.id] = (run, task)
        task.add_done_callback(lambda done: self._ended(turn.id, done))

    def _ended(self, turn_id: str, task: asyncio.Task[None]) -> None:
        self._runs.pop(turn_id, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a stream failed", action="stream", turn=turn_id, exc_info=task.exception())


def opened(tx: Transaction) -> Sequence[Run]:
    """The turns of polling agents whose answers are to be shown, oldest first."""
    found = (runs.get(tx, turn_id) for turn_id in run_events.running(tx))
    return [turn for turn in found if turn]
