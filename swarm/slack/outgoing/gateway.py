"""The gateway, through which all calls to Slack are made.

The gateway reports a call's outcome exactly and never repeats a call that may have had an effect: repeating is the
sender's decision (:mod:`swarm.domain.model.deliveries`). Reads have no effect, so the gateway itself waits out Slack's
rate limits for them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from swarm.clock import slack_ts_to_us
from swarm.domain.errors import ConfigurationError, RefusedBySlack, Unavailable
from swarm.domain.model.deliveries import (
    Answer,
    Delivery,
    DeliveryAccepted,
    DeliveryKind,
    DeliveryRefused,
    InDoubt,
    NotSent,
)
from swarm.domain.model.threads import FLAT, FLAT_MESSAGES, ChannelMessage, ChannelType, SlackMessage
from swarm.domain.policy.access import Me, Person
from swarm.domain.troubles import SlackTrouble, slack_troubles
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.slack.incoming.fields import JsonObject, id_at, ids_at, object_at, objects_at, text_at, ts_at
from swarm.slack.incoming.payloads import history_message, person_of
from swarm.slack.outgoing import ephemerals
from swarm.slack.outgoing.answer_blocks import MAX_UPDATE_CHARACTERS, cut_text, without_retry
from swarm.slack.outgoing.delivery_calls import content, method_of, oldest_post, post_arguments, was_done_before
from swarm.slack.outgoing.files import SlackFileClient
from swarm.slack.outgoing.modals import PersonalSurfaces, change_view
from swarm.slack.outgoing.pacing import Pacing
from swarm.slack.outgoing.refused_token import PROBE_SECONDS
from swarm.slack.outgoing.sessions import Sessions
from swarm.slack.outgoing.streams import SlackStreams
from swarm.slack.outgoing.web_api import RETRY_SECONDS, Failure, SlackClock, WebApi

SLACK_API_URL: Final = "https://slack.com/api/"

_NO_SUCH_USER: Final = frozenset({"user_not_found", "user_not_visible", "users_not_found"})

_NO_SUCH_THREAD: Final = frozenset({"thread_not_found", "message_not_found"})

_ALL_TYPES: Final = "public_channel,private_channel,mpim,im"
_PAGE_SIZE: Final = 200  # Slack's recommendation

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelInfo:
    """A conversation as Slack describes it."""

    id: str
    name: str  # empty for a direct message
    type: ChannelType
    topic: str
    purpose: str
    user_id: str | None = None  # for a direct message: the other person
    is_member: bool = True  # False: a channel without the app
    is_archived: bool = False


class Gateway:
    """Slack's Web API for the rest of the system.

    ``timeout_seconds`` limits one HTTP call, including connecting. Unless documented otherwise, reading methods raise
    Unavailable if Slack cannot be reached, and RefusedBySlack, a NotFound with Slack's code, if Slack refuses.
    ``agent_sessions`` tells whether the app is declared as an agent, see :class:`Sessions`.
    """

    def __init__(
        self,
        token: str,
        *,
        pacing: Pacing,
        base_url: str = SLACK_API_URL,
        timeout_seconds: float = 10.0,
        watcher: Watcher = NO_WATCHERS,
        agent_sessions: bool | None = False,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self._api = WebApi(
            token,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            pacing=pacing,
            watcher=watcher,
            probe_seconds=probe_seconds,
        )
        self._me: Me | None = None
        self._private_answers = ephemerals.PrivateAnswers()
        self.files = SlackFileClient(self._api, timeout_seconds=timeout_seconds)
        self.personal = PersonalSurfaces(self._api)
        self._sessions = Sessions(self._api, agent_sessions=agent_sessions)
        self.streams = SlackStreams(self._api, self._messages, self._take_back, self._sessions)

    @property
    def clock(self) -> SlackClock:
        """Slack's clock."""
        return self._api.clock

    @property
    def scopes(self) -> frozenset[str] | None:
        """The scopes of the bot's token, as Slack told them with its last answer; None if it has not told them."""
        return self._api.scopes

    @property
    def client(self) -> AsyncWebClient:
        """The client with its token, base URL and proxy, which Bolt and Socket Mode copy."""
        return self._api.client

    async def close(self) -> None:
        """Closes the connections. Later calls raise RuntimeError."""
        await self.files.close()
        await self._api.close()

    async def identify(self) -> Me:
        """Returns Swarm's own identity (``auth.test``). The result is cached.

        Raises ConfigurationError if Slack does not accept the token, and Unavailable if Slack cannot be reached.
        """
        if self._me is None:
            try:
                answer = await self._api.read("auth.test", {})
            except RefusedBySlack as refused:
                raise ConfigurationError(
                    f"Slack does not accept SLACK_BOT_TOKEN: {refused.slack_code}.",
                    hint="Copy the Bot User OAuth Token (xoxb-…) from “OAuth & Permissions” on the app's page.",
                ) from refused
            self._me = _identity(answer)
        return self._me

    async def socket_url(self, app_token: str) -> str:
        """Returns an address for one Socket Mode connection (``apps.connections.open``), valid for a short time.

        Raises ConfigurationError if Slack does not accept the app-level token, and Unavailable if Slack cannot be
        reached.
        """
        try:
            answer = await self._api.read("apps.connections.open", {"token": app_token})
        except RefusedBySlack as refused:
            lacks = " (it lacks connections:write)" if refused.slack_code == "missing_scope" else ""
            raise ConfigurationError(
                f"Slack does not accept SLACK_APP_TOKEN: {refused.slack_code}{lacks}.",
                hint="Create an app-level token (xapp-…) with the scope connections:write and switch Socket Mode on.",
            ) from refused
        return text_at(answer, "url")

    async def ready(self, delivery: Delivery) -> None:
        """Waits until Slack's rate limits allow this delivery. Deliveries to other channels are not held up."""
        await self._api.acquire_turn(method_of(delivery), delivery.channel)

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        """Returns how long :meth:`ready` is expected to wait."""
        return self._api.expected_wait_seconds(method_of(delivery), delivery.channel)

    @property
    def refused_by(self) -> str | None:
        """Slack's code while it refuses the bot's token; None if it accepts the token, as far as known."""
        return self._api.refused_token.code

    def last_post_seconds(self) -> int | None:
        """Returns the time since Slack last took a post of this process; None if it has taken none."""
        at = self._api.posted_at
        return None if at is None else int(time.monotonic() - at)

    @property
    def troubles(self) -> tuple[SlackTrouble, ...]:
        """What Slack's last answers say about the app."""
        return slack_troubles(self.refused_by, self._api.refused)

    async def check_token(self, token: str) -> None:
        """Raises ConfigurationError unless Slack accepts a bot token for the same team and bot as before, and
        Unavailable if Slack cannot be reached.
        """
        try:
            found = _identity(await self._api.read("auth.test", {"token": token}))
        except RefusedBySlack as refused:
            message = f"Slack does not accept the new SLACK_BOT_TOKEN: {refused.slack_code}."
            raise ConfigurationError(message) from refused
        me = await self.identify()
        if (found.team, found.bot_id) != (me.team, me.bot_id):
            raise ConfigurationError(
                "The new SLACK_BOT_TOKEN belongs to another team or bot.",
                hint="Another workspace or app needs a restart, and its own SWARM_HOME and database.",
            )

    def use_token(self, token: str) -> None:
        """Makes all further calls with a bot token that `check_token` has accepted."""
        self._api.client.token = token
        self._api.refused.clear()
        self._api.refused_token.accept()

    async def token_accepted(self) -> None:
        """Waits as long as Slack refuses the bot's token."""
        await self._api.refused_token.accepted()

    async def deliver(self, delivery: Delivery) -> Answer:
        """Makes the call once, within ``timeout_seconds``.

        A post that appears outside its thread takes twice as long, because its deletion waits for a rate slot.
        """
        match delivery.kind:
            case DeliveryKind.POST if delivery.person:
                return await self._tell(delivery, delivery.person)
            case DeliveryKind.POST:
                return await self._post(delivery)
            case DeliveryKind.UPDATE if delivery.removes:
                return await self._without_retry(delivery)
            case DeliveryKind.UPDATE:
                return await self._change(delivery, {"ts": delivery.target_ts, **content(delivery, self._me)})
            case DeliveryKind.DELETE:
                return await self._change(delivery, {"ts": delivery.target_ts})
            case DeliveryKind.REACTION:
                return await self._change(delivery, {"timestamp": delivery.target_ts, "name": delivery.text})
            case DeliveryKind.TITLE:
                return await self._sessions.title(delivery)
            case DeliveryKind.PROMPTS:
                return await self._sessions.prompts(delivery)
            case _:
                assert_never(delivery.kind)

    async def whisper(
        self, channel: str, user_id: str, text: str, thread_ts: str | None = None, blocks: Sequence[JsonObject] = ()
    ) -> None:
        """Shows a text, or blocks, to one person (``chat.postEphemeral``) at most once, without raising on failure.

        A person who presses many buttons in a minute is asked to slow down, and then shown nothing.
        """
        shown = self._private_answers.next(user_id, text)
        if shown is not None:
            shown_blocks = blocks if shown == text else ()
            await ephemerals.whisper(self._api, channel, user_id, shown, thread_ts, shown_blocks)

    async def replace_ephemeral(self, response_url: str, text: str) -> bool:
        """Replaces an ephemeral message after a press of one of its buttons. Returns whether Slack did."""
        return await ephemerals.replace(self._api, response_url, text)

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        """Looks up a post that may have been made (``conversations.replies``, ``conversations.history``) by its key.

        Returns None if Slack does not have the post now. A call in flight may still take effect, so callers ask after
        its timeout. Also returns None for kinds other than posts, which can simply be repeated, and for a post that
        appeared outside its thread because the root is gone; such a post is deleted. Raises RefusedBySlack if Slack
        will never answer, and Unavailable if Slack cannot be reached.
        """
        if delivery.kind is not DeliveryKind.POST or delivery.person:
            return None
        found = await self._find_in_thread(delivery) if delivery.thread_ts else None
        found = found or await self._find_among("conversations.history", delivery, {"oldest": oldest_post(delivery)})
        if found is None:
            return None
        if delivery.thread_ts and found.is_root:
            await self._take_back(delivery.channel, found.ts)
            return None
        return DeliveryAccepted(ts=found.ts, thread_ts=found.thread_ts)

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        """Returns all messages of a thread, oldest first (``conversations.replies``). Swarm's own messages have their
        ``delivery_id``.

        Empty if there is no such thread. For `FLAT`, returns the newest `FLAT_MESSAGES` messages of the channel,
        without replies (``conversations.history``).
        """
        if thread_ts == FLAT:
            newest = await self.read_channel(channel, "0", FLAT_MESSAGES)
            return [one.message for one in newest if one.message.is_root]
        try:
            # Each page may begin with the root message again.
            messages = {m.ts: m async for m in self._messages("conversations.replies", channel, {"ts": thread_ts})}
        except RefusedBySlack as refused:
            if refused.slack_code == "thread_not_found":
                return []
            raise
        return sorted(messages.values(), key=lambda message: slack_ts_to_us(message.ts))

    async def conversations(self) -> list[str]:
        """Returns the ids of all conversations that the bot is in, including direct messages
        (``users.conversations``).
        """
        arguments = {"types": _ALL_TYPES, "exclude_archived": True}
        pages = self._pages("users.conversations", arguments, "channels")
        return [channel_id async for raw in pages if (channel_id := id_at(raw, "id"))]

    async def read_channel(self, channel: str, oldest: str, limit: int | None = None) -> list[ChannelMessage]:
        """Returns the messages of a conversation after ``oldest``, oldest first, without replies
        (``conversations.history``).

        With ``limit``, returns only the newest messages.
        """
        me = await self.identify()
        found: list[ChannelMessage] = []
        async for raw in self._pages(
            "conversations.history", {"channel": channel, "oldest": oldest}, "messages", limit
        ):
            await self.files.complete(raw)
            if message := history_message(channel, raw, me):
                found.append(ChannelMessage(message=message, latest_reply_ts=ts_at(raw, "latest_reply")))
            if limit and len(found) >= limit:
                break
        return found[::-1]

    async def user(self, user_id: str) -> Person:
        """Returns a user's profile (``users.info``). A user that Slack does not know or show is also returned as a
        Person.
        """
        try:
            answer = await self._api.read("users.info", {"user": user_id})
        except RefusedBySlack as refused:
            if refused.slack_code in _NO_SUCH_USER:
                return Person(id=user_id, name=user_id, is_known=False)
            raise
        return person_of(user_id, object_at(answer, "user"))

    async def user_by_email(self, email: str) -> Person | None:
        """Returns the user with an e-mail address (``users.lookupByEmail``); None if Slack knows none."""
        try:
            user = object_at(await self._api.read("users.lookupByEmail", {"email": email}), "user")
        except RefusedBySlack as refused:
            if refused.slack_code in _NO_SUCH_USER:
                return None
            raise
        user_id = id_at(user, "id")
        return person_of(user_id, user) if user_id else None

    async def bot_name(self, bot_id: str) -> str:
        """Returns the name of a bot (``bots.info``)."""
        return text_at(object_at(await self._api.read("bots.info", {"bot": bot_id}), "bot"), "name") or bot_id

    async def channel(self, channel_id: str) -> ChannelInfo:
        """Returns a conversation's name, type, topic and purpose (``conversations.info``)."""
        info = object_at(await self._api.read("conversations.info", {"channel": channel_id}), "channel")
        return ChannelInfo(
            id=channel_id,
            name=text_at(info, "name"),
            type=_channel_type(info),
            topic=text_at(object_at(info, "topic"), "value"),
            purpose=text_at(object_at(info, "purpose"), "value"),
            user_id=text_at(info, "user") or None,
            is_member=info.get("is_member") is not False,  # direct messages have no such field
            is_archived=info.get("is_archived") is True,
        )

    async def channel_names(self) -> AsyncIterator[tuple[str, str]]:
        """Yields id and name of every public channel (``conversations.list``), 999 with each call."""
        async for raw in self._pages("conversations.list", {"exclude_archived": True}, "channels", 999):
            yield text_at(raw, "id"), text_at(raw, "name")

    async def group_members(self, group_id: str) -> frozenset[str]:
        """Returns the ids of a user group's members (``usergroups.users.list``)."""
        return frozenset(ids_at(await self._api.read("usergroups.users.list", {"usergroup": group_id}), "users"))

    async def open_view(self, trigger_id: str, view: JsonObject) -> bool:
        """Opens a modal (``views.open``) at once, because a trigger is valid for three seconds. Returns whether it is
        open.
        """
        return await change_view(self._api, "views.open", {"trigger_id": trigger_id, "view": view})

    async def update_view(self, view_id: str, view_hash: str, view: JsonObject) -> bool:
        """Replaces an open modal (``views.update``) if it is as in ``view_hash``. Returns whether it was."""
        return await change_view(self._api, "views.update", {"view_id": view_id, "hash": view_hash, "view": view})

    async def _post(self, delivery: Delivery) -> Answer:
        answer = await self._write(delivery, post_arguments(delivery, self._me))
        if isinstance(answer, Failure):
            return answer
        ts = ts_at(answer, "ts")
        if ts is None:
            return InDoubt(reason="Slack's answer has no timestamp")
        thread_ts = ts_at(object_at(answer, "message"), "thread_ts")
        if delivery.thread_ts and thread_ts is None:
            await self._take_back(delivery.channel, ts)
            return DeliveryRefused(error="thread_not_found")
        channel = id_at(answer, "channel")
        return DeliveryAccepted(ts=ts, thread_ts=thread_ts, channel=channel if channel != delivery.channel else None)

    async def _tell(self, delivery: Delivery, person: str) -> Answer:
        """Shows a text to one person (``chat.postEphemeral``). There is no lookup; repeating the call does no harm.

        Slack shows no ephemeral text in a thread without replies.
        """
        arguments: dict[str, object] = {"user": person, "text": delivery.text}
        if delivery.drops_request_id:
            arguments = {"user": person, **content(delivery)}
        if delivery.thread_ts and delivery.target_ts != delivery.thread_ts:
            arguments["thread_ts"] = delivery.thread_ts
        answer = await self._write(delivery, arguments)
        return answer if isinstance(answer, Failure) else DeliveryAccepted()

    async def _change(self, delivery: Delivery, arguments: JsonObject) -> Answer:
        """Makes an idempotent call."""
        answer = await self._write(delivery, arguments)
        if isinstance(answer, Failure) and not was_done_before(delivery, answer):
            return answer
        return DeliveryAccepted(ts=delivery.target_ts)

    async def _without_retry(self, delivery: Delivery) -> Answer:
        """Removes the Retry button from a message and keeps everything else as currently stored in Slack."""
        where = {"channel": delivery.channel, "ts": delivery.target_ts, "limit": 1}
        try:
            page = await self._api.read("conversations.replies", where)
        except RefusedBySlack as refused:
            return DeliveryRefused(error=refused.slack_code)
        except Unavailable as error:
            return NotSent(reason=error.message, retry_after_seconds=RETRY_SECONDS)
        for message in objects_at(page, "messages"):
            blocks = without_retry(objects_at(message, "blocks"), delivery.text)
            if message.get("ts") == delivery.target_ts and blocks is not None:
                text = cut_text(text_at(message, "text"), MAX_UPDATE_CHARACTERS)
                return await self._change(delivery, {"ts": delivery.target_ts, "text": text, "blocks": blocks})
        return DeliveryAccepted(ts=delivery.target_ts)

    async def _write(self, delivery: Delivery, arguments: JsonObject) -> JsonObject | Failure:
        return await self._api.call(method_of(delivery), {"channel": delivery.channel, **arguments})

    async def _take_back(self, channel: str, ts: str) -> None:
        """Deletes a post that appeared in the channel itself because its thread's root is gone."""
        await self._api.acquire_slot("chat.delete", channel)
        answer = await self._api.call("chat.delete", {"channel": channel, "ts": ts})
        if isinstance(answer, Failure):
            why = repr(answer)
            _log.error(
                "A post outside its thread could not be deleted.",
                action="slack_stray_left",
                channel=channel,
                ts=ts,
                why=why,
            )
        else:
            _log.warning("A post outside its thread was deleted.", action="slack_stray_deleted", channel=channel, ts=ts)

    async def _find_in_thread(self, delivery: Delivery) -> SlackMessage | None:
        try:
            since = delivery.answers_ts or delivery.thread_ts  # by Slack's clock, because ours may have changed
            return await self._find_among(
                "conversations.replies", delivery, {"ts": delivery.thread_ts, "oldest": since}
            )
        except RefusedBySlack as refused:
            if refused.slack_code in _NO_SUCH_THREAD:
                return None
            raise

    async def _find_among(self, method: str, delivery: Delivery, where: JsonObject) -> SlackMessage | None:
        async for message in self._messages(method, delivery.channel, where):
            if message.delivery_id == delivery.id:
                return message
        return None

    async def _messages(self, method: str, channel: str, where: JsonObject) -> AsyncIterator[SlackMessage]:
        """Yields the messages of all pages, in Slack's order."""
        me = await self.identify()
        async for raw in self._pages(method, {**where, "channel": channel}, "messages"):
            await self.files.complete(raw)
            if message := history_message(channel, raw, me):
                yield message

    async def _pages(
        self, method: str, where: JsonObject, key: str, limit: int | None = None
    ) -> AsyncIterator[JsonObject]:
        """Yields the objects under ``key`` of all pages, in Slack's order."""
        arguments = {**where, "limit": limit or _PAGE_SIZE}
        if key == "messages":
            arguments["include_all_metadata"] = True
        cursor = ""
        while True:
            page = await self._api.read(method, {**arguments, "cursor": cursor} if cursor else arguments)
            for raw in objects_at(page, key):
                yield raw
            previous, cursor = cursor, text_at(object_at(page, "response_metadata"), "next_cursor")
            if not cursor:
                return
            if cursor == previous:
                raise Unavailable("Slack returns the same page repeatedly.")


def _identity(answer: JsonObject) -> Me:
    return Me(
        team=text_at(answer, "team_id"),
        user_id=text_at(answer, "user_id"),
        bot_id=text_at(answer, "bot_id"),
        url=text_at(answer, "url"),
        enterprise=text_at(answer, "enterprise_id"),
    )


def _channel_type(info: JsonObject) -> ChannelType:
    if info.get("is_im") is True:
        return ChannelType.DM
    return ChannelType.GROUP if info.get("is_mpim") is True else ChannelType.CHANNEL
