"""The tool router: one call of the model decides, the tools run, and one more call puts what they said into words.

No other call is ever made: a refusal is built from the tools' descriptions, a question for what is missing from the
tool's schema where the model has not worded it, and what failed is told as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import Model

from swarm.agents.builtin.run import Run
from swarm.agents.builtin.sessions import asked
from swarm.agents.models.served import label_of
from swarm.agents.router import wording
from swarm.agents.router.decision import AskBack, Call, CallTools, Decision, Refuse, Stop, decision_in, offer
from swarm.agents.router.meter import check_request, check_tool_calls
from swarm.agents.toolbox.output import capped
from swarm.agents.toolbox.tool import Tool, ToolAnswer
from swarm.domain.model_runs import ModelUsage
from swarm.domain.models import RunLimits
from swarm.domain.sessions import MessageRole, SessionMessage
from swarm.domain.streaming.events import Speaker, TextEnded, ToolEnded, ToolStarted, TurnInput

RECENT_MESSAGES: Final = 20
"""So many messages before the new ones are told: a request that waits for an answer is among the last."""

ANSWER: Final = "answer"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wordings:
    """What the router is told and tells in one run; see `swarm.agents.prompts`."""

    decide: str  # to the model that decides
    result_of: Callable[[str], str]  # to the model that words what the tools of an MCP server said
    refuse_intro: str  # to people, before the list of tools
    refuse_outro: str  # to people, after it
    no_tools: str  # to people, where there is none
    ask: str  # to people, where the model asks nothing in particular
    stopped: str  # to people who do not want it any more


FindWordings = Callable[[TurnInput, Sequence[Tool]], Awaitable[Wordings]]
"""The wordings for a turn. Raises a SwarmError whose message is for people."""


class Recalls(Protocol):
    """What a router wants of a `swarm.domain.sessions.Memory`."""

    async def get_messages(self, session_id: str, limit: int | None = None) -> list[SessionMessage]:
        """The last messages of a session."""
        ...


class Router:
    """See `swarm.agents.builtin.agent.Works`."""

    def __init__(
        self,
        model: Model,
        *,
        memory: Recalls,
        tools: Callable[[], Sequence[Tool]],
        wordings: FindWordings,
        limits: RunLimits,
        usage_of: Callable[[ModelResponse], ModelUsage],
        most_characters: int = 20_000,
    ) -> None:
        self._model = model
        self._memory = memory
        self._tools = tools
        self._wordings = wordings
        self._limits = limits
        self._usage_of = usage_of
        self._most_characters = most_characters

    async def aclose(self) -> None:
        """There is nothing that is its own."""

    async def answer(self, run: Run) -> None:
        """Answer one turn."""
        tools = self._tools()
        words = await self._wordings(run.turn, tools)
        if not tools:
            await run.write_whole(words.no_tools, ANSWER)
            return
        match await self._decided(run, tools, words):
            case AskBack() as ask:
                await run.write_whole(wording.question(ask, words.ask), ANSWER)
            case Refuse():
                await run.write_whole(wording.refusal(words.refuse_intro, tools, words.refuse_outro), ANSWER)
            case Stop():
                await run.write_whole(words.stopped, ANSWER)
            case CallTools(calls=calls):
                await self._tell(run, await self._called(run, calls), words)

    async def decide(self, run: Run, tools: Sequence[Tool]) -> Decision:
        """The decision alone, by exactly one call of the model."""
        return await self._decided(run, tools, await self._wordings(run.turn, tools))

    async def _decided(self, run: Run, tools: Sequence[Tool], words: Wordings) -> Decision:
        told = [*await self._before(run), UserPromptPart(content=asked(run.turn))]
        messages = _messages(told, instructions=words.decide)
        offered = offer(tools)
        check_request(self._limits, run.usage)
        _log.debug("A router decides.", action="route", run_id=run.turn.run_id, messages=messages, tools=offered)
        response = await model_request(self._model, messages, model_request_parameters=offered)
        self._count(run, response)
        decision = decision_in(response, tools)
        _log.debug(
            "A router has decided.", action="route", run_id=run.turn.run_id, response=response, decision=decision
        )
        return decision

    async def _before(self, run: Run) -> list[UserPromptPart | TextPart]:
        """What was said before: in the thread, where we are told, else in the session."""
        if run.turn.history:
            said = [(message.speaker is Speaker.USER, message.text) for message in run.turn.history]
        else:
            remembered = await self._memory.get_messages(run.session_id, RECENT_MESSAGES)
            roles = (MessageRole.USER, MessageRole.ASSISTANT)
            said = [(one.role is MessageRole.USER, one.text) for one in remembered if one.role in roles]
        return [
            UserPromptPart(content=text) if by_user else TextPart(content=text)
            for by_user, text in said[-RECENT_MESSAGES:]
        ]

    async def _called(self, run: Run, calls: Sequence[Call]) -> list[tuple[Call, ToolAnswer]]:
        """Every call with its answer; all of them at once."""
        run.used(ModelUsage(tool_calls=len(calls)))
        check_tool_calls(self._limits, run.usage)
        answers = await asyncio.gather(*(self._call(run, call) for call in calls))
        return list(zip(calls, answers, strict=True))

    async def _call(self, run: Run, call: Call) -> ToolAnswer:
        await run.say(ToolStarted(id=call.id, name=call.tool.name))
        answer = capped(await call.tool.call(call.arguments), self._most_characters)
        name = call.tool.name
        run.remember(
            SessionMessage(role=MessageRole.TOOL_USE, call_id=call.id, tool=name, arguments=call.arguments),
            SessionMessage(
                role=MessageRole.TOOL_RESULT, call_id=call.id, tool=name, text=answer.text, failed=answer.failed
            ),
        )
        await run.say(ToolEnded(id=call.id, failed=answer.failed))
        return answer

    async def _tell(self, run: Run, results: Sequence[tuple[Call, ToolAnswer]], words: Wordings) -> None:
        """Put into words what the tools said. They have done their work, so it is told in any case."""
        if all(answer.failed for _, answer in results):
            await run.write_whole(wording.outcome(results), ANSWER)
            return
        written = len(run.remembered)
        try:
            await self._word(run, results, words)
        except AgentRunError as error:
            if len(run.remembered) > written:
                raise
            _log.warning("A result is told as it is.", action="route", run_id=run.turn.run_id, error=str(error))
        if len(run.remembered) == written:
            await run.write_whole(wording.outcome(results), ANSWER)

    async def _word(self, run: Run, results: Sequence[tuple[Call, ToolAnswer]], words: Wordings) -> None:
        servers = dict.fromkeys(call.tool.server for call, _ in results)
        instructions = list(dict.fromkeys(words.result_of(server) for server in servers))
        asked_for = (
            f"{asked(run.turn)}\n\n[What the tools said]\n{wording.outcome(results, self._most_characters)}\n[End]"
        )
        messages = _messages([UserPromptPart(content=asked_for)], instructions="\n\n".join(instructions))
        check_request(self._limits, run.usage)
        async with model_request_stream(self._model, messages) as stream:
            try:
                async for event in stream:
                    await _show(run, event)
            finally:
                self._count(run, stream.get())
        await run.say(TextEnded(message_id=ANSWER))

    def _count(self, run: Run, response: ModelResponse) -> None:
        run.used(self._usage_of(response))
        run.model = label_of(response)


async def _show(run: Run, event: Any) -> None:
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            await run.write(text, ANSWER)


def _messages(parts: Sequence[UserPromptPart | TextPart], *, instructions: str) -> list[ModelMessage]:
    """The conversation, from the first thing that the user said to the last."""
    messages: list[ModelMessage] = []
    for part in parts:
        last = messages[-1] if messages else None
        if isinstance(part, TextPart):
            if isinstance(last, ModelResponse):
                last.parts = [*last.parts, part]
            elif last:
                messages.append(ModelResponse(parts=[part]))
        elif isinstance(last, ModelRequest):
            last.parts = [*last.parts, part]
        else:
            messages.append(ModelRequest(parts=[part], instructions=instructions))
    return messages
