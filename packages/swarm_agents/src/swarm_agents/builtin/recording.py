"""Stores what happened in a run although the database is unavailable for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from swarm.domain.errors import Unavailable

RECORD_SECONDS: Final = 30.0
"""Attempts to store a run stop after this time if the database is unavailable."""

AGAIN_SECONDS: Final = 1.0
"""The delay between two attempts."""

_log = structlog.get_logger(__name__)


async def recorded(write: Callable[[], Awaitable[None]], what: str, **ids: str) -> bool:
    """Stores a run, and retries while the database is unavailable. Returns whether the write succeeded.

    ``what`` names the operation in the log: "remembered" or "noted down". Raises nothing, because the answer has
    already been given. Failures are logged with ``ids``.
    """
    try:
        async with asyncio.timeout(RECORD_SECONDS):
            await _insist(write, what, ids)
    except TimeoutError:
        _log.error(f"A run could not be {what}.", action="agent_record", **ids)
    except asyncio.CancelledError:
        _log.error(f"A run could not be {what} before the end.", action="agent_record", **ids)
        raise
    except Exception:  # noqa: BLE001 - a background write; no caller could handle the error
        _log.exception(f"A run could not be {what}.", action="agent_record", **ids)
    else:
        return True
    return False


async def _insist(write: Callable[[], Awaitable[None]], what: str, ids: Mapping[str, str]) -> None:
    while True:
        try:
            await write()
        except Unavailable as error:
            _log.warning(f"A run cannot be {what} yet.", action="agent_record", error=error.message, **ids)
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
