"""list-agents: who is in the team."""

from __future__ import annotations

from typing_extensions import TypedDict

from swarm.domain.shapes import AgentShape, agent_shape
from tools.tool import Arguments, Call, Tool


class Nothing(Arguments):
    pass


class Team(TypedDict):
    """Everybody, oldest first."""

    agents: list[AgentShape]


async def list_agents(call: Call, said: Nothing) -> Team:
    """List the agents of your team: name, role (lead or worker), what each says it can do, and whether it is online."""
    team = await call.services.agents.present()
    return {"agents": [agent_shape(present.agent, online=present.online) for present in team]}


TOOL = Tool(name="list-agents", arguments=Nothing, result=Team, run=list_agents)
