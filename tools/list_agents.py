"""list-agents: lists the members of the team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from swarm.services.operate.team import Member
from tools.tool import Arguments, CallContext, McpTool


class _ListAgents(Arguments):
    limit: Annotated[
        int,
        Field(ge=1, le=500, description="The maximum number of agents; if there are more, those online are preferred."),
    ] = 100


class _Team(TypedDict):
    """The agents of the team, oldest first."""

    agents: list[Member]
    left_out: int  # the number of agents not listed


async def _list_agents(call: CallContext, said: _ListAgents) -> _Team:
    """List the agents of your team: name, role (lead or worker), description of abilities, whether the agent is online,
    and its load: the number of its open tasks, of the threads that it owns, and of its current runs.
    """
    members = await call.services.team.members()
    shown = members if len(members) <= said.limit else sorted(members, key=lambda one: one.status != "online")
    return {
        "agents": shown[: said.limit],
        "left_out": max(0, len(members) - said.limit),
    }


TOOL = McpTool(name="list-agents", arguments=_ListAgents, result=_Team, run=_list_agents)
