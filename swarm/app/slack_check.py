"""Compares the settings with Slack (`swarm.domain.slack_check`), for a coordinator and for commands.

Names are looked up one after the other, so that live traffic waits behind one call at most.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import BaseModel

from swarm.app.settings_mapping import secret
from swarm.config import Settings, SlackMode
from swarm.domain.errors import ConfigurationError, RefusedBySlack, Unavailable
from swarm.domain.policy.section import CHANNEL_ID
from swarm.domain.slack_check import Finding, Name, judge
from swarm.slack.manifest import WHY, View, bot_scopes
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing

FRESH_SECONDS: Final = 3600.0
"""How long a name that was fine is not looked up again. All others are looked up each time."""

ASK_SECONDS: Final = 10.0
LIST_SECONDS: Final = 4.0


def named(settings: Settings, channel: str = "") -> dict[Name, list[str]]:
    """Returns each name with the keys that name it; for one ``channel`` only its own and those of the defaults."""
    found: dict[Name, list[str]] = {}
    for key, name in _names(settings, ()):
        if not channel or name[1] == channel or key.startswith((f"channels.{channel}.", "channel_defaults.")):
            found.setdefault(name, []).append(key)
    return found


def _names(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, Name]]:
    match value:
        case BaseModel():
            for name in sorted(value.model_fields_set):
                yield from _names(getattr(value, name), (*path, name))
        case Mapping():
            for name, part in value.items():
                if path == ("channels",):
                    yield f"channels.{name}", ("channel", name)
                if isinstance(part, BaseModel):
                    yield from _names(part, (*path, name))
        case tuple() | frozenset():
            for place, part in enumerate(value if isinstance(value, tuple) else sorted(value)):
                yield from _names(part, (*path, str(place)) if isinstance(part, BaseModel) else path)
        case str() if value != "*":
            kind = path[-1].removeprefix("allowed_").removesuffix("s")
            if kind in ("channel", "user", "group", "bot"):
                yield ".".join(path), ("user" if kind == "bot" and value[:1] in "UW" else kind, value)


class SlackCheck:
    """The questions to Slack, and what it has answered before."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._fine_until: dict[Name, float] = {}
        self._channels: dict[str, str] | None = None  # id and name as text, by both; None: not listed

    async def look(self, settings: Settings, names: Mapping[Name, Sequence[str]]) -> tuple[Finding, ...]:
        """Returns what is wrong with ``names`` and the app. Raises Unavailable if Slack does not answer, and
        ConfigurationError if it refuses the token.
        """
        await self._gateway.identify()
        said = {name: await self._said(*name) for name in names}
        off = {channel for channel, chosen in settings.channels_in_full.items() if not chosen.enabled}
        judged = {one: names[one] for one in names if one[1] not in off or said[one][0] == "channel_not_found"}
        return tuple(judge(judged, said, _lacking(settings, self._gateway.scopes)))

    async def _said(self, kind: str, name: str) -> tuple[str, str]:
        """Returns Slack's code about a name, empty if it is fine, and what to add to the name."""
        if self._fine_until.get((kind, name), 0) > time.monotonic():
            return "", ""
        code = addition = ""
        try:
            match kind:
                case "channel" if not CHANNEL_ID.fullmatch(name):
                    raise RefusedBySlack("channel_not_found")
                case "channel":
                    channel = await self._gateway.channel(name)
                    code = "is_archived" if channel.is_archived else "" if channel.is_member else "not_in_channel"
                    addition = f" (#{channel.name})"
                case "user":
                    person = await self._gateway.user(name)
                    code = "" if person.is_known else "user_not_found" if person.name == name else "account_inactive"
                case "group":
                    await self._gateway.group_members(name)
                case "bot":
                    await self._gateway.bot_name(name)
        except RefusedBySlack as refused:
            code = refused.slack_code
            addition = await self._similar(name) if code == "channel_not_found" else ""
        if not code:
            self._fine_until[kind, name] = time.monotonic() + FRESH_SECONDS
        return code, addition

    async def _similar(self, name: str) -> str:
        """Returns the channel that may be meant, as a question. Channels are listed once, for this only."""
        if self._channels is None:
            self._channels = {}
            with suppress(RefusedBySlack, Unavailable, TimeoutError):
                async with asyncio.timeout(LIST_SECONDS):
                    async for id, shown in self._gateway.channel_names():
                        self._channels |= dict.fromkeys((id.lower(), shown), f"{id} (#{shown})")
        wanted = name.lstrip("#").lower()
        close = await asyncio.to_thread(difflib.get_close_matches, wanted, self._channels, 1, 0.75)
        return f"; did you mean {self._channels[close[0]]}?" if close else ""


def _lacking(settings: Settings, scopes: frozenset[str] | None) -> dict[str, str]:
    """Returns the scopes that these settings need and the app lacks, with their purposes."""
    channels = (settings.channel_defaults, *settings.channels_in_full.values())
    emails = any(one.share_email or one.allowed_domains or one.escalation.agent for one in channels)
    emails |= any(one.domains for one in settings.agents.access.values())
    view = View.PLAIN if settings.slack.agent_sessions is False else View.AGENT
    missing = set(bot_scopes(view, emails=emails)) - scopes if scopes is not None else set()
    return {scope: WHY[scope][0].lower() + WHY[scope][1:-1] for scope in sorted(missing)}


async def ask(settings: Settings, channel: str = "") -> tuple[Finding, ...] | None:
    """Asks Slack without a coordinator, also about both tokens. Returns nothing without a token, and None if Slack does
    not answer in time.
    """
    bot_token, app_token = secret(settings.slack.bot_token), secret(settings.slack.app_token)
    if not bot_token:
        return ()
    gateway = Gateway(bot_token, pacing=Pacing(), base_url=settings.slack.api_base_url)
    names = named(settings, channel)
    if CHANNEL_ID.fullmatch(channel):
        names.setdefault(("channel", channel), [])
    try:
        async with asyncio.timeout(ASK_SECONDS):
            if settings.slack.mode is SlackMode.SOCKET:
                await gateway.socket_url(app_token or "")
            return await SlackCheck(gateway).look(settings, names)
    except ConfigurationError as error:
        return (Finding(keys=("slack",), is_red=True, message=error.message, remedy=error.hint or ""),)
    except (Unavailable, TimeoutError):
        return None
    finally:
        await gateway.close()
