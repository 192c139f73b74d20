"""The assistant: one run of pydantic-ai's agent for each turn, over what the session remembers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Any, Final

from pydantic_ai import Agent, AgentRunResultEvent
from pydantic_ai.messages import (
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage, UsageLimits

from swarm.agents.assistant.toolset import RunTools
from swarm.agents.builtin.messages import model_messages
from swarm.agents.builtin.run import Run
from swarm.agents.builtin.sessions import asked, thread_of_several
from swarm.agents.models.served import label_of
from swarm.agents.toolbox.tool import Tool
from swarm.domain.model_runs import ModelUsage
from swarm.domain.sessions import Memory, SessionScope
from swarm.domain.streaming.events import TextEnded, TurnInput

TOOL_RETRIES: Final = 3
"""So often in a row a model may call a tool that there is not."""

THREAD_CHARACTERS: Final = 20_000

Render = Callable[[TurnInput, Sequence[Tool]], Awaitable[str]]
"""The system prompt for a turn. Raises a SwarmError whose message is for people."""


class Assistant:
    """See `swarm.agents.builtin.agent.Works`. ``usage_of`` tells what a run has used, and what that costs."""

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
        """There is nothing that is its own."""

    async def answer(self, run: Run) -> None:
        """Answer one turn: think, call tools, write; as often as it takes and the limits allow."""
        tools = self._tools()
        toolset = RunTools(run, tools, most_characters=self._most_characters)
        prompt = await self._prompt(run.turn, tools)
        agent: Agent[None, str] = Agent(
            self._model,
            instructions=[prompt, toolset.conclude],
            toolsets=[toolset],
            retries=TOOL_RETRIES,
        )
        told = await self._memory.get_messages(run.session_id)
        usage = RunUsage()
        try:
            async with agent.run_stream_events(
                self._question(run.turn),
                message_history=model_messages(told, with_authors=self._has_authors),
                usage_limits=self._limits,
                usage=usage,
            ) as events:
                await _show(run, events)
        finally:
            run.used(self._usage_of(usage))

    def _question(self, turn: TurnInput) -> str:
        """What is newly said, after what the session cannot know of the thread that it is said in."""
        said = asked(turn, with_author=self._has_authors)
        thread = "" if self._has_authors else thread_of_several(turn)
        if not thread:
            return said
        return f"[Said before in this thread, also by others]\n{thread[-THREAD_CHARACTERS:]}\n[End]\n\n{said}"


async def _show(run: Run, events: AsyncIterable[Any]) -> None:
    """Show what the model writes. Each of its texts is a message of its own; tools are shown where they are called."""
    count = 0
    async for event in events:
        match event:
            case PartStartEvent(part=TextPart(content=text)):
                count += 1
                await run.write(text, f"text-{count}")
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                await run.write(text, f"text-{count}")
            case PartEndEvent(part=TextPart()):
                await run.say(TextEnded(message_id=f"text-{count}"))
            case AgentRunResultEvent(result=result):
                run.model = label_of(result.response)
