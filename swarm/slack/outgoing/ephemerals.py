"""Messages that only one person sees: posted, and replaced by the answer to a press of their buttons.

https://docs.slack.dev/reference/methods/chat.postEphemeral,
https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.block_parts import with_dates
from swarm.slack.outgoing.web_api import WebApi

MOST_A_MINUTE: Final = 10
SLOW_TEXT: Final = "You have pressed too many buttons. Try again in a minute."

_MINUTE: Final = 60.0
_REMEMBERED: Final = 10_000

_log = structlog.get_logger(__name__)


class PrivateAnswers:
    """Limits what a person is shown for presses: `MOST_A_MINUTE` texts a minute, and then one that asks for patience.

    Each process counts for itself.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._counts: dict[str, tuple[float, int]] = {}  # the begin of the person's minute, and the texts since then

    def next(self, user_id: str, text: str) -> str | None:
        """Returns the text to show to a person; None for nothing."""
        now = self._seconds()
        begin, count = self._counts.pop(user_id, (now, 0))
        if now - begin >= _MINUTE:
            begin, count = now, 0
        if len(self._counts) >= _REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[user_id] = (begin, count + 1)
        return text if count < MOST_A_MINUTE else SLOW_TEXT if count == MOST_A_MINUTE else None


async def whisper(
    api: WebApi,
    channel: str,
    user_id: str,
    text: str,
    thread_ts: str | None = None,
    blocks: Sequence[JsonObject] = (),
) -> None:
    """Shows a text, or blocks, to one person at most once. A failure is logged."""
    arguments: dict[str, object] = {"channel": channel, "user": user_id, "text": with_dates(text)}
    if thread_ts:
        arguments["thread_ts"] = thread_ts
    if blocks:
        arguments["blocks"] = list(blocks)
    try:
        await api.read("chat.postEphemeral", arguments)
    except (Unavailable, RefusedBySlack) as error:
        _log.warning("a person could not be notified", action="whisper", channel=channel, error=str(error))


async def replace(api: WebApi, response_url: str, text: str) -> bool:
    """Replaces the ephemeral message of a response URL by a text. Returns whether Slack did; a failure is logged.

    ``chat.update`` does not reach ephemeral messages.
    """
    failure = await api.respond(response_url, {"text": with_dates(text), "replace_original": True})
    if failure is not None:
        _log.warning("a message was not replaced", action="slack_response_failed", error=repr(failure))
    return failure is None
