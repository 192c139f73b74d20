"""The twin's own clock: wall time plus an offset that only grows, until a reset of the twin.

All timing of Slack (redelivery, rate limits, the end of a status) follows this clock, so tests advance it instead of
sleeping. Signatures and socket pings use wall time.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

Source = Callable[[], float]


class Timer:
    """A scheduled call. Cancelling is idempotent."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Clock:
    """The workspace's time in seconds since 1970, and its timers."""

    def __init__(self, source: Source = time.time) -> None:
        self._source = source
        self._offset = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Timer]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def now(self) -> float:
        return self._source() + self._offset

    def still_now(self) -> float:
        """Returns the time as if the clock had never been advanced."""
        return self._source()

    def advance(self, seconds: float) -> float:
        """Advances the clock by `seconds`, runs the timers that became due in order, and returns the new time.

        Raises ValueError for a negative number, because the clock never goes back.
        """
        if seconds < 0:
            raise ValueError("the clock only moves forward")
        self._offset += seconds
        self._fire_due()
        return self.now()

    def reset(self) -> None:
        """Returns to the time of its source; timers keep their remaining time."""
        back, self._offset = self._offset, 0.0
        self._timers = [(moment - back, order, timer) for moment, order, timer in self._timers]
        self._set_alarm()

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        """Schedules `call` for `moment`. Needs a running event loop."""
        timer = Timer(call)
        heapq.heappush(self._timers, (moment, next(self._order), timer))
        if self._timers[0][2] is timer:
            self._set_alarm()
        return timer

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock has moved by `seconds`, by elapsed time or by `advance`."""
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
    """Returns a clock that stands still until it is advanced.

    With a running clock, a machine that pauses for three seconds would make Slack repeat an event in the middle of a
    test.
    """
    present = int(time.time())
    return Clock(source=lambda: float(present))
