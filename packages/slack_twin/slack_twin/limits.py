"""Slack's rate limits: tiers per method and app, one post per second and channel with short bursts, events per hour.

https://docs.slack.dev/apis/web-api/rate-limits and https://docs.slack.dev/apis/events-api#rate-limiting
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, auto

from slack_twin.clock import Clock

_WINDOW_SECONDS = 60.0
_POSTS_PER_SECOND = 1.0
_POST_BURST = 5.0
_MOST_EVENTS = 30_000
_EVENT_MINUTES = 60


class Tier(Enum):
    """Calls a minute for one method and one app."""

    TIER_2 = 20
    TIER_3 = 50
    TIER_4 = 100
    SPECIAL = 600  # methods with a limit of their own, which Slack describes as hundreds a minute


@dataclass
class _Window:
    """The moments of the calls of the last minute."""

    calls: deque[float] = field(default_factory=deque)

    def wait(self, now: float, allowed: int) -> float:
        """Seconds until another call is allowed; 0 takes the place."""
        while self.calls and self.calls[0] <= now - _WINDOW_SECONDS:
            self.calls.popleft()
        if len(self.calls) >= allowed:
            return self.calls[0] + _WINDOW_SECONDS - now
        self.calls.append(now)
        return 0.0


@dataclass
class _Bucket:
    """Posts that may go out at once; it fills up by one a second."""

    left: float = _POST_BURST
    at: float = 0.0

    def wait(self, now: float) -> float:
        self.left = min(_POST_BURST, self.left + (now - self.at) * _POSTS_PER_SECOND)
        self.at = now
        if self.left < 1:
            return (1 - self.left) / _POSTS_PER_SECOND
        self.left -= 1
        return 0.0


class Passage(Enum):
    """Whether an event may go out to its app."""

    FREE = auto()
    FIRST_REFUSED = auto()  # in this minute: the app is told
    REFUSED = auto()


@dataclass
class _EventWindow:
    """How many events an app got in each minute of the last hour."""

    counts: deque[tuple[int, int]] = field(default_factory=deque)  # minute since 1970, events
    total: int = 0
    told_in: int = -1  # the last minute in which the app was told that events are kept back

    def take(self, minute: int) -> Passage:
        while self.counts and self.counts[0][0] <= minute - _EVENT_MINUTES:
            self.total -= self.counts.popleft()[1]
        if self.total >= _MOST_EVENTS:
            is_first, self.told_in = self.told_in != minute, minute
            return Passage.FIRST_REFUSED if is_first else Passage.REFUSED
        self.total += 1
        in_minute = self.counts.pop()[1] if self.counts and self.counts[-1][0] == minute else 0
        self.counts.append((minute, in_minute + 1))
        return Passage.FREE


class Limits:
    """Counts calls. Off, it allows everything: for load tests."""

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self._windows: defaultdict[tuple[str, str], _Window] = defaultdict(_Window)
        self._buckets: defaultdict[tuple[str, str], _Bucket] = defaultdict(_Bucket)
        self._events: defaultdict[str, _EventWindow] = defaultdict(_EventWindow)

    def retry_after(self, app_id: str, method: str, tier: Tier) -> int | None:
        """Count a call; the whole seconds to wait if it is one too many."""
        if not self.enabled:
            return None
        return _whole(self._windows[app_id, method].wait(self._clock.now(), tier.value))

    def retry_post_after(self, app_id: str, channel_id: str) -> int | None:
        """Count a post to a channel; the whole seconds to wait if it is one too many."""
        if not self.enabled:
            return None
        return _whole(self._buckets[app_id, channel_id].wait(self._clock.now()))

    def take_event(self, app_id: str) -> Passage:
        """Count an event for an app: 30,000 an hour go out, the rest is lost."""
        if not self.enabled:
            return Passage.FREE
        return self._events[app_id].take(int(self._clock.now() // 60))


def _whole(seconds: float) -> int | None:
    return math.ceil(seconds) if seconds > 0 else None
