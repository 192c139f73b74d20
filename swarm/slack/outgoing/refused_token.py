"""Slack's refusal of the app's token, which concerns every call: nothing is sent until Slack accepts a token again.

The first call that Slack refuses with one of `TOKEN_CODES` begins the hold. From then on one ``auth.test`` every
`PROBE_SECONDS` asks whether the token is good; all other calls are answered here, as certainly not made. Each process
holds its own calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

PROBE_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)

Probe = Callable[[], Awaitable[str | None]]
"""Asks Slack once about the token. Returns Slack's code while it refuses the token, "" if it does not answer."""


class RefusedToken:
    """Whether Slack refuses the token, and until when calls wait."""

    def __init__(self, probe: Probe, probe_seconds: float) -> None:
        self._probe = probe
        self._probe_seconds = probe_seconds
        self._asking: asyncio.Task[None] | None = None
        self._is_good = asyncio.Event()
        self._is_good.set()
        self.code: str | None = None  # None: Slack accepts the token, as far as known

    def refuse(self, code: str) -> None:
        """Begins the hold. Must be called in the event loop."""
        if self.code is None:
            _log.error(
                "Slack refuses the bot token; everything for Slack waits. Put a new token into SLACK_BOT_TOKEN and "
                "reload the settings.",
                action="slack_token_refused",
                code=code,
            )
            self._is_good.clear()
            self._asking = asyncio.create_task(self._ask())
        self.code = code

    def accept(self) -> None:
        """Ends the hold."""
        if self.code is not None:
            _log.info("Slack accepts the bot token again.", action="slack_token_accepted")
            self.code = None
            self._is_good.set()

    async def accepted(self) -> None:
        """Waits until the hold has ended."""
        await self._is_good.wait()

    async def close(self) -> None:
        """Asks no more."""
        if self._asking:
            self._asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._asking

    async def _ask(self) -> None:
        while self.code is not None:
            await asyncio.sleep(self._probe_seconds)
            code = await self._probe() if self.code is not None else None
            if code is None:
                self.accept()
            elif code:
                self.code = code
