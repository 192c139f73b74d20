"""Makes single calls to Slack: waits for a rate slot, uses the connection, and classifies the outcome of a failed call.

The outcome depends on whether the call had an effect. *Refused* means that it permanently had none; *NotSent* means
that it had none, but a retry may succeed; *InDoubt* means that this is unknown. A false "no effect" would repeat a
post, so all uncertain cases are InDoubt.
"""

from __future__ import annotations

import ipaddress
import logging
import math
import time
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import Clock
from slack_sdk.web.async_client import AsyncWebClient

from swarm.clock import SECOND, SystemClock
from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.domain.model.deliveries import (
    ACCESS_CODES,
    MISSING_SCOPE,
    TOKEN_CODES,
    DeliveryRefused,
    InDoubt,
    NotSent,
)
from swarm.domain.watchers import NO_WATCHERS, SlackCall, Watcher
from swarm.slack.incoming.fields import EMPTY, JsonObject, is_object
from swarm.slack.outgoing.pacing import Pacing
from swarm.slack.outgoing.refused_token import PROBE_SECONDS, RefusedToken

RETRY_SECONDS: Final = 1.0
"""The pause before a retry if Slack does not request one; the sender may wait longer after several attempts."""

_LONGEST_PAUSE_SECONDS: Final = 3600.0

RATE_LIMITED: Final = frozenset({"ratelimited", "rate_limited"})
_NOT_NOW: Final = frozenset({"team_added_to_org"})  # "being migrated, try again later"
_FAILED_INSIDE: Final = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})

RESPONSE_HOST: Final = "hooks.slack.com"
"""The host of response URLs."""

Failure = DeliveryRefused | NotSent | InDoubt
_POSTS: Final = frozenset({"chat.postMessage", "chat.startStream"})

CALL_ERRORS: Final = (
    SlackApiError,
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    # slack_sdk expects a JSON object and raises these for any other response.
    AttributeError,
    TypeError,
    ValueError,
)
"""All errors of a call through slack_sdk, except cancellation."""


def _failure(error: Exception) -> Failure:
    """Returns the outcome for an exception in :data:`CALL_ERRORS`."""
    if isinstance(error, SlackApiError):
        return _refusal(error)
    if _never_left(error):
        return NotSent(reason=_name(error), retry_after_seconds=RETRY_SECONDS)
    return InDoubt(reason=_name(error))


def _is_rate_limit(error: Exception) -> bool:
    """Returns whether Slack refused the call because of a rate limit."""
    return isinstance(error, SlackApiError) and (_status(error) == 429 or _error_code(error) in RATE_LIMITED)


def _error_code(error: SlackApiError) -> str | None:
    """Returns Slack's own code, such as ``channel_not_found``; None for a response from another source."""
    data = getattr(error.response, "data", None)
    code = data.get("error") if isinstance(data, dict) else None
    return code if isinstance(code, str) and code else None


def _refusal(error: SlackApiError) -> Failure:
    code, status = _error_code(error), _status(error)
    if _is_rate_limit(error):
        return NotSent(reason="ratelimited", retry_after_seconds=_retry_after_seconds(error))
    if status >= 500 or code is None:
        return InDoubt(reason=code or f"HTTP status {status}")
    if code in _FAILED_INSIDE:
        return InDoubt(reason=code)
    if code in _NOT_NOW:
        return NotSent(reason=code, retry_after_seconds=RETRY_SECONDS)
    return DeliveryRefused(error=code)


def _never_left(error: Exception) -> bool:
    """Returns whether the request was never sent: unknown name, refused connection, no handshake, or an unusable
    address.
    """
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
    """Returns the HTTP status. slack_sdk attaches its own response, or aiohttp's if the body is unreadable."""
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


_IDENTITY: Final = "auth.test"

READ_ATTEMPTS: Final = 5
"""How many consecutive rate limits a read waits out."""

_TAKES_JSON: Final = frozenset(
    {
        "agents.sessions.rename",
        "agents.sessions.setStatus",
        "apps.connections.open",
        "assistant.threads.setStatus",
        "assistant.threads.setSuggestedPrompts",
        "assistant.threads.setTitle",
        "auth.test",
        "chat.appendStream",
        "chat.delete",
        "chat.postEphemeral",
        "chat.postMessage",
        "chat.startStream",
        "chat.stopStream",
        "chat.update",
        "reactions.add",
        "reactions.remove",
        "views.open",
        "views.publish",
        "views.update",
    }
)
"""Slack accepts JSON only for writing methods; most others take their arguments from the query."""

_TAKES_FORM: Final = frozenset({"files.completeUploadExternal", "files.getUploadURLExternal"})
"""Methods whose arguments may be too long for a query."""


class SlackClock(Clock):
    """Slack's time, according to its last response. Our own clock may be an hour off or may be changed."""

    def __init__(self) -> None:
        self._noted: tuple[str, float] | None = None

    def note(self, date: str | None) -> None:
        """Records the ``Date`` header of a response."""
        if date:
            self._noted = date, self._elapsed()

    def now(self) -> float:
        """Returns seconds since 1970; by our own clock until Slack's time is known."""
        if self._noted is None:
            return time.time()
        date, noted_at = self._noted
        try:
            return parsedate_to_datetime(date).timestamp() + self._elapsed() - noted_at
        except ValueError:
            return time.time()

    def _elapsed(self) -> float:
        return SystemClock().elapsed_us() / SECOND


class WebApi:
    """Slack's Web API over slack_sdk's client, without its retries, which would repeat a post whose response
    was lost.
    """

    def __init__(
        self,
        token: str,
        *,
        base_url: str,
        timeout_seconds: float,
        pacing: Pacing,
        watcher: Watcher = NO_WATCHERS,
        probe_seconds: float = PROBE_SECONDS,
    ) -> None:
        self._watcher = watcher
        self._pacing = pacing
        self.timeout_seconds = timeout_seconds
        self.client = AsyncWebClient(token, base_url=base_url, retry_handlers=[], logger=_logger())
        if _reached_directly(self.client.base_url):
            self.client.proxy = None
        self.clock = SlackClock()
        self.scopes: frozenset[str] | None = None  # of the bot's token; None until Slack has told them
        self.refused_token = RefusedToken(self._probe, probe_seconds)
        self.posted_at: float | None = None  # when Slack last took a post, on the monotonic clock
        self.refused: dict[str, str] = {}  # other codes that concern the app, by method or channel
        self._closed = False

    async def close(self) -> None:
        """Closes the connections. Later calls raise RuntimeError."""
        self._closed = True
        await self.refused_token.close()
        if self.client.session is not None:
            await self.client.session.close()

    async def acquire_slot(self, method: str, channel: str | None = None) -> None:
        """Waits until Slack's rate limits allow a call of ``method``."""
        await self._pacing.acquire_slot(method, channel)

    async def acquire_turn(self, method: str, channel: str | None = None) -> None:
        """Like :meth:`acquire_slot`, and waits as long as Slack refuses the token."""
        is_free = False
        while not is_free:  # those that were held together must not all be sent at once
            await self.refused_token.accepted()
            await self.acquire_slot(method, channel)
            is_free = self.refused_token.code is None

    def expected_wait_seconds(self, method: str, channel: str | None = None) -> float:
        """Returns how long :meth:`acquire_slot` is expected to wait."""
        return self._pacing.expected_wait_seconds(method, channel)

    async def call(self, method: str, arguments: Mapping[str, object]) -> JsonObject | Failure:
        """Makes a call immediately, in an acquired slot. Returns Slack's response, or the outcome of a failed call.

        An argument ``token`` replaces the bot's token. While Slack refuses the bot's token no call is made with it.
        """
        if self.refused_token.code and "token" not in arguments:
            return NotSent(reason=self.refused_token.code, retry_after_seconds=RETRY_SECONDS)
        return self._judged(method, arguments, await self._called(method, arguments))

    async def _called(self, method: str, arguments: Mapping[str, object]) -> JsonObject | Failure:
        self._open_session()
        begun = time.perf_counter()
        answer = await self._answer(method, arguments)
        if method in _POSTS and not isinstance(answer, Failure):
            self.posted_at = time.monotonic()
        seconds = time.perf_counter() - begun
        self._watcher.slack_called(SlackCall(method=method, result=_result(answer), seconds=seconds))
        return answer

    def _judged(
        self, method: str, arguments: Mapping[str, object], answer: JsonObject | Failure
    ) -> JsonObject | Failure:
        """Notes a refusal that concerns the app. A refused token makes no call fail."""
        code = answer.error if isinstance(answer, DeliveryRefused) else ""
        if "token" in arguments or method == _IDENTITY:
            return answer
        if code in TOKEN_CODES:
            self.refused_token.refuse(code)
            return NotSent(reason=code, retry_after_seconds=RETRY_SECONDS)
        channel = str(arguments.get("channel") or arguments.get("channel_id") or "")
        for subject, codes in ((method, {MISSING_SCOPE}), (channel, ACCESS_CODES)):
            if code in codes:
                self.refused[subject] = code
            elif not isinstance(answer, Failure):
                self.refused.pop(subject, None)
        return answer

    async def _probe(self) -> str | None:
        """Asks Slack about the token, see `RefusedToken`."""
        match await self._called(_IDENTITY, {}):
            case DeliveryRefused(error=code):
                return code
            case NotSent() | InDoubt():
                return ""
            case _:
                return None

    async def _answer(self, method: str, arguments: Mapping[str, object]) -> JsonObject | Failure:
        try:
            return await self._send(method, arguments)
        except CALL_ERRORS as error:
            outcome = _failure(error)
            if isinstance(outcome, NotSent) and _is_rate_limit(error):
                channel = arguments.get("channel")
                self._pacing.pause(method, outcome.retry_after_seconds, channel if isinstance(channel, str) else None)
            return outcome

    async def read(self, method: str, arguments: Mapping[str, object]) -> JsonObject:
        """Returns Slack's response to a call that changes nothing, after waiting out rate limits.

        Raises RefusedBySlack, or Unavailable if Slack cannot be reached.
        """
        for _ in range(READ_ATTEMPTS):
            await self.acquire_slot(method)
            answer = await self.call(method, arguments)
            match answer:
                case NotSent(reason="ratelimited"):
                    continue  # the next slot becomes available after the pause
                case DeliveryRefused(error=code):
                    raise RefusedBySlack(code)
                case NotSent(reason=reason) | InDoubt(reason=reason):
                    raise Unavailable(f"Slack did not answer {method}: {reason}.")
                case _:
                    return answer
        raise Unavailable(f"Slack refused {method} {READ_ATTEMPTS} times because of rate limits.")

    async def respond(self, response_url: str, message: Mapping[str, object]) -> Failure | None:
        """Posts a message to a response URL, immediately. Returns the outcome of a failure, None if Slack took it.

        Only Slack's own host is called, because the URL comes from a payload.
        """
        if not _is_slacks(response_url, self.client.base_url):
            return DeliveryRefused(error="not_slacks_url")
        self._open_session()
        assert self.client.session is not None
        try:
            async with self.client.session.post(
                response_url, json=dict(message), proxy=self.client.proxy, allow_redirects=False
            ) as answer:
                if answer.status == 429:
                    return NotSent(reason="ratelimited", retry_after_seconds=RETRY_SECONDS)
                return None if answer.ok else DeliveryRefused(error=f"HTTP status {answer.status}")
        except CALL_ERRORS as error:
            return _failure(error)

    async def _send(self, method: str, arguments: Mapping[str, object]) -> JsonObject:
        if method in _TAKES_JSON:
            answer = await self.client.api_call(method, json=dict(arguments))  # a copy: slack_sdk removes the token
        elif method in _TAKES_FORM:
            answer = await self.client.api_call(method, data=dict(arguments))
        else:
            answer = await self.client.api_call(method, http_verb="GET", params=dict(arguments))
        self.clock.note(answer.headers.get("Date"))
        scopes = answer.headers.get("x-oauth-scopes")
        if scopes and "token" not in arguments:
            self.scopes = frozenset(scope.strip() for scope in scopes.split(","))
        return answer.data if is_object(answer.data) else EMPTY

    def _open_session(self) -> None:
        """Opens the session. All calls share one session, which keeps connections open; creating it requires a running
        event loop.
        """
        if self._closed:
            raise RuntimeError("The gateway to Slack is closed.")
        if self.client.session is None:
            timeout = aiohttp.ClientTimeout(total=self.timeout_seconds, connect=self.timeout_seconds / 2)
            self.client.session = aiohttp.ClientSession(timeout=timeout)


def _result(answer: JsonObject | Failure) -> str:
    """Returns the outcome of a call as one word for metrics."""
    match answer:
        case DeliveryRefused():
            return "refused"
        case NotSent(reason=reason):
            return "ratelimited" if reason == "ratelimited" else "not_sent"
        case InDoubt():
            return "in_doubt"
        case _:
            return "ok"


def _reached_directly(url: str) -> bool:
    """Returns whether to ignore the environment's proxy settings; slack_sdk does not check this."""
    host = urlsplit(url).hostname or ""
    return _is_loopback(host) or bool(urllib.request.proxy_bypass(host))


def _is_slacks(response_url: str, base_url: str) -> bool:
    """Returns whether a response URL belongs to Slack, or to the server that is used in its place."""
    url, base = urlsplit(response_url), urlsplit(base_url)
    if url.scheme == "https" and url.hostname == RESPONSE_HOST:
        return True
    return (url.scheme, url.netloc) == (base.scheme, base.netloc)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _logger() -> logging.Logger:
    """Returns a logger with its own level. Otherwise slack_sdk would format every debug line unnecessarily."""
    logger = logging.getLogger("swarm.slack.sdk")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    return logger
