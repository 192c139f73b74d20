"""The registry of agents: registration, tokens, presence and removal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from swarm.clock import SECOND, new_id
from swarm.domain.errors import Conflict, NotFound
from swarm.domain.model.agents import (
    Agent,
    AgentFacts,
    AgentRow,
    Reach,
    Role,
    check_name,
    check_new_name,
    new_agent_token,
    token_hash,
)
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.views import facts_of
from swarm.services.ground.credentials import AgentTokenCache
from swarm.services.operate.failover import failover_offline_agents
from swarm.services.speaking.participants import offline_since, silent_since
from swarm.services.tasks.task_maintenance import tend_tasks
from swarm.services.work.leases import lose
from swarm.store import agents, history
from swarm.store.agents import AGENTS
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.inbox.leases import Lease

LEFT_SECONDS: Final = 10.0
"""How long an agent stays online after its instance has left, so that a restart takes no work away from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Registered:
    """A new agent and its token, which is shown only once."""

    agent: Agent
    token: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Present:
    """An agent and its presence."""

    agent: Agent
    online: bool

    @property
    def status(self) -> str:
        return "online" if self.online else "offline"

    @property
    def row(self) -> AgentRow:
        """The agent for an operator."""
        return AgentRow(**facts_of(AgentFacts, self.agent), status=self.status)


class AgentRegistry:
    """The agents of this deployment, and their tokens."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy, credentials: AgentTokenCache) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self.credentials = credentials
        self.unoffered: Callable[[str], Mapping[str, str]] = lambda agent: {}  # why tools are not offered, by name

    async def register(
        self,
        name: str,
        role: Role,
        description: str = "",
        capabilities: Sequence[str] = (),
        *,
        enrolled: bool = False,
    ) -> _Registered:
        """Adds an agent. ``enrolled`` means that the bearer of an enrolment key registers it, not the operator.

        Raises Invalid for an invalid name, and Conflict for a name in use or at the maximum number of agents, which is
        lower for an enrolment key than for the operator.
        """
        token = new_agent_token()
        added = _New(
            name=check_new_name(name),
            role=role,
            description=description,
            capabilities=tuple(capabilities),
            token_hash=token_hash(token),
            enrolled=enrolled,
        )
        agent = await self._database.write(self._register, added)
        await failover_offline_agents(self._database, self._operating_policy)  # messages may be waiting for a lead
        return _Registered(agent=agent, token=token)

    def _register(self, tx: Transaction, new: _New) -> Agent:
        _check_room(tx, self._operating_policy, new.enrolled)
        agent = Agent(
            id=new_id(),
            name=new.name,
            role=new.role,
            description=new.description,
            capabilities=new.capabilities,
            created_at=tx.now,
            last_seen_at=None,
            enrolled=new.enrolled,
        )
        agents.add(tx, agent, new.token_hash)
        by_key = ", by an enrolment key" if new.enrolled else ""
        history.record(tx, "agent.register", agent.id, agent_id=agent.id, reason=f"{new.role} {new.name}{by_key}")
        tx.wake(AGENTS)
        return agent

    async def ensure(
        self, name: str, role: Role, reach: Reach, description: str = "", capabilities: Sequence[str] = ()
    ) -> Agent:
        """Adds or updates an agent without a token, which the coordinator runs itself.

        Raises Invalid for an invalid name, or a reserved one unless the agent has it already, and Conflict for the name
        of an agent that is reached in another way.
        """
        agent = await self._database.write(
            self._ensure, check_name(name), role, description, tuple(capabilities), reach
        )
        await failover_offline_agents(self._database, self._operating_policy)
        return agent

    @staticmethod
    def _ensure(
        tx: Transaction, name: str, role: Role, description: str, capabilities: tuple[str, ...], reach: Reach
    ) -> Agent:
        agent = agents.ensure(tx, name, role, description, capabilities, reach)
        tx.wake(AGENTS)
        return agent

    async def everyone(self) -> list[Agent]:
        """Returns all agents, oldest first."""
        return await self._database.read(agents.everyone)

    async def present(self) -> list[Present]:
        """Returns all agents and their presence, oldest first."""
        return await self._database.read(read_team, self._operating_policy)

    async def get(self, id_or_name: str) -> Agent:
        """Returns one agent. Raises NotFound."""
        return await self._database.read(_find, id_or_name)

    async def describe(self, id_or_name: str, description: str | None, capabilities: Sequence[str] | None) -> Agent:
        """Changes the description or capabilities of an agent; None leaves a value unchanged. Raises NotFound."""
        return await self._database.write(self._describe, id_or_name, description, capabilities)

    @staticmethod
    def _describe(
        tx: Transaction, id_or_name: str, description: str | None, capabilities: Sequence[str] | None
    ) -> Agent:
        agent = _find(tx, id_or_name)
        agents.describe(
            tx,
            agent.id,
            agent.description if description is None else description,
            agent.capabilities if capabilities is None else tuple(capabilities),
        )
        tx.wake(AGENTS)
        return _find(tx, agent.id)

    async def rotate(self, id_or_name: str) -> _Registered:
        """Returns a new token for an agent; its old tokens end immediately.

        Raises NotFound, or Conflict for an agent without tokens.
        """
        token = new_agent_token()
        agent = await self._database.write(self._rotate, id_or_name, token_hash(token))
        return _Registered(agent=agent, token=token)

    @staticmethod
    def _rotate(tx: Transaction, id_or_name: str, hashed: str) -> Agent:
        agent = _find(tx, id_or_name)
        if agent.reach is not Reach.POLLING:
            raise Conflict(f"'{agent.name}' has no token: the coordinator itself calls it.")
        agents.rotate(tx, agent.id, hashed)
        history.record(tx, "agent.rotate", agent.id, agent_id=agent.id)
        tx.wake(AGENTS)
        return agent

    async def leave(self, agent: Agent, instance_id: str) -> None:
        """Lets another instance serve an agent at once; the agent is offline soon, unless one does.

        Without effect unless this instance serves it.
        """
        await self._database.write(self._leave, agent.id, instance_id)

    def _leave(self, tx: Transaction, agent_id: str, instance_id: str) -> None:
        """The time when the agent was last seen is set back, so that the usual rule finds it offline."""
        if agents.leave(tx, agent_id, instance_id):
            silent_seconds = max(0.0, self._operating_policy.offline_after_seconds - LEFT_SECONDS)
            agents.record_gone(tx, agent_id, silent_since(tx, self._operating_policy, int(silent_seconds * SECOND)))

    async def revoke(self, id_or_name: str) -> Agent:
        """Removes an agent: its tokens end, and its work is reassigned to the default lead. Raises NotFound.

        The tokens end first, and then each lease in its own transaction, because a common transaction would lock rows
        in a different order from other transactions. After an interruption the sweep completes the removal.
        """
        agent, held = await self._database.write(self._revoke, id_or_name)
        for lease in held:
            await self._database.write(
                lose, lease.token, LeaseEnd.REVOKED, "its agent was removed", self._operating_policy
            )
        await tend_tasks(self._database, self._operating_policy)
        await failover_offline_agents(self._database, self._operating_policy)
        return agent

    @staticmethod
    def _revoke(tx: Transaction, id_or_name: str) -> tuple[Agent, list[Lease]]:
        """Ends the agent and its tokens. Returns the leases that the agent still holds."""
        agent = _find(tx, id_or_name)
        agents.revoke(tx, agent.id)
        history.record(tx, "agent.revoke", agent.id, agent_id=agent.id)
        tx.wake(AGENTS)
        tx.wake(agent.id)
        return agent, leases.of_agent(tx, agent.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class _New:
    name: str
    role: Role
    description: str
    capabilities: tuple[str, ...]
    token_hash: str
    enrolled: bool


def _check_room(tx: Transaction, operating_policy: OperatingPolicy, by_key: bool) -> None:
    """Raises Conflict at the limit. The limit is not exact, because two concurrent calls may both pass."""
    everyone, enrolled = agents.count(tx)
    if everyone >= operating_policy.most_agents:
        raise Conflict(
            f"There are {operating_policy.most_agents} agents, which is the limit.",
            hint="Remove unused agents (swarm agents revoke NAME), or raise agents.most.",
        )
    if by_key and enrolled >= operating_policy.most_enrolled:
        raise Conflict(
            f"There are {operating_policy.most_enrolled} workers registered with an enrolment key, which is the limit.",
            hint="Ask the operator to register it, to remove unused workers, or to raise agents.most_enrolled.",
        )


def read_team(tx: Transaction, operating_policy: OperatingPolicy) -> list[Present]:
    """Returns all agents and their presence, oldest first."""
    gone_since = offline_since(tx, operating_policy)
    team = [
        agent if (agent.parked_until or 0) > tx.now else replace(agent, parked_until=None)
        for agent in agents.everyone(tx)
    ]
    return [Present(agent=agent, online=agent.online(gone_since)) for agent in team]


def _find(tx: Transaction, id_or_name: str) -> Agent:
    agent = agents.by_id(tx, id_or_name) or agents.by_name(tx, id_or_name)
    if agent is None:
        raise NotFound(f"There is no agent '{id_or_name}'.", hint="GET /agents lists them.")
    return agent
