"""HTTP to agents, suspicious of whoever answers: no redirects, no compression, nothing without an end.

Every run has a connection of its own, which is closed with it. A connection that is kept may have been closed by the
other side in the very moment that a run is sent over it, and then nobody could say whether the run has begun.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final
from urllib.parse import urlsplit

import httpx2
import stamina
import structlog

from swarm.agents.failures import (
    COMPRESSED,
    GaveUp,
    may_arrive_later,
    more_than,
    not_sent,
    not_within,
    refused,
)
from swarm.telemetry.redaction import Redactor

CONNECT_SECONDS: Final = 10.0
"""For one attempt to connect, TLS included."""

CONNECT_PATIENCE_SECONDS: Final = 5.0
"""So long an agent that nothing is reached of is tried again; it may be restarting."""

ERROR_BODY_BYTES: Final = 4096
ERROR_BODY_SECONDS: Final = 5.0

_LOOPBACK: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")

_REDACTOR: Final = Redactor()
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentRequest:
    """One request to an agent."""

    method: str
    url: str
    body: bytes | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)


class Limited(httpx2.AsyncByteStream):
    """The body of an answer, which may not be longer than ``max_bytes``: then it raises GaveUp."""

    def __init__(self, body: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._body = body
        self._max_bytes = max_bytes
        self.count = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self.count += len(chunk)
            if self.count > self._max_bytes:
                raise GaveUp(more_than(self._max_bytes))
            yield chunk

    async def aclose(self) -> None:
        """Close the connection."""
        await self._body.aclose()


def open_client(urls: Iterable[str], tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """A client for these addresses. Proxies from the environment are used, but never for this machine itself.

    ``tls`` says which certificates are trusted; without it those of the system, or of ``SSL_CERT_FILE``.
    """
    urls = tuple(urls)
    needs_tls = any(urlsplit(url).scheme == "https" for url in urls)
    direct = {*_LOOPBACK, *(f"all://{host}" for url in urls if _is_loopback(host := urlsplit(url).hostname or ""))}
    return httpx2.AsyncClient(
        verify=tls or needs_tls,  # certificates take a tenth of a second to load
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        mounts=dict.fromkeys(direct),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # no run knows of another
        headers={"User-Agent": "swarm", "Accept-Encoding": "identity"},
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False  # localhost and ::1 are known anyway


class AgentHttpSender:
    """Sends requests and hands out answers that are not read yet."""

    def __init__(self, client: httpx2.AsyncClient, *, patience_seconds: float = CONNECT_PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience_seconds = patience_seconds

    async def send(
        self, call: AgentRequest, *, timeout_seconds: float, max_bytes: int, is_patient: bool = True
    ) -> httpx2.Response:
        """The answer to a request, once its headers have come; the caller closes it.

        A request that certainly did not arrive is sent again for a while, if ``is_patient``; no other is.
        ``timeout_seconds`` bounds the wait for the headers, and afterwards every silence. Raises GaveUp.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                return _limited(await self._send(call, timeout_seconds, is_patient), max_bytes)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout, TimeoutError) as error:
            raise GaveUp(not_within(timeout_seconds)) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise not_sent(error) from error

    async def _send(self, call: AgentRequest, timeout_seconds: float, is_patient: bool) -> httpx2.Response:
        timeout = httpx2.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds))
        attempts = stamina.retry_context(
            on=may_arrive_later,
            attempts=None if is_patient else 1,
            timeout=self._patience_seconds,
            wait_initial=0.2,
            wait_max=1.0,
        )
        async for attempt in attempts:
            with attempt:
                request = self._client.build_request(
                    call.method, call.url, content=call.body, headers=call.headers, timeout=timeout
                )
                return await self._client.send(request, stream=True)
        raise AssertionError("stamina either returns or raises")


def _limited(response: httpx2.Response, max_bytes: int) -> httpx2.Response:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = Limited(response.stream, max_bytes)
    return response


async def insist_on_success(response: httpx2.Response, agent: str) -> None:
    """Raise GaveUp for an answer that is an error; what it says goes to the log. The answer is then closed."""
    if response.is_success and response.headers.get("Content-Encoding", "identity").lower() in ("", "identity"):
        return
    try:
        if response.is_success:
            raise GaveUp(COMPRESSED)
        ids = {"action": "agent_refused", "agent": agent, "status": response.status_code}
        _log.warning("An agent refuses a request.", **ids)
        # Only here: many servers repeat what they were sent, so this may be what people wrote.
        _log.debug("What an agent says of its refusal.", said=_REDACTOR.text(await _beginning(response)), **ids)
        raise refused(response.status_code)
    finally:
        await response.aclose()


async def _beginning(response: httpx2.Response) -> str:
    """The first of an error's words, as far as they come soon."""
    body = b""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) >= ERROR_BODY_BYTES:
                    break
    except (httpx2.HTTPError, GaveUp, TimeoutError):
        pass  # it is an error with or without words
    return body[:ERROR_BODY_BYTES].decode(errors="replace")


async def whole_body(response: httpx2.Response) -> bytes:
    """All of an answer, which is then closed. Raises GaveUp."""
    try:
        return b"".join([chunk async for chunk in response.aiter_raw()])
    except (httpx2.HTTPError, OSError) as error:
        raise GaveUp("it stopped in the middle of its answer") from error
    finally:
        await response.aclose()
