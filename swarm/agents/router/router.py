"""The tool router: one call of the model decides, the tools run, and one more call words their results.

No other call is made: a refusal is built from the tools' descriptions, a question for missing arguments from the
tool's schema where the model has not worded one, and a failure is shown unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Final, Protocol

import structlog
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import Model

from swarm.agents.builtin.messages import model_messages
from swarm.agents.builtin.run import BuiltinRun
from swarm.agents.builtin.sessions import ROLES, asked
from swarm.agents.router import wording
from swarm.agents.router.decision import (
    OWN,
    AskBack,
    CallTools,
    Refuse,
    RouterDecision,
    StopDecision,
    decision_in,
    offer,
)
from swarm.agents.router.meter import Meter
from swarm.agents.router.tool_results import ANSWER, Teller
from swarm.agents.toolbox.tool import Tool
from swarm.domain.answers.events import RunInput
from swarm.domain.model.models import ModelUsage, RunLimits
from swarm.domain.model.sessions import MessageRole, SessionMessage

RECENT_MESSAGES: Final = 20
"""The number of earlier messages shown to the model: a request that waits for an answer is among the last."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wordings:
    """The prompts and fixed texts of one run of the router; see `swarm.agents.prompts`."""

    decide: str  # to the deciding model
    result_of: Callable[[str], str]  # to the model that words the results of an MCP server's tools
    refuse_intro: str  # to people, before the list of tools
    refuse_outro: str  # to people, after it
    no_tools: str  # to people, without any tool
    ask: str  # to people, where the model asks without a question
    stopped: str  # to people who cancel the request


FindWordings = Callable[[RunInput, Sequence[Tool]], Awaitable[Wordings]]
"""Finds the wordings for a run. Raises a SwarmError whose message is for people."""


class Recalls(Protocol):
    """The part of `swarm.domain.model.sessions.Memory` that a router needs."""

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        """Returns the last messages of a session, without other attempts at the same trigger."""
        ...


class Router:
    """A built-in agent that calls tools; implements `swarm.agents.builtin.agent.Works`."""

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
        self._meter = Meter(limits, usage_of)
        self._teller = Teller(model, self._meter, most_characters=most_characters)

    async def aclose(self) -> None:
        """Does nothing: the router owns no resources."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers one run."""
        tools = [tool for tool in self._tools() if tool.name not in OWN]
        words = await self._wordings(run.input, tools)
        if not tools:
            await run.write_whole(words.no_tools, ANSWER)
            return
        match await self._decided(run, tools, words):
            case AskBack() as ask:
                await run.write_whole(wording.question(ask, words.ask), ANSWER)
            case Refuse():
                await run.write_whole(wording.refusal(words.refuse_intro, tools, words.refuse_outro), ANSWER)
            case StopDecision():
                await run.write_whole(words.stopped, ANSWER)
            case CallTools(calls=calls):
                await self._teller.tell(run, calls, words.result_of)

    async def decide(self, run: BuiltinRun, tools: Sequence[Tool]) -> RouterDecision:
        """Returns the decision alone, by exactly one call of the model."""
        return await self._decided(run, tools, await self._wordings(run.input, tools))

    async def _decided(self, run: BuiltinRun, tools: Sequence[Tool], words: Wordings) -> RouterDecision:
        new = SessionMessage(role=MessageRole.USER, text=asked(run.input))
        messages = _instructed(model_messages([*await self._before(run), new]), words.decide)
        offered = offer(tools)
        self._meter.before_request(run)
        _log.debug("A router decides.", action="route", run_id=run.input.agui_run_id, messages=messages, tools=offered)
        response = await model_request(self._model, messages, model_request_parameters=offered)
        self._meter.count(run, response)
        decision = decision_in(response, tools)
        _log.debug(
            "A router has decided.", action="route", run_id=run.input.agui_run_id, response=response, decision=decision
        )
        self._meter.after_request(run)
        return decision

    async def _before(self, run: BuiltinRun) -> list[SessionMessage]:
        """Returns earlier messages of the thread if given, else of the session, beginning with a person's message."""
        if run.input.history:
            said = [SessionMessage(role=ROLES[message.speaker], text=message.marked) for message in run.input.history]
        else:
            remembered = await self._memory.get_messages(run.session_id, RECENT_MESSAGES, run_id=run.input.run_id)
            said = [one for one in remembered if one.role in ROLES.values()]
        recent = (one for one in said[-RECENT_MESSAGES:] if one.text.strip())
        return list(dropwhile(lambda one: one.role is MessageRole.ASSISTANT, recent))


def _instructed(messages: list[ModelMessage], instructions: str) -> list[ModelMessage]:
    """Adds the instructions to the last message, the only place where they take effect."""
    *before, last = messages
    return [*before, replace(last, instructions=instructions) if isinstance(last, ModelRequest) else last]
