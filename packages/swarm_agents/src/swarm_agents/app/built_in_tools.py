"""Builds the built-in agents' tools from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from swarm.app import process
from swarm.app.process import ShutdownStack
from swarm.config import LocalTool, Settings, checked_work_tree, read_variables
from swarm.config.builtin import SERVERS_CONFIG, GitSettings
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.agents import Role
from swarm.store.bridge.database import Database
from swarm_base import log
from swarm_base import secrets as text_secrets

if TYPE_CHECKING:
    from swarm.config.mcp_servers import McpServer
    from swarm_agents.app.swarm_tools import TeamTools
    from swarm_agents.mcp.servers import McpServers
    from swarm_agents.toolbox.people import AskPeople
    from swarm_agents.toolbox.tool import Tool

_AGENTCORE = frozenset({LocalTool.WEB_BROWSE, LocalTool.MEMORY_STORE, LocalTool.MEMORY_RECALL, LocalTool.CODE_EXECUTE})
_DELEGATES = frozenset({LocalTool.KIRO_DELEGATE, LocalTool.CLAUDE_DELEGATE, LocalTool.CODEX_DELEGATE})
_MOST_NAMED = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Toolbox:
    """All available tools."""

    servers: McpServers
    local: Mapping[str, Tool]  # by name: the tools that work here and that at least one agent may use
    documents: Sequence[Tool]
    team: TeamTools
    given: Mapping[str, Sequence[str] | None]  # the MCP servers and tools that each agent names

    def router_tools(self, agent: str) -> Sequence[Tool]:
        """Returns a router's tools, which are its current tools of the MCP servers."""
        from swarm_agents.toolbox.tool import is_given

        return [tool for tool in self.servers.tools() if is_given(tool.server, tool.server_name, agent, self.given)]

    def unoffered(self, agent: str) -> Mapping[str, str]:
        """Returns why tools of an agent's MCP servers are not offered, by server/tool."""
        from swarm_agents.toolbox.tool import is_given

        odd = [(server.name, tool, why) for server in self.servers.status() for tool, why in server.refused.items()]
        is_ours = agent in self.given
        return {f"{at}/{tool}": why for at, tool, why in odd if is_ours and is_given(at, tool, agent, self.given)}

    def assistant_tools(self, agent: str, allowed: Iterable[LocalTool], role: Role) -> Callable[[], Sequence[Tool]]:
        """Returns a function that lists an assistant's tools for each run."""
        own = [*self.documents, *(self.local[name] for name in allowed if name in self.local)]
        if LocalTool.SWARM in allowed:
            own += self.team.of(role)
        return lambda: [*own, *self.router_tools(agent)]


async def open_toolbox(
    settings: Settings, database: Database, closings: ShutdownStack, team: TeamTools, ask: AskPeople | None = None
) -> Toolbox:
    """Opens all configured tools. Logs one line for each tool that is allowed but unavailable.

    ``team`` are the swarm's own tools. ``ask`` asks people what MCP servers want to know from them; None: nobody is
    asked. Raises ConfigurationError for errors that prevent the start.
    """
    wanted = {tool for chosen in settings.agents.builtin.values() for tool in chosen.tools}
    documents = await _documents(settings, database, closings)
    local = {tool.name: tool for tool in await _local(settings, wanted, closings)}
    reserved = [*local, *(tool.name for tool in documents), *_router_names()]
    if LocalTool.SWARM in wanted:
        reserved += [tool.name for tool in team.of(Role.LEAD)]
    servers = await _servers(settings, reserved, closings, ask)
    given = {name: chosen.servers for name, chosen in settings.agents.builtin.items()}
    return Toolbox(servers=servers, local=local, documents=documents, team=team, given=given)


def _router_names() -> Iterable[str]:
    from swarm_agents.router.decision import OWN

    return OWN


async def _servers(
    settings: Settings, reserved: Sequence[str], closings: ShutdownStack, ask: AskPeople | None
) -> McpServers:
    """Returns the MCP servers, or none if the file is missing and the settings do not name one."""
    from swarm.config.mcp_servers import read
    from swarm_agents.mcp.servers import McpServers

    path = settings.tools.servers_config
    is_absent = path == SERVERS_CONFIG and not path.is_file()
    described = () if is_absent else read(path, read_variables())
    _refuse_unknown(settings, described)
    secrets = [secret for server in described for secret in server.secrets]
    log.hide(secrets)
    text_secrets.hide(secrets)
    servers = McpServers(described, reserved=reserved, ask=ask)
    closings.add("MCP servers", servers.aclose)
    await servers.start()
    return servers


def _refuse_unknown(settings: Settings, described: Sequence[McpServer]) -> None:
    """Raises ConfigurationError if an agent names a server or a tool that is not there, or is not allowed."""
    known = [
        name for server in described for name in (server.name, *(f"{server.name}/{one}" for one in server.allowed))
    ]
    for agent, chosen in settings.agents.builtin.items():
        for pattern in chosen.servers or ():
            if not any(fnmatchcase(name, pattern) for name in known):
                raise ConfigurationError(
                    f"agents.builtin.{agent}.servers: {settings.tools.servers_config} has no enabled server and allows "
                    f"no tool {pattern}.",
                    hint=f"There are: {', '.join(known[:_MOST_NAMED]) or 'none'}.",
                )


async def _documents(settings: Settings, database: Database, closings: ShutdownStack) -> Sequence[Tool]:
    folder = settings.documents.folder
    if folder is None:
        return ()
    from swarm.services.builtin.library import DocumentLibrary, FolderIndex
    from swarm.services.builtin.library_folder import Folder
    from swarm_agents.built_in_tools.documents import document_tools

    if not folder.expanduser().is_dir():
        raise ConfigurationError(
            f"documents.folder is {folder}: there is no such folder", hint="Create it, or unset it."
        )
    index = FolderIndex(
        database,
        Folder(path=folder.expanduser(), most_bytes=settings.documents.most_bytes),
        scan_seconds=settings.documents.rescan_seconds,
    )
    scanning = asyncio.create_task(index.run(), name="documents")
    closings.add("documents", partial(process.end, scanning))
    return document_tools(
        DocumentLibrary(database),
        search_max_calls=settings.tools.search_max_calls,
        fetch_max_calls=settings.tools.fetch_document_max_calls,
    )


async def _local(settings: Settings, wanted: set[LocalTool], closings: ShutdownStack) -> Sequence[Tool]:
    if not wanted:
        return ()
    found: list[Tool] = []
    if root := checked_work_tree(settings):
        found += [*_on_this_machine(settings, root, wanted), *_delegates(settings, root, wanted)]
    found += await _agentcore(settings, wanted, closings)
    if LocalTool.WRITE_PLAN in wanted:
        from swarm_agents.built_in_tools.plan import plan_tool

        found.append(plan_tool())
    return [tool for tool in found if tool.name in wanted]


def _on_this_machine(settings: Settings, root: Path, wanted: set[LocalTool]) -> Sequence[Tool]:
    from swarm_agents.built_in_tools.files import file_tools
    from swarm_agents.built_in_tools.shell import shell_tool
    from swarm_base.processes.captured import clean_environment

    found: list[Tool] = []
    if LocalTool.GIT in wanted:
        found.append(_git(settings.tools.git, root))
    if LocalTool.SHELL in wanted:
        chosen = settings.tools.shell
        env = clean_environment(read_variables(), passed=chosen.environment)
        shell = shell_tool(root, chosen.commands, env=env, timeout_seconds=chosen.timeout_seconds)
        if shell:
            found.append(shell)
        else:
            _say_absent("shell: no program is allowed (tools.shell.commands)")
    if wanted & {LocalTool.FILE_READ, LocalTool.FILE_WRITE}:
        found += file_tools(root)
    return found


def _git(chosen: GitSettings, root: Path) -> Tool:
    from swarm_agents.built_in_tools.git.repository import GitOptions
    from swarm_agents.built_in_tools.git.tool import git_tool
    from swarm_base.processes.captured import clean_environment

    options = GitOptions(
        author_name=chosen.author_name,
        author_email=chosen.author_email,
        protocols=tuple(chosen.protocols),
        credential_helper=chosen.credential_helper,
        trusted_keys=tuple(chosen.trusted_keys),
        timeout_seconds=chosen.timeout_seconds,
    )
    return git_tool(root, env=clean_environment(read_variables(), passed=chosen.environment), options=options)


def _delegates(settings: Settings, root: Path, wanted: set[LocalTool]) -> Sequence[Tool]:
    if not wanted & _DELEGATES:
        return ()
    from swarm_agents.built_in_tools.delegates import delegate_tools
    from swarm_base.processes.captured import clean_environment

    chosen = settings.tools.delegates
    delegates = delegate_tools(
        root,
        env=clean_environment(read_variables(), passed=chosen.environment),
        kiro_path=chosen.kiro,
        claude=chosen.claude,
        codex=chosen.codex,
        claude_options=tuple(chosen.claude_options),
        codex_options=tuple(chosen.codex_options),
        timeout_seconds=chosen.timeout_seconds,
    )
    for line in delegates.absent:
        if line.partition(":")[0] in wanted:
            _say_absent(line)
    return delegates.tools


async def _agentcore(settings: Settings, wanted: set[LocalTool], closings: ShutdownStack) -> Sequence[Tool]:
    if not wanted & _AGENTCORE:
        return ()
    from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
    from swarm_agents.built_in_tools.agentcore.core import AgentCore

    chosen = settings.tools.agentcore
    core = await AgentCore.open(
        AgentCoreOptions(region=chosen.region, memory_id=chosen.memory_id, actor_id=chosen.actor_id)
    )
    closings.add("AgentCore", core.aclose)
    for line in core.why_absent():
        if any(name.strip() in wanted for name in line.partition(":")[0].split(",")):
            _say_absent(line)
    return core.tools()


def _say_absent(line: str) -> None:
    _log.warning("A tool is not offered.", action="tool_absent", why=line)
