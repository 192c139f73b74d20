"""Contains failures of background work: neither a bad row nor an unavailable database ends a round or the process."""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from swarm.domain.errors import Unavailable

_log = structlog.get_logger(__name__)


async def attempt(work: Awaitable[object], action: str, **ids: str | None) -> None:
    """Awaits a piece of background work. Logs a failure with the given ids."""
    try:
        await work
    except Unavailable as error:
        _log.warning("background work is postponed", action=action, error=error.message, **ids)
    except Exception:  # noqa: BLE001 - any failure concerns this piece only; the next round tries again
        _log.exception("background work failed", action=action, **ids)
