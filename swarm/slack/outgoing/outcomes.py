"""The outcome of a failed call to Slack, for its sender: the one table of errors.

The question is always whether the call had an effect. *Refused* means no, for good; *NotSent* means no, but a retry may
succeed; *InDoubt* means unknown. A wrong "no" repeats a post, so all uncertain cases are InDoubt.
"""

from __future__ import annotations

import math
from typing import Final

import aiohttp
from slack_sdk.errors import SlackApiError

from swarm.domain.model.deliveries import DeliveryRefused, InDoubt, NotSent

RETRY_SECONDS: Final = 1.0
"""The pause before a retry if Slack names none; the sender may wait longer after several attempts."""

_LONGEST_PAUSE_SECONDS: Final = 3600.0

RATE_LIMITED: Final = frozenset({"ratelimited", "rate_limited"})
_NOT_NOW: Final = frozenset({"team_added_to_org"})  # "being migrated, try again later"
_FAILED_INSIDE: Final = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})

Failure = DeliveryRefused | NotSent | InDoubt

CALL_ERRORS: Final = (
    SlackApiError,
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    # slack_sdk expects a JSON object and raises these for any other answer.
    AttributeError,
    TypeError,
    ValueError,
)
"""All errors of a call through slack_sdk, apart from cancellation."""


def failure(error: Exception) -> Failure:
    """The outcome of an exception of :data:`CALL_ERRORS`."""
    if isinstance(error, SlackApiError):
        return _refusal(error)
    if _never_left(error):
        return NotSent(reason=_name(error), retry_after_seconds=RETRY_SECONDS)
    return InDoubt(reason=_name(error))


def is_rate_limit(error: Exception) -> bool:
    """Whether Slack refused the call for its rate."""
    return isinstance(error, SlackApiError) and (_status(error) == 429 or error_code(error) in RATE_LIMITED)


def error_code(error: SlackApiError) -> str | None:
    """Slack's own code, such as ``channel_not_found``; None for an answer from another source."""
    data = getattr(error.response, "data", None)
    code = data.get("error") if isinstance(data, dict) else None
    return code if isinstance(code, str) and code else None


def _refusal(error: SlackApiError) -> Failure:
    code, status = error_code(error), _status(error)
    if is_rate_limit(error):
        return NotSent(reason="ratelimited", retry_after_seconds=_retry_after_seconds(error))
    if status >= 500 or code is None:
        return InDoubt(reason=code or f"HTTP status {status}")
    if code in _FAILED_INSIDE:
        return InDoubt(reason=code)
    if code in _NOT_NOW:
        return NotSent(reason=code, retry_after_seconds=RETRY_SECONDS)
    return DeliveryRefused(error=code)


def _never_left(error: Exception) -> bool:
    """Whether the request never left: unknown name, refused connection, no handshake, or an unusable address."""
    return isinstance(
        error,
        (
            aiohttp.ClientConnectorError,
            aiohttp.ClientHttpProxyError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.InvalidURL,
        ),
    )


def _status(error: SlackApiError) -> int:
    """The HTTP status: slack_sdk attaches its own response, or aiohttp's for an unreadable body."""
    status = getattr(error.response, "status_code", None) or getattr(error.response, "status", None)
    return status if isinstance(status, int) else 0


def _retry_after_seconds(error: SlackApiError) -> float:
    header = getattr(error.response, "headers", {}).get("Retry-After", "")
    try:
        seconds = float(header)
    except ValueError:
        return RETRY_SECONDS
    return min(max(seconds, 0.0), _LONGEST_PAUSE_SECONDS) if math.isfinite(seconds) else RETRY_SECONDS


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
