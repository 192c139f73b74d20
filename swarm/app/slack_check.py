"""Compares the settings with Slack (`swarm.domain.slack_check`), for a running coordinator and for commands.

Names are looked up one by one, in their order, so that live traffic waits behind one call at most. A large workspace
costs a list of its channels only for a name that Slack does not know, once for each.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pydantic import BaseModel

from swarm.app import preflight
from swarm.app.settings_mapping import secret
from swarm.config import Settings, SlackMode
from swarm.config.settings import CHANNEL_ID
from swarm.domain.errors import ConfigurationError, RefusedBySlack, Unavailable
from swarm.domain.slack_check import Facts, Finding, NameKind, Known, Level, Name, State, judge
from swarm.slack.manifest import WHY, View, bot_scopes
from swarm.slack.outgoing.gateway import Gateway, UserGroupInfo
from swarm.slack.outgoing.pacing import Pacing

FRESH_SECONDS: Final = 3600.0
"""How long a name that was fine is not looked up again. All others are looked up each time."""

ASK_SECONDS: Final = 10.0
NEAR_SECONDS: Final = 4.0

_KINDS: Final = {
    "allowed_bots": NameKind.BOT,
    "allowed_groups": NameKind.GROUP,
    "allowed_users": NameKind.PERSON,
    "channel": NameKind.CHANNEL,
    "channels": NameKind.CHANNEL,
    "emoji": NameKind.EMOJI,
    "groups": NameKind.GROUP,
    "users": NameKind.PERSON,
}
"""What the values of a key name, by its last part."""

_NOT_THERE: Final = frozenset({"channel_not_found", "bot_not_found"})
_USER_ID: Final = re.compile(r"[UW][A-Z0-9]{2,}")
_APP_ID: Final = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")
_FINE: Final = Known(state=State.FINE)
_UNKNOWN: Final = Known(state=State.UNKNOWN)


def named(settings: Settings, channel: str | None = None) -> dict[Name, list[str]]:
    """Returns each name with the keys that name it; for one ``channel`` only its own and those of the defaults."""
    found: dict[Name, list[str]] = {}
    for key, name in _names(settings, ()):
        if channel is None or name[1] == channel or key.startswith((f"channels.{channel}.", "channel_defaults.")):
            found.setdefault(name, []).append(key)
    return found


def _names(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, Name]]:
    key = ".".join(path)
    match value:
        case BaseModel():
            for name in sorted(value.model_fields_set):
                yield from _names(getattr(value, name), (*path, name))
        case Mapping():
            for name, part in value.items():
                if path == ("channels",):
                    yield f"channels.{name}", (NameKind.CHANNEL, name)
                if isinstance(part, BaseModel):
                    yield from _names(part, (*path, name))
        case str() if value != "*" and (
            kind := _KINDS.get(path[-1], NameKind.EMOJI if path[0] == "reactions" else None)
        ):
            is_person = kind is NameKind.BOT and _USER_ID.fullmatch(value)
            yield key, (NameKind.PERSON if is_person else kind, value)
        case tuple() if value and isinstance(value[0], BaseModel):
            for place, part in enumerate(value):
                yield from _names(part, (*path, str(place)))
        case tuple() | frozenset():
            for one in sorted(value):
                yield from _names(one, path)


class SlackCheck:
    """The questions to Slack, and what it has answered before."""

    def __init__(self, gateway: Gateway, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._monotonic = monotonic
        self._fine_until: dict[Name, float] = {}
        self._near: dict[str, str] = {}  # by unknown channel
        self._app_id = ""  # by the bot token

    async def look(self, settings: Settings, names: Mapping[Name, Sequence[str]]) -> tuple[Finding, ...]:
        """Returns what is wrong with ``names`` and the app. Raises Unavailable if Slack does not answer, and
        ConfigurationError if it refuses the token.
        """
        me = await self._gateway.identify()
        groups = await self._user_groups() if any(kind is NameKind.GROUP for kind, _ in names) else None
        known = {one: _group(one[1], groups) if one[0] is NameKind.GROUP else await self._known(*one) for one in names}
        await self._add_near(
            {name for (kind, name), one in known.items() if kind is NameKind.CHANNEL and one == _UNKNOWN}
        )
        by_token = _APP_ID.match(secret(settings.slack.app_token) or "")
        if by_token and not self._app_id:
            with suppress(RefusedBySlack):
                self._app_id = await self._gateway.bot_app(me.bot_id)
        facts = Facts(
            named=names,
            switched_off=frozenset(one for one, chosen in settings.channels_in_full.items() if not chosen.enabled),
            known={
                one: replace(found, near=self._near.get(one[1], "")) if found == _UNKNOWN else found
                for one, found in known.items()
            },
            lacking=_lacking(settings, self._gateway.scopes),
            apps=(self._app_id, by_token[1] if by_token else ""),
        )
        return judge(facts)

    async def _known(self, kind: NameKind, name: str) -> Known:
        if self._fine_until.get((kind, name), 0) > self._monotonic():
            return _FINE
        try:
            found = await self._looked_up(kind, name)
        except RefusedBySlack as refused:
            return _UNKNOWN if refused.slack_code in _NOT_THERE else Known(state=State.UNSEEN)
        if found == _FINE and kind is not NameKind.EMOJI:
            self._fine_until[kind, name] = self._monotonic() + FRESH_SECONDS
        return found

    async def _looked_up(self, kind: NameKind, name: str) -> Known:
        match kind:
            case NameKind.CHANNEL if CHANNEL_ID.fullmatch(name):
                channel = await self._gateway.channel(name)
                state = State.CLOSED if channel.is_archived else State.OUTSIDE
                is_fine = channel.is_member and not channel.is_archived
                return _FINE if is_fine else Known(state=state, shown=f"#{channel.name}")
            case NameKind.PERSON:
                person = await self._gateway.user(name)
                gone = Known(state=State.CLOSED, shown=person.name) if person.name != name else _UNKNOWN
                return _FINE if person.is_known else gone
            case NameKind.BOT:
                await self._gateway.bot_name(name)
                return _FINE
            case NameKind.EMOJI:
                return _UNKNOWN if self._gateway.refuses_emoji(name) else _FINE
            case _:
                return _UNKNOWN  # no id

    async def _user_groups(self) -> Mapping[str, UserGroupInfo] | None:
        """Returns all user groups by id; None if Slack does not show them."""
        try:
            return await self._gateway.user_groups()
        except RefusedBySlack:
            return None

    async def _add_near(self, unknown: set[str]) -> None:
        """Looks for channels with similar ids or names. The list is given up after a while."""
        new = unknown - self._near.keys()
        if not new:
            return
        names: dict[str, str] = {}
        with suppress(RefusedBySlack, Unavailable, TimeoutError):
            async with asyncio.timeout(NEAR_SECONDS):
                async for id, name in self._gateway.channel_names():
                    names[id] = name
        for one in new:
            self._near[one] = await asyncio.to_thread(_near, one, names)


def _group(name: str, groups: Mapping[str, UserGroupInfo] | None) -> Known:
    if groups is None:
        return Known(state=State.UNSEEN)
    if name not in groups:
        return replace(_UNKNOWN, near=_near(name, {id: group.handle for id, group in groups.items()}))
    group = groups[name]
    return Known(state=State.CLOSED, shown=f"@{group.handle}") if group.is_disabled else _FINE


def _near(name: str, names: Mapping[str, str]) -> str:
    """Returns the id, with its name, that is most like a wrong one; empty if none is."""
    by_text = {id.lower(): id for id in names} | {shown: id for id, shown in names.items()}
    close = difflib.get_close_matches(name.lstrip("#@").lower(), by_text, n=1, cutoff=0.75)
    return f"{by_text[close[0]]} ({names[by_text[close[0]]]})" if close else ""


def _lacking(settings: Settings, scopes: frozenset[str] | None) -> dict[str, str]:
    """Returns the scopes that the app needs for these settings and does not have, with what each is for."""
    channels = (settings.channel_defaults, *settings.channels_in_full.values())
    emails = any(one.share_email or one.allowed_domains or one.escalation.agent for one in channels) or any(
        one.domains for one in settings.agents.access.values()
    )
    view = View.PLAIN if settings.slack.agent_sessions is False else View.AGENT
    needed = bot_scopes(view, emails=emails) if scopes is not None else []
    return {one: WHY[one][0].lower() + WHY[one][1:-1] for one in needed if one not in (scopes or ())}


async def ask(settings: Settings, channel: str | None = None) -> tuple[Finding, ...] | None:
    """Asks Slack without a coordinator, also about both tokens. Returns None if Slack does not answer in time. Raises
    ConfigurationError without a token.
    """
    gateway = Gateway(
        preflight.bot_token(settings),
        pacing=Pacing(),
        base_url=settings.slack.api_base_url,
        timeout_seconds=min(settings.slack.timeout_seconds, ASK_SECONDS),
    )
    names = named(settings, channel)
    if channel and CHANNEL_ID.fullmatch(channel):
        names.setdefault((NameKind.CHANNEL, channel), [])
    try:
        async with asyncio.timeout(ASK_SECONDS):
            await gateway.identify()
            if settings.slack.mode is SlackMode.SOCKET:
                await gateway.socket_url(secret(settings.slack.app_token) or "")
            return await SlackCheck(gateway).look(settings, names)
    except ConfigurationError as error:
        return (Finding(keys=("slack",), level=Level.RED, message=error.message, remedy=error.hint or ""),)
    except (Unavailable, TimeoutError):
        return None
    finally:
        await gateway.close()
