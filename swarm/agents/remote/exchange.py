"""Requests to one agent, with its credentials."""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Final

import httpx2

from swarm.agents.failures import Unauthenticated
from swarm.agents.http import CONNECT_PATIENCE_SECONDS, AgentHttpSender, AgentRequest, insist_on_success, open_client
from swarm.agents.remote.credentials import BearerTokenSource
from swarm.clock import MeasuredClock, SystemClock
from swarm.domain.answers.agents import RemoteAgent

LOOK_BYTES: Final = 64 * 1024


class Exchange:
    """The HTTP exchange with one agent."""

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
        self._credentials = BearerTokenSource(agent, self._sender, clock or SystemClock())

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def open(self, call: AgentRequest, timeout_seconds: float, max_bytes: int) -> httpx2.Response:
        """Returns a successful answer whose body is not read yet; the caller closes it.

        A request refused for an expired token is sent once more with a new one. Raises GaveUp.
        """
        try:
            return await self._open(call, timeout_seconds, max_bytes)
        except Unauthenticated:
            if not self._credentials.are_renewable:
                raise
            return await self._open(call, timeout_seconds, max_bytes)

    async def look(self, call: AgentRequest, timeout_seconds: float) -> int:
        """Returns the HTTP status of an answer without reading its body. Raises GaveUp."""
        headers = await self._credentials.headers()
        response = await self._send(call, headers, timeout_seconds, LOOK_BYTES, is_patient=False)
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
