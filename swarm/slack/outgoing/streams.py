"""Streamed answers in Slack: messages that grow while people read them, and the status line.

Every message is a stream of chunks or, if Slack does not support streams, a post with updates. A stream cannot switch
between text and chunks. Each call is made once, and its outcome is reported exactly; the answer's owner decides about
repeating.

Posts, updates and closed streams carry Swarm's key in their metadata, as deliveries do; an open stream cannot.
https://docs.slack.dev/reference/methods/chat.startStream
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from typing import Final, assert_never

from swarm.clock import slack_ts_to_us, us_to_slack_ts
from swarm.domain.answers.calls import (
    AnswerTarget,
    AppendStream,
    Chunk,
    CloseStream,
    OpenStream,
    PostPage,
    SessionState,
    Slot,
    StreamCall,
    UpdatePage,
)
from swarm.domain.answers.state import text_of
from swarm.domain.errors import RefusedBySlack
from swarm.domain.model.deliveries import (
    METADATA_EVENT_TYPE,
    Answer,
    DeliveryAccepted,
    DeliveryRefused,
    InDoubt,
)
from swarm.domain.model.threads import AuthorKind, SlackMessage
from swarm.slack.incoming.fields import JsonObject, object_at, ts_at
from swarm.slack.outgoing.answer_blocks import (
    MAX_UPDATE_CHARACTERS,
    card_blocks,
    closing_blocks,
    cut_text,
    stream_chunks,
    text_blocks,
)
from swarm.slack.outgoing.sessions import Sessions
from swarm.slack.outgoing.web_api import Failure, WebApi

_NO_SUCH_THREAD: Final = frozenset({"thread_not_found", "message_not_found"})

Messages = Callable[[str, str, JsonObject], AsyncIterator[SlackMessage]]
"""Reads all pages of a method in a channel, with additional arguments."""

TakeBack = Callable[[str, str], Awaitable[None]]
"""Deletes one of Swarm's posts, given by channel and timestamp, that appeared outside its thread."""


def _page_key(run_id: str, page: int) -> str:
    """Returns the key of one message of an answer, which takes the place of a delivery's id in its metadata."""
    return f"{run_id}:{page}"


def own_metadata(key: str, agent_name: str) -> JsonObject:
    """Returns the metadata that identifies Swarm's messages: the key and the agent."""
    return {"event_type": METADATA_EVENT_TYPE, "event_payload": {"delivery_id": key, "agent": agent_name}}


class SlackStreams:
    """Slack's streams over the gateway's client, in the sending process."""

    def __init__(self, api: WebApi, messages: Messages, take_back: TakeBack, sessions: Sessions) -> None:
        self._api = api
        self._messages = messages
        self._take_back = take_back
        self.sessions = sessions

    async def acquire_slot(self, slot: Slot, channel: str) -> None:
        """Waits until Slack's rate limits allow a call of this method, in order of arrival, and Slack accepts the
        token.
        """
        await self._api.acquire_turn(slot.value, channel)

    def expected_wait_seconds(self, slot: Slot, channel: str) -> float:
        """Returns how long :meth:`acquire_slot` is expected to wait."""
        return self._api.expected_wait_seconds(slot.value, channel)

    async def call(self, place: AnswerTarget, call: StreamCall) -> Answer:
        """Makes one call, once and immediately, and returns its outcome. DeliveryAccepted names the message.

        A post whose thread is gone is deleted, and reported as refused with ``thread_not_found``.
        """
        match call:
            case OpenStream():
                return await self._open(place, call)
            case AppendStream():
                return await self._append(place, call)
            case CloseStream():
                return await self._change(Slot.CLOSE, place, call.ts, _closing_arguments(place, call))
            case PostPage():
                return await self._post(place, call)
            case UpdatePage():
                return await self._change(Slot.UPDATE, place, call.ts, _page_arguments(place, call))
            case _:
                assert_never(call)

    async def find(
        self, place: AnswerTarget, page: int, after_us: int, known: Container[str], *, is_post: bool = False
    ) -> str | None:
        """Looks up the message that a call with an unknown outcome may have begun (``conversations.replies``).

        The message is later than ``after_us``, a time by Slack's own timestamps, independent of our clock. A post or a
        closed stream is found by its key. An open stream has no key: the newest of Swarm's messages in the thread
        counts, unless it is in ``known`` or has another key or files; with ``is_post`` only the key counts. None means
        that Slack does not have the message now, so callers ask after the call's timeout. Raises RefusedBySlack if
        Slack will never answer, and Unavailable if Slack cannot be reached.
        """
        key = _page_key(place.run_id, page)
        newest: str | None = None
        try:
            async for message in self._replies_after(place, after_us):
                if message.ts in known or message.author.kind is not AuthorKind.AGENT:
                    continue
                if message.delivery_id == key:
                    return message.ts
                if not is_post and message.delivery_id is None and not message.files:
                    newest = max(newest or message.ts, message.ts, key=slack_ts_to_us)
        except RefusedBySlack as refused:
            if refused.slack_code not in _NO_SUCH_THREAD:
                raise
        return newest

    async def status(self, place: AnswerTarget, text: str, *, session: SessionState = SessionState.PROCESSING) -> bool:
        """Shows a status; see `Sessions.status`."""
        return await self.sessions.status(place, text, session=session)

    @property
    def shows_stop(self) -> bool:
        """Whether Slack shows its own Stop button while an answer grows, as far as known."""
        return self.sessions.shows_stop

    async def _open(self, place: AnswerTarget, call: OpenStream) -> Answer:
        answer = await self._send(Slot.OPEN, place, _opening_arguments(place, call))
        return answer if isinstance(answer, Failure) else _begun(answer)

    async def _append(self, place: AnswerTarget, call: AppendStream) -> Answer:
        chunks = stream_chunks(call.chunks, call.before)
        if not chunks:  # Slack refuses an append without content
            return DeliveryAccepted(ts=call.ts, thread_ts=place.thread_ts)
        return await self._change(Slot.APPEND, place, call.ts, {"chunks": chunks})

    async def _post(self, place: AnswerTarget, call: PostPage) -> Answer:
        answer = await self._send(Slot.POST, place, _post_arguments(place, call))
        if isinstance(answer, Failure):
            return answer
        posted = _begun(answer)
        is_stray = bool(place.thread_ts) and not ts_at(object_at(answer, "message"), "thread_ts")
        if isinstance(posted, DeliveryAccepted) and posted.ts and is_stray:
            await self._take_back(place.channel, posted.ts)
            return DeliveryRefused(error="thread_not_found")
        return posted

    async def _change(self, slot: Slot, place: AnswerTarget, ts: str, arguments: JsonObject) -> Answer:
        answer = await self._send(slot, place, {"ts": ts, **arguments})
        return answer if isinstance(answer, Failure) else DeliveryAccepted(ts=ts, thread_ts=place.thread_ts)

    async def _send(self, slot: Slot, place: AnswerTarget, arguments: JsonObject) -> JsonObject | Failure:
        return await self._api.call(slot.value, {"channel": place.channel, **arguments})

    async def _replies_after(self, place: AnswerTarget, after_us: int) -> AsyncIterator[SlackMessage]:
        """Yields the replies without the root, which is on every page and may be Swarm's own; in a flat direct message
        the messages outside threads.
        """
        where: dict[str, object] = {"oldest": us_to_slack_ts(after_us)}
        if place.thread_ts:
            where["ts"] = place.thread_ts
        method = "conversations.replies" if place.thread_ts else "conversations.history"
        async for message in self._messages(method, place.channel, where):
            if message.ts != place.thread_ts and slack_ts_to_us(message.ts) > after_us:
                yield message


def _begun(answer: JsonObject) -> Answer:
    ts = ts_at(answer, "ts")
    if ts is None:
        return InDoubt(reason="Slack's answer has no timestamp")
    return DeliveryAccepted(ts=ts, thread_ts=ts_at(object_at(answer, "message"), "thread_ts"))


def _opening_arguments(place: AnswerTarget, call: OpenStream) -> JsonObject:
    arguments: dict[str, object] = {"thread_ts": place.thread_ts, "task_display_mode": place.display.value}
    if place.requester:  # required in channels
        arguments |= {"recipient_user_id": place.requester, "recipient_team_id": place.team}
    return arguments | _with_chunks(call.chunks)


def _closing_arguments(place: AnswerTarget, call: CloseStream) -> JsonObject:
    blocks = closing_blocks(call.closing, place)
    before = call.text.removesuffix(text_of(call.chunks))
    arguments = _with_chunks(call.chunks, before) | ({"blocks": blocks} if blocks else {})
    return arguments | {"metadata": own_metadata(_page_key(place.run_id, call.page), place.agent_name)}


def _with_chunks(chunks: Sequence[Chunk], before: str = "") -> dict[str, object]:
    """Returns the ``chunks`` argument; left out for an empty list, which Slack refuses."""
    given = stream_chunks(chunks, before)
    return {"chunks": given} if given else {}


def _page_arguments(place: AnswerTarget, page: PostPage | UpdatePage) -> dict[str, object]:
    """Returns the arguments of a complete message. Notifications and readers of the history get its plain text."""
    limit = MAX_UPDATE_CHARACTERS if isinstance(page, UpdatePage) else len(page.text)
    blocks = [*card_blocks(page.cards, place.display), *text_blocks(page.text), *closing_blocks(page.closing, place)]
    return {
        "text": cut_text(page.text, limit) if page.text.strip() else _instead_of_text(place, page),
        "blocks": blocks,
        "metadata": own_metadata(_page_key(place.run_id, page.page), place.agent_name),
    }


def _instead_of_text(place: AnswerTarget, page: PostPage | UpdatePage) -> str:
    """Returns a notification text for a message without text."""
    doing = page.cards[-1].title if page.cards else ""
    return cut_text(page.closing.note or doing or place.agent_name, MAX_UPDATE_CHARACTERS)


def _post_arguments(place: AnswerTarget, page: PostPage) -> JsonObject:
    quiet = {"unfurl_links": False, "unfurl_media": False}
    where = {"thread_ts": place.thread_ts} if place.thread_ts else {}
    return {**where, **_page_arguments(place, page), **quiet}
