"""The credentials of a remote agent: a bearer token, fixed or from an OAuth2 token service.

Client credentials, https://www.rfc-editor.org/rfc/rfc6749#section-4.4. Credentials never reach a log or a repr.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import urlencode

import structlog
from pydantic import BaseModel, Field, ValidationError

from swarm.agents.failures import GaveUp
from swarm.agents.http import AgentHttpSender, AgentRequest, insist_on_success, whole_body
from swarm.clock import SECOND, MeasuredClock
from swarm.domain.answers.agents import ClientCredentials, RemoteAgent

RENEW_SECONDS: Final = 60
"""A token is no longer used this long before its end."""

UNSAID_SECONDS: Final = 300
"""The lifetime of a token if its service does not report one."""

TOKEN_SECONDS: Final = 15.0
ANSWER_BYTES: Final = 64 * 1024

NO_TOKEN: Final = "we got no access token for it"  # noqa: S105 - words for people

_log = structlog.get_logger(__name__)


class _Grant(BaseModel):
    """The needed part of a token service's answer (RFC 6749, section 5.1)."""

    access_token: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$", repr=False)]
    expires_in: float = UNSAID_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    value: str = field(repr=False)
    good_until_us: int  # by the monotonic clock


class BearerTokenSource:
    """The bearer token of one agent, for all of its runs."""

    def __init__(self, agent: RemoteAgent, sender: AgentHttpSender, clock: MeasuredClock) -> None:
        self._agent = agent
        self._sender = sender
        self._elapsed_us = clock.elapsed_us
        self._token: _Token | None = None
        self._fetching = asyncio.Lock()  # others wait, and use the first one's token

    @property
    def are_renewable(self) -> bool:
        """Whether a refused token can be replaced."""
        return self._agent.oauth is not None

    async def headers(self) -> dict[str, str]:
        """Returns the headers to send. Raises GaveUp if a token is needed and not available."""
        token = await self._renewable(self._agent.oauth) if self._agent.oauth else self._agent.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def forget(self, refused: dict[str, str]) -> None:
        """Discards the token of these headers; a newer one stays."""
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
        except ValidationError:  # without its text, which would repeat the token
            raise self._no_token("the answer of its service makes no sense") from None
        except (GaveUp, TimeoutError) as error:
            raise self._no_token(str(error)) from error
        seconds = min(max(grant.expires_in - RENEW_SECONDS, 0), 365 * 86_400)
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
        async with asyncio.timeout(TOKEN_SECONDS):
            response = await self._sender.send(call, timeout_seconds=TOKEN_SECONDS, max_bytes=ANSWER_BYTES)
            await insist_on_success(response, self._agent.name)
            return await whole_body(response)
