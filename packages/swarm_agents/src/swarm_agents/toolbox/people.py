"""Questions that a tool asks people during its call, and the time limits that do not run while people are asked.

The run goes on while its call waits, so nothing of it is stored: when the call ends, its question is withdrawn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

from swarm.domain.model.requests import HumanRequest, NewRequest

QUESTION_SECONDS: Final = 1800.0
"""How long people have for one question."""

MOST_WAIT_SECONDS: Final = 3600.0
"""The time that a run may wait for people in all its calls together."""


class AskPeople(Protocol):
    """Asks people for a tool call that waits."""

    async def __call__(self, run_id: str, tool: str, new: NewRequest) -> HumanRequest:
        """Asks a question of a run, and returns the request when it has ended.

        Raises a SwarmError, whose message is for the tool's server, if nobody can be asked. A cancelled call withdraws
        the question.
        """
        ...


class PausableTimeout:
    """A time limit that does not run while people are asked. Used with ``async with``; raises TimeoutError.

    ``seconds``: None for no limit. ``outer`` is a limit around this one, which stops with it.
    """

    def __init__(self, seconds: float | None, outer: PausableTimeout | None = None) -> None:
        self._outer = outer
        self._timeout = asyncio.timeout(seconds)
        self._left_seconds = seconds
        self._pauses = 0
        self._paused_at = 0.0
        self._paused_seconds = 0.0
        self._is_running = False

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._is_running = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_running = False
        await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        """Whether the time is over."""
        return self._timeout.expired()

    @property
    def paused_seconds(self) -> float:
        """For how long the limit has not run until now; that of the outermost limit, if there are several."""
        if self._outer:
            return self._outer.paused_seconds
        since = asyncio.get_running_loop().time() - self._paused_at if self._pauses else 0.0
        return self._paused_seconds + since

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the time. Several pauses at once count as one."""
        with self._outer.paused() if self._outer else nullcontext(), self._paused_itself():
            yield

    @contextmanager
    def _paused_itself(self) -> Iterator[None]:
        now = asyncio.get_running_loop().time
        if not self._pauses:
            self._paused_at, end = now(), self._timeout.when()
            self._left_seconds = None if end is None else end - self._paused_at
            self._reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._paused_seconds += now() - self._paused_at
                self._reschedule(None if self._left_seconds is None else now() + self._left_seconds)

    def _reschedule(self, when: float | None) -> None:
        if self._is_running and not self.expired():
            self._timeout.reschedule(when)


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCaller:
    """The run that calls tools."""

    run_id: str  # empty for a run of which the coordinator keeps no record, such as a client's
    limit: PausableTimeout  # of the run
    counts: Counter[str] = field(default_factory=Counter)  # calls by what a repeated run would do again
    handed_to: list[str] = field(default_factory=list)  # the agents that got the run's messages


CALLER: Final[ContextVar[ToolCaller | None]] = ContextVar("tool_caller", default=None)
"""The run in whose task a tool is called. Tools get arguments from a model, and this from whoever runs the model."""
