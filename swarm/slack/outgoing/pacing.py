"""Keeps Slack's rate limits per method and per channel, so that Slack does not have to refuse calls.

Three limits make a call wait. A method's **tier** allows a number of calls per minute. A **channel** accepts one post
per second, with short bursts. A **pause**, requested by Slack's ``Retry-After``, stops a method, or the posts of one
channel, for some time. Calls are served in order of arrival; calls that wait for one channel do not hold up the others.

A tier of n calls per minute is spent as a burst of n/5 and n·4/5 spread over the minute, so that no minute, wherever it
begins, contains more than n calls. See https://docs.slack.dev/apis/web-api/rate-limits/.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

FORGET_ABOVE: Final = 256
"""The number of queues above which idle queues are removed."""

_EPSILON: Final = 1e-6  # prevents a rounding error from delaying the last microsecond forever


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """A limit that allows a burst of calls at once, and a rate after the burst."""

    burst: float
    per_second: float

    @classmethod
    def per_minute(cls, calls: int) -> Limit:
        """Allows at most ``calls`` in any minute."""
        burst = max(1, calls // 5)
        return cls(burst=burst, per_second=(calls - burst) / 60)


UNLIMITED: Final = Limit(burst=math.inf, per_second=math.inf)
"""Only pauses delay these calls."""

TIER_2: Final = Limit.per_minute(20)
TIER_3: Final = Limit.per_minute(50)
TIER_4: Final = Limit.per_minute(100)

METHOD_LIMITS: Final = {
    "agents.sessions.rename": TIER_3,
    "agents.sessions.setStatus": TIER_3,
    # Calls are rare, and a reconnect must not wait for a bucket. If necessary, Slack's response slows these calls down.
    "apps.connections.open": UNLIMITED,
    "assistant.threads.setStatus": Limit.per_minute(300),  # Slack mentions "special limits" without numbers
    "assistant.threads.setSuggestedPrompts": TIER_4,
    "assistant.threads.setTitle": TIER_4,
    "auth.test": Limit.per_minute(300),  # Slack mentions hundreds
    "bots.info": TIER_3,
    "chat.appendStream": TIER_4,
    "chat.delete": TIER_3,
    "chat.postEphemeral": TIER_4,
    "chat.postMessage": Limit.per_minute(300),  # Slack mentions several hundred for the workspace
    "chat.startStream": TIER_2,
    "chat.stopStream": TIER_2,
    "chat.update": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.list": TIER_2,
    "conversations.replies": TIER_3,
    "files.completeUploadExternal": TIER_4,
    "files.getUploadURLExternal": TIER_4,
    "files.info": TIER_4,
    "reactions.add": TIER_3,
    "reactions.remove": TIER_2,
    "usergroups.users.list": TIER_2,
    "users.conversations": TIER_3,
    "users.info": TIER_4,
    "users.lookupByEmail": TIER_3,
    "views.open": TIER_4,
    "views.publish": TIER_4,
    "views.update": TIER_4,
}

_ON_ONES_OWN_ACCOUNT: Final = frozenset(
    {
        "apps.connections.open",
        "auth.test",
        "bots.info",
        "chat.postEphemeral",
        "conversations.info",
        "files.getUploadURLExternal",
        "files.info",
        "usergroups.users.list",
        "users.info",
        "views.open",
        "views.publish",
        "views.update",
    }
)
"""Methods that every coordinator process calls, elected or not. Together the processes may exceed a limit, and then
wait as Slack requests.
"""

POSTS_PER_CHANNEL: Final = Limit(burst=3, per_second=1)
_POSTS: Final = "chat.postMessage"


class Pacing:
    """The queues of all methods and channels.

    If ``enforced`` is not set, only Slack's own pauses are observed; the limits above are off, for a twin without
    limits. ``monotonic`` and ``sleep`` are the time source, so that tests do not have to wait.
    """

    def __init__(
        self,
        *,
        enforced: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._enforced = enforced
        self._monotonic = monotonic
        self._sleep = sleep
        self._queues: dict[tuple[str, str | None], _Queue] = {}
        self._look_for_idle_above = FORGET_ABOVE
        self._spent_at: float | None = None

    def take_over(self) -> None:
        """Starts with empty buckets, because another process may have just used them up.

        Only for calls that a single process makes at a time: our burst must not directly follow the previous process's.
        """
        self._spent_at = self._monotonic()
        for (method, _), queue in self._queues.items():
            if method not in _ON_ONES_OWN_ACCOUNT:
                queue.spend(self._spent_at)

    async def acquire_slot(self, method: str, channel: str | None = None) -> None:
        """Waits until ``method`` may be called (for a post: in ``channel``), in order of arrival."""
        for queue in self._queues_of(method, channel):
            await queue.acquire_slot(self._monotonic, self._sleep)

    def pause(self, method: str, seconds: float, channel: str | None = None) -> None:
        """Stops ``method`` for ``seconds``, as Slack requested; for posts, only in ``channel``.

        Slack does not report whether a refused post exceeded the channel's limit or the workspace's. For the first
        channel, the channel's limit is assumed; if a second channel is refused in the meantime, all posts wait.
        """
        now = self._monotonic()
        if method != _POSTS or channel is None or self._another_channel_is_paused(channel, now):
            self._queue(method, None).pause_until(now + seconds)
        else:
            self._queue(method, channel).pause_until(now + seconds)

    def expected_wait_seconds(self, method: str, channel: str | None = None) -> float:
        """Returns the expected number of seconds until a call would get its slot."""
        now = self._monotonic()
        return max(queue.expected_wait(now) for queue in self._queues_of(method, channel))

    @property
    def queues(self) -> int:
        """The number of known methods and channels."""
        return len(self._queues)

    def _queues_of(self, method: str, channel: str | None) -> list[_Queue]:
        """Returns the queues of a call, the channel's first: a call that waits for the channel must not use up the
        method's tokens.
        """
        if method == _POSTS and channel is not None:
            return [self._queue(method, channel), self._queue(method, None)]
        return [self._queue(method, None)]

    def _queue(self, method: str, channel: str | None) -> _Queue:
        key = (method, channel)
        if key not in self._queues:
            self._forget_idle()
            self._queues[key] = _Queue(self._limit(method, channel), self._monotonic())
            if self._spent_at is not None and method not in _ON_ONES_OWN_ACCOUNT:
                self._queues[key].spend(self._spent_at)
        return self._queues[key]

    def _limit(self, method: str, channel: str | None) -> Limit:
        if not self._enforced:
            return UNLIMITED
        return METHOD_LIMITS.get(method, TIER_2) if channel is None else POSTS_PER_CHANNEL

    def _another_channel_is_paused(self, channel: str, now: float) -> bool:
        return any(
            key[0] == _POSTS and key[1] not in (None, channel) and queue.paused_until > now
            for key, queue in self._queues.items()
        )

    def _forget_idle(self) -> None:
        """Removes idle channels, which behave like new ones. The search visits all queues, so the next one waits until
        their number doubles.
        """
        if len(self._queues) < self._look_for_idle_above:
            return
        now = self._monotonic()
        self._queues = {key: queue for key, queue in self._queues.items() if key[1] is None or not queue.idle(now)}
        self._look_for_idle_above = max(FORGET_ABOVE, 2 * len(self._queues))


class _Queue:
    """The calls that wait for one limit, in order. Each call takes a token from the bucket, which refills over time."""

    def __init__(self, limit: Limit, now: float) -> None:
        self._limit = limit
        self._tokens = limit.burst
        self._counted_at = now
        self._waiting = 0
        self._lock = asyncio.Lock()  # wakes its waiters in order of arrival
        self.paused_until = -math.inf

    async def acquire_slot(self, monotonic: Callable[[], float], sleep: Callable[[float], Awaitable[object]]) -> None:
        self._waiting += 1
        try:
            async with self._lock:
                while (wait := self._wait(monotonic(), calls=1)) > 0:
                    await sleep(wait)
                self._tokens -= 1
        finally:
            self._waiting -= 1

    def pause_until(self, moment: float) -> None:
        self.paused_until = max(self.paused_until, moment)

    def spend(self, moment: float) -> None:
        """Empties the bucket as of a past time; it has been refilling since then."""
        if self._limit != UNLIMITED:
            self._tokens, self._counted_at = 0.0, moment

    def expected_wait(self, now: float) -> float:
        """Returns how long a new caller has to wait behind the current ones."""
        return self._wait(now, calls=self._waiting + 1)

    def idle(self, now: float) -> bool:
        return not self._waiting and self.paused_until <= now and self._count(now) >= self._limit.burst

    def _wait(self, now: float, *, calls: int) -> float:
        missing = calls - self._count(now)
        until_tokens = missing / self._limit.per_second if missing > _EPSILON else 0.0
        return max(until_tokens, self.paused_until - now, 0.0)

    def _count(self, now: float) -> float:
        if self._tokens < self._limit.burst:
            gained = (now - self._counted_at) * self._limit.per_second
            self._tokens = min(self._limit.burst, self._tokens + gained)
        self._counted_at = now
        return self._tokens
