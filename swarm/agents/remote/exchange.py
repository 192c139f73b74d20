"""Sends requests to one agent with its credentials, and reads the events of an answer.

The credential is a bearer token, either fixed or from an OAuth2 token service (client credentials,
https://www.rfc-editor.org/rfc/rfc6749#section-4.4). It never reaches a log or a repr. Events are server-sent events:
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, cast
from urllib.parse import quote_plus, urlencode

import httpx2
import structlog
from pydantic import BaseModel, Field, ValidationError

from swarm.agents.failures import (
    BROKE_OFF,
    EVENT_TOO_LARGE,
    NOT_A_STREAM,
    GaveUp,
    Unauthenticated,
    not_finished_within,
    silent_for,
)
from swarm.agents.http import (
    CONNECT_PATIENCE_SECONDS,
    AgentHttpSender,
    AgentRequest,
    insist_on_success,
    open_client,
    whole_body,
)
from swarm.clock import SECOND, MeasuredClock, SystemClock
from swarm.domain.answers.agents import ClientCredentials, RemoteAgent
from swarm_base.redaction import HIDDEN, Redactor

_RENEW_SECONDS: Final = 60
"""A token is not used after this long before its expiry."""

_UNSAID_SECONDS: Final = 300
"""The assumed lifetime of a token if its service does not report one."""

_TOKEN_SECONDS: Final = 15.0
_ANSWER_BYTES: Final = 64 * 1024

_log = structlog.get_logger(__name__)

_LOOK_BYTES: Final = 64 * 1024

EVENT_BYTES: Final = 1024 * 1024
"""The maximum size of an event, and therefore of a line."""

BODY_BYTES: Final = 64 * 1024 * 1024

_EVENTS_AT_A_STRETCH: Final = 50
"""After this many events, other tasks of the process may run, even if more events are waiting."""


_WAYS: Final = ("basic", "body")
_REFUSED: Final = frozenset({400, 401, 403})
_PERHAPS_THE_WAY: Final = frozenset({"", "invalid_client", "invalid_request", "unauthorized_client"})
"""Errors of a service that may expect the credentials in the other place."""

_ERROR_CHARACTERS: Final = 200


class _Grant(BaseModel):
    """The required fields of a token response (RFC 6749, section 5.1)."""

    access_token: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$", repr=False)]
    expires_in: Any = Field(None, repr=False)

    @property
    def seconds(self) -> float:
        """How long the token may be used. A lifetime that is no number counts as not reported."""
        try:
            lifetime = math.nan if isinstance(self.expires_in, bool) else float(self.expires_in)
        except (TypeError, ValueError, OverflowError):
            lifetime = math.nan
        lifetime = _UNSAID_SECONDS if math.isnan(lifetime) else lifetime
        return min(max(lifetime - _RENEW_SECONDS, 0), 365 * 86_400)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    value: str = field(repr=False)
    good_until_us: int  # by the monotonic clock


class _TokenRefused(GaveUp):
    """A refusal by the token service, with its own error."""


class _BearerTokenSource:
    """The bearer token of one agent, shared by all its runs."""

    def __init__(self, agent: RemoteAgent, sender: AgentHttpSender, clock: MeasuredClock) -> None:
        self._agent = agent
        self._sender = sender
        self._elapsed_us = clock.elapsed_us
        self._token: _Token | None = None
        self._ways: tuple[str, ...] = (agent.oauth.auth,) if agent.oauth and agent.oauth.auth else _WAYS
        self._fetching = asyncio.Lock()  # other requests wait, and use the token that the first one fetched

    @property
    def are_renewable(self) -> bool:
        """Returns whether a refused token can be replaced."""
        return self._agent.oauth is not None

    async def headers(self) -> dict[str, str]:
        """Returns the headers to send. Raises GaveUp if a token is required but unavailable."""
        token = await self._renewable(self._agent.oauth) if self._agent.oauth else self._agent.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def forget(self, refused: dict[str, str]) -> None:
        """Discards the token in these headers. A newer token is kept."""
        if self._token and refused.get("Authorization") == f"Bearer {self._token.value}":
            self._token = None

    async def _renewable(self, oauth: ClientCredentials) -> str:
        async with self._fetching:
            if self._token is None or self._elapsed_us() >= self._token.good_until_us:
                self._token = await self._fetch(oauth)
            return self._token.value

    async def _fetch(self, oauth: ClientCredentials) -> _Token:
        asked_at_us = self._elapsed_us()
        try:
            grant = _Grant.model_validate_json(await self._granted(oauth))
        except ValidationError:  # the error's text is omitted because it would repeat the token
            raise self._no_token("sent an invalid response") from None
        except _TokenRefused as error:
            raise self._no_token(error.reason) from error
        except (GaveUp, TimeoutError) as error:
            raise self._no_token(f"gave no token: {str(error) or 'it did not answer in time'}") from error
        return _Token(value=grant.access_token, good_until_us=asked_at_us + int(grant.seconds * SECOND))

    def _no_token(self, why: str) -> GaveUp:
        _log.warning("There is no access token for an agent.", action="agent_token", agent=self._agent.name, why=why)
        return GaveUp(f"the token server {why}", may_still_run=False)

    async def _granted(self, oauth: ClientCredentials) -> bytes:
        """Asks in one way after the other, as services differ in where they expect the credentials (RFC 6749, section
        2.3.1). The way that works is the first from then on.
        """
        errors: list[str] = []
        for way in self._ways:
            async with asyncio.timeout(_TOKEN_SECONDS):
                response = await self._ask(oauth, way)
                if response.status_code not in _REFUSED:
                    await insist_on_success(response, self._agent.name)
                body = await whole_body(response)
            code, text = _error_in(body)
            if response.is_success and not code:
                self._ways = tuple(sorted(self._ways, key=lambda one: one != way))
                return body
            errors.append((text or f"HTTP {response.status_code}").replace(oauth.client_secret, HIDDEN))
            if code not in _PERHAPS_THE_WAY:
                break
        raise _TokenRefused(f"answered {'; '.join(dict.fromkeys(errors))}")

    async def _ask(self, oauth: ClientCredentials, way: str) -> httpx2.Response:
        form = {"grant_type": "client_credentials", "scope": oauth.scope, "audience": oauth.audience}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if way == "basic":
            pair = f"{quote_plus(oauth.client_id)}:{quote_plus(oauth.client_secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": oauth.client_id, "client_secret": oauth.client_secret}
        body = urlencode({name: value for name, value in form.items() if value}).encode()
        call = AgentRequest(method="POST", url=oauth.token_url, body=body, headers=headers)
        return await self._sender.send(call, timeout_seconds=_TOKEN_SECONDS, max_bytes=_ANSWER_BYTES)


def _error_in(body: bytes) -> tuple[str, str]:
    """Returns the code of an OAuth error, and the code with the service's description, for people; empty if none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "", ""
    code, described = (
        (answer.get(key) for key in ("error", "error_description")) if isinstance(answer, dict) else ("", "")
    )
    if not isinstance(code, str) or not code:
        return "", ""
    text = f"{code}: {described}" if isinstance(described, str) and described else code
    plain = "".join(one for one in text if one.isprintable() and one not in "<>&*`~")
    return code, Redactor().line(plain)[:_ERROR_CHARACTERS]


class Exchange:
    """A client for HTTP requests to one agent."""

    def __init__(
        self,
        agent: RemoteAgent,
        *,
        tls: ssl.SSLContext | None = None,
        clock: MeasuredClock | None = None,
        patience_seconds: float = CONNECT_PATIENCE_SECONDS,
    ) -> None:
        self._agent = agent
        self._client = open_client([agent.url, *([agent.oauth.token_url] if agent.oauth else [])], tls)
        self._sender = AgentHttpSender(self._client, patience_seconds=patience_seconds)
        self._credentials = _BearerTokenSource(agent, self._sender, clock or SystemClock())

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def open(self, call: AgentRequest, timeout_seconds: float, max_bytes: int) -> httpx2.Response:
        """Returns a successful response whose body has not been read; the caller closes it.

        A request refused because of an expired token is sent once more with a new token. Raises GaveUp.
        """
        try:
            return await self._open(call, timeout_seconds, max_bytes)
        except Unauthenticated:
            if not self._credentials.are_renewable:
                raise
            return await self._open(call, timeout_seconds, max_bytes)

    async def look(self, call: AgentRequest, timeout_seconds: float) -> int:
        """Returns the HTTP status of a response without reading its body. Raises GaveUp."""
        headers = await self._credentials.headers()
        response = await self._send(call, headers, timeout_seconds, _LOOK_BYTES, is_patient=False)
        await response.aclose()
        return response.status_code

    async def _open(self, call: AgentRequest, timeout_seconds: float, max_bytes: int) -> httpx2.Response:
        headers = await self._credentials.headers()
        response = await self._send(call, headers, timeout_seconds, max_bytes)
        try:
            await insist_on_success(response, self._agent.name)
        except Unauthenticated:
            self._credentials.forget(headers)
            raise
        return response

    async def _send(
        self,
        call: AgentRequest,
        credentials: dict[str, str],
        timeout_seconds: float,
        max_bytes: int,
        *,
        is_patient: bool = True,
    ) -> httpx2.Response:
        call = replace(call, headers={**self._agent.headers, **call.headers, **credentials})
        return await self._sender.send(
            call, timeout_seconds=timeout_seconds, max_bytes=max_bytes, is_patient=is_patient
        )


class RunDeadline:
    """The time limit of a run, measured by the clock of the event loop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.at = asyncio.get_running_loop().time() + seconds


async def event_data(
    response: httpx2.Response, *, silence_seconds: float, deadline: RunDeadline
) -> AsyncGenerator[str, None]:
    """Yields the data of each event until the body ends. An incomplete last event is dropped.

    Comments and events without data are skipped, but reset the silence timeout. Raises GaveUp if the body is not an
    event stream, if a size limit is exceeded, if the agent is silent for too long, or if the connection breaks.
    """
    if not _is_event_stream(response):
        raise GaveUp(NOT_A_STREAM)
    response.encoding = "utf-8-sig"  # always UTF-8, regardless of the header, possibly with a byte order mark
    source = aiter(httpx2.EventSource(response, max_event_size=EVENT_BYTES))
    async with aclosing(cast("AsyncGenerator[httpx2.ServerSentEvent, None]", source)) as events:
        count = 0
        while (event := await _next(events, silence_seconds, deadline)) is not None:
            count += 1
            if count % _EVENTS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            if event.data:
                yield event.data


def _is_event_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("Content-Type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


async def _next(
    events: AsyncGenerator[httpx2.ServerSentEvent, None], silence_seconds: float, deadline: RunDeadline
) -> httpx2.ServerSentEvent | None:
    try:
        async with asyncio.timeout_at(deadline.at):
            return await anext(events, None)
    except TimeoutError as error:
        raise GaveUp(not_finished_within(deadline.seconds)) from error
    except httpx2.ReadTimeout as error:
        raise GaveUp(silent_for(silence_seconds)) from error
    except httpx2.SSEError as error:
        raise GaveUp(EVENT_TOO_LARGE) from error
    except (httpx2.HTTPError, OSError) as error:
        raise GaveUp(BROKE_OFF) from error
