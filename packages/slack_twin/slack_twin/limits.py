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
    """The number of calls a minute for one method and one app."""

    TIER_2 = 20
    TIER_3 = 50
    TIER_4 = 100
    SPECIAL = 600  # methods with their own limit, which Slack describes as hundreds a minute


@dataclass
class _Window:
    """The times of the calls in the last minute."""

    calls: deque[float] = field(default_factory=deque)

    def wait(self, now: float, allowed: int) -> float:
        """Returns the seconds until another call is allowed; 0 counts this call."""
        while self.calls and self.calls[0] <= now - _WINDOW_SECONDS:
            self.calls.popleft()
        if len(self.calls) >= allowed:
            return self.calls[0] + _WINDOW_SECONDS - now
        self.calls.append(now)
        return 0.0


@dataclass
class _Bucket:
    """The number of posts that may be sent immediately; it grows by one per second."""

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
    """Returns whether an event may be sent to its app."""

    FREE = auto()
    FIRST_REFUSED = auto()  # the first refusal in this minute, which is reported to the app
    REFUSED = auto()


@dataclass
class _EventWindow:
    """The number of an app's events in each minute of the last hour."""

    counts: deque[tuple[int, int]] = field(default_factory=deque)  # minute since 1970, number of events
    total: int = 0
    told_in: int = -1  # the last minute in which the app was notified

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
    """Counts calls. When disabled, for load tests, it allows everything."""

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self._windows: defaultdict[tuple[str, str], _Window] = defaultdict(_Window)
        self._buckets: defaultdict[tuple[str, str], _Bucket] = defaultdict(_Bucket)
        self._events: defaultdict[str, _EventWindow] = defaultdict(_EventWindow)

    def retry_after(self, app_id: str, method: str, tier: Tier) -> int | None:
        """Counts a call. Returns the seconds to wait, rounded up, if the call exceeds the limit."""
        if not self.enabled:
            return None
        return _whole(self._windows[app_id, method].wait(self._clock.now(), tier.value))

    def retry_post_after(self, app_id: str, channel_id: str) -> int | None:
        """Counts a post to a channel. Returns the seconds to wait, rounded up, if the post exceeds the limit."""
        if not self.enabled:
            return None
        return _whole(self._buckets[app_id, channel_id].wait(self._clock.now()))

    def take_event(self, app_id: str) -> Passage:
        """Counts an event for an app: 30,000 an hour are sent, and the rest is dropped."""
        if not self.enabled:
            return Passage.FREE
        return self._events[app_id].take(int(self._clock.now() // 60))


def _whole(seconds: float) -> int | None:
    return math.ceil(seconds) if seconds > 0 else None
