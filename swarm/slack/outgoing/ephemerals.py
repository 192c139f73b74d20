"""Messages that only one person sees: posted, and replaced by the answer to a press of their buttons.

https://docs.slack.dev/reference/methods/chat.postEphemeral,
https://docs.slack.dev/interactivity/handling-user-interaction#message_responses
"""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
import structlog
from slack_sdk.webhook.async_client import AsyncWebhookClient

from swarm.domain.errors import Unavailable
from swarm.slack.incoming.fields import JsonObject
from swarm.slack.outgoing.web_api import RefusedBySlack, WebApi

_log = structlog.get_logger(__name__)


async def whisper(
    api: WebApi,
    channel: str,
    user_id: str,
    text: str,
    thread_ts: str | None = None,
    blocks: Sequence[JsonObject] = (),
) -> None:
    """Shows a text, or blocks, to one person at most once. A failure is logged."""
    arguments: dict[str, object] = {"channel": channel, "user": user_id, "text": text}
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
    seconds = max(1, int(api.timeout_seconds))
    client = AsyncWebhookClient(response_url, timeout=seconds, proxy=api.client.proxy, retry_handlers=[])
    try:
        answer = await client.send(text=text, replace_original=True)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        _log.warning("a message was not replaced", action="slack_response_failed", error=type(error).__name__)
        return False
    if answer.status_code != 200:
        _log.warning("a message was not replaced", action="slack_response_failed", error=answer.body[:200])
    return answer.status_code == 200
