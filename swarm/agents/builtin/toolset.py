"""The tools of one run of the assistant, as pydantic-ai calls them: checked, counted, cut, shown and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.messages import ModelResponse
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from swarm.agents.builtin.run import BuiltinRun
from swarm.agents.toolbox.arguments import Checked, checked, mended
from swarm.agents.toolbox.tool import CONCLUDE, CallCaps, Tool, ToolAnswer, answered, not_for_strangers

_ANYTHING = SchemaValidator(core_schema.dict_schema())
"""The arguments are checked by us, against the tool's own schema."""


class RunTools(AbstractToolset[None]):
    """The tools of one run, unchanged from its start."""

    def __init__(self, run: BuiltinRun, tools: Sequence[Tool], *, most_characters: int) -> None:
        self._run = run
        self._tools = {tool.name: tool for tool in tools}
        self._caps = CallCaps()
        self._most_characters = most_characters

    @property
    def id(self) -> str | None:
        """Returns None: each run has one toolset."""
        return None

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Returns all tools at every step: some providers refuse a conversation whose tools have disappeared."""
        return {name: self._offered(tool, ctx) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        """Returns the tool's answer, or the reason why it was not called."""
        call_id = ctx.tool_call_id or f"{self._run.turn.run_id}-{ctx.run_step}"
        chosen = self._tools[name]
        arguments = mended(chosen.parameters, tool_args)
        await self._run.begin_call(call_id, name, arguments)
        answer = await self._answer(chosen, arguments, ctx.run_step)
        await self._run.end_call(call_id, name, arguments, answer)
        return answer.text

    def conclude(self, ctx: RunContext[None]) -> str:
        """Returns an extra instruction to conclude, once every call of the last step was over the limit."""
        last = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
        return CONCLUDE if last and self._caps.must_conclude(ctx.run_step - 1, len(last.tool_calls)) else ""

    async def _answer(self, tool: Tool, arguments: dict[str, Any], step: int) -> ToolAnswer:
        if refusal := not_for_strangers(tool, by_strangers=self._run.turn.origin.by_strangers):
            return refusal
        if refusal := self._caps.refusal(tool, step):
            return refusal
        found = checked(tool.parameters, arguments)
        if found.is_fine:
            return await answered(tool, arguments, self._most_characters)
        return ToolAnswer(text=_wrong(tool, found), failed=True)

    def _offered(self, tool: Tool, ctx: RunContext[None]) -> ToolsetTool[None]:
        return ToolsetTool(
            toolset=self,
            tool_def=ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
            ),
            max_retries=3,
            args_validator=_ANYTHING,
        )


def _wrong(tool: Tool, found: Checked) -> str:
    """Words the errors for the model, which then tries again with better arguments."""
    problems = [*(f"{name} is missing" for name in found.missing), *found.problems]
    return f"{tool.name} was not called, because its arguments do not fit: {'; '.join(problems)}."
