"""Rate limits: Slack's limits per method and per channel, kept before Slack has to refuse calls.

Three limits make a call wait. A method's **tier** allows a number of calls a minute. A **channel** takes one post a
second, with short bursts. And a **pause**, Slack's ``Retry-After``, stops a method, or the posts of one channel, for a
while. Calls go first come, first served; calls that wait for one channel do not hold up the others.

A tier of n calls a minute is spent as a burst of n/5 at once and n·4/5 spread over the minute, so that no minute,
wherever it begins, sees more than n. See https://docs.slack.dev/apis/web-api/rate-limits/.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

FORGET_ABOVE: Final = 256
"""The number of queues that are kept without a look for idle ones."""

_EPSILON: Final = 1e-6  # rounding must not make the last microsecond wait for ever


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """A burst of calls at once, and a rate after the burst."""

    burst: float
    per_second: float

    @classmethod
    def per_minute(cls, calls: int) -> Limit:
        """At most ``calls`` in any minute."""
        burst = max(1, calls // 5)
        return cls(burst=burst, per_second=(calls - burst) / 60)


UNLIMITED: Final = Limit(burst=math.inf, per_second=math.inf)
"""Only pauses hold these calls up."""

TIER_2: Final = Limit.per_minute(20)
TIER_3: Final = Limit.per_minute(50)
TIER_4: Final = Limit.per_minute(100)

METHOD_LIMITS: Final = {
    "agents.sessions.setStatus": TIER_3,
    # Rare, and a reconnect must not wait for a bucket; Slack's own answer slows these calls down if need be.
    "apps.connections.open": UNLIMITED,
    "assistant.threads.setStatus": Limit.per_minute(300),  # "special limits", which Slack does not name
    "auth.test": Limit.per_minute(300),  # Slack says hundreds
    "bots.info": TIER_3,
    "chat.appendStream": TIER_4,
    "chat.delete": TIER_3,
    "chat.postEphemeral": TIER_4,
    "chat.postMessage": Limit.per_minute(300),  # Slack says several hundred for the workspace
    "chat.startStream": TIER_2,
    "chat.stopStream": TIER_2,
    "chat.update": TIER_3,
    "conversations.history": TIER_3,
    "conversations.info": TIER_3,
    "conversations.replies": TIER_3,
    "files.completeUploadExternal": TIER_4,
    "files.getUploadURLExternal": TIER_4,
    "files.info": TIER_4,
    "reactions.add": TIER_3,
    "reactions.remove": TIER_2,
    "users.conversations": TIER_3,
    "users.info": TIER_4,
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
        "users.info",
    }
)
"""Methods of every coordinator process, elected or not. Together they may meet a limit, and then wait as Slack asks."""

POSTS_PER_CHANNEL: Final = Limit(burst=3, per_second=1)
_POSTS: Final = "chat.postMessage"


class Pacing:
    """The queues of all methods and channels.

    Without ``enforced``, only Slack's own pauses are kept and the limits above are off: for a twin without limits.
    ``monotonic`` and ``sleep`` are the time source, so that tests need not wait.
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
        """Begin with empty buckets: another process may have used them up a moment ago.

        For calls of only one process at a time: our burst must not follow upon our predecessor's.
        """
        self._spent_at = self._monotonic()
        for (method, _), queue in self._queues.items():
            if method not in _ON_ONES_OWN_ACCOUNT:
                queue.spend(self._spent_at)

    async def acquire_slot(self, method: str, channel: str | None = None) -> None:
        """Wait until ``method`` may be called (for a post: in ``channel``), first come, first served."""
        for queue in self._queues_of(method, channel):
            await queue.acquire_slot(self._monotonic, self._sleep)

    def pause(self, method: str, seconds: float, channel: str | None = None) -> None:
        """Stop ``method`` for ``seconds``, as Slack asked; of posts, only those in ``channel``.

        Slack does not say whether a refused post met the channel's limit or the workspace's. For the first channel, the
        channel's limit is assumed; after a refusal in a second one meanwhile, all posts wait.
        """
        now = self._monotonic()
        if method != _POSTS or channel is None or self._another_channel_is_paused(channel, now):
            self._queue(method, None).pause_until(now + seconds)
        else:
            self._queue(method, channel).pause_until(now + seconds)

    def expected_wait_seconds(self, method: str, channel: str | None = None) -> float:
        """The foreseeable seconds until a call would get its slot."""
        now = self._monotonic()
        return max(queue.expected_wait(now) for queue in self._queues_of(method, channel))

    @property
    def queues(self) -> int:
        """The number of known methods and channels."""
        return len(self._queues)

    def _queues_of(self, method: str, channel: str | None) -> list[_Queue]:
        """The queues of a call, the channel's first: a call that waits there must not use up the method's tokens."""
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
        """Remove idle channels, which equal new ones. The search costs a pass, so it waits for twice their number."""
        if len(self._queues) < self._look_for_idle_above:
            return
        now = self._monotonic()
        self._queues = {key: queue for key, queue in self._queues.items() if key[1] is None or not queue.idle(now)}
        self._look_for_idle_above = max(FORGET_ABOVE, 2 * len(self._queues))


class _Queue:
    """The calls that wait for one limit, in order. Each call takes a token from the bucket; time refills the bucket."""

    def __init__(self, limit: Limit, now: float) -> None:
        self._limit = limit
        self._tokens = limit.burst
        self._counted_at = now
        self._waiting = 0
        self._lock = asyncio.Lock()  # wakes its waiters in the order of their arrival
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
        """Empty the bucket as of a past moment; it has been refilling since."""
        if self._limit != UNLIMITED:
            self._tokens, self._counted_at = 0.0, moment

    def expected_wait(self, now: float) -> float:
        """The wait of one more caller behind the present ones."""
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
