"""A cache of Slack's data about people, bots and channels, so that a follow-up in a known thread needs no call.

A name is requested once and kept for an hour. After that, the old name is still returned immediately while a new one is
fetched in the background. A channel's topic and purpose are never older than five minutes. Concurrent requests for the
same id share one call. No request waits longer than two seconds: a poll must not stall because a thread with many
unknown people exceeds Slack's rate limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

import structlog

from swarm.domain.errors import RefusedBySlack, SwarmError
from swarm.domain.model.threads import AuthorKind
from swarm.domain.policy.access import Person, UserGroup
from swarm.domain.prompts.input import NOTHING_KNOWN, ChannelFacts
from swarm.slack.outgoing.gateway import ChannelInfo

FRESH_SECONDS: Final = 3600.0
FACTS_FRESH_SECONDS: Final = 300.0
MEMBERS_FRESH_SECONDS: Final = 60.0
"""A person who has left a user group may decide for no longer than this."""

MEMBERS_WAIT_SECONDS: Final = 1.0
WAIT_SECONDS: Final = 2.0
RETRY_SECONDS: Final = 60.0
"""How long to wait before asking Slack again about a lookup that got no answer."""

REMEMBERED: Final = 20_000
"""The maximum number of cached answers; beyond it, the oldest are dropped."""

_HIDDEN: Final = frozenset({"missing_scope", "no_such_subteam", "permission_denied", "plan_upgrade_required"})
"""Slack's answers about a user group that it does not show. Other errors say nothing about the group."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class _LookupTimeouts:
    """How long an answer stays fresh, and how long to wait for a new answer."""

    fresh_seconds: float
    wait_seconds: float  # longest wait for Slack
    waits_for_news: bool = False  # whether to wait for a new answer if there is an old one
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, kw_only=True, slots=True)
class _Known(Generic[T]):
    value: T
    fresh_until: float
    is_answer: bool = True  # False: Slack's last reply was an error


class _Lookups(Generic[T]):
    """Answers of one kind. Never fails: if Slack does not answer, returns the old answer or ``unknown(id)``."""

    def __init__(
        self,
        what: str,
        look_up: Callable[[str], Awaitable[T]],
        unknown: Callable[[str], T],
        patience: _LookupTimeouts,
    ) -> None:
        self._what = what
        self._look_up = look_up
        self._unknown = unknown
        self._patience = patience
        self._known: dict[str, _Known[T]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def get(self, id: str) -> T:
        """Returns the answer for an id, old or new."""
        known = self._known.get(id)
        if known is None or not self._is_fresh(id):
            lookup = self._lookup(id)
            if known is None or self._patience.waits_for_news:
                await asyncio.wait((lookup,), timeout=self._patience.wait_seconds)
                known = self._known.get(id)
        return known.value if known else self._unknown(id)

    def fresh(self, id: str) -> T | None:
        """Returns the answer for an id while it is fresh, without asking Slack."""
        known = self._known.get(id)
        return known.value if known and known.fresh_until > self._patience.monotonic() else None

    async def answered(self, id: str, wait_seconds: float) -> T | None:
        """Returns Slack's answer for an id while it is fresh; None if Slack does not answer in time, even if there is
        an old answer.
        """
        if not self._is_answered(id):
            await asyncio.wait((self._lookup(id),), timeout=wait_seconds)
        return self._known[id].value if self._is_answered(id) else None

    def answered_now(self, id: str) -> T | None:
        """Returns Slack's answer while it is fresh, without asking Slack; otherwise None. For any thread."""
        known = self._known.get(id)
        is_fresh = known is not None and known.is_answer and known.fresh_until > self._patience.monotonic()
        return known.value if known and is_fresh else None

    def ask(self, id: str) -> None:
        """Asks Slack in the background, unless its answer is fresh."""
        if not self._is_answered(id):
            self._lookup(id)

    def _is_answered(self, id: str) -> bool:
        return self._is_fresh(id) and self._known[id].is_answer

    def _is_fresh(self, id: str) -> bool:
        known = self._known.get(id)
        return known is not None and known.fresh_until > self._patience.monotonic()

    def forget(self, id: str) -> None:
        """Drops the answer, so that the next request asks Slack."""
        self._known.pop(id, None)

    async def close(self) -> None:
        """Cancels the lookups in progress."""
        lookups = list(self._under_way.values())
        for lookup in lookups:
            lookup.cancel()
        await asyncio.gather(*lookups, return_exceptions=True)

    def _lookup(self, id: str) -> asyncio.Task[None]:
        """Returns the lookup in progress, or starts one."""
        if id not in self._under_way:
            lookup = asyncio.create_task(self._ask(id), name=f"{self._what} of {id}")
            self._under_way[id] = lookup
            lookup.add_done_callback(lambda _: self._under_way.pop(id, None))
        return self._under_way[id]

    async def _ask(self, id: str) -> None:
        """Stores Slack's answer; after an error, stores the old answer or ``unknown(id)`` for a short time."""
        is_answer = True
        try:
            value, seconds = await self._look_up(id), self._patience.fresh_seconds
        except SwarmError as error:
            _log.info("A lookup in Slack failed.", action="slack_name", what=self._what, id=id, error=error.message)
            is_answer = False
            value, seconds = self._known[id].value if id in self._known else self._unknown(id), RETRY_SECONDS
        if id not in self._known and len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]  # the oldest entry
        self._known[id] = _Known(value=value, fresh_until=self._patience.monotonic() + seconds, is_answer=is_answer)


class _Source(Protocol):
    """The source of all data; implemented by the gateway."""

    async def user(self, user_id: str) -> Person: ...

    async def bot_name(self, bot_id: str) -> str: ...

    async def channel(self, channel_id: str) -> ChannelInfo: ...

    async def group_members(self, group_id: str) -> frozenset[str]: ...


class Names:
    """The names of people, bots and channels, and the channels' topics.

    Never fails: an unknown name is replaced by its id, or left out.
    """

    def __init__(
        self, source: _Source, *, monotonic: Callable[[], float] = time.monotonic, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        at_leisure = _LookupTimeouts(fresh_seconds=FRESH_SECONDS, wait_seconds=wait_seconds, monotonic=monotonic)
        up_to_date = replace(at_leisure, fresh_seconds=FACTS_FRESH_SECONDS, waits_for_news=True)
        self._users = _Lookups("user", source.user, _unknown, at_leisure)
        self._bots = _Lookups("name", source.bot_name, str, at_leisure)
        self._channels = _Lookups("name", self._describe_channel, str, at_leisure)
        self._facts = _Lookups("facts", self._channel_facts, lambda _: NOTHING_KNOWN, up_to_date)
        exact = replace(up_to_date, fresh_seconds=MEMBERS_FRESH_SECONDS)
        self._groups = _Lookups("group", self._group, lambda _: UserGroup(is_shown=False), exact)
        self._all = (self._users, self._bots, self._channels, self._facts, self._groups)

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        """Returns the display name of a user or the name of a bot. The id of a bot without a user starts with B."""
        if _is_bare_bot(author_id, kind):
            return await self._bots.get(author_id)
        return (await self._users.get(author_id)).name

    def known_names(self, wanted: Mapping[str, AuthorKind]) -> dict[str, str]:
        """Returns the fresh names among those wanted, by id."""
        names: dict[str, str] = {}
        for author_id, kind in wanted.items():
            if _is_bare_bot(author_id, kind):
                name = self._bots.fresh(author_id)
            else:
                user = self._users.fresh(author_id)
                name = user.name if user else None
            if name is not None:
                names[author_id] = name
        return names

    async def channel_name(self, channel_id: str) -> str:
        """Returns a channel's name without ``#``; for a direct message, the other person's name."""
        return await self._channels.get(channel_id)

    async def channel_facts(self, channel_id: str) -> ChannelFacts:
        """Returns a channel's name, topic and purpose, at most five minutes old as long as Slack answers."""
        return await self._facts.get(channel_id)

    async def user_email(self, user_id: str) -> str | None:
        """Returns a user's e-mail address; None if Slack does not show it. Requires the scope users:read.email."""
        return (await self._users.get(user_id)).email

    async def person(self, user_id: str, wait_seconds: float) -> Person | None:
        """Returns a user's profile as answered by Slack within the last hour; None if Slack does not answer in time."""
        return await self._users.answered(user_id, wait_seconds)

    def known_person(self, user_id: str) -> Person | None:
        """Like `person`, without asking Slack."""
        return self._users.answered_now(user_id)

    async def user_group(self, group_id: str, wait_seconds: float) -> UserGroup | None:
        """Returns a user group as answered by Slack within the last minute; None if Slack does not answer in time.
        Requires the scope usergroups:read.
        """
        return await self._groups.answered(group_id, wait_seconds)

    def known_group(self, group_id: str) -> UserGroup | None:
        """Like `user_group`, without asking Slack."""
        return self._groups.answered_now(group_id)

    async def group_members(self, group_id: str) -> frozenset[str] | None:
        """Returns the members of a user group as answered by Slack within the last minute; None if Slack does not
        tell them.
        """
        group = await self._groups.answered(group_id, MEMBERS_WAIT_SECONDS)
        return group.members if group and group.is_shown else None

    def known_members(self, group_id: str) -> frozenset[str] | None:
        """Like `group_members`, without waiting: members that are not known are looked up in the background. For any
        thread.
        """
        group = self._groups.answered_now(group_id)
        if group is None:
            self._loop.call_soon_threadsafe(self._groups.ask, group_id)
        return group.members if group and group.is_shown else None

    def forget(self, id: str) -> None:
        """Drops all data about this id, so that the next request asks Slack."""
        for lookups in self._all:
            lookups.forget(id)

    async def close(self) -> None:
        """Cancels the lookups in progress."""
        await asyncio.gather(*(lookups.close() for lookups in self._all))

    async def _group(self, group_id: str) -> UserGroup:
        try:
            return UserGroup(members=await self._source.group_members(group_id))
        except RefusedBySlack as refused:
            if refused.slack_code not in _HIDDEN:
                raise
            _log.warning(
                "Slack does not show a user group, so nobody counts as its member.",
                action="slack_name", what="group", id=group_id, error=refused.slack_code,
            )  # fmt: skip
            return UserGroup(is_shown=False)

    async def _describe_channel(self, channel_id: str) -> str:
        channel = await self._source.channel(channel_id)
        if channel.user_id:
            return await self.author_name(channel.user_id, AuthorKind.USER)
        return channel.name or channel_id

    async def _channel_facts(self, channel_id: str) -> ChannelFacts:
        channel = await self._source.channel(channel_id)
        return ChannelFacts(name=channel.name, topic=channel.topic, purpose=channel.purpose)


def _is_bare_bot(author_id: str, kind: AuthorKind) -> bool:
    return kind is not AuthorKind.USER and author_id.startswith("B")


def _unknown(user_id: str) -> Person:
    return Person(id=user_id, name=user_id, is_known=False)
