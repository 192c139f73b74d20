"""Work that must not end other work: one bad row, or a database that is away, stops neither a round nor the process."""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from swarm.domain.errors import Unavailable

_log = structlog.get_logger(__name__)


async def attempt(work: Awaitable[object], action: str, **ids: str | None) -> None:
    """Wait for a piece of background work. If it fails, that is logged with the ids of what it was about."""
    try:
        await work
    except Unavailable as error:
        _log.warning("background work has to wait", action=action, error=error.message, **ids)
    except Exception:  # noqa: BLE001 - whatever it is, it concerns this piece only, and the next round tries again
        _log.exception("background work failed", action=action, **ids)
