"""Calls the chosen tools and shows their results: worded by one more call of the model, or unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, UserPromptPart
from pydantic_ai.models import Model

from swarm.agents.builtin.fence import fenced
from swarm.agents.builtin.run import BuiltinRun
from swarm.agents.builtin.sessions import asked
from swarm.agents.router import wording
from swarm.agents.router.decision import PlannedCall
from swarm.agents.router.meter import Meter
from swarm.agents.toolbox.tool import CallCaps, ToolAnswer, answered, not_for_strangers

ANSWER: Final = "answer"
AS_IT_IS: Final = "result"
Results = Sequence[tuple[PlannedCall, ToolAnswer]]

_log = structlog.get_logger(__name__)


class Teller:
    """Calls tools and shows results, for one router."""

    def __init__(self, model: Model, meter: Meter, *, most_characters: int) -> None:
        self._model = model
        self._meter = meter
        self._most_characters = most_characters

    async def tell(self, run: BuiltinRun, calls: Sequence[PlannedCall], result_of: Callable[[str], str]) -> None:
        """Calls the tools, all at once, and shows their results.

        ``result_of`` gives the instructions for results of an MCP server's tools. The results are shown in any case:
        unchanged, where the model fails to word them. If every tool failed, the model is not called.
        """
        self._meter.before_tools(run, len(calls))
        caps = CallCaps()
        answers = await asyncio.gather(*(self._called(run, call, caps) for call in calls))
        results = list(zip(calls, answers, strict=True))
        if all(answer.failed for answer in answers) or not await self._worded(run, results, result_of):
            await run.written(ANSWER)  # closes the part written before the failure
            await run.write_whole(wording.outcome(results), AS_IT_IS)

    async def _called(self, run: BuiltinRun, call: PlannedCall, caps: CallCaps) -> ToolAnswer:
        await run.begin_call(call.id, call.tool.name, call.arguments)
        refusal = not_for_strangers(call.tool, by_strangers=run.turn.origin.by_strangers)
        refusal = refusal or caps.refusal(call.tool, 1)
        answer = refusal or await answered(call.tool, call.arguments, self._most_characters)
        await run.end_call(call.id, call.tool.name, call.arguments, answer)
        return answer

    async def _worded(self, run: BuiltinRun, results: Results, result_of: Callable[[str], str]) -> bool:
        """Has the model word the results. Returns whether the model did so to the end."""
        try:
            said = await self._word(run, results, result_of)
        except Exception as error:  # noqa: BLE001 - whatever it is, the tools have done their work, and it is told
            # Only the type: a provider's text may hold people's words.
            _log.warning(
                "A result is told as it is.", action="route", run_id=run.turn.run_id, error=type(error).__name__
            )
            return False
        await run.written(ANSWER)
        return bool(said.strip())

    async def _word(self, run: BuiltinRun, results: Results, result_of: Callable[[str], str]) -> str:
        self._meter.before_request(run)
        said = ""
        async with model_request_stream(self._model, [self._request(run, results, result_of)]) as stream:
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

    def _request(self, run: BuiltinRun, results: Results, result_of: Callable[[str], str]) -> ModelRequest:
        servers = dict.fromkeys(call.tool.server for call, _ in results)
        instructions = "\n\n".join(dict.fromkeys(result_of(server) for server in servers))
        told = fenced("What the tools said", wording.for_model(results))
        return ModelRequest(parts=[UserPromptPart(content=f"{asked(run.turn)}\n\n{told}")], instructions=instructions)
