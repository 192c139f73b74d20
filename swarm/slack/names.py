"""Names for ids, remembered, so that a follow-up in a known thread asks Slack for nothing.

A name is asked for once and kept for an hour. After that the old one is still given at once, while a new one is fetched
in the background. Everybody who wants the same name meanwhile shares one call. Nobody waits longer than two seconds:
a poll must not stand still because a thread of strangers exceeds the rate at which Slack tells names.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from swarm.domain.errors import SwarmError
from swarm.domain.transcript import AuthorKind
from swarm.slack.gateway import ChannelInfo

FRESH_SECONDS: Final = 3600.0
RETRY_SECONDS: Final = 60.0
"""When Slack would not tell a name, it is asked again after this time."""

WAIT_SECONDS: Final = 2.0
_REMEMBERED: Final = 20_000

_log = structlog.get_logger(__name__)


class Source(Protocol):
    """Where names come from: the gateway."""

    async def user_name(self, user_id: str) -> str: ...

    async def bot_name(self, bot_id: str) -> str: ...

    async def channel(self, channel_id: str) -> ChannelInfo: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known:
    name: str
    fresh_until: float


class Names:
    """The names of people, bots and channels. Never fails: what cannot be looked up goes by its id."""

    def __init__(
        self, source: Source, *, monotonic: Callable[[], float] = time.monotonic, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._source = source
        self._monotonic = monotonic
        self._wait_seconds = wait_seconds
        self._known: dict[str, _Known] = {}
        self._lookups: dict[str, asyncio.Task[None]] = {}

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """The display name of a user, or the name of a bot; one without a user has an id that starts with B."""
        is_bare_bot = kind is not AuthorKind.USER and author_id.startswith("B")
        return await self._name(author_id, self._source.bot_name if is_bare_bot else self._source.user_name)

    async def channel_name(self, channel_id: str) -> str:
        """A channel's name without ``#``; of a direct message, the other person's."""
        return await self._name(channel_id, self._describe_channel)

    def forget(self, id: str) -> None:
        """Ask anew for this name the next time it is wanted."""
        self._known.pop(id, None)

    async def close(self) -> None:
        """End the lookups under way."""
        lookups = list(self._lookups.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    async def _name(self, id: str, look_up: Callable[[str], Awaitable[str]]) -> str:
        known = self._known.get(id)
        if known is None or known.fresh_until <= self._monotonic():
            lookup = self._lookup(id, look_up)
            if known is None:
                await asyncio.wait((lookup,), timeout=self._wait_seconds)
                known = self._known.get(id)
        return known.name if known else id

    def _lookup(self, id: str, look_up: Callable[[str], Awaitable[str]]) -> asyncio.Task[None]:
        """The lookup that is under way, or a new one."""
        if id not in self._lookups:
            lookup = asyncio.create_task(self._ask(id, look_up), name=f"name of {id}")
            self._lookups[id] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(id, None))
        return self._lookups[id]

    async def _ask(self, id: str, look_up: Callable[[str], Awaitable[str]]) -> None:
        """Remember what Slack says; if it says nothing, the old name or the id, for a short while."""
        try:
            name, seconds = await look_up(id), FRESH_SECONDS
        except SwarmError as error:
            _log.info("Slack does not tell a name.", action="slack_name", id=id, error=error.message)
            name, seconds = self._known[id].name if id in self._known else id, RETRY_SECONDS
        if id not in self._known and len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]  # the one that has been known longest
        self._known[id] = _Known(name=name, fresh_until=self._monotonic() + seconds)

    async def _describe_channel(self, channel_id: str) -> str:
        channel = await self._source.channel(channel_id)
        if channel.user_id:
            return await self.author_name(channel.user_id, AuthorKind.USER)
        return channel.name or channel_id
