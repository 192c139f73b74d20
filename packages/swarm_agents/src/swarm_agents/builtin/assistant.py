"""The assistant: runs a pydantic-ai agent with its tools over the messages of the session.

Tool calls are validated, counted, shortened, shown and stored.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from pydantic_ai import Agent, AgentRunEvents, DeferredToolRequests, RunContext, ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import SchemaValidator, core_schema

from swarm.clock import new_id
from swarm.domain.answers.events import InputMessage, RunInput
from swarm.domain.model.language_models import TOOL_OUTPUT_CHARACTERS, ModelUsage
from swarm.domain.model.sessions import RunMemory, SessionMessage, SessionScope, messages_for_model
from swarm_agents.builtin.approvals import Settled, ask, settle
from swarm_agents.builtin.messages import earlier, fenced, model_messages
from swarm_agents.builtin.run import BuiltinRun, Stumbled, asked, questions, unheard
from swarm_agents.models.troubles import label_of
from swarm_agents.models.usage import limits_of
from swarm_agents.toolbox.approval_rules import NEVER, ApprovalRules
from swarm_agents.toolbox.arguments import Checked, mended_and_checked
from swarm_agents.toolbox.people import CALLER
from swarm_agents.toolbox.tool import CONCLUDE, CallCaps, Tool, ToolAnswer, answered, failed, not_for_strangers
from swarm_base.processes.background import checked_in_turn

_ANYTHING = SchemaValidator(core_schema.dict_schema())
"""Accepts any arguments: the toolset validates them against the tool's own schema."""

_TOOL_RETRIES: Final = 3
"""The number of consecutive calls to unknown tools allowed for a model."""

_THREAD_CHARACTERS: Final = 20_000

_MAY_NOT_WAIT: Final = (
    "{tool} was not called: a person has to approve it, and this run cannot wait for that. Say what you would do; "
    "people can ask you for it."
)
_WAITS_ALREADY: Final = (
    "{tool} was not called: another call waits for a person's approval first. Hand the work over after that."
)

FollowUps = Callable[[str], Awaitable[Sequence[InputMessage]]]
"""Returns what people have written to a task's run, given by its id, since it began, each message once."""


async def no_follow_ups(run_id: str) -> Sequence[InputMessage]:
    """Returns no messages."""
    return ()


_Render = Callable[[RunInput, Sequence[Tool]], Awaitable[str]]
"""Renders the system prompt for a run. Raises a SwarmError with a user-facing message."""


class _RunTools(AbstractToolset[None]):
    """The tools of one run. They do not change during the run."""

    def __init__(
        self,
        run: BuiltinRun,
        tools: Sequence[Tool],
        *,
        most_characters: int,
        approvals: ApprovalRules,
        known: Iterable[SessionMessage],
        follow_ups: FollowUps = no_follow_ups,
    ) -> None:
        self._run = run
        self._tools = {tool.name: tool for tool in tools}
        self._caps = CallCaps()
        self._most_characters = most_characters
        self._approvals = approvals
        self._known_ids = {message.call_id for message in known}
        self._follow_ups = follow_ups

    @property
    def id(self) -> str | None:
        """Returns None: each run has one toolset."""
        return None

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Returns all tools at every step, because some providers reject a conversation whose tools have
        disappeared.
        """
        return {name: self._offered(tool, ctx) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> str:
        """Returns the tool's answer, or the reason why the tool was not called.

        A call that a person has to approve is not made: the run ends after the other calls of this step. Nobody is
        asked about a call that would be refused anyway.
        """
        call_id = ctx.tool_call_id or f"{self._run.input.agui_run_id}-{ctx.run_step}"
        chosen = self._tools[name]
        arguments, found = await checked_in_turn(mended_and_checked, chosen.parameters, tool_args)
        refusal = self._refusal(chosen, found, ctx.run_step)
        if refusal is None and self._approvals.apply_to(chosen, arguments):
            refusal = await chosen.refuse(arguments) or self._asked(chosen, arguments, self._new_id(call_id))
        await self._run.begin_call(call_id, name, arguments)
        answer = refusal or await answered(chosen, arguments, self._most_characters)
        await self._run.end_call(call_id, name, arguments, answer)
        if text := await self.heard():
            ctx.enqueue(text)
        return answer.text

    async def heard(self) -> str:
        """Returns and stores what people have written to the run since the last call."""
        new = await self._follow_ups(self._run.input.run_id) if self._run.input.run_id else ()
        in_slack = replace(self._run.input, messages=tuple(new))
        self._run.remember(*questions(in_slack))
        return asked(in_slack, with_author=True) if any(one.text.strip() for one in new) else ""

    def _asked(self, tool: Tool, arguments: dict[str, Any], call_id: str) -> ToolAnswer:
        """Ends the run with a question about a call. Returns a refusal if the run cannot wait for the answer."""
        caller = CALLER.get()
        if not self._run.input.may_wait or (caller and caller.handed_to):
            return failed(_MAY_NOT_WAIT.format(tool=tool.name))
        if refusal := ask(self._run, tool, arguments, call_id):
            return refusal
        raise ApprovalRequired

    def _new_id(self, call_id: str) -> str:
        """Returns an id for a waiting call that no earlier call has. Some models number the calls of each run."""
        taken = {message.call_id for message in (*self._run.remembered, *self._run.waiting)} | self._known_ids
        return f"{call_id}-{new_id()}" if call_id in taken else call_id

    def conclude(self, ctx: RunContext[None]) -> str:
        """Returns an additional instruction to conclude if every call of the last step exceeded the limit."""
        last = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
        return CONCLUDE if last and self._caps.must_conclude(ctx.run_step - 1, len(last.tool_calls)) else ""

    def _refusal(self, tool: Tool, found: Checked, step: int) -> ToolAnswer | None:
        if refusal := not_for_strangers(tool, by_strangers=self._run.input.origin.by_strangers):
            return refusal
        if refusal := self._caps.refusal(tool, step):
            return refusal
        if tool.hands_over and self._run.waiting:
            return failed(_WAITS_ALREADY.format(tool=tool.name))
        return None if found.is_fine else failed(_wrong(tool, found))

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
    """Describes the validation errors for the model, which then retries with corrected arguments."""
    problems = [*(f"{name} is missing" for name in found.missing), *found.problems]
    return f"{tool.name} was not called, because its arguments do not fit: {'; '.join(problems)}."


class Assistant:
    """A built-in agent that reasons and calls tools; implements `swarm_agents.builtin.agent.Works`.

    ``usage_of`` returns the usage of a run with its cost.
    """

    def __init__(
        self,
        model: Model,
        *,
        memory: RunMemory,
        tools: Callable[[], Sequence[Tool]],
        prompt: _Render,
        usage_of: Callable[[RunUsage], ModelUsage],
        scope: SessionScope = SessionScope.USER,
        most_characters: int = TOOL_OUTPUT_CHARACTERS,
        approvals: ApprovalRules = NEVER,
        follow_ups: FollowUps = no_follow_ups,
    ) -> None:
        self._model = model
        self._memory = memory
        self._tools = tools
        self._prompt = prompt
        self._usage_of = usage_of
        self._has_authors = scope is SessionScope.THREAD
        self._most_characters = most_characters
        self._approvals = approvals
        self._follow_ups = follow_ups

    async def aclose(self) -> None:
        """Does nothing: the assistant has no resources to release."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers one run within its limits: settles waiting calls, calls the model and tools, and writes the answer.

        The run ends with questions if calls wait for people's approval.
        """
        tools = self._tools()
        prompt = await self._prompt(run.input, tools)
        settled = await settle(run, self._memory, tools, most_characters=self._most_characters)
        if settled.is_waiting:
            return
        remembered = await self._memory.get_messages(run.session_id, run_id=run.input.run_id)
        await self._converse(run, tools, prompt, settled, remembered)
        run.remember(*run.waiting)
        caller = CALLER.get()
        if caller and caller.handed_to:
            await run.announce(caller.handed_to)
        if not run.asked and not run.has_written:
            raise Stumbled("The model had nothing to say. Ask again, or put it differently.", code="empty")

    async def _converse(
        self,
        run: BuiltinRun,
        tools: Sequence[Tool],
        prompt: str,
        settled: Settled,
        remembered: Sequence[SessionMessage],
    ) -> None:
        toolset = _RunTools(
            run,
            tools,
            most_characters=self._most_characters,
            approvals=self._approvals,
            known=[*remembered, *settled.messages],
            follow_ups=self._follow_ups,
        )
        agent: Agent[None, str | DeferredToolRequests] = Agent(
            self._model,
            output_type=[str, DeferredToolRequests],
            instructions=[prompt, toolset.conclude],
            toolsets=[toolset],
            retries=_TOOL_RETRIES,
        )
        told = [*earlier(settled.without(remembered)), *messages_for_model(settled.messages)]
        messages = model_messages(told, with_authors=self._has_authors)
        question = self._question(run.input, settled, remembered)
        usage, texts = RunUsage(), count(1)
        try:
            while True:
                async with agent.run_stream_events(
                    question or None, message_history=messages, usage_limits=limits_of(run.limits), usage=usage
                ) as events:
                    try:
                        await _show(run, events, texts)
                    finally:
                        run.model = _label(events) or run.model
                question = "" if run.asked else await toolset.heard()
                if not question:
                    return
                messages = [*messages, *events.new_messages()]
        finally:
            run.used(self._usage_of(usage))

    def _question(self, run_input: RunInput, settled: Settled, remembered: Sequence[SessionMessage]) -> str:
        """Returns the new messages, preceded by messages of the thread that are missing from the session.

        Empty for a run that continues with the results of tools.
        """
        is_new = not run_input.decided or any(message.text.strip() for message in run_input.messages)
        said = asked(run_input, with_author=self._has_authors) if is_new else ""
        thread = unheard(run_input, [*settled.without(remembered), *settled.messages])
        fence = fenced("Said before in this conversation", thread[-_THREAD_CHARACTERS:]) if thread else ""
        return "\n\n".join(part for part in (fence, settled.note, said) if part)


def _label(events: AgentRunEvents[str | DeferredToolRequests]) -> str:
    """Returns the name of the model that answered last; empty if none has answered."""
    try:
        said = [label_of(message) for message in events.new_messages() if isinstance(message, ModelResponse)]
    except UserError:  # the run had not started
        return ""
    return next((label for label in reversed(said) if label), "")


async def _show(run: BuiltinRun, events: AsyncIterable[Any], numbers: Iterator[int]) -> None:
    """Shows each text of the model as one message. Tools are shown when they are called."""
    message_id = ""
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                message_id = f"text-{next(numbers)}"
                await run.write(text, message_id)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                await run.write(text, message_id)
            case PartEndEvent(part=TextPart()):
                await run.written(message_id)
