"""A loop whose clock runs hardly but while there is nothing to do, for tests whose peers live in the same loop.

A time limit of half a second is then half a second in which nobody had anything to say. However busy or suspended
the machine is: what is under way goes on before any limit is reached, so a limit in a test can be as short as it likes.
The clock of processes and of threads is the usual one; only what this loop waits for is timed in this manner. Where
they have to come to a certain point before the time is up, a test gives them all the time they need, and calls
`time_passes` then.

A ``conftest.py`` chooses it for the tests below its folder, see `pytest_asyncio_loop_factories` in `tests/agents`.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Final

_LOOK_EVERY_SECONDS: Final = 0.02
_MOST_OF_A_WAIT_SECONDS: Final = 0.1
"""So much of a pause of the whole process is counted at most; less is usual on a busy machine."""
_MOST_OF_A_TURN_SECONDS: Final = 0.001
"""So much of a turn of the loop, lest a peer that never stops talking stops the clock."""


class _IdleSelector(selectors.EpollSelector):
    """Counts how long it has waited, and little else."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self._left_at = time.monotonic()
        self.speed = 1.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += min(time.monotonic() - self._left_at, _MOST_OF_A_TURN_SECONDS)
        if timeout is None:
            return self._wait(None)  # there is no time limit, so nothing is reached too early
        until = self.now + timeout
        ready = self._wait(min(timeout, _LOOK_EVERY_SECONDS))
        while not ready and (left := until - self.now) > 0:
            ready = self._wait(min(left, _LOOK_EVERY_SECONDS))
        return ready

    def _wait(self, seconds: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        begun = time.monotonic()
        ready = super().select(None if seconds is None else seconds / self.speed)
        waited = (time.monotonic() - begun) * self.speed
        if seconds is None:
            self.now += waited
        elif ready:
            self.now += min(waited, seconds)
        else:
            self.now += max(seconds, min(waited, _MOST_OF_A_WAIT_SECONDS))
        self._left_at = time.monotonic()
        return ready


class IdleTimeLoop(asyncio.SelectorEventLoop):
    """An event loop as any other, but for its clock."""

    def __init__(self) -> None:
        self._idle = _IdleSelector()
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now

    def skip(self, seconds: float) -> None:
        """So much time has passed."""
        self._idle.now += seconds

    def hurry(self, speed: float) -> None:
        """From now on, idle time passes that many times as fast."""
        self._idle.speed = speed


def time_passes(seconds: float) -> None:
    """Let all time limits of this loop that end within these seconds be over, as soon as it has nothing else to do."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, IdleTimeLoop)
    loop.skip(seconds)
