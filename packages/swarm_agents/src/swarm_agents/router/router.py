"""The tool router: one model call makes the decision, the tools run, and one more model call summarises their results.

The router makes no other model calls. A refusal is built from the tools' descriptions. A question about missing
arguments is built from the tool's schema if the model did not word one. A failure is shown unchanged. The router calls
the model directly, so pydantic-ai does not count these calls.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import dropwhile
from typing import Final

import structlog
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UsageLimitExceeded
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

from swarm.clock import new_id
from swarm.domain.answers.events import RunInput
from swarm.domain.model.language_models import TOOL_OUTPUT_CHARACTERS, ModelUsage
from swarm.domain.model.sessions import MessageRole, RunMemory, SessionMessage, tool_pairs
from swarm_agents.builtin.approvals import Settled, ask, settle
from swarm_agents.builtin.messages import fenced, model_messages
from swarm_agents.builtin.run import ROLES, BuiltinRun, asked
from swarm_agents.models.served import not_cut
from swarm_agents.models.troubles import label_of
from swarm_agents.router.decision import (
    OWN,
    AskBack,
    CallTools,
    PlannedCall,
    Refuse,
    RouterDecision,
    StopDecision,
    decision_in,
    example,
    kind,
    offer,
)
from swarm_agents.toolbox.approval_rules import NEVER, ApprovalRules
from swarm_agents.toolbox.arguments import parameters
from swarm_agents.toolbox.tool import CallCaps, Tool, ToolAnswer, answered, not_for_strangers, shortened
from swarm_base.processes.background import checked_in_turn

_MICRODOLLARS: Final = 1_000_000
_MOST_TOOLS_NAMED: Final = 12
_DESCRIPTION_CHARACTERS: Final = 120
_RAW_CHARACTERS: Final = 4_000
ANSWER: Final = "answer"
AS_IT_IS: Final = "result"
NOTHING_WAITS: Final = "This call does not wait for a decision any more, so nothing was called. Please ask again."
_Results = Sequence[tuple[PlannedCall, ToolAnswer]]

_log = structlog.get_logger(__name__)

_RECENT_MESSAGES: Final = 20
"""The number of earlier messages shown to the model. A request that waits for an answer is among the latest."""


class _Meter:
    """A counter of the usage of runs. Raises UsageLimitExceeded, with pydantic-ai's wording, when a step exceeds a
    limit.
    """

    def __init__(self, usage_of: Callable[[ModelResponse], ModelUsage]) -> None:
        self._usage_of = usage_of

    def before_request(self, run: BuiltinRun) -> None:
        """Raises UsageLimitExceeded if the run may not call a model again."""
        _check("request_limit", run.limits.requests, run.usage.requests + 1)

    def count(self, run: BuiltinRun, response: ModelResponse) -> None:
        """Adds the usage of a model's response."""
        run.used(self._usage_of(response))
        run.model = label_of(response)

    def after_request(self, run: BuiltinRun) -> None:
        """Raises UsageLimitExceeded if the responses used too many tokens, which is known only afterwards."""
        used = run.usage
        _check("total_tokens_limit", run.limits.tokens, used.input_tokens + used.output_tokens)
        if used.cost_microdollars is not None:
            _check("cost_limit", run.limits.cost_dollars, Decimal(used.cost_microdollars) / _MICRODOLLARS)

    def before_tools(self, run: BuiltinRun, calls: int) -> None:
        """Counts tool calls before they are made. Raises UsageLimitExceeded if there are too many; then none may be
        made.
        """
        _check("tool_calls_limit", run.limits.tool_calls, run.usage.tool_calls + calls)
        run.used(ModelUsage(tool_calls=calls))


def _check(name: str, limit: int | Decimal | None, used: int | Decimal) -> None:
    if limit is not None and used > limit:
        raise UsageLimitExceeded(f"This would exceed the {name} of {limit}.")


def _refusal(intro: str, tools: Sequence[Tool], outro: str = "") -> str:
    """Builds a refusal that lists the available tools with their own descriptions."""
    lines = [f"- `{tool.name}`: {_first_sentence(tool.description)}" for tool in tools[:_MOST_TOOLS_NAMED]]
    if len(tools) > _MOST_TOOLS_NAMED:
        lines.append(f"- and {len(tools) - _MOST_TOOLS_NAMED} more")
    return "\n\n".join(part for part in (intro, "\n".join(lines), outro) if part)


def _question(ask: AskBack, fallback: str) -> str:
    """Returns the model's question, or builds one from the tools' schemas, with all that is missing or wrong."""
    if ask.question or ask.tool is None:
        return ask.question or fallback
    known = parameters(ask.tool.parameters)
    wanted = [_wanted(name, known.get(name, {})) for name in ask.missing]
    parts = [f"To run `{ask.tool.name}` I still need {_listed(wanted)}."] if wanted else []
    if ask.problems:
        cannot = "And this is not possible" if wanted else f"I cannot run `{ask.tool.name}` with that"
        parts.append(f"{cannot} ({'; '.join(ask.problems)}). What should it be?")
    return " ".join([*parts, *(_question(other, "") for other in ask.others)])


def _outcome(results: Sequence[tuple[PlannedCall, ToolAnswer]]) -> str:
    """Describes the results unchanged for the user, for failed calls or if the model cannot summarise them."""
    return "\n\n".join(
        _result(call, shortened(answer.text, _RAW_CHARACTERS), failed=answer.failed, with_arguments=len(results) > 1)
        for call, answer in results
    )


def for_model(results: Sequence[tuple[PlannedCall, ToolAnswer]]) -> str:
    """Describes the results of the calls for the model, with arguments and in full."""
    return "\n\n".join(
        _result(call, answer.text, failed=answer.failed, with_arguments=True) for call, answer in results
    )


def _result(call: PlannedCall, text: str, *, failed: bool, with_arguments: bool) -> str:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
    name = f"`{call.tool.name}` with {arguments}" if with_arguments and call.arguments else f"`{call.tool.name}`"
    said = text.strip() or "nothing"
    return f"{name} did not work: {said}" if failed else f"{name} answered:\n{said}"


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    sentence = text.split(". ", 1)[0].rstrip(".")
    if len(sentence) > _DESCRIPTION_CHARACTERS:
        sentence = sentence[: _DESCRIPTION_CHARACTERS - 1] + "…"
    return sentence or "no description"


def _wanted(name: str, schema: object) -> str:
    part = schema if isinstance(schema, dict) else {}
    meaning = str(part.get("description") or "").strip().rstrip(".")
    return f"`{name}` ({meaning or kind(part)}, for example {example(name, part)})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


class _Teller:
    """The part of a router that calls tools and shows their results."""

    def __init__(self, model: Model, meter: _Meter, *, most_characters: int, approvals: ApprovalRules) -> None:
        self._model = model
        self._meter = meter
        self._most_characters = most_characters
        self._approvals = approvals

    async def call(self, run: BuiltinRun, calls: Sequence[PlannedCall], result_of: Callable[[str], str]) -> None:
        """Calls all tools concurrently and shows their results.

        If people have to approve calls, only the other tools are called, and the run ends with the questions.
        """
        self._meter.before_tools(run, len(calls))
        caps = CallCaps()
        answers = await asyncio.gather(*(self._called(run, call, caps) for call in calls))
        run.remember(*run.waiting)
        if not run.asked:
            results = [(call, answer) for call, answer in zip(calls, answers, strict=True) if answer]
            await self.tell(run, asked(run.input), results, result_of)

    async def tell(self, run: BuiltinRun, question: str, results: _Results, result_of: Callable[[str], str]) -> None:
        """Shows the results of the tools.

        ``result_of`` gives the instructions for results of an MCP server's tools. If the model fails to summarise the
        results, they are shown unchanged. If every tool failed, the model is not called.
        """
        is_useless = all(answer.failed for _, answer in results)
        if is_useless or not await self._worded(run, question, results, result_of):
            await run.written(ANSWER)  # closes the part written before the failure
            await run.write_whole(_outcome(results), AS_IT_IS)

    async def _called(self, run: BuiltinRun, call: PlannedCall, caps: CallCaps) -> ToolAnswer | None:
        """Returns the tool's answer; None if people have to approve the call."""
        refusal = not_for_strangers(call.tool, by_strangers=run.input.origin.by_strangers)
        refusal = refusal or caps.refusal(call.tool, 1)
        if refusal is None and self._approvals.apply_to(call.tool, call.arguments):
            refusal = await call.tool.refuse(call.arguments) or ask(
                run, call.tool, call.arguments, f"{call.id}-{new_id()}"
            )  # models may repeat ids
            if refusal is None:
                return None
        await run.begin_call(call.id, call.tool.name, call.arguments)
        answer = refusal or await answered(call.tool, call.arguments, self._most_characters)
        await run.end_call(call.id, call.tool.name, call.arguments, answer)
        return answer

    async def _worded(self, run: BuiltinRun, question: str, results: _Results, result_of: Callable[[str], str]) -> bool:
        """Asks the model to summarise the results. Returns whether the model finished the text."""
        try:
            said = await self._word(run, question, results, result_of)
        except Exception as error:  # noqa: BLE001 - whatever it is, the tools have done their work, and it is told
            # Log only the type: a provider's text may contain user messages.
            _log.warning(
                "A result is shown unchanged.", action="route", run_id=run.input.agui_run_id, error=type(error).__name__
            )
            return False
        await run.written(ANSWER)
        return bool(said.strip())

    async def _word(self, run: BuiltinRun, question: str, results: _Results, result_of: Callable[[str], str]) -> str:
        self._meter.before_request(run)
        said = ""
        async with model_request_stream(self._model, [self._request(question, results, result_of)]) as stream:
            try:
                async for event in stream:
                    match event:
                        case (
                            PartStartEvent(part=TextPart(content=text))
                            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                        ):
                            said += text
                            await run.write(text, ANSWER)
            finally:
                self._meter.count(run, stream.get())
        return said

    def _request(self, question: str, results: _Results, result_of: Callable[[str], str]) -> ModelRequest:
        servers = dict.fromkeys(call.tool.server for call, _ in results)
        instructions = "\n\n".join(dict.fromkeys(result_of(server) for server in servers))
        told = fenced("What the tools said", for_model(results))
        return ModelRequest(parts=[UserPromptPart(content=f"{question}\n\n{told}")], instructions=instructions)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wordings:
    """The prompts and fixed texts of one router run; see `swarm_agents.system_prompts`."""

    decide: str  # for the model that decides
    result_of: Callable[[str], str]  # for the model that summarises the results of an MCP server's tools
    refuse_intro: str  # for the user, before the list of tools
    refuse_outro: str  # for the user, after the list of tools
    no_tools: str  # for the user, if no tools are available
    ask: str  # for the user, if the model asks without a question
    stopped: str  # for a user who cancels the request


FindWordings = Callable[[RunInput, Sequence[Tool]], Awaitable[Wordings]]
"""Finds the texts for a run. Raises a SwarmError with a user-facing message."""


class Router:
    """A built-in agent that calls tools; implements `swarm_agents.builtin.agent.Works`."""

    def __init__(
        self,
        model: Model,
        *,
        memory: RunMemory,
        tools: Callable[[], Sequence[Tool]],
        wordings: FindWordings,
        usage_of: Callable[[ModelResponse], ModelUsage],
        most_characters: int = TOOL_OUTPUT_CHARACTERS,
        approvals: ApprovalRules = NEVER,
    ) -> None:
        self._model = model
        self._memory = memory
        self._tools = tools
        self._wordings = wordings
        self._meter = _Meter(usage_of)
        self._teller = _Teller(model, self._meter, most_characters=most_characters, approvals=approvals)
        self._most_characters = most_characters

    async def aclose(self) -> None:
        """Does nothing: the router has no resources to release."""

    async def answer(self, run: BuiltinRun) -> None:
        """Answers one run."""
        tools = [tool for tool in self._tools() if tool.name not in OWN]
        words = await self._wordings(run.input, tools)
        settled = await settle(run, self._memory, tools, most_characters=self._most_characters)
        if run.input.decided and not run.input.messages:
            await self._go_on(run, settled, tools, words)
            return
        if not tools:
            await run.write_whole(words.no_tools, ANSWER)
            return
        match await self._decided(run, tools, words):
            case AskBack() as ask:
                await run.write_whole(_question(ask, words.ask), ANSWER)
            case Refuse():
                await run.write_whole(_refusal(words.refuse_intro, tools, words.refuse_outro), ANSWER)
            case StopDecision():
                await run.write_whole(words.stopped, ANSWER)
            case CallTools(calls=calls):
                await self._teller.call(run, calls, words.result_of)

    async def _go_on(self, run: BuiltinRun, settled: Settled, tools: Sequence[Tool], words: Wordings) -> None:
        """Tells the results of calls after people have decided."""
        if settled.is_waiting:
            return
        if settled.note:
            await run.write_whole(NOTHING_WAITS, ANSWER)
            return
        offered = {tool.name: tool for tool in tools}
        results = list(_results_in(settled.messages, offered))
        question = "\n\n".join(one.text for one in settled.messages if one.role is MessageRole.USER)
        await self._teller.tell(run, question, results, words.result_of)

    async def decide(self, run: BuiltinRun, tools: Sequence[Tool]) -> RouterDecision:
        """Returns only the decision, made by exactly one model call."""
        return await self._decided(run, tools, await self._wordings(run.input, tools))

    async def _decided(self, run: BuiltinRun, tools: Sequence[Tool], words: Wordings) -> RouterDecision:
        new = SessionMessage(role=MessageRole.USER, text=asked(run.input))
        messages = _instructed(model_messages([*await self._before(run), new]), words.decide)
        offered = offer(tools)
        self._meter.before_request(run)
        _log.debug("A router decides.", action="route", run_id=run.input.agui_run_id, messages=messages, tools=offered)
        response = await model_request(self._model, messages, model_request_parameters=offered)
        self._meter.count(run, response)
        not_cut(response)  # half a call or half a question
        decision = await checked_in_turn(decision_in, response, tools)
        _log.debug(
            "A router has decided.", action="route", run_id=run.input.agui_run_id, response=response, decision=decision
        )
        self._meter.after_request(run)
        return decision

    async def _before(self, run: BuiltinRun) -> list[SessionMessage]:
        """Returns the thread's earlier messages if given, otherwise the session's, beginning with a person's
        message.
        """
        if run.input.history:
            said = [SessionMessage(role=ROLES[message.speaker], text=message.marked) for message in run.input.history]
        else:
            remembered = await self._memory.get_messages(run.session_id, _RECENT_MESSAGES, run_id=run.input.run_id)
            said = [one for one in remembered if one.role in ROLES.values()]
        recent = (one for one in said[-_RECENT_MESSAGES:] if one.text.strip())
        return list(dropwhile(lambda one: one.role is MessageRole.ASSISTANT, recent))


def _results_in(
    messages: Sequence[SessionMessage], offered: Mapping[str, Tool]
) -> Iterator[tuple[PlannedCall, ToolAnswer]]:
    """Yields the calls of a stored run with their results. A tool may have disappeared in the meantime."""
    for at, to in sorted(tool_pairs(messages).items()):
        call, result = messages[at], messages[to]
        gone = Tool(name=call.tool, description="", parameters={}, call=_unavailable)
        planned = PlannedCall(id=call.call_id, tool=offered.get(call.tool, gone), arguments=call.arguments)
        yield planned, ToolAnswer(text=result.text, failed=result.failed)


async def _unavailable(_: Mapping[str, object]) -> ToolAnswer:
    return ToolAnswer(text="", failed=True)


def _instructed(messages: list[ModelMessage], instructions: str) -> list[ModelMessage]:
    """Adds the instructions to the last message, because they have no effect elsewhere."""
    *before, last = messages
    return [*before, replace(last, instructions=instructions) if isinstance(last, ModelRequest) else last]
