"""Compares the settings with Slack (`swarm.domain.slack_check`), for a coordinator and for commands.

Names are looked up one after the other, so that live traffic waits behind one call at most.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import BaseModel

from swarm.app import preflight
from swarm.app.settings_mapping import secret
from swarm.config import Settings, SlackMode
from swarm.config.settings import CHANNEL_ID
from swarm.domain.errors import ConfigurationError, RefusedBySlack, Unavailable
from swarm.domain.slack_check import Finding, Name, judge
from swarm.slack.manifest import WHY, View, bot_scopes
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing

FRESH_SECONDS: Final = 3600.0
"""How long a name that was fine is not looked up again. All others are looked up each time."""

ASK_SECONDS: Final = 10.0
LIST_SECONDS: Final = 4.0

_KINDS: Final = {
    **dict.fromkeys(("channel", "channels"), "channel"),
    **dict.fromkeys(("users", "allowed_users"), "user"),
    **dict.fromkeys(("groups", "allowed_groups"), "group"),
    **dict.fromkeys(("emoji", "stored", "answered", "failed", "stopped"), "emoji"),
    "allowed_bots": "bot",
}
"""What the values of a key name, by its last part."""

_APP_ID: Final = re.compile(r"xapp-\d+-(A[A-Z0-9]+)-")


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
        case str() if value != "*" and (kind := _KINDS.get(path[-1])):
            yield ".".join(path), ("user" if kind == "bot" and value[0] in "UW" else kind, value)


class SlackCheck:
    """The questions to Slack, and what it has answered before."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._fine_until: dict[Name, float] = {}
        self._channels: dict[str, str] | None = None  # id and name as text, by both; None: not listed
        self._app = ""  # of the bot token

    async def look(self, settings: Settings, names: Mapping[Name, Sequence[str]]) -> tuple[Finding, ...]:
        """Returns what is wrong with ``names`` and the app. Raises Unavailable if Slack does not answer, and
        ConfigurationError if it refuses the token.
        """
        me = await self._gateway.identify()
        said = {name: await self._said(*name) for name in names}
        of_app = _APP_ID.match(secret(settings.slack.app_token) or "")
        if of_app and not self._app:
            with suppress(RefusedBySlack):
                self._app = await self._gateway.bot_app(me.bot_id)
        lacking = _lacking(settings, self._gateway.scopes)
        return tuple(judge(names, said, lacking, (self._app, of_app[1] if of_app else "")))

    async def _said(self, kind: str, name: str) -> tuple[str, str]:
        """Returns Slack's code about a name, empty if it is fine, and what to add to the name."""
        if self._fine_until.get((kind, name), 0) > time.monotonic():
            return "", ""
        try:
            code, addition = await self._looked_up(kind, name)
        except RefusedBySlack as refused:
            code = refused.slack_code
            addition = await self._similar(name) if code == "channel_not_found" else ""
        if not code and kind != "emoji":
            self._fine_until[kind, name] = time.monotonic() + FRESH_SECONDS
        return code, addition

    async def _looked_up(self, kind: str, name: str) -> tuple[str, str]:
        match kind:
            case "channel" if not CHANNEL_ID.fullmatch(name):
                raise RefusedBySlack("channel_not_found")
            case "channel":
                channel = await self._gateway.channel(name)
                code = "is_archived" if channel.is_archived else "" if channel.is_member else "not_in_channel"
                return code, f" (#{channel.name})"
            case "user":
                person = await self._gateway.user(name)
                is_gone = person.name != name  # Slack tells who it was
                return "" if person.is_known else "account_inactive" if is_gone else "user_not_found", ""
            case "group":
                await self._gateway.group_members(name)
            case "bot":
                await self._gateway.bot_name(name)
            case "emoji":
                return self._gateway.refusal_of(f":{name}:"), ""
        return "", ""

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
    """Asks Slack without a coordinator, also about both tokens. Returns None if it does not answer in time. Raises
    ConfigurationError without a token.
    """
    token, url = preflight.bot_token(settings), settings.slack.api_base_url
    gateway = Gateway(token, pacing=Pacing(), base_url=url, timeout_seconds=settings.slack.timeout_seconds)
    names = named(settings, channel)
    if CHANNEL_ID.fullmatch(channel):
        names.setdefault(("channel", channel), [])
    try:
        async with asyncio.timeout(ASK_SECONDS):
            await gateway.identify()
            if settings.slack.mode is SlackMode.SOCKET:
                await gateway.socket_url(secret(settings.slack.app_token) or "")
            return await SlackCheck(gateway).look(settings, names)
    except ConfigurationError as error:
        return (Finding(keys=("slack",), is_red=True, message=error.message, remedy=error.hint or ""),)
    except (Unavailable, TimeoutError):
        return None
    finally:
        await gateway.close()
