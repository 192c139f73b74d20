"""Opens AgentCore: the available tools, and the reasons why others are unavailable."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.sessions import (
    CLOSING_SECONDS,
    AgentCoreSessions,
    AgentCoreUnusable,
    Clients,
    in_thread,
)
from swarm_agents.toolbox.tool import Tool

if TYPE_CHECKING:
    from swarm_agents.built_in_tools.agentcore.browse import Automation

NAMES: Final = ("web-browse", "memory-store", "memory-recall", "code-execute")
"""All tools of AgentCore."""

_PACKAGE: Final = "bedrock_agentcore"
_OPEN_SECONDS: Final = 15.0
"""Credentials from a command or from a machine's metadata service may take some time."""

_MEMORY: Final = ("memory-store", "memory-recall")
_MEMORY_ID: Final = re.compile(
    r"(arn:aws[a-z-]*:bedrock-agentcore:\S+:memory/)?[a-zA-Z][a-zA-Z0-9_-]{0,99}-[a-zA-Z0-9]{10}"
)


class AgentCore:
    """The available tools of AgentCore. Callers close it after the last call."""

    def __init__(self, tools: Sequence[Tool], absent: Sequence[str], sessions: AgentCoreSessions) -> None:
        self._tools = tuple(tools)
        self._absent = tuple(absent)
        self._sessions = sessions

    @classmethod
    async def open(cls, options: AgentCoreOptions, *, automation: Automation | None = None) -> AgentCore:
        """Opens the tools for which the package, credentials, region and ids are available; `why_absent` explains why
        others are not.

        Sends nothing to AgentCore and raises nothing. ``automation`` finds the websocket of a browser; None to use the
        package.
        """
        sessions = AgentCoreSessions()
        if importlib.util.find_spec(_PACKAGE) is None:
            return cls(
                (),
                [_line(NAMES, "the package bedrock-agentcore is missing; install swarm-agents[agentcore]")],
                sessions,
            )
        try:
            clients = await asyncio.wait_for(in_thread(lambda: Clients(options)), _OPEN_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator goes on without these tools
            return cls((), [_line(NAMES, _why(error))], sessions)
        return cls(*_with(clients, sessions, options, automation), sessions)

    def tools(self) -> tuple[Tool, ...]:
        """Returns the available tools."""
        return self._tools

    def why_absent(self) -> tuple[str, ...]:
        """Returns one line per reason: the unavailable tools, the cause, and the remedy."""
        return self._absent

    async def aclose(self, *, within_seconds: float = CLOSING_SECONDS) -> None:
        """Waits until all sessions at AWS are stopped, for at most the given time."""
        await self._sessions.aclose(within_seconds=within_seconds)


def _with(
    clients: Clients, sessions: AgentCoreSessions, options: AgentCoreOptions, automation: Automation | None
) -> tuple[list[Tool], list[str]]:
    from swarm_agents.built_in_tools.agentcore import browse, code, memory

    tools = [browse.browse_tool(clients, sessions, options, automation or browse.automation)]
    absent = []
    if options.memory_id and _MEMORY_ID.fullmatch(options.memory_id):
        tools.extend(memory.memory_tools(clients, options, options.memory_id))
    elif options.memory_id:
        absent.append(
            _line(_MEMORY, f"'{options.memory_id}' is not the id of a memory; check tools.agentcore.memory_id")
        )
    else:
        absent.append(_line(_MEMORY, "no memory is set; set tools.agentcore.memory_id"))
    return [*tools, code.code_tool(clients, sessions, options)], absent


def _why(error: Exception) -> str:
    match error:
        case AgentCoreUnusable():
            return str(error)
        case TimeoutError():
            return f"AWS's credentials were not found within {_OPEN_SECONDS:g} s"
        case ImportError():
            return f"the package bedrock-agentcore cannot be loaded ({error}); reinstall swarm-agents[agentcore]"
    return f"AWS's configuration cannot be used: {' '.join(str(error).split()) or type(error).__name__}"


def _line(names: Sequence[str], why: str) -> str:
    return f"{', '.join(names)}: {why}."
