"""Sends requests to one agent with its credentials, and reads the events of an answer.

The credential is a bearer token, either fixed or from an OAuth2 token service (client credentials,
https://www.rfc-editor.org/rfc/rfc6749#section-4.4). It never reaches a log or a repr. Events are server-sent events:
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, cast
from urllib.parse import urlencode

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

_RENEW_SECONDS: Final = 60
"""A token is not used after this long before its expiry."""

_UNSAID_SECONDS: Final = 300
"""The assumed lifetime of a token if its service does not report one."""

_TOKEN_SECONDS: Final = 15.0
_ANSWER_BYTES: Final = 64 * 1024
NO_TOKEN: Final = "we got no access token for it"  # noqa: S105 - words for people

_log = structlog.get_logger(__name__)

_LOOK_BYTES: Final = 64 * 1024

EVENT_BYTES: Final = 1024 * 1024
"""The maximum size of an event, and therefore of a line."""

BODY_BYTES: Final = 64 * 1024 * 1024

_EVENTS_AT_A_STRETCH: Final = 50
"""After this many events, other tasks of the process may run, even if more events are waiting."""


class _Grant(BaseModel):
    """The required fields of a token response (RFC 6749, section 5.1)."""

    access_token: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$", repr=False)]
    expires_in: float = _UNSAID_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    value: str = field(repr=False)
    good_until_us: int  # by the monotonic clock


class _BearerTokenSource:
    """The bearer token of one agent, shared by all its runs."""

    def __init__(self, agent: RemoteAgent, sender: AgentHttpSender, clock: MeasuredClock) -> None:
        self._agent = agent
        self._sender = sender
        self._elapsed_us = clock.elapsed_us
        self._token: _Token | None = None
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
            grant = _Grant.model_validate_json(await self._ask(oauth))
        except ValidationError:  # the error's text is omitted because it would repeat the token
            raise self._no_token("its token service sent an invalid response") from None
        except (GaveUp, TimeoutError) as error:
            raise self._no_token(str(error)) from error
        seconds = min(max(grant.expires_in - _RENEW_SECONDS, 0), 365 * 86_400)
        return _Token(value=grant.access_token, good_until_us=asked_at_us + int(seconds * SECOND))

    def _no_token(self, why: str) -> GaveUp:
        _log.warning("There is no access token for an agent.", action="agent_token", agent=self._agent.name, why=why)
        return GaveUp(NO_TOKEN, may_still_run=False)

    async def _ask(self, oauth: ClientCredentials) -> bytes:
        form = {
            "grant_type": "client_credentials",
            "client_id": oauth.client_id,
            "client_secret": oauth.client_secret,
            "scope": oauth.scope,
            "audience": oauth.audience,
        }
        call = AgentRequest(
            method="POST",
            url=oauth.token_url,
            body=urlencode({name: value for name, value in form.items() if value}).encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
        )
        async with asyncio.timeout(_TOKEN_SECONDS):
            response = await self._sender.send(call, timeout_seconds=_TOKEN_SECONDS, max_bytes=_ANSWER_BYTES)
            await insist_on_success(response, self._agent.name)
            return await whole_body(response)


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
