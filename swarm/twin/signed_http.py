"""Delivery of events to an app's request URL, signed as Slack signs.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

import asyncio
import hashlib
import hmac
import time

import aiohttp
import orjson

from swarm.twin.clock import Clock
from swarm.twin.events import Event
from swarm.twin.people import App
from swarm.twin.socket_mode import ACK_SECONDS, Retry

# Why an attempt failed -> what Slack calls it in X-Slack-Retry-Reason.
_REASONS = {"timeout": "http_timeout", "connection_failed": "connection_failed"}


class SignedHttp:
    """Posts events and takes a 2xx answer within three seconds as the acknowledgement."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def send(self, app: App, event: Event, retry: Retry, *, ignore_ack: bool = False) -> str | None:
        """Deliver once. Returns None when acknowledged, else `timeout`, `connection_failed` or `http_STATUS`.

        `X-Slack-No-Retry: 1` in the answer counts as an acknowledgement, for the app wants no further attempt.
        """
        request = asyncio.create_task(self._post(app, event, retry))
        expiry = asyncio.create_task(self._clock.sleep(ACK_SECONDS))
        done, _ = await asyncio.wait((request, expiry), return_when=asyncio.FIRST_COMPLETED)
        expiry.cancel()
        if request not in done:
            request.cancel()
            return "timeout"
        return "timeout" if ignore_ack else request.result()

    async def _post(self, app: App, event: Event, retry: Retry) -> str | None:
        body = orjson.dumps(event.payload)
        headers = _signature(app.signing_secret, body, int(time.time())) | _retry_headers(retry)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                app.request_url or "", data=body, headers=headers, allow_redirects=False
            ) as answer:
                if answer.status < 300 or answer.headers.get("X-Slack-No-Retry") == "1":
                    return None
                return f"http_{answer.status}"
        except (aiohttp.ClientError, OSError, ValueError):
            return "connection_failed"

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _signature(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """Signatures use wall time: the receiver compares them with its own clock."""
    digest = hmac.new(secret.encode(), b"v0:%d:%s" % (timestamp, body), hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Slack-Request-Timestamp": str(timestamp),
        "X-Slack-Signature": f"v0={digest}",
    }


def _retry_headers(retry: Retry) -> dict[str, str]:
    if retry.attempt == 0:
        return {}
    reason = _REASONS.get(retry.reason, "http_error")
    return {"X-Slack-Retry-Num": str(retry.attempt), "X-Slack-Retry-Reason": reason}
