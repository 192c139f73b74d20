"""The agents available for routing, and the resolution of ``swarm#…`` addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from swarm.domain.model.agents import Role

ADDRESS = re.compile(r"(?<![\w#])swarm#([a-z0-9-]+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A possible recipient of a message."""

    id: str
    name: str
    role: Role
    online: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Roster:
    """All agents, oldest first, with the default lead."""

    agents: tuple[Candidate, ...]
    default_name: str | None = None
    _by_id: dict[str, Candidate] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Candidate] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Indexed, because a roster is built once a second and queried several times per message.
        object.__setattr__(self, "_by_id", {agent.id: agent for agent in self.agents})
        object.__setattr__(self, "_by_name", {agent.name: agent for agent in self.agents})

    def by_id(self, agent_id: str | None) -> Candidate | None:
        return self._by_id.get(agent_id) if agent_id is not None else None

    def by_name(self, name: str | None) -> Candidate | None:
        return self._by_name.get(name) if name is not None else None

    def stand_in_for(self, agent: Candidate) -> Candidate | None:
        """Returns the default lead if this agent is offline and that lead is online; otherwise None."""
        lead = self.default_lead
        return lead if lead and lead.online and not agent.online else None

    @property
    def default_lead(self) -> Candidate | None:
        """The configured default lead; otherwise the oldest lead that is online; otherwise the oldest lead."""
        leads = [agent for agent in self.agents if agent.role is Role.LEAD]
        online = [lead for lead in leads if lead.online]
        return self.by_name(self.default_name) or next(iter(online or leads), None)


def names_and_verb(agents: Sequence[Candidate]) -> str:
    """Returns the subject and verb of a sentence about agents: ``ada is``, ``ada and bob are``."""
    return " and ".join(agent.name for agent in agents) + (" is" if len(agents) == 1 else " are")


def addressed(text: str, roster: Roster) -> tuple[tuple[Candidate, ...], bool, tuple[str, ...]]:
    """Returns the agents that a text names with ``swarm#…``, in order; whether it names all; and the unknown names."""
    found: dict[str, Candidate] = {}
    everybody = False
    unknown: list[str] = []
    for word in ADDRESS.findall(text):
        name = word.lower().rstrip("-")
        agent = _longest_match(word.lower(), roster)
        if agent:
            found[agent.id] = agent
        elif name == "all":
            everybody = True
        else:
            unknown.append(name)
    return tuple(found.values()), everybody, tuple(unknown)


def _longest_match(word: str, roster: Roster) -> Candidate | None:
    """Returns the agent with this name or id; trailing hyphens may belong to the sentence."""
    for end in range(len(word), 0, -1):
        agent = roster.by_name(word[:end]) or roster.by_id(word[:end])
        if agent:
            return agent
        if word[end - 1] != "-":
            return None
    return None
