"""Reads messages that were missed while no events arrived, and passes them to ingest in order, as if Slack had just
sent them.

What is guaranteed for each event: it is processed or set aside; otherwise no later event is processed either. A
temporary fault (the database, the disk, memory, the network) never causes the loss of an event: everything waits and is
retried. After `TRIES` failures of any other kind, an event is set aside, but only once the database has recorded that
on the timeline as ``route.set_aside``, which ``explain`` and the metrics show.

Who may act: any process opens a gap (`swarm.store.threads.watermarks`) at startup, after a new connection to Slack, or
when events may have been lost; the elected process reads the gap.

What is guaranteed for a gap: every message that was written since the beginning of the gap, is at most 72 hours old,
and belongs to a conversation of the swarm (direct messages included) or to a tracked thread reaches ingest before the
gap is closed. So do edits and deletions, in tracked threads also of older messages. Ingest processes each message once,
so overlaps with events and an interrupted catch-up do no harm. Tracked threads are stale from the time the gap is
opened, and `swarm.services.intake.backfill` reads them in full: a new message in a stale thread waits for the earlier
messages. Replies in an untracked thread are found if its root is at most `LOOK_BACK_SECONDS` older than the gap.

What happens on failure: the gap stays open and is retried, from the last position read in each conversation. A
conversation that the swarm may not read is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import structlog

from swarm.clock import SECOND, slack_ts_to_us, to_iso, us_to_slack_ts
from swarm.domain.errors import NotFound, Unavailable
from swarm.domain.model.threads import ChannelMessage, MessageEdited, SlackEvent, SlackMessage
from swarm.domain.policy.access import Me
from swarm.domain.ports import SlackReader
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.services.ground.guarded import watch
from swarm.store import forgotten, history
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads, transcript, watermarks
from swarm.store.threads.watermarks import GAPS, Gap

MOST_SECONDS: Final = 72 * 3600
"""Older messages are no longer answered."""

TRIES: Final = 3
PAUSE_SECONDS: Final = 0.5

_log = structlog.get_logger(__name__)

Handle = Callable[[SlackEvent], Awaitable[None]]


class Missed:
    """The processing of missed events. ``handle`` stores and routes one event."""

    def __init__(self, database: Database, handle: Handle, watcher: Watcher = NO_WATCHERS) -> None:
        self._database = database
        self._watcher = watcher
        self.handle = handle

    async def take(self, event: SlackEvent) -> None:
        """Handles an event or sets it aside. Raises Unavailable if the event and later events have to wait."""
        for tries_left in reversed(range(TRIES)):
            try:
                await self.handle(event)
                return self._watcher.caught_up(1)
            except Unavailable:
                raise
            except (OSError, MemoryError) as error:
                raise Unavailable(f"Missed messages cannot be processed now: {error!r}.") from error
            except Exception as error:  # noqa: BLE001 - any other failure concerns this event only
                if not tries_left:
                    return await self._set_aside(event, error)
            await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def _set_aside(self, event: SlackEvent, error: Exception) -> None:
        about = event.message if isinstance(event, MessageEdited) else event
        await self._database.write(
            self._note, about.channel, about.ts, f"{type(error).__name__}: it cannot be processed"
        )
        _log.error(
            "A missed event is set aside because it cannot be processed.",
            action="set_aside",
            channel=about.channel,
            ts=about.ts,
            exc_info=error,
        )

    @staticmethod
    def _note(tx: Transaction, channel: str, ts: str, reason: str) -> None:
        history.record(tx, history.SET_ASIDE, f"{channel}:{ts}", reason=reason)


def oldest_answered(tx: Transaction) -> str:
    """Returns the Slack timestamp before which messages are no longer answered."""
    return us_to_slack_ts(max(0, tx.now - MOST_SECONDS * SECOND))


LOOK_BACK_SECONDS: Final = 6 * 3600
MARGIN_SECONDS: Final = 120
"""A gap is read from this much earlier, because events do not arrive in the order of their messages."""

RETRY_SECONDS: Final = 10.0

AT_ONCE: Final = 20
"""The number of messages of a conversation that are sorted and processed together with their replies."""


class CatchUp:
    """The background task that reads gaps. ``handle`` processes the missed messages."""

    def __init__(
        self, database: Database, slack: SlackReader, me: Me, handle: Handle, watcher: Watcher = NO_WATCHERS
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._missed = Missed(database, handle, watcher)

    async def run(self) -> None:
        """Reads gaps until cancelled or shut down; errors do not end the task."""
        await watch(self._database.wakeups, GAPS, self.read_gap, "catch_up", seconds=RETRY_SECONDS)

    async def read_gap(self) -> int:
        """Reads the open gap, if any. Returns the number of missed messages."""
        gap = await self._database.read(watermarks.gap, self._me.team)
        if gap is None:
            return 0
        channels = await self._slack.conversations()
        await self._tell_begin(gap, len(channels))
        missed, is_whole = 0, True
        for channel in channels:
            try:
                missed += await self._read_channel(channel, gap.since)
            except NotFound as refused:
                _log.warning(
                    "A conversation cannot be read.", action="catch_up", channel=channel, error=refused.message
                )
            except Unavailable as error:
                is_whole = False
                _log.warning("A conversation has to wait.", action="catch_up", channel=channel, error=error.message)
        if is_whole and await self._database.write(watermarks.close_gap, self._me.team, gap):
            _log.info("All missed messages have been processed.", action="caught_up", since=gap.since, messages=missed)
        return missed

    async def _tell_begin(self, gap: Gap, conversations: int) -> None:
        about = {"action": "catch_up", "since": gap.since, "conversations": conversations}
        _log.info("Reading messages that were missed while no events arrived.", **about)
        oldest = await self._database.read(oldest_answered)
        if gap.since < oldest:
            up_to = to_iso(slack_ts_to_us(oldest))
            _log.warning("Messages older than 72 hours are not processed.", left_alone_up_to=up_to, **about)

    async def _read_channel(self, channel: str, gap_since: str) -> int:
        """Processes the missed messages of one conversation in batches. Returns their number."""
        read_up_to, oldest = await self._database.read(self._bounds, self._me.team, channel)
        since = max(_earlier(max(gap_since, read_up_to), MARGIN_SECONDS), oldest)
        said = await self._slack.read_channel(channel, _earlier(since, LOOK_BACK_SECONDS))
        missed = 0
        for begin in range(0, len(said), AT_ONCE):
            missed += await self._take(said[begin : begin + AT_ONCE], since)
            if len(said) > AT_ONCE:
                done = f"{min(begin + AT_ONCE, len(said))} of {len(said)}"
                _log.info("Still reading.", action="catch_up", channel=channel, read=done, messages=missed)
        if said:  # in Slack's clock, which may differ from the local clock
            newest = max(one.message.ts for one in said)
            await self._database.write(watermarks.read_up_to, self._me.team, channel, newest)
        return missed

    @staticmethod
    def _bounds(tx: Transaction, team: str, channel: str) -> tuple[str, str]:
        """Returns the point up to which a conversation was read, and the oldest point that still needs reading."""
        return watermarks.of_channel(tx, team, channel), oldest_answered(tx)

    async def _take(self, said: Sequence[ChannelMessage], since: str) -> int:
        """Processes the missed messages among these messages and their replies, in order."""
        messages = [one.message for one in said] + [
            reply for one in said if (one.latest_reply_ts or "") > since for reply in await self._replies(one)
        ]
        missed = await self._database.read(unheard, self._me, messages, since)
        for event in missed:
            await self._missed.take(event)
        return len(missed)

    async def _replies(self, root: ChannelMessage) -> list[SlackMessage]:
        """Returns the replies in a thread; none for a tracked thread, which is about to be read in full.

        A thread that was read after the gap opened is read again, because ownership does not show when it was read.
        """
        place = (self._me.team, root.message.channel, root.message.ts)
        if await self._database.read(threads.is_to_be_read, *place):
            return []
        try:
            replies = await self._slack.read_thread(root.message.channel, root.message.ts)
        except NotFound as refused:  # the root has been deleted in the meantime
            _log.info("A thread cannot be read.", action="catch_up", thread=root.message.ts, error=refused.message)
            return []
        return [reply for reply in replies if reply.ts != root.message.ts]


def unheard(tx: Transaction, me: Me, messages: Iterable[SlackMessage], since: str) -> list[SlackEvent]:
    """Returns the messages and edits since then that no event reported, in the order of writing."""
    events: list[SlackEvent] = []
    for message in sorted(messages, key=lambda one: slack_ts_to_us(one.ts)):
        if me.wrote(message.author) or forgotten.is_forgotten(tx, message.author.id, message.ts):
            continue
        stored = transcript.find(tx, me.team, message.channel, message.ts)
        if message.ts > since and not _is_heard(tx, me, message, stored):
            events.append(message)
            continue
        if (message.edited_ts or "") > max(since, stored["edited_ts"] or "" if stored else ""):
            events.append(MessageEdited(message=message, previous_text=stored["text"] if stored else None))
    return events


def _is_heard(tx: Transaction, me: Me, message: SlackMessage, stored: Row | None) -> bool:
    """Whether a message is routed or will be, or is context in a thread that was opened later."""
    if stored and stored["routed_at"]:
        return True
    place = (me.team, message.channel, message.root_ts)
    if not message.is_root and threads.is_to_be_read(tx, *place):
        return True  # also posted to the channel; processed with its thread, which is about to be read
    thread = threads.find(tx, *place)
    is_context = thread is not None and message.ts <= thread.watermark_ts
    return is_context or history.was_routed(tx, message.channel, message.ts)


def _earlier(ts: str, seconds: int) -> str:
    return us_to_slack_ts(max(0, slack_ts_to_us(ts) - seconds * SECOND))
