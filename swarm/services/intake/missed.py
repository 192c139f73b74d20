"""Takes in missed events one after another, as if Slack had just sent them.

What is guaranteed: an event is taken in or set aside; otherwise no later event is taken in either. A temporary fault
(the database, the disk, memory, the network) never costs an event: everything waits and is tried again. An event is set
aside after `TRIES` failures for another reason, once the database has stored this: on the timeline as
``route.set_aside``, which ``explain`` and the metrics show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from swarm.clock import SECOND, us_to_slack_ts
from swarm.domain.errors import Unavailable
from swarm.domain.model.threads import MessageEdited, SlackEvent
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.store import history
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

MOST_SECONDS: Final = 72 * 3600
"""Older messages are not answered any more."""

TRIES: Final = 3
PAUSE_SECONDS: Final = 0.5

_log = structlog.get_logger(__name__)

Handle = Callable[[SlackEvent], Awaitable[None]]


class Missed:
    """Passes missed events to ``handle``, which stores and routes one event."""

    def __init__(self, database: Database, handle: Handle, watcher: Watcher = NO_WATCHERS) -> None:
        self._database = database
        self._watcher = watcher
        self.handle = handle

    async def take(self, event: SlackEvent) -> None:
        """Handles an event or sets it aside. Raises Unavailable if the event and its successors have to wait."""
        for tries_left in reversed(range(TRIES)):
            try:
                await self.handle(event)
                return self._watcher.caught_up(1)
            except Unavailable:
                raise
            except (OSError, MemoryError) as error:
                raise Unavailable(f"What was missed cannot be taken in at the moment: {error!r}.") from error
            except Exception as error:  # noqa: BLE001 - any other failure concerns this event only
                if not tries_left:
                    return await self._set_aside(event, error)
            await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def _set_aside(self, event: SlackEvent, error: Exception) -> None:
        about = event.message if isinstance(event, MessageEdited) else event
        await self._database.write(_note, about.channel, about.ts, f"{type(error).__name__}: it cannot be taken in")
        _log.error(
            "A missed event is set aside, since it cannot be taken in.",
            action="set_aside",
            channel=about.channel,
            ts=about.ts,
            exc_info=error,
        )


def _note(tx: Transaction, channel: str, ts: str, reason: str) -> None:
    history.record(tx, history.SET_ASIDE, f"{channel}:{ts}", reason=reason)


def oldest_answered(tx: Transaction) -> str:
    """Returns the Slack timestamp before which messages are not answered any more."""
    return us_to_slack_ts(max(0, tx.now - MOST_SECONDS * SECOND))
