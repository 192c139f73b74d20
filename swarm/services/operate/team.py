"""The team as its members see it: presence and load of each agent.

An agent that polls or renews is online; the time of its last call is stored at intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from swarm.domain.errors import NotFound
from swarm.domain.model.agents import IDLE, SEEN_EVERY_SECONDS, Agent, AgentProfile, Load
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.views import JsonView, facts_of
from swarm.services.operate.agents import read_team
from swarm.services.speaking.participants import offline_since
from swarm.store import agents
from swarm.store.agents import AGENTS
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Member(AgentProfile, JsonView):
    """An agent with its load."""

    status: str
    load: Load


class TeamDirectory:
    """The directory of all agents, for agents."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def members(self) -> list[Member]:
        """Returns all agents, oldest first."""
        return await self._database.read(self._members)

    def _members(self, tx: Transaction) -> list[Member]:
        found = agents.loads(tx)
        return [
            Member(**facts_of(AgentProfile, one.agent), status=one.status, load=found.get(one.agent.id, IDLE))
            for one in read_team(tx, self._operating_policy)
        ]


def colleague(team: Sequence[Agent], me: Agent, name: str) -> Agent:
    """Returns the agent with this name or id. Raises NotFound with the names of the other agents."""
    bare = name.removeprefix("@").removeprefix("swarm#")
    found = next((agent for agent in team if bare in (agent.id, agent.name)), None)
    if found is None:
        others = ", ".join(agent.name for agent in team if agent.id != me.id)
        raise NotFound(f"There is no agent '{name}'.", hint=f"There are: {others}." if others else "You are alone.")
    return found


_WRITES_BEFORE_OFFLINE: Final = 3
"""If agents count as offline after a short time, ``last_seen_at`` is written more often: this many times in that
period.
"""


class Presence:
    """The presence of agents, written at most every 30 seconds per agent, to save a write per poll."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._every_seconds = min(SEEN_EVERY_SECONDS, operating_policy.offline_after_seconds / _WRITES_BEFORE_OFFLINE)
        self._note_seen = partial(note_seen, operating_policy=operating_policy)  # one function forms the sets
        self._written: dict[str, float] = {}  # agent id -> time of the last write, in the event loop's clock
        self._forget_at = 0.0

    async def note(self, agent: Agent) -> None:
        """Records that an agent is online; an agent counts as seen only after the write."""
        now = asyncio.get_running_loop().time()
        if agent.id in self._written and now - self._written[agent.id] < self._every_seconds:
            return
        await self._database.write_together(self._note_seen, agent.id)
        self._written[agent.id] = now
        if now >= self._forget_at:
            self._written = {known: at for known, at in self._written.items() if now - at < self._every_seconds}
            self._forget_at = now + self._every_seconds


def note_seen(tx: Transaction, agent_ids: Sequence[str], operating_policy: OperatingPolicy) -> list[None]:
    """Writes the time when agents were last seen. Routing is notified only if one was offline, because otherwise
    nothing changes.
    """
    gone_since = offline_since(tx, operating_policy)
    if not all(agent.online(gone_since) for agent in agents.record_seen(tx, agent_ids)):
        tx.wake(AGENTS)
    return [None] * len(agent_ids)
