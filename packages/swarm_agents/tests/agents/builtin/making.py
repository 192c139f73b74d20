"""Agents, tools and turns as the tests of built-in agents need them."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.models import Model

from swarm.domain.answers.events import AgentEvent, InputMessage, Origin, RunInput, Speaker, TextDelta
from swarm.domain.model.language_models import NO_LIMITS, Door, ModelUsage, ModelUsageRecord, RunLimits
from swarm.domain.model.sessions import Memory, SessionMessage, SessionScope
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.database import Database
from swarm_agents.builtin.agent import BuiltinAgent, RunStorage, Trouble, Works
from swarm_agents.builtin.assistant import Assistant
from swarm_agents.models.troubles import is_transport_error, trouble_of
from swarm_agents.models.usage import usage_of
from swarm_agents.router.router import Router, Wordings
from swarm_agents.system_prompts.files import load
from swarm_agents.toolbox.approval_rules import NEVER, ApprovalRules
from swarm_agents.toolbox.tool import Tool, ToolAnswer

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
UNLIMITED = RunLimits(requests=None, tokens=None, tool_calls=None, seconds=30.0, cost_dollars=None)

_numbers = itertools.count(1)


class Made:
    """A tool that keeps its calls, and answers what it is told to."""

    def __init__(
        self,
        name: str,
        answer: ToolAnswer | str | BaseException | Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]] = "done",
        *,
        parameters: Mapping[str, Any] = NOTHING,
        description: str = "Does something.",
        server: str = "",
        most_calls: int | None = None,
        is_read_only: bool = False,
        is_destructive: bool = False,
        action: str = "",
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self._answer = answer
        self.tool = Tool(
            name=name,
            description=description,
            parameters=parameters,
            call=self._call,
            server=server,
            most_calls=most_calls,
            is_read_only=is_read_only,
            is_destructive=is_destructive,
            operation=action,
        )

    async def _call(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.calls.append(dict(arguments))
        match self._answer:
            case ToolAnswer():
                return self._answer
            case str():
                return ToolAnswer(text=self._answer)
            case BaseException():
                raise self._answer
            case _:
                return await self._answer(arguments)


class Held:
    """What a tool does that goes on until it is let go, or cut off."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.was_cut_off = False

    async def __call__(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        self.began.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.was_cut_off = True
            raise
        return ToolAnswer(text="done at last")


def multiply() -> Made:
    """Multiplies, as an MCP server's tool would."""

    async def product(arguments: Mapping[str, Any]) -> ToolAnswer:
        return ToolAnswer(text=f"{arguments['a'] * arguments['b']:g}")

    return Made("multiply", product, parameters=NUMBERS, description="Multiplies two numbers.", server="math")


def run_input(
    *texts: str | InputMessage,
    id: str = "",
    history: Sequence[tuple[str, str]] = (),
    user: str = "U1",
    thread: str = "100.1",
    door: Door = Door.SLACK,
    conversation: str = "C1:100.1",
    client: str = "",
) -> RunInput:
    """A run_input. Of the history each is (who, text); "assistant" is the agent itself."""
    number = next(_numbers)
    named = id or f"m{number}"
    new = [
        text
        if isinstance(text, InputMessage)
        else InputMessage(id=f"{named}.{place}" if place else named, speaker=Speaker.USER, text=text, author="Ann")
        for place, text in enumerate(texts)
    ]
    said = [
        InputMessage(id=f"h{place}", speaker=Speaker.ASSISTANT, text=text)
        if who == "assistant"
        else InputMessage(id=f"h{place}", speaker=Speaker.USER, text=text, author=who)
        for place, (who, text) in enumerate(history)
    ]
    return RunInput(
        run_id=f"t{number}",
        agui_run_id=f"r{number}",
        trace_id=f"x{number}",
        conversation_id=conversation,
        messages=tuple(new),
        history=tuple(said),
        origin=Origin(
            door=door,
            channel="C1" if door is Door.SLACK else "",
            thread_ts=thread if door is Door.SLACK else "",
            user_id=user,
            user_name="Ann",
            client=client,
        ),
    )


def explain(error: BaseException) -> Trouble | None:
    """As `swarm_agents.app.built_in` does."""
    if not isinstance(error, AgentRunError | ExceptionGroup) and not is_transport_error(error):
        return None
    trouble = trouble_of(error)
    return Trouble(message=trouble.message, code=trouble.code, is_limit=trouble.is_limit, limit=trouble.limit)


class RunsKept:
    """A book of runs in memory."""

    def __init__(self) -> None:
        self.runs: list[ModelUsageRecord] = []

    async def note(self, run: ModelUsageRecord) -> None:
        self.runs.append(run)

    async def used_today(self, session_id: str, run_id: str) -> ModelUsage:
        return sum((run.usage for run in self.runs if run.session_id == session_id), ModelUsage())


class Forgetful:
    """A memory with nothing in it, for what is not about memory."""

    def __init__(self) -> None:
        self.blocks: list[list[SessionMessage]] = []

    async def owner(self) -> str:
        return "helper"

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        return []

    async def shown_before(self, run_id: str) -> frozenset[str]:
        return frozenset()

    async def add_run(
        self,
        session_id: str,
        run: str,
        messages: Sequence[SessionMessage],
        *,
        run_id: str = "",
        has_answered: bool = True,
        continues: str = "",
        owner: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self.blocks.append(list(messages))

    async def waiting_turn(self, session_id: str, conversation_id: str, call_ids: Collection[str] = ()) -> None:
        return None

    async def compact_session(self, session_id: str) -> bool:
        return False


def remembering(database: Database, name: str = "assistant") -> DatabaseMemory:
    """The memory of an agent."""
    return DatabaseMemory(database, name, None)


def agent(
    works: Works,
    memory: Any,
    *,
    runs: Any = None,
    limits: RunLimits = UNLIMITED,
    day: RunLimits = NO_LIMITS,
    scope: SessionScope = SessionScope.USER,
) -> BuiltinAgent:
    """An agent out of what it does."""
    record = RunStorage(memory=memory, runs=runs or RunsKept(), scope=scope)
    return BuiltinAgent("helper", works, record, limits, day=day, explain=explain)


def assistant(
    model: Model,
    memory: Memory | Forgetful,
    *tools: Tool,
    limits: RunLimits = UNLIMITED,
    day: RunLimits = NO_LIMITS,
    scope: SessionScope = SessionScope.USER,
    runs: Any = None,
    most_characters: int = 20_000,
    approvals: ApprovalRules = NEVER,
) -> BuiltinAgent:
    """An assistant."""

    async def prompt(run_input: RunInput, tools: Sequence[Tool]) -> str:
        return "Help people."

    works = Assistant(
        model,
        memory=memory,  # type: ignore[arg-type]
        tools=lambda: tools,
        prompt=prompt,
        usage_of=usage_of,
        scope=scope,
        most_characters=most_characters,
        approvals=approvals,
    )
    return agent(works, memory, runs=runs, limits=limits, day=day, scope=scope)


@functools.cache
def wordings() -> Wordings:
    """The built-in prompts, but for the one that is a template."""
    prompts = load()
    router = prompts.router
    return Wordings(
        decide="Decide.",
        result_of=prompts.result_of,
        refuse_intro=router.refuse.intro,
        refuse_outro=router.refuse.outro,
        no_tools=router.refuse.no_tools,
        ask=router.ask,
        stopped=router.stopped,
    )


def router_works(
    model: Model,
    memory: Any,
    *tools: Tool,
    most_characters: int = 20_000,
    approvals: ApprovalRules = NEVER,
) -> Router:
    """What a router does."""

    async def found(run_input: RunInput, tools: Sequence[Tool]) -> Wordings:
        return wordings()

    return Router(
        model,
        memory=memory,
        tools=lambda: tools,
        wordings=found,
        usage_of=usage_of,
        most_characters=most_characters,
        approvals=approvals,
    )


def router(
    model: Model,
    memory: Any,
    *tools: Tool,
    limits: RunLimits = UNLIMITED,
    day: RunLimits = NO_LIMITS,
    runs: Any = None,
    **kwargs: Any,
) -> BuiltinAgent:
    """A tool router."""
    works = router_works(model, memory, *tools, **kwargs)
    return agent(works, memory, runs=runs, limits=limits, day=day, scope=SessionScope.THREAD)


async def hear(agent: BuiltinAgent, run_input: RunInput) -> list[AgentEvent]:
    """All that a run says."""
    async with asyncio.timeout(20), aclosing(agent.run(run_input)) as events:
        return [event async for event in events]


def texts(events: Sequence[AgentEvent]) -> list[str]:
    """The text messages of a run, each whole."""
    said: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextDelta):
            said[event.message_id] = said.get(event.message_id, "") + event.text
    return list(said.values())


def reader(agent: BuiltinAgent, run_input: RunInput) -> asyncio.Task[list[AgentEvent]]:
    """Somebody who listens to a run."""
    return asyncio.create_task(hear(agent, run_input))
