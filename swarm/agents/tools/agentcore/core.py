"""AgentCore, opened: its tools, and what is missing for those that are not there."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from swarm.agents.toolbox.tool import Tool
from swarm.agents.tools.agentcore.options import AgentCoreOptions
from swarm.agents.tools.agentcore.sessions import CLOSING_SECONDS, AgentCoreSessions
from swarm.agents.tools.agentcore.threads import in_thread

if TYPE_CHECKING:
    from swarm.agents.tools.agentcore.browse import Automation
    from swarm.agents.tools.agentcore.clients import Clients

NAMES: Final = ("web-browse", "memory-store", "memory-recall", "code-execute")
"""The tools that there can be."""

PACKAGE: Final = "bedrock_agentcore"
OPEN_SECONDS: Final = 15.0
"""Where the credentials come from a command or from a machine's metadata service, that may take a moment."""

_MEMORY: Final = ("memory-store", "memory-recall")
_MEMORY_ID: Final = re.compile(
    r"(arn:aws[a-z-]*:bedrock-agentcore:\S+:memory/)?[a-zA-Z][a-zA-Z0-9_-]{0,99}-[a-zA-Z0-9]{10}"
)


class AgentCore:
    """The tools of AgentCore, as far as there are any. Close it when nothing calls them any more."""

    def __init__(self, tools: Sequence[Tool], absent: Sequence[str], sessions: AgentCoreSessions) -> None:
        self._tools = tuple(tools)
        self._absent = tuple(absent)
        self._sessions = sessions

    @classmethod
    async def open(cls, options: AgentCoreOptions, *, automation: Automation | None = None) -> AgentCore:
        """What can be used here and now: with the package, credentials and a region.

        Nothing is asked of AgentCore itself. ``automation`` says how the websocket of a browser is reached; None: as
        the package says. Raises nothing: what is missing is told by `why_absent`.
        """
        sessions = AgentCoreSessions()
        if importlib.util.find_spec(PACKAGE) is None:
            return cls(
                (), [_line(NAMES, "the package bedrock-agentcore is missing; install swarm[agentcore]")], sessions
            )
        try:
            clients = await asyncio.wait_for(in_thread(lambda: _clients(options)), OPEN_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator goes on without these tools
            return cls((), [_line(NAMES, _why(error))], sessions)
        return cls(*_with(clients, sessions, options, automation), sessions)

    def tools(self) -> tuple[Tool, ...]:
        """Those that can be used."""
        return self._tools

    def why_absent(self) -> tuple[str, ...]:
        """One line for each reason why tools are not there: which, why, and what to do; empty if all are."""
        return self._absent

    async def aclose(self, *, within_seconds: float = CLOSING_SECONDS) -> None:
        """Wait until all sessions at AWS are stopped; the longest takes as long as AWS leaves us without an answer."""
        await self._sessions.aclose(within_seconds=within_seconds)


def _with(
    clients: Clients, sessions: AgentCoreSessions, options: AgentCoreOptions, automation: Automation | None
) -> tuple[list[Tool], list[str]]:
    from swarm.agents.tools.agentcore import browse, code, memory

    tools = [browse.browse_tool(clients, sessions, options, automation or browse.automation)]
    absent = []
    if options.memory_id and _MEMORY_ID.fullmatch(options.memory_id):
        tools.extend(memory.memory_tools(clients, options, options.memory_id))
    elif options.memory_id:
        absent.append(_line(_MEMORY, f"'{options.memory_id}' is no id of a memory; check tools.agentcore.memory_id"))
    else:
        absent.append(_line(_MEMORY, "no memory is set; set tools.agentcore.memory_id"))
    return [*tools, code.code_tool(clients, sessions, options)], absent


def _clients(options: AgentCoreOptions) -> Clients:
    """They import a lot, which takes more than a second."""
    from swarm.agents.tools.agentcore.clients import Clients

    return Clients(options)


def _why(error: Exception) -> str:
    from swarm.agents.tools.agentcore.clients import AgentCoreUnusable

    match error:
        case AgentCoreUnusable():
            return str(error)
        case TimeoutError():
            return f"AWS's credentials were not found within {OPEN_SECONDS:g} s"
        case ImportError():
            return f"the package bedrock-agentcore cannot be loaded ({error}); install swarm[agentcore] anew"
    return f"AWS's configuration cannot be used: {' '.join(str(error).split()) or type(error).__name__}"


def _line(names: Sequence[str], why: str) -> str:
    return f"{', '.join(names)}: {why}."
