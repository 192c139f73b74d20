"""The swarm's own tools for built-in agents: the MCP tools of ``tools/``, called in this process.

A call acts for the run in whose task it is made: with the run's agent, under the lease of its work. What only a run can
know is filled in here and not asked of the model: its lease, its message, its thread, and the ids that recognise a
repeated call. `swarm.services.inbox.run_calls` says what a repeated run finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from swarm.domain.answers.events import InputMessage
from swarm.domain.errors import SwarmError
from swarm.domain.model.agents import Role
from swarm.entrypoints.mcp.mcp_server import describe_tool, run_tool
from swarm.services.inbox.run_calls import RunWork
from swarm.services.use_cases import Services
from swarm_agents.toolbox.people import CALLER, ToolCaller
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed
from tools.tool import CallContext, McpTool, discover

_EVERYBODYS: Final = ("list-agents", "get-task", "list-tasks", "slack-read-thread", "send-message", "read-messages")
NAMES: Final = {
    Role.LEAD: (*_EVERYBODYS, "inbox-delegate", "create-task", "assign-task", "cancel-task"),
    Role.WORKER: _EVERYBODYS,  # a worker's run reports its task by its end
}
"""The tools of each role."""

_DELEGATE: Final = "inbox-delegate"
_READ_THREAD: Final = "slack-read-thread"
_WRITING: Final = frozenset({_DELEGATE, "create-task", "assign-task", "cancel-task", "send-message"})
_FILLED_IN: Final = frozenset({"lease_token", "request_id", "inbox_message_id", "thread_id", "only", "parent_id"})
_RECIPIENTS: Final = {"create-task": ("agent",), "send-message": ("to", "channel")}
"""The tools that a repeated run would call again, each with the arguments that name the recipient."""

_NOT_HERE: Final = (
    "{tool} was not called: it works only while you answer in Slack. Nobody else can be reached from this conversation."
)
_NO_MESSAGE: Final = (
    "{tool} was not called: this run has no message that could be handed over. Use create-task to give out work."
)


class TeamTools:
    """The tools of both roles. They work once the services exist, because the agents are built first."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._known: Mapping[str, McpTool[Any, Any]] = {}

    def connect(self, services: Services) -> None:
        """Sets the services."""
        self._services = services

    def of(self, role: Role) -> Sequence[Tool]:
        """Returns the tools of a role, as their agents' models see them."""
        self._known = self._known or discover()
        return [self._tool(self._known[name]) for name in NAMES[role]]

    async def follow_ups(self, run_id: str) -> Sequence[InputMessage]:
        """Returns new messages for a task's run; see `swarm_agents.builtin.assistant.FollowUps`."""
        try:
            return await self._services.run_calls.follow_ups(run_id) if self._services else ()
        except SwarmError:  # the messages stay where they are: the next call finds them, or the end of the task
            return ()

    def _tool(self, tool: McpTool[Any, Any]) -> Tool:
        async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
            return await self._call(tool.name, arguments)

        return Tool(
            name=tool.name,
            description=tool.description,
            parameters=_asked_of_model(describe_tool(tool).input_schema),
            call=call,
            is_read_only=not tool.writes,
            carries_standing=tool.name in (_DELEGATE, "create-task"),
            hands_over=tool.name == _DELEGATE,
        )

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        caller = CALLER.get()
        if self._services is None or caller is None or not caller.run_id:
            return failed(_NOT_HERE.format(tool=name))
        try:
            work = await self._services.run_calls.work_of(caller.run_id)
        except SwarmError as error:
            return failed(f"{name} was not called: {error.message}")
        given = _filled_in(name, arguments, work, caller)
        if given is None:
            return failed(_NO_MESSAGE.format(tool=name))
        context = CallContext(agent=work.agent, work=work.work, services=self._services)
        result = await run_tool(self._known, context, name, given)
        if name == _DELEGATE and not result.is_error:
            caller.handed_to.append(str(arguments["agent"]))
        return ToolAnswer(text=_text(result), failed=bool(result.is_error))


def _asked_of_model(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a tool's schema without the arguments that are filled in."""
    properties = {name: part for name, part in schema.get("properties", {}).items() if name not in _FILLED_IN}
    required = [name for name in schema.get("required", ()) if name in properties]
    return {**schema, "properties": properties, "required": required}


def _filled_in(name: str, arguments: Mapping[str, Any], work: RunWork, caller: ToolCaller) -> dict[str, Any] | None:
    """Returns the complete arguments of a call; None for the delegation of a message that does not exist."""
    given = dict(arguments)
    if name == _READ_THREAD and not given.get("task_id"):
        given["thread_id"] = work.thread_id
    if name == _DELEGATE:
        if work.inbox_message_id is None:
            return None
        given["inbox_message_id"] = work.inbox_message_id
    if name in _WRITING:
        given["lease_token"] = work.lease_token
    if name in _RECIPIENTS:
        recipient = next((str(given[key]) for key in _RECIPIENTS[name] if given.get(key)), "")
        caller.counts[f"{name}:{recipient}"] += 1
        given["request_id"] = f"{work.work}:{recipient}:{caller.counts[f'{name}:{recipient}']}"[-200:]
    return given


def _text(result: CallToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))
