"""The assistant: one run of pydantic-ai's agent over the messages of the session."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Any, Final

from pydantic_ai import Agent, AgentRunEvents
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage, UsageLimits

from swarm.agents.builtin.fence import fenced
from swarm.agents.builtin.messages import earlier, model_messages
from swarm.agents.builtin.run import BuiltinRun, Stumbled
from swarm.agents.builtin.sessions import asked, unheard
from swarm.agents.builtin.toolset import RunTools
from swarm.agents.models.troubles import label_of
from swarm.agents.toolbox.tool import Tool
from swarm.domain.answers.events import RunInput
from swarm.domain.model.models import ModelUsage
from swarm.domain.model.sessions import Memory, MessageRole, SessionMessage, SessionScope

TOOL_RETRIES: Final = 3
"""The number of consecutive calls of unknown tools allowed to a model."""

THREAD_CHARACTERS: Final = 20_000

Render = Callable[[RunInput, Sequence[Tool]], Awaitable[str]]
"""Renders the system prompt for a run. Raises a SwarmError whose message is for people."""


class Assistant:
    """A built-in agent that thinks and calls tools; implements `swarm.agents.builtin.agent.Works`.

    ``usage_of`` returns the usage of a run with its cost.
    """

    def __init__(
        self,
        model: Model,
        *,
        memory: Memory,
        tools: Callable[[], Sequence[Tool]],
        prompt: Render,
        limits: UsageLimits,
        usage_of: Callable[[RunUsage], ModelUsage],
        scope: SessionScope = SessionScope.USER,
        most_characters: int = 20_000,
    ) -> None:
        self._model = model
        self._memory = memory
        self._tools = tools
        self._prompt = prompt
        self._limits = limits
        self._usage_of = usage_of
        self._has_authors = scope is SessionScope.THREAD
        self._most_characters = most_characters

    async def aclose(self) -> None:
        """Does nothing: the assistant owns no resources."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers one run: thinks, calls tools and writes, within the limits."""
        tools = self._tools()
        toolset = RunTools(run, tools, most_characters=self._most_characters)
        prompt = await self._prompt(run.input, tools)
        agent: Agent[None, str] = Agent(
            self._model,
            instructions=[prompt, toolset.conclude],
            toolsets=[toolset],
            retries=TOOL_RETRIES,
        )
        remembered = await self._memory.get_messages(run.session_id, run_id=run.input.run_id)
        usage = RunUsage()
        try:
            async with agent.run_stream_events(
                self._question(run.input, remembered),
                message_history=model_messages(earlier(remembered), with_authors=self._has_authors),
                usage_limits=self._limits,
                usage=usage,
            ) as events:
                try:
                    await _show(run, events)
                finally:
                    run.model = _label(events) or run.model
        finally:
            run.used(self._usage_of(usage))
        if not any(one.role is MessageRole.ASSISTANT and one.text.strip() for one in run.remembered):
            raise Stumbled("The model had nothing to say. Ask again, or put it differently.", code="empty")

    def _question(self, run_input: RunInput, remembered: Sequence[SessionMessage]) -> str:
        """Returns the new messages, preceded by messages of the thread that the session does not have."""
        said = asked(run_input, with_author=self._has_authors)
        thread = unheard(run_input, remembered)
        if not thread:
            return said
        return f"{fenced('Said before in this conversation', thread[-THREAD_CHARACTERS:])}\n\n{said}"


def _label(events: AgentRunEvents[str]) -> str:
    """Returns the model that answered last; empty if none has."""
    try:
        said = [label_of(message) for message in events.new_messages() if isinstance(message, ModelResponse)]
    except UserError:  # the run had not begun
        return ""
    return next((label for label in reversed(said) if label), "")


async def _show(run: BuiltinRun, events: AsyncIterable[Any]) -> None:
    """Shows the model's texts, each as one message; tools are shown where they are called."""
    count = 0
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                count += 1
                await run.write(text, f"text-{count}")
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                await run.write(text, f"text-{count}")
            case PartEndEvent(part=TextPart()):
                await run.written(f"text-{count}")
