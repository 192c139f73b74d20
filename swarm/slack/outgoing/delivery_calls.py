"""Converts deliveries to Slack calls: method, arguments, and the errors of repeated calls."""

from __future__ import annotations

import uuid
from typing import Final

from swarm.domain.model.deliveries import Delivery, DeliveryKind, DeliveryRefused
from swarm.domain.policy.access import Me
from swarm.slack.outgoing import sessions
from swarm.slack.outgoing.answer_blocks import (
    MAX_UPDATE_CHARACTERS,
    closing_blocks,
    cut_text,
    drop_request_block,
    stop_run_block,
    stop_task_block,
    text_blocks,
)
from swarm.slack.outgoing.request_cards import request_blocks, request_text
from swarm.slack.outgoing.streams import own_metadata
from swarm.slack.outgoing.web_api import Failure

_CLOCKS_APART_SECONDS: Final = 600  # possible clock skew from Slack; a lookup begins this much earlier

_METHODS: Final = {
    DeliveryKind.POST: "chat.postMessage",
    DeliveryKind.UPDATE: "chat.update",
    DeliveryKind.DELETE: "chat.delete",
    DeliveryKind.REACTION: "reactions.add",
    DeliveryKind.TITLE: sessions.TITLE,
    DeliveryKind.PROMPTS: sessions.PROMPTS,
}
_REMOVE_REACTION: Final = "reactions.remove"
_DONE_ALREADY: Final = {
    "chat.delete": "message_not_found",
    "reactions.add": "already_reacted",
    _REMOVE_REACTION: "no_reaction",
}
"""The error by which Slack reports, for each method, that the effect already exists."""


def method_of(delivery: Delivery) -> str:
    """Returns the method of a delivery's call."""
    if delivery.removes and delivery.kind is DeliveryKind.REACTION:
        return _REMOVE_REACTION
    return "chat.postEphemeral" if delivery.person else _METHODS[delivery.kind]


def was_done_before(delivery: Delivery, failure: Failure) -> bool:
    """Returns whether Slack refused a call because its effect already exists."""
    return failure == DeliveryRefused(error=_DONE_ALREADY.get(method_of(delivery), ""))


def content(delivery: Delivery, me: Me | None = None) -> dict[str, object]:
    """Returns the text as a Markdown block, or the card of a request, with plain text for notifications."""
    if delivery.request:
        where = asked_in_text(me, *delivery.asked_in) if delivery.asked_in else ""
        return {"text": request_text(delivery.request), "blocks": request_blocks(delivery.request, where)}
    blocks = text_blocks(delivery.text)
    if delivery.stops_task_id:
        blocks.append(stop_task_block(delivery.stops_task_id))
    if delivery.stops_run_id:
        blocks.append(stop_run_block(delivery.stops_run_id))
    if delivery.drops_request_id:
        blocks.append(drop_request_block(delivery.drops_request_id))
    if delivery.closing and delivery.place:
        blocks += closing_blocks(delivery.closing, delivery.place)
    is_update = delivery.kind is DeliveryKind.UPDATE
    return {"text": cut_text(delivery.text, MAX_UPDATE_CHARACTERS) if is_update else delivery.text, "blocks": blocks}


def asked_in_text(me: Me | None, channel: str, thread_ts: str) -> str:
    """Returns where a request was asked, with a link, as mrkdwn."""
    where = "In a direct message" if channel.startswith("D") else f"In <#{channel}>"
    return f"{where} · <{me.link(channel, thread_ts)}|open the thread>" if me and me.url else where


def post_arguments(delivery: Delivery, me: Me | None = None) -> dict[str, object]:
    """Returns the arguments of a post, with Swarm's key in its metadata."""
    arguments: dict[str, object] = {
        **content(delivery, me),
        "metadata": own_metadata(delivery.id, delivery.agent_name or ""),
        "unfurl_links": False,
        "unfurl_media": False,
    }
    if delivery.thread_ts:
        arguments |= {"thread_ts": delivery.thread_ts, "reply_broadcast": delivery.broadcast}
    return arguments


def oldest_post(delivery: Delivery) -> str | None:
    """Returns the time from which the channel itself is searched for a post. The post is there only if its thread's
    root is gone.

    Swarm's ids contain their time of creation, by our clock. For any other id the search begins at the start.
    """
    try:
        made = uuid.UUID(delivery.id)
    except ValueError:
        return None
    if made.version != 7:
        return None
    milliseconds = made.int >> 80
    return f"{max(milliseconds // 1000 - _CLOCKS_APART_SECONDS, 0)}.000000"
