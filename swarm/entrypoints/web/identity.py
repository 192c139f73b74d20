"""Identifies callers: agents, the operator, and holders of the key that can only enrol workers."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.types import Scope

from swarm.domain.errors import Forbidden, Invalid, Unauthorized
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import KEY_PREFIX
from swarm.domain.policy.access import OPERATOR
from swarm.services.ground.credentials import AgentTokenCache
from swarm.services.operate.agents import AgentRegistry

LEASE_HEADER: Final = "x-swarm-lease"
"""The header that contains a run's lease token."""

INSTANCE_HEADER: Final = "x-swarm-instance"
"""The header that contains the id of the program that serves the agent."""

CALLER: Final = "swarm.agent"
"""The key under which a request's scope contains the calling agent."""

BOUND_TO: Final = "swarm.bound_to"
"""The key under which a request's scope contains the token of the lease whose key the caller has, or None."""

CALL: Final = "swarm.call"
"""The key under which a request's scope contains its `_AgentCall`."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_TOKEN_BYTES: Final = 1024


class Office(Enum):
    """Callers other than agents."""

    OPERATOR = "operator"
    ENROLMENT = "enrolment"


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """A client of built-in agents: an agent, or the operator."""

    agent: Agent | None = None
    call: _AgentCall | None = None

    @property
    def id(self) -> str:
        """The owner of the conversations. An agent's name may later be reused; its id is never reused."""
        return self.agent.id if self.agent else OPERATOR

    @property
    def name(self) -> str:
        return self.agent.name if self.agent else OPERATOR


class _AgentCall:
    """An agent's request. When the agent's token ends, the request's task is cancelled unless `on_end` was called."""

    def __init__(self, credentials: AgentTokenCache, agent: Agent) -> None:
        self._task = asyncio.current_task()
        self._watched = credentials.watch(agent, self._cancel)
        self.is_cancelled = False

    @property
    def has_ended(self) -> bool:
        """Whether the token has ended."""
        return self._watched.has_ended

    def on_end(self, end: Callable[[], object]) -> None:
        """Registers ``end`` to be called when the token ends, instead of cancelling the request."""
        self._watched.end = end

    def close(self) -> None:
        """Stops watching the token."""
        self._watched.close()

    def _cancel(self) -> None:
        if self._task:
            self.is_cancelled = self._task.cancel()


class Identities:
    """The service that identifies callers by their bearer tokens. Without an enrolment key, only the operator can
    register agents."""

    def __init__(self, agents: AgentRegistry, operator_token: str, enrolment_key: str | None = None) -> None:
        self._credentials = agents.credentials
        self._offices = [
            (secret.encode(), office)
            for secret, office in ((operator_token, Office.OPERATOR), (enrolment_key, Office.ENROLMENT))
            if secret
        ]

    async def agent(self, scope: Scope) -> Agent:
        """Returns the calling agent. Raises Unauthorized, or Forbidden for tokens of other callers."""
        who = await self._who(scope)
        if isinstance(who, Office):
            raise Forbidden("This route is for agents.", hint="Use an agent's token, from POST /agents.")
        return who

    async def agent_or_key(self, scope: Scope) -> Agent:
        """Returns the calling agent, which may be identified by the key of a lease. Raises like `agent`."""
        key = bearer_token(scope).decode("utf-8", "replace")
        scope[BOUND_TO] = None
        if not key.startswith(KEY_PREFIX):
            return await self.agent(scope)
        agent, scope[BOUND_TO] = await self._credentials.holder(key)
        return agent

    async def operator(self, scope: Scope) -> None:
        """Raises Unauthorized, or Forbidden for any valid token but the operator's."""
        if await self._who(scope) is not Office.OPERATOR:
            raise Forbidden("This route is for the operator.", hint="Use the operator token.")

    async def operator_or_lead(self, scope: Scope) -> Agent | None:
        """Returns the calling lead, or None for the operator. Raises Unauthorized, or Forbidden for all other
        callers."""
        who = await self._who(scope)
        if who is Office.OPERATOR:
            return None
        if isinstance(who, Agent) and who.role is Role.LEAD:
            return who
        raise Forbidden("This route is for the operator and for leads.", hint="Workers use the MCP tools.")

    async def agent_or_operator(self, scope: Scope) -> Agent | None:
        """Returns the calling agent, or None for the operator. Raises Unauthorized, or Forbidden for other callers."""
        who = await self._who(scope)
        if who is Office.OPERATOR:
            return None
        if isinstance(who, Agent):
            return who
        raise Forbidden("This route is for agents and for the operator.", hint="Use an agent's token.")

    async def client(self, scope: Scope) -> Client:
        """Returns the client of built-in agents: an agent or the operator. Raises Unauthorized, or Forbidden for other
        callers.

        An agent with the operator's name is refused, since it would be mistaken for the operator.
        """
        who = await self._who(scope)
        if who is Office.OPERATOR:
            return Client()
        if isinstance(who, Agent) and who.name != OPERATOR:
            return Client(agent=who, call=scope[CALL])
        raise Forbidden(
            "This route is for agents and for the operator.", hint="Use the token of an agent with a different name."
        )

    async def registrar(self, scope: Scope) -> Office:
        """Returns whether the caller is the operator or the holder of the enrolment key. Raises Unauthorized, or
        Forbidden for agents."""
        who = await self._who(scope)
        if isinstance(who, Agent):
            raise Forbidden("Agents may not register agents.", hint="Use the operator token or the enrolment key.")
        return who

    async def _who(self, scope: Scope) -> Agent | Office:
        token = bearer_token(scope)
        for secret, office in self._offices:
            if hmac.compare_digest(secret, token):
                return office
        if token.startswith(KEY_PREFIX.encode()):
            await self._credentials.holder(token.decode("utf-8", "replace"))
            raise Forbidden("The key of a lease is for /mcp and /tray only.", hint="Use the agent's token.")
        agent = await self._credentials.identify(token.decode("utf-8", "replace"))
        if CALL not in scope:
            scope[CALL] = _AgentCall(self._credentials, agent)
        return agent


def instance_id(scope: Scope) -> str | None:
    """Returns the id of the program that calls, or None if it names none. Raises Invalid for anything but one UUID."""
    name = INSTANCE_HEADER.encode()
    given = {bytes(value).decode("latin-1").strip().lower() for header, value in scope["headers"] if header == name}
    if not given:
        return None
    if len(given) > 1 or not _UUID.fullmatch(found := given.pop()):
        raise Invalid(
            "The header X-Swarm-Instance is not valid.",
            hint="Generate one UUID when the program starts, and send it with every call.",
            fields={"X-Swarm-Instance": "one UUID, such as 0190a0c4-7d3e-7000-8000-000000000000"},
        )
    return found


def bearer_token(scope: Scope) -> bytes:
    """Returns the token of ``Authorization: Bearer …``. Raises Unauthorized if there is no token."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = bytes(value).partition(b" ")
            if scheme.lower() == b"bearer" and 0 < len(token.strip()) <= _MAX_TOKEN_BYTES:
                return token.strip()
    raise Unauthorized(hint="Send the header 'Authorization: Bearer TOKEN'.")
