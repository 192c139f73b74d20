"""Slack's rate limits: tiers per method and app, and one post per second and channel with short bursts.

https://docs.slack.dev/apis/web-api/rate-limits
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum

from swarm.twin.clock import Clock

_WINDOW_SECONDS = 60.0
_POSTS_PER_SECOND = 1.0
_POST_BURST = 5.0


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


class Limits:
    """Counts calls. Off, it allows everything: for load tests."""

    def __init__(self, clock: Clock, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self._windows: defaultdict[tuple[str, str], _Window] = defaultdict(_Window)
        self._buckets: defaultdict[tuple[str, str], _Bucket] = defaultdict(_Bucket)

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


def _whole(seconds: float) -> int | None:
    return math.ceil(seconds) if seconds > 0 else None
