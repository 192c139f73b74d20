"""Reads incompletely known threads from Slack: all pages, outside ingest.

Messages of such a thread wait for the read for at most ten seconds; then they are handed out with
``context_incomplete``. Messages of a thread that the swarm may not read are handed out immediately in the same way.

Slack's history is authoritative: messages after the thread's watermark that were never routed, and missed edits and
deletions, are passed to ingest like their events, in order, before the thread counts as known. Ingest processes each
event once, so a late event changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from swarm.clock import SECOND
from swarm.domain.errors import NotFound
from swarm.domain.model.threads import (
    Author,
    AuthorKind,
    MessageDeleted,
    MessageEdited,
    SlackEvent,
    SlackMessage,
    Thread,
)
from swarm.domain.policy.access import Me, standing_in
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import SlackReader
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.services.ground.guarded import attempt, watch
from swarm.services.intake.catch_up import Handle, Missed, oldest_answered
from swarm.services.speaking.participants import Standings, people_among
from swarm.store import agents, deliveries, forgotten, history
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queues
from swarm.store.threads import threads, transcript
from swarm.store.threads.threads import CONTEXTS

READERS: Final = 4
RETRY_SECONDS: Final = 5.0
_LOOK_EVERY_SECONDS: Final = 5.0
_JUST_STORED: Final = 10 * SECOND
"""A read may miss a message stored this shortly before it, because the read may have started earlier."""

_log = structlog.get_logger(__name__)


class Backfill:
    """The background task that reads incompletely known threads. ``handle`` processes the missed events."""

    def __init__(
        self,
        database: Database,
        slack: SlackReader,
        me: Me,
        operating_policy: OperatingPolicy,
        standings: Standings,
        handle: Handle,
        watcher: Watcher = NO_WATCHERS,
    ) -> None:
        self._database = database
        self._slack = slack
        self._me = me
        self._operating_policy = operating_policy
        self._standings = standings
        self._missed = Missed(database, handle, watcher)

    async def run(self) -> None:
        """Reads due threads until cancelled or shut down; errors do not end the task."""
        await watch(self._database.wakeups, CONTEXTS, self._read_all, "backfill", seconds=_LOOK_EVERY_SECONDS)

    async def _read_all(self) -> None:
        while not self._database.wakeups.closed and await self.read_due():
            pass

    async def read_due(self) -> int:
        """Reads a few due threads. Returns their number."""
        due = await self._database.write(threads.begin_reads, READERS)
        # If even the failure cannot be stored, the lock of the read expires, and another process tries again after a
        # minute.
        await asyncio.gather(*(attempt(self._read(thread), "backfill", thread=thread.id) for thread in due))
        return len(due)

    async def _read(self, thread: Thread) -> None:
        try:
            began_at = await self._database.read(now)
            read = await self._slack.read_thread(thread.channel, thread.thread_ts)
            for event in await self._database.read(missed, thread, read, self._me, began_at):
                await self._missed.take(event)
            messages = await self._marked(read)
            await self._database.write(self._keep_thread, thread, messages)
        except NotFound as refused:
            _log.warning("thread not readable", action="backfill", thread=thread.id, error=refused.message)
            await self._database.write(self._do_without, thread, refused.message)
        except Exception:
            await self._database.write(threads.read_failed, thread.id, RETRY_SECONDS)
            raise

    def _keep_thread(self, tx: Transaction, thread: Thread, messages: list[SlackMessage]) -> None:
        """Stores a thread as it exists in Slack, and releases its waiting messages. Routes nothing.

        If the thread became stale during the read, the messages wait for the next read.
        """
        locked = threads.locked(tx, thread.id)
        for message in messages:
            if thread.is_flat:
                message = replace(message, thread_ts=thread.thread_ts)
            if self._me.wrote(message.author):
                transcript.store_own_post(tx, locked.team, _signed(tx, message))
            else:
                transcript.keep(tx, locked.team, [message])
        history.record(tx, "thread.read", locked.id, thread_id=locked.id, reason=f"{len(messages)} messages")
        if threads.read_whole(tx, locked.id):
            queues.context_arrived(tx, locked.id)

    @staticmethod
    def _do_without(tx: Transaction, thread: Thread, reason: str) -> None:
        """Releases the waiting messages of a thread that the swarm may not read."""
        threads.locked(tx, thread.id)
        threads.read_refused(tx, thread.id)
        history.record(tx, "thread.refused", thread.id, thread_id=thread.id, reason=reason)
        queues.context_arrived(tx, thread.id)

    async def _marked(self, messages: list[SlackMessage]) -> list[SlackMessage]:
        """Returns each message with its author's standing, or unverified if Slack does not identify the author
        in time.
        """
        authors = people_among(message.author for message in messages)
        channel = messages[0].channel if messages else ""
        identifying = (self._standings.ready(author, channel) for author in authors)
        known = {author.id: author for author in await asyncio.gather(*identifying)}
        return [_marked(message, known, self._operating_policy.policy(message.channel)) for message in messages]


def _marked(message: SlackMessage, known: Mapping[str, Author], policy: ChannelPolicy) -> SlackMessage:
    author = known.get(message.author.id, message.author)
    return replace(message, author=replace(message.author, standing=standing_in(author, policy)))


def now(tx: Transaction) -> int:
    """Returns the current time of the database."""
    return tx.now


def missed(
    tx: Transaction, thread: Thread, messages: Sequence[SlackMessage], me: Me, began_at: int
) -> list[SlackEvent]:
    """Returns the missed events in thread order, with deletions last.

    ``messages`` are all messages in Slack, read from ``began_at`` on.
    """
    stored = transcript.rows_of_thread(tx, thread.team, thread.channel, thread.thread_ts)
    if thread.is_flat:
        messages, stored = _of_flat(tx, thread, messages, stored)
    events: list[SlackEvent] = []
    for message in messages:
        row = stored.pop(message.ts, None)
        if me.wrote(message.author) or (row and row["deleted_at"]):
            continue
        if forgotten.is_forgotten(tx, message.author.id, message.ts):
            continue
        if row is None or row["routed_at"] is None:
            is_due = message.ts > max(thread.watermark_ts, oldest_answered(tx))
            if is_due and not history.was_set_aside(tx, message.channel, message.ts):
                events.append(message)
        elif (message.edited_ts or "") > (row["edited_ts"] or ""):
            events.append(MessageEdited(message=message, previous_text=row["text"]))
    for ts, row in sorted(stored.items()):
        if row["deleted_at"] is None and row["stored_at"] < began_at - _JUST_STORED:
            events.append(MessageDeleted(channel=thread.channel, ts=ts, thread_ts=_within(thread, ts)))
    return events


def _of_flat(
    tx: Transaction, thread: Thread, messages: Sequence[SlackMessage], stored: dict[str, Row]
) -> tuple[list[SlackMessage], dict[str, Row]]:
    """Returns the messages of a flat direct message without those that are roots of threads of their own, and the
    stored messages of the period that was read: earlier ones are not deleted in Slack because they are missing.
    """
    where = transcript.where(tx, thread.team, [(message.channel, message.ts) for message in messages])
    own = [one for one in messages if where.get((one.channel, one.ts), thread.thread_ts) == thread.thread_ts]
    since = min((message.ts for message in messages), default="")
    return own, {ts: row for ts, row in stored.items() if since and ts >= since}


def _within(thread: Thread, ts: str) -> str | None:
    return thread.thread_ts if ts != thread.thread_ts and not thread.is_flat else None


def _signed(tx: Transaction, message: SlackMessage) -> SlackMessage:
    """Returns a post of the swarm with the name of its agent, if its delivery can be found."""
    row = deliveries.get(tx, message.delivery_id) if message.delivery_id else None
    agent = agents.by_id(tx, row["agent_id"]) if row and row["agent_id"] else None
    author = Author(id=agent.id if agent else "swarm", kind=AuthorKind.AGENT, name=agent.name if agent else "swarm")
    return SlackMessage(
        channel=message.channel,
        ts=message.ts,
        thread_ts=message.thread_ts,
        author=author,
        text=message.text,
        files=message.files,
        edited_ts=message.edited_ts,
    )
