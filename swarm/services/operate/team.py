"""The team as its members see it: presence and load of each agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarm.domain.errors import NotFound
from swarm.domain.model.agents import IDLE, Agent, Load
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.operate.agents import Present
from swarm.services.rules.participants import began
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One agent of the team."""

    present: Present
    load: Load


class TeamDirectory:
    """All agents, as they see each other."""

    def __init__(self, database: Database, conduct: OperatingPolicy) -> None:
        self._database = database
        self._conduct = conduct

    async def members(self) -> list[Member]:
        """Returns all agents, oldest first."""
        return await self._database.read(_members, self._conduct)


def read_team(tx: Transaction, conduct: OperatingPolicy) -> list[Present]:
    """Returns all agents and their presence, oldest first."""
    return [
        Present(agent=agent, online=agent.online(tx.now, conduct.offline_after_seconds, began(tx, conduct)))
        for agent in agents.everyone(tx)
    ]


def colleague(team: Sequence[Agent], me: Agent, name: str) -> Agent:
    """Returns the agent with this name or id; raises NotFound with the names of the other agents."""
    bare = name.removeprefix("@").removeprefix("swarm#")
    found = next((agent for agent in team if bare in (agent.id, agent.name)), None)
    if found is None:
        others = ", ".join(agent.name for agent in team if agent.id != me.id)
        raise NotFound(f"There is no agent '{name}'.", hint=f"There are: {others}." if others else "You are alone.")
    return found


def _members(tx: Transaction, conduct: OperatingPolicy) -> list[Member]:
    found = agents.loads(tx)
    return [Member(present=one, load=found.get(one.agent.id, IDLE)) for one in read_team(tx, conduct)]
