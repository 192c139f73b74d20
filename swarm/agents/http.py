"""HTTP requests to untrusted agents: no redirects, no compression, no unlimited responses.

Every run has its own connection, which closes with the run. The server could close a reused connection just as a run is
sent; it would then be unknown whether the run has started.
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
from swarm_base.redaction import Redactor

CONNECT_SECONDS: Final = 10.0
"""The time limit for one attempt to connect, including TLS."""

CONNECT_PATIENCE_SECONDS: Final = 5.0
"""An unreachable agent is retried for this time, because it may be restarting."""

_ERROR_BODY_BYTES: Final = 4096
_ERROR_BODY_SECONDS: Final = 5.0

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
    """The body of a response. Raises GaveUp beyond ``max_bytes``."""

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
        """Closes the connection."""
        await self._body.aclose()


def open_client(urls: Iterable[str], tls: ssl.SSLContext | None = None) -> httpx2.AsyncClient:
    """Returns a client for these addresses. Proxies from the environment are used, but never for the local machine.

    ``tls`` holds the trusted certificates; the default is the system's, or ``SSL_CERT_FILE``.
    """
    urls = tuple(urls)
    needs_tls = any(urlsplit(url).scheme == "https" for url in urls)
    direct = {*_LOOPBACK, *(f"all://{host}" for url in urls if _is_loopback(host := urlsplit(url).hostname or ""))}
    return httpx2.AsyncClient(
        verify=tls or needs_tls,  # loading certificates takes a tenth of a second
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        mounts=dict.fromkeys(direct),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # runs share no cookies
        headers={"User-Agent": "swarm", "Accept-Encoding": "identity"},
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False  # localhost and ::1 are already known


class AgentHttpSender:
    """A sender of requests. It returns responses whose bodies have not been read."""

    def __init__(self, client: httpx2.AsyncClient, *, patience_seconds: float = CONNECT_PATIENCE_SECONDS) -> None:
        self._client = client
        self._patience_seconds = patience_seconds

    async def send(
        self, call: AgentRequest, *, timeout_seconds: float, max_bytes: int, is_patient: bool = True
    ) -> httpx2.Response:
        """Returns the response to a request once its headers have arrived; the caller closes it.

        With ``is_patient``, a request that certainly did not arrive is retried for some time; no other request is.
        ``timeout_seconds`` limits the wait for the headers, and after that every period of silence. Raises GaveUp.
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
    """Raises GaveUp for an error response, after logging its text and closing it."""
    if response.is_success and response.headers.get("Content-Encoding", "identity").lower() in ("", "identity"):
        return
    try:
        if response.is_success:
            raise GaveUp(COMPRESSED)
        ids = {"action": "agent_refused", "agent": agent, "status": response.status_code}
        _log.warning("An agent refused a request.", **ids)
        # At debug level only: many servers echo the request in their response, so this may contain user messages.
        _log.debug("The text of an agent's refusal.", said=_REDACTOR.text(await _beginning(response)), **ids)
        raise refused(response.status_code)
    finally:
        await response.aclose()


async def _beginning(response: httpx2.Response) -> str:
    """Returns the beginning of an error's text, as far as it arrives promptly."""
    body = b""
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) >= _ERROR_BODY_BYTES:
                    break
    except (httpx2.HTTPError, GaveUp, TimeoutError):
        pass  # the response is an error with or without text
    return body[:_ERROR_BODY_BYTES].decode(errors="replace")


async def whole_body(response: httpx2.Response) -> bytes:
    """Reads a complete response and closes it. Raises GaveUp."""
    try:
        return b"".join([chunk async for chunk in response.aiter_raw()])
    except (httpx2.HTTPError, OSError) as error:
        raise GaveUp("it stopped in the middle of its answer") from error
    finally:
        await response.aclose()
