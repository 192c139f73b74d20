"""The only caller of Slack's Web API.

It waits its turn, says honestly what became of a call, and never repeats by itself what may have happened: that is the
sender's decision (:mod:`swarm.domain.deliveries`). Reads have no effect, so they wait out Slack's rate limits here.
"""

from __future__ import annotations

import ipaddress
import logging
import urllib.request
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, assert_never
from urllib.parse import urlsplit

import aiohttp
import structlog
from slack_sdk.web.async_client import AsyncWebClient

from swarm.domain.deliveries import (
    METADATA_EVENT_TYPE,
    Accepted,
    Answer,
    Delivery,
    DeliveryKind,
    InDoubt,
    NotSent,
    Refused,
)
from swarm.domain.errors import ConfigurationError, NotFound, Unavailable
from swarm.domain.routing import Me
from swarm.domain.transcript import ChannelType, SlackMessage
from swarm.slack.fields import EMPTY, JsonObject, is_object, object_at, objects_at, text_at, ts_at
from swarm.slack.outcomes import CALL_ERRORS, Failure, failure, is_rate_limit
from swarm.slack.pacing import Pacing, TooBusy
from swarm.slack.payloads import history_message

SLACK_API_URL: Final = "https://slack.com/api/"

PATIENCE_SECONDS: Final = 10.0
"""So long a delivery waits for its turn; if that is not enough it is answered NotSent, with the time to come back."""

_PAGE_SIZE: Final = 200  # what Slack recommends
_READ_ATTEMPTS: Final = 5
_CLOCKS_APART_SECONDS: Final = 600  # ours and Slack's; a lookup begins so long before the delivery was made

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelInfo:
    """A conversation as Slack describes it."""

    id: str
    name: str  # empty for a direct message
    type: ChannelType
    topic: str
    purpose: str
    user_id: str | None = None  # of a direct message: the person


class Gateway:
    """Slack's Web API as the rest of the system knows it.

    ``timeout_seconds`` bounds one HTTP call, connecting included. Methods that read raise Unavailable when Slack cannot
    be asked, and NotFound, with Slack's code, when it refuses.
    """

    def __init__(
        self,
        token: str,
        *,
        pacing: Pacing,
        base_url: str = SLACK_API_URL,
        timeout_seconds: float = 10.0,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._pacing = pacing
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._client = AsyncWebClient(token, base_url=base_url, retry_handlers=[], logger=_quiet_logger())
        if _reached_directly(self._client.base_url):
            self._client.proxy = None
        self._me: Me | None = None
        self._closed = False

    @property
    def client(self) -> AsyncWebClient:
        """The client with its token, base URL and proxy, for Bolt and Socket Mode to copy from."""
        return self._client

    @property
    def me(self) -> Me | None:
        """The identity of our bot, once :meth:`identify` has succeeded."""
        return self._me

    async def close(self) -> None:
        """Close the connections. Calls after that raise RuntimeError."""
        self._closed = True
        if self._client.session is not None:
            await self._client.session.close()

    async def identify(self) -> Me:
        """Who we are (``auth.test``); Slack is asked once.

        Raises ConfigurationError if Slack does not accept the token, Unavailable if it cannot be asked.
        """
        if self._me is None:
            try:
                answer = await self._read("auth.test", {})
            except NotFound as refused:
                raise ConfigurationError(
                    f"Slack does not accept SLACK_BOT_TOKEN: {refused.message}.",
                    hint="Copy the Bot User OAuth Token (xoxb-…) from the app's page “OAuth & Permissions”.",
                ) from refused
            self._me = Me(
                team=text_at(answer, "team_id"), user_id=text_at(answer, "user_id"), bot_id=text_at(answer, "bot_id")
            )
        return self._me

    async def socket_url(self, app_token: str) -> str:
        """An address for one Socket Mode connection (``apps.connections.open``), good for a short while.

        Raises ConfigurationError if Slack does not accept the app-level token, Unavailable if it cannot be asked.
        """
        try:
            answer = await self._read("apps.connections.open", {}, token=app_token)
        except NotFound as refused:
            raise ConfigurationError(
                f"Slack does not accept SLACK_APP_TOKEN: {refused.message}.",
                hint="Create an app-level token (xapp-…) with the scope connections:write, and switch Socket Mode on.",
            ) from refused
        return text_at(answer, "url")

    async def deliver(self, delivery: Delivery) -> Answer:
        """Try a delivery once, when its turn comes.

        A turn that is more than ``patience_seconds`` away is not waited for: NotSent says when to come back. With the
        HTTP timeout that bounds the call, apart from the rare post that has to be taken back.
        """
        match delivery.kind:
            case DeliveryKind.POST:
                return await self._post(delivery)
            case DeliveryKind.UPDATE:
                return await self._change(delivery, "chat.update", {"ts": delivery.target_ts, **_content(delivery)})
            case DeliveryKind.DELETE:
                return await self._change(delivery, "chat.delete", {"ts": delivery.target_ts}, "message_not_found")
            case DeliveryKind.REACTION:
                reaction = {"timestamp": delivery.target_ts, "name": delivery.text}
                return await self._change(delivery, "reactions.add", reaction, "already_reacted")
            case _:
                assert_never(delivery.kind)

    async def find(self, delivery: Delivery) -> Accepted | None:
        """Look for a post that may have been made (``conversations.replies`` or ``.history``), by our key in it.

        None means that Slack does not have it now; a call still on its way may land later, so ask only when it has
        timed out. Anything but a post is None: it can simply be repeated. A post that landed outside its thread, whose
        root is gone, is taken back and is None, too.
        """
        if delivery.kind is not DeliveryKind.POST:
            return None
        if delivery.thread_ts:
            found = await self._find_in_thread(delivery, delivery.thread_ts)
            if found:
                return Accepted(ts=found.ts, thread_ts=found.thread_ts)
        stray = await self._find_in_channel(delivery)
        if stray and delivery.thread_ts and not stray.thread_ts:
            await self._take_back(delivery.channel, stray.ts)
            return None
        return Accepted(ts=stray.ts, thread_ts=stray.thread_ts) if stray else None

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """Every message of a thread, oldest first, our own with their ``delivery_id`` (``conversations.replies``).

        Empty if there is no such thread. Raises NotFound if we may not read the channel, Unavailable if Slack cannot
        be asked.
        """
        try:
            # Each page may begin with the root again.
            messages = {m.ts: m async for m in self._messages("conversations.replies", channel, {"ts": thread_ts})}
        except NotFound as refused:
            if refused.message == "thread_not_found":
                return []
            raise
        return sorted(messages.values(), key=_by_time)

    async def user_name(self, user_id: str) -> str:
        """The name under which people see somebody (``users.info``)."""
        user = object_at(await self._read("users.info", {"user": user_id}), "user")
        profile = object_at(user, "profile")
        names = (text_at(profile, "display_name"), text_at(profile, "real_name"), text_at(user, "real_name"))
        return next(filter(None, names), text_at(user, "name") or user_id)

    async def bot_name(self, bot_id: str) -> str:
        """The name of a bot that has no user (``bots.info``)."""
        return text_at(object_at(await self._read("bots.info", {"bot": bot_id}), "bot"), "name") or bot_id

    async def channel(self, channel_id: str) -> ChannelInfo:
        """What a conversation is called and what it is for (``conversations.info``)."""
        info = object_at(await self._read("conversations.info", {"channel": channel_id}), "channel")
        return ChannelInfo(
            id=channel_id,
            name=text_at(info, "name"),
            type=_channel_type(info),
            topic=text_at(object_at(info, "topic"), "value"),
            purpose=text_at(object_at(info, "purpose"), "value"),
            user_id=text_at(info, "user") or None,
        )

    async def permalink(self, channel: str, ts: str) -> str | None:
        """The web address of a message (``chat.getPermalink``); None if there is no such message."""
        try:
            answer = await self._read("chat.getPermalink", {"channel": channel, "message_ts": ts})
        except NotFound:
            return None
        return text_at(answer, "permalink") or None

    async def _post(self, delivery: Delivery) -> Answer:
        arguments: dict[str, object] = {
            **_content(delivery),
            "metadata": _metadata(delivery),
            "unfurl_links": False,
            "unfurl_media": False,
        }
        if delivery.thread_ts:
            arguments |= {"thread_ts": delivery.thread_ts, "reply_broadcast": delivery.broadcast}
        answer = await self._write("chat.postMessage", delivery.channel, arguments)
        if not is_object(answer):
            return answer
        ts = ts_at(answer, "ts")
        if ts is None:
            return InDoubt(reason="Slack's answer has no timestamp")
        landed_in = ts_at(object_at(answer, "message"), "thread_ts")
        if delivery.thread_ts and landed_in is None and "message" in answer:
            await self._take_back(delivery.channel, ts)
            return Refused(error="thread_not_found")
        return Accepted(ts=ts, thread_ts=landed_in)

    async def _take_back(self, channel: str, ts: str) -> None:
        """Delete a post that landed in the channel itself because its thread's root is gone."""
        answer = await self._write("chat.delete", channel, {"ts": ts})
        if is_object(answer):
            _log.warning("A post outside its thread was deleted.", action="slack_stray_deleted", channel=channel, ts=ts)
        else:
            _log.error(
                "A post stays outside its thread.",
                action="slack_stray_left",
                channel=channel,
                ts=ts,
                answer=repr(answer),
            )

    async def _change(
        self, delivery: Delivery, method: str, arguments: dict[str, object], done_already: str | None = None
    ) -> Answer:
        """An effect that is the same when repeated; ``done_already`` is Slack's word for a repetition."""
        answer = await self._write(method, delivery.channel, arguments)
        if is_object(answer) or (isinstance(answer, Refused) and answer.error == done_already):
            return Accepted(ts=delivery.target_ts)
        return answer

    async def _find_in_thread(self, delivery: Delivery, thread_ts: str) -> SlackMessage | None:
        try:
            return await self._find_among("conversations.replies", delivery, {"ts": thread_ts})
        except NotFound as refused:
            if refused.message == "thread_not_found":
                return None
            raise Unavailable(f"Slack cannot be asked for the thread: {refused.message}.") from refused

    async def _find_in_channel(self, delivery: Delivery) -> SlackMessage | None:
        try:
            return await self._find_among("conversations.history", delivery, {})
        except NotFound as refused:
            raise Unavailable(f"Slack cannot be asked for the channel: {refused.message}.") from refused

    async def _find_among(self, method: str, delivery: Delivery, where: dict[str, object]) -> SlackMessage | None:
        arguments = {**where, **_since(delivery)}
        async for message in self._messages(method, delivery.channel, arguments):
            if message.delivery_id == delivery.id:
                return message
        return None

    async def _messages(self, method: str, channel: str, where: dict[str, object]) -> AsyncIterator[SlackMessage]:
        """The messages of all pages, as Slack orders them."""
        me = await self.identify()
        arguments = {**where, "channel": channel, "include_all_metadata": True, "limit": _PAGE_SIZE}
        cursor = ""
        while True:
            page = await self._read(method, {**arguments, "cursor": cursor} if cursor else arguments)
            for raw in objects_at(page, "messages"):
                if message := history_message(channel, raw, me):
                    yield message
            previous, cursor = cursor, text_at(object_at(page, "response_metadata"), "next_cursor")
            if not cursor:
                return
            if cursor == previous:
                raise Unavailable("Slack gives the same page again and again.")

    async def _write(self, method: str, channel: str, arguments: dict[str, object]) -> JsonObject | Failure:
        return await self._call(method, {"channel": channel, **arguments}, patience_seconds=self._patience_seconds)

    async def _read(self, method: str, arguments: dict[str, object], *, token: str | None = None) -> JsonObject:
        """Ask, and ask again after a rate limit; raises NotFound with Slack's code as message, or Unavailable."""
        for _ in range(_READ_ATTEMPTS):
            answer = await self._call(method, arguments, token=token)
            match answer:
                case NotSent(reason="ratelimited"):
                    continue  # the pause is the pacing's
                case Refused(error=code):
                    raise NotFound(code)
                case NotSent(reason=reason) | InDoubt(reason=reason):
                    raise Unavailable(f"Slack cannot be asked ({method}): {reason}.")
                case _:
                    return answer
        raise Unavailable(f"Slack refused {method} {_READ_ATTEMPTS} times for its rate.")

    async def _call(
        self,
        method: str,
        arguments: dict[str, object],
        *,
        token: str | None = None,
        patience_seconds: float | None = None,
    ) -> JsonObject | Failure:
        """One call, when its turn comes. ``token`` stands in for the bot's."""
        channel = arguments.get("channel")
        channel = channel if isinstance(channel, str) else None
        try:
            await self._pacing.turn(method, channel, **_patience(patience_seconds))
        except TooBusy as busy:
            return NotSent(reason="waiting for its turn", retry_after_seconds=busy.wait_seconds)
        self._open_session()
        try:
            return await self._send(method, arguments, token)
        except CALL_ERRORS as error:
            outcome = failure(error)
            if isinstance(outcome, NotSent) and is_rate_limit(error):
                self._pacing.pause(method, outcome.retry_after_seconds, channel)
            return outcome

    async def _send(self, method: str, arguments: dict[str, object], token: str | None) -> JsonObject:
        headers = {"Authorization": f"Bearer {token}"} if token else None
        if method in _READS:  # Slack takes JSON for writes only
            answer = await self._client.api_call(method, http_verb="GET", params=arguments, headers=headers)
        else:
            answer = await self._client.api_call(method, json=arguments, headers=headers)
        return answer.data if is_object(answer.data) else EMPTY

    def _open_session(self) -> None:
        """One session for all calls keeps connections open; it can only be made where an event loop runs."""
        if self._closed:
            raise RuntimeError("The gateway is closed.")
        if self._client.session is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout_seconds, connect=self._timeout_seconds / 2)
            self._client.session = aiohttp.ClientSession(timeout=timeout)
