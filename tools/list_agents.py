"""list-agents: lists the members of the team."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from swarm.domain.shapes import MemberShape, shape
from tools.tool import Arguments, CallContext, McpTool


class ListAgents(Arguments):
    limit: Annotated[int, Field(ge=1, le=500, description="At most so many; those online first then.")] = 100


class Team(TypedDict):
    """The agents of the team, oldest first."""

    agents: list[MemberShape]
    left_out: int  # so many more there are


async def list_agents(call: CallContext, said: ListAgents) -> Team:
    """List the agents of your team: name, role (lead or worker), what each says it can do, whether it is online, and
    its load: how many tasks are open with it, how many threads it owns, and how many runs of it are at work now.
    """
    members = await call.services.team.members()
    shown = members if len(members) <= said.limit else sorted(members, key=lambda one: not one.present.online)
    return {
        "agents": [shape(MemberShape, member, member.present, member.present.agent) for member in shown[: said.limit]],
        "left_out": max(0, len(members) - said.limit),
    }


TOOL = McpTool(name="list-agents", arguments=ListAgents, result=Team, run=list_agents)
