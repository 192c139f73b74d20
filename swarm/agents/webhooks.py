"""The HTTP client that calls other services: one attempt, no redirects, and an answer that is only looked at."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from swarm.domain.model.webhooks import WebhookAccepted, WebhookAnswer, WebhookPostponed, WebhookRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

TIMEOUT_SECONDS: Final = 10.0
"""The time limit for one call."""

_LATER: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""Statuses below 500 of a service that may accept the same call later."""


class HttpWebhookClient:
    """A client for any number of services. The connection is closed after each call."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Posts a JSON body, once. Never fails."""
        # Most installations call no service, and the library takes a while to load.
        import httpx2

        from swarm.agents.http import open_client

        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), open_client([url]) as client:
                all_headers = {**headers, "Content-Type": "application/json"}
                async with client.stream("POST", url, content=body, headers=all_headers) as response:
                    return _answer(response)
        except TimeoutError:
            return WebhookPostponed(reason=f"it did not answer within {TIMEOUT_SECONDS:.0f} s")
        except (httpx2.HTTPError, OSError) as error:
            return WebhookPostponed(reason=f"it could not be reached ({type(error).__name__})")
        except (httpx2.InvalidURL, ValueError) as error:
            return WebhookRefused(reason=f"its address cannot be used ({type(error).__name__})")


def _answer(response: httpx2.Response) -> WebhookAnswer:
    status = response.status_code
    reason = f"it answered with HTTP {status}"
    if response.is_success:
        return WebhookAccepted()
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return WebhookPostponed(reason=reason, retry_after_seconds=_retry_after(response.headers.get("Retry-After")))
    return WebhookRefused(reason=reason)


def _retry_after(value: str | None) -> float:
    """Returns the seconds of a Retry-After header, which has seconds or a date; 0 for another value."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value)) if value.isdigit() else _seconds_until(parsedate_to_datetime(value))
    except (ValueError, TypeError):
        return 0.0


def _seconds_until(moment: datetime) -> float:
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())
