"""Checks whether Slack's events still reach this process, because a socket may look healthy but deliver nothing.

What is guaranteed: a dead socket is detected within `SILENCE_SECONDS` plus one check, as soon as someone has written a
message that should have arrived there. When no event has arrived for that long, the newest messages of one conversation
are read: at every second check from the most recently active conversation, otherwise from the others in turn. The list
of conversations is refreshed from time to time. There is at most one read a minute. If a message found there reached no
process as an event, the socket is dead.

A lost echo is detected sooner: the swarm has posted, and neither the event for the post nor any other event has arrived
since. This requires that the process has the app's only connection and that earlier posts in that conversation were
echoed. A dead socket is replaced, and the missed messages are read as after any gap (`swarm.services.intake.catch_up`).
With events over HTTP nothing can be replaced, only read.

For the catch-up, the latest Slack timestamp of all events is stored (`swarm.store.threads.watermarks`) every few
seconds while events arrive. A new connection or an event that could not be stored opens a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from swarm.clock import until_next
from swarm.domain.errors import NotFound
from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted, DeliveryKind
from swarm.domain.model.threads import ChannelMessage
from swarm.domain.policy.access import Me
from swarm.domain.ports import SlackReader
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.services.ground.guarded import attempt
from swarm.store import history
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import transcript, watermarks

SILENCE_SECONDS: Final = 60.0
ECHO_SECONDS: Final = 10.0
"""The time allowed for the echo of a post, which normally arrives within a second or two."""

LATE_SECONDS: Final = 5.0
"""How long a message found without its event may wait for the event before it counts as missed."""

TICK_SECONDS: Final = 2.0
NOTE_SECONDS: Final = 10.0

_LISTED_EVERY: Final = 10  # checks

_LOOKED_AT: Final = 15  # messages of one conversation
_REMEMBERED: Final = 5_000

_log = structlog.get_logger(__name__)


class EventConnection(Protocol):
    """A connection that delivers events."""

    @property
    def connected(self) -> bool:
        """Whether the connection is known to be up."""
        ...

    @property
    def is_only_one(self) -> bool:
        """Whether the app had no other connection when this one was opened, according to Slack."""
        ...

    async def replace(self) -> None:
        """Opens a new connection."""
        ...


class EventWatchdog(Watcher):
    """The monitor of the events that reach this process. As a watcher of deliveries it is notified of the swarm's
    posts.
    """

    def __init__(
        self,
        database: Database,
        slack: SlackReader,
        me: Me,
        *,
        silence_seconds: float = SILENCE_SECONDS,
        watcher: Watcher = NO_WATCHERS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._silence_seconds = silence_seconds
        self._watcher = watcher
        self._monotonic = monotonic
        self._sleep = sleep
        self._heard: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._come_back_in: set[str] = set()  # conversations in which own posts were echoed
        self._awaited_since: float | None = None  # the first own post since the last event
        self._newest_ts = ""  # the newest of all events
        self._noted_ts = ""
        self._noted_at = -NOTE_SECONDS
        self._doubts: list[str | None] = []  # beginnings of gaps to open; None: the last event known to any process
        self._opening = asyncio.Lock()  # one writer at a time, because each removes the entries that it read first
        self._quiet_since = monotonic()  # the last event or check without findings
        self._channels: OrderedDict[str, None] = OrderedDict()  # most recently active last
        self._others: list[str] = []  # not yet checked in this round; the next one is last
        self._looks = 0
        self.is_deaf = False
        self._came_at: float | None = None

    def last_event_seconds(self) -> int | None:
        """Returns the time since the last event reached this process; None if none has."""
        return None if self._came_at is None else int(self._monotonic() - self._came_at)

    def came(self, channel: str = "", ts: str = "", *, is_own: bool = False) -> None:
        """Records an event; for a message also its conversation and timestamp."""
        self._quiet_since = self._came_at = self._monotonic()
        self._awaited_since = None
        self.is_deaf = False
        if not ts:
            return
        self._newest_ts = max(self._newest_ts, ts)
        self._heard[channel, ts] = None
        self._channels[channel] = None
        self._channels.move_to_end(channel)
        if len(self._heard) > _REMEMBERED:
            self._heard.popitem(last=False)
        if is_own:
            self._come_back_in.add(channel)

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        """Records a sent post, whose echo is expected as an event."""
        if delivery.kind is not DeliveryKind.POST or not isinstance(answer, DeliveryAccepted) or not answer.ts:
            return
        has_come = (delivery.channel, answer.ts) in self._heard
        if delivery.channel in self._come_back_in and not has_come and self._awaited_since is None:
            self._awaited_since = self._monotonic()

    def missed(self, ts: str) -> None:
        """Records an event that could not be stored, by the timestamp of its message."""
        self._doubts.append(ts)

    async def connected(self) -> None:
        """Opens a gap after a new connection, because messages since the last event may have been missed."""
        self.is_deaf = False
        self._awaited_since = None
        self._quiet_since = self._monotonic()
        self._doubts.append(self._newest_ts or None)
        await attempt(self._open_gaps(), "hearing")

    async def run(self, connection: EventConnection | None) -> None:
        """Stores the newest timestamp and checks periods of silence, until cancelled.

        Without a connection, events arrive over HTTP.
        """
        while True:
            await self._sleep(until_next(TICK_SECONDS))
            await attempt(self._note(), "hearing")
            if connection and connection.connected and self._is_suspicious(connection):
                await attempt(self.look(connection), "hearing")

    async def look(self, connection: EventConnection) -> None:
        """Checks whether events are missing, and replaces a dead connection."""
        self._quiet_since = self._monotonic()
        if not (self._is_echo_lost(connection) or await self._has_missed_something()):
            return
        self.is_deaf = True
        self._watcher.slack_was_deaf()
        _log.warning("Slack has messages that no event reported; the connection is replaced.", action="slack_deaf")
        await connection.replace()

    async def _note(self) -> None:
        """Opens pending gaps, and periodically stores the timestamp of the newest event."""
        await self._open_gaps()
        now = self._monotonic()
        if self._newest_ts > self._noted_ts and now - self._noted_at >= NOTE_SECONDS:
            newest, self._noted_at = self._newest_ts, now
            await self._database.write(watermarks.advance, self._me.team, newest)
            self._noted_ts = newest

    async def _open_gaps(self) -> None:
        async with self._opening:
            while self._doubts:
                since = None if None in self._doubts else min(ts for ts in self._doubts if ts)
                known = len(self._doubts)
                await self._database.write(watermarks.open_gap, self._me.team, since)
                del self._doubts[:known]

    def _is_suspicious(self, connection: EventConnection) -> bool:
        return self._monotonic() - self._quiet_since >= self._silence_seconds or self._is_echo_lost(connection)

    def _is_echo_lost(self, connection: EventConnection) -> bool:
        since = self._awaited_since
        return connection.is_only_one and since is not None and self._monotonic() - since >= ECHO_SECONDS

    async def _has_missed_something(self) -> bool:
        """Whether the next conversation contains a message that reached no process as an event."""
        channel = await self._next_channel()
        if channel is None:
            return False
        known_ts = self._newest_ts or await self._database.read(watermarks.of_channel, self._me.team, watermarks.ALL)
        try:
            said = await self._slack.read_channel(channel, "0", _LOOKED_AT)
        except NotFound:
            self._channels.pop(channel, None)
            return False
        if not self._unheard(channel, said, known_ts):
            return False
        await self._sleep(LATE_SECONDS)
        suspects = self._unheard(channel, said, known_ts)
        return bool(suspects) and await self._database.read(self._is_any_missed, channel, suspects)

    def _is_any_missed(self, tx: Transaction, channel: str, suspects: list[str]) -> bool:
        """Whether one of these messages reached no process, and no open gap covers it."""
        return watermarks.gap(tx, self._me.team) is None and any(
            not _is_known(tx, self._me, channel, ts) for ts in suspects
        )

    async def _next_channel(self) -> str | None:
        """Returns the conversation to check; None if this check only listed them, or if there are no conversations."""
        self._looks += 1
        is_known = bool(self._channels)
        if not is_known or self._looks % _LISTED_EVERY == 0:
            for channel in reversed(await self._slack.conversations()):
                self._channels.setdefault(channel)  # a new conversation is suspicious: no event reported it
            if is_known or not self._channels:
                return None
        *others, latest = self._channels
        if self._looks % 2 or not others:
            return latest
        self._others = [channel for channel in self._others if channel != latest] or others
        return self._others.pop()

    def _unheard(self, channel: str, said: list[ChannelMessage], known_ts: str) -> list[str]:
        """Returns the timestamps newer than all events, in Slack's clock, that did not reach this process.

        The swarm's own posts are ignored, because some kinds may have no echo.
        """
        people = [one for one in said if not self._me.wrote(one.message.author)]
        found = [ts for one in people for ts in (one.message.ts, one.latest_reply_ts) if ts]
        return [ts for ts in found if ts > known_ts and (channel, ts) not in self._heard]


def _is_known(tx: Transaction, me: Me, channel: str, ts: str) -> bool:
    stored = transcript.find(tx, me.team, channel, ts)
    return bool(stored and stored["routed_at"]) or history.was_routed(tx, channel, ts)
