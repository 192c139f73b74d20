"""The twin's own clock: wall time plus an offset that only grows.

Everything Slack does over time (redelivery, rate windows, the end of a status) waits on this clock, so a test
moves it forward instead of sleeping. Signatures and socket pings use wall time and do not come here.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

Source = Callable[[], float]


class Timer:
    """One planned call. Cancelling it is idempotent."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Clock:
    """Seconds since 1970 as the workspace sees them, and timers that follow them."""

    def __init__(self, source: Source = time.time) -> None:
        self._source = source
        self._offset = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def now(self) -> float:
        return self._source() + self._offset

    def advance(self, seconds: float) -> float:
        """Move forward by `seconds` and fire what became due, in order of its moment; return the new time.

        Raises ValueError for a negative number: the clock never goes back.
        """
        if seconds < 0:
            raise ValueError("the clock only moves forward")
        self._offset += seconds
        self._fire_due()
        return self.now()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        """Plan `call` for `moment`. Needs a running event loop."""
        timer = Timer(call)
        heapq.heappush(self._timers, (moment, next(self._order), timer))
        if self._timers[0][2] is timer:
            self._set_alarm()
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved by `seconds`, be it by passing or by being advanced."""
        if seconds <= 0:
            return
        elapsed = asyncio.Event()
        timer = self.call_at(self.now() + seconds, elapsed.set)
        try:
            await elapsed.wait()
        finally:
            timer.cancel()

    def _fire_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now():
            heapq.heappop(self._timers)[2].fire()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timers:
            delay = max(0.0, self._timers[0][0] - self.now())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._fire_due)


def still_clock() -> Clock:
    """A clock that stands at the present until it is advanced.

    On a clock that runs, a machine that pauses for three seconds has Slack repeat an event in the middle of a test.
    """
    present = int(time.time())
    return Clock(source=lambda: float(present))
