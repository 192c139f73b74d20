"""Contains failures of background work: neither a bad row nor an unavailable database ends a round or the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from swarm.clock import until_next
from swarm.domain.errors import Unavailable
from swarm.store.bridge.wakeups import Wakeups

_log = structlog.get_logger(__name__)


async def attempt(work: Awaitable[object], action: str, **ids: str | None) -> None:
    """Awaits a piece of background work. Logs a failure with the given ids."""
    try:
        await work
    except Unavailable as error:
        _log.warning("background work is postponed", action=action, error=error.message, **ids)
    except Exception:  # noqa: BLE001 - any failure concerns this piece only; the next round tries again
        _log.exception("background work failed", action=action, **ids)


async def watch(
    wakeups: Wakeups,
    topic: str,
    look: Callable[[], Awaitable[object]],
    action: str,
    *,
    seconds: float,
    after_shutdown: bool = False,
) -> None:
    """Calls ``look`` at once, after each change of the topic, and every ``seconds``. Failures are logged.

    Returns at a shutdown. With ``after_shutdown``, the calls continue at intervals until the task is cancelled, because
    a shutdown bumps no topics.
    """
    while after_shutdown or not wakeups.closed:
        seen = wakeups.generation(topic)
        await attempt(look(), action)
        if wakeups.closed and after_shutdown:
            await asyncio.sleep(until_next(seconds))
        else:
            await wakeups.wait(topic, seen, until_next(seconds))
