"""Delivery to an app's request URL, with Slack's signatures.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import asyncio
import hashlib
import hmac
import time

import aiohttp

from slack_twin.arguments import loads
from slack_twin.clock import Clock
from slack_twin.envelopes import Envelope, Parcel, Reply, http_body
from slack_twin.people import App
from slack_twin.socket_mode import ACK_SECONDS, Retry

_MAX_ANSWER_BYTES = 1024 * 1024
# Slack's X-Slack-Retry-Reason for each kind of failure.
_REASONS = {"timeout": "http_timeout", "connection_failed": "connection_failed"}


class SignedHttp:
    """Posts parcels. A 2xx response within three seconds is the acknowledgement."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def send(self, app: App, parcel: Parcel, retry: Retry, *, ignore_ack: bool = False) -> Reply:
        """Makes one delivery attempt. The errors are `timeout`, `connection_failed` and `http_STATUS`.

        The header `X-Slack-No-Retry: 1` in the response counts as an acknowledgement, because the app wants no more
        attempts.
        """
        request = asyncio.create_task(self._post(app, parcel, retry))
        expiry = asyncio.create_task(self._clock.sleep(ACK_SECONDS))
        done, _ = await asyncio.wait((request, expiry), return_when=asyncio.FIRST_COMPLETED)
        expiry.cancel()
        if request not in done:
            request.cancel()
            return Reply(error="timeout")
        return Reply(error="timeout") if ignore_ack else request.result()

    async def _post(self, app: App, parcel: Parcel, retry: Retry) -> Reply:
        body, content_type = http_body(parcel)
        headers = _signature(app.signing_secret, body, int(time.time())) | _retry_headers(retry)
        headers["Content-Type"] = content_type
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                address_of(app, parcel) or "", data=body, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status < 300 or answer.headers.get("X-Slack-No-Retry") == "1":
                    return Reply(body=_said(await answer.content.read(_MAX_ANSWER_BYTES)))
                return Reply(error=f"http_{answer.status}")
        except (aiohttp.ClientError, OSError, ValueError):
            return Reply(error="connection_failed")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def address_of(app: App, parcel: Parcel) -> str | None:
    """Returns the URL for a parcel; None for an app that uses Socket Mode."""
    match parcel.envelope:
        case Envelope.EVENTS_API:
            return app.request_url
        case Envelope.SLASH_COMMANDS:
            named = (one.url for one in app.commands if one.name == parcel.payload.get("command"))
            return next(named, None) or app.request_url
        case Envelope.INTERACTIVE:
            options_url = app.options_url if parcel.type == "block_suggestion" else None
            return options_url or app.interactivity_url or app.request_url


def _said(answer: bytes) -> object:
    """Returns the content of a response: JSON, or plain text as the text of a message."""
    text = answer.decode("utf-8", errors="replace").strip()
    if not text:
        return None
    try:
        return loads(text)
    except ValueError:
        return {"text": text}


def _signature(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """Returns the signature headers. They use wall time, because the receiver compares it with its own clock."""
    digest = hmac.new(secret.encode(), b"v0:%d:%s" % (timestamp, body), hashlib.sha256).hexdigest()
    return {
        "X-Slack-Request-Timestamp": str(timestamp),
        "X-Slack-Signature": f"v0={digest}",
    }


def _retry_headers(retry: Retry) -> dict[str, str]:
    if retry.attempt == 0:
        return {}
    reason = _REASONS.get(retry.reason, "http_error")
    return {"X-Slack-Retry-Num": str(retry.attempt), "X-Slack-Retry-Reason": reason}
