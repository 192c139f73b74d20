"""list-agents: who is in the team."""

from __future__ import annotations

from typing_extensions import TypedDict

from swarm.domain.team_shapes import MemberShape, member_shape
from tools.tool import Arguments, Call, Tool


class Nothing(Arguments):
    pass


class Team(TypedDict):
    """Everybody, oldest first."""

    agents: list[MemberShape]


async def list_agents(call: Call, said: Nothing) -> Team:
    """List the agents of your team: name, role (lead or worker), what each says it can do, whether it is online, and
    its load: how many tasks are open with it, how many threads it owns, and how many runs of it are at work now.
    """
    members = await call.services.team.members()
    return {
        "agents": [member_shape(member.present.agent, member.load, online=member.present.online) for member in members]
    }


TOOL = Tool(name="list-agents", arguments=Nothing, result=Team, run=list_agents)
