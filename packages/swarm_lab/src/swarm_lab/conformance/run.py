"""Runs the scenarios. Each scenario is one run of the agent, which is shown in Slack like any other run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from swarm.clock import new_id, new_trace_id
from swarm.domain.answers.agents import AgentClient
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget
from swarm.domain.answers.events import AgentEvent, Asked, Decided, InputMessage, NeedsInput, RunInput, Speaker
from swarm.domain.answers.questions import decision_on, request_of
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.errors import Unavailable
from swarm.domain.model.deliveries import Delivery, DeliveryAccepted, DeliveryKind
from swarm.domain.model.requests import FieldType, FormField, HumanDecision
from swarm.domain.prompts.input import SOURCE
from swarm.domain.text.cutting import split
from swarm.slack.outgoing.live import LiveAnswer
from swarm_lab.conformance.beyond import judge_beyond
from swarm_lab.conformance.checks import Limits, Verdict, judge
from swarm_lab.conformance.record import Heard, Record
from swarm_lab.conformance.scenarios import ANSWER, Beyond, Scenario
from swarm_lab.conformance.workspace import CHANNEL, Workspace

PART_CHARACTERS: Final = 3_900
"""The size of the parts in which text that could not be shown live is posted."""

MOST_RESUMES: Final = 5
"""How often the questions of an agent are answered."""

SETTLING_SECONDS: Final = 0.3
"""The time after which a finished answer is read again."""

ConversationOf = Callable[[AnswerTarget], str]
"""Returns the id of the agent's conversation in a thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One scenario, and its findings."""

    scenario: Scenario
    record: Record
    verdicts: tuple[Verdict, ...]
    seconds: float  # duration of the answer
    beyond: tuple[Verdict, ...] = ()  # the verdicts beyond the 22 checks

    @property
    def passed(self) -> bool:
        """Whether the answer passes its checks among the 22."""
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def passed_beyond(self) -> bool:
        """Whether the answer passes the checks beyond the 22."""
        return all(verdict.passed for verdict in self.beyond)


class Examination:
    """One agent under examination. ``name`` is the agent's name in Slack."""

    def __init__(
        self,
        agent: AgentClient,
        slack: Workspace,
        conversation_of: ConversationOf,
        *,
        name: str,
        limits: Limits | None = None,
    ) -> None:
        self._agent = agent
        self._slack = slack
        self._conversation_of = conversation_of
        self._name = name
        self._limits = limits or Limits()

    async def insist_on_health(self) -> None:
        """Raises Unavailable if a run could not reach the agent."""
        health = await self._agent.health()
        if not health.reachable:
            hint = "Start the agent, and check --agent, --dialect and --token."
            hint = "Correct its oauth settings." if "the token server" in health.detail else hint
            raise Unavailable(f"The agent {self._name} cannot be examined: {health.detail}.", hint=hint)

    async def run(self, scenario: Scenario) -> Result:
        """Asks the question, shows the answer, and judges it. Questions of the agent are answered if the scenario is
        about them.
        """
        place = await self._slack.ask(scenario.prompt, self._name, new_id())
        record = await self._record(place, _run_input(scenario.prompt, place, self._conversation_of(place)))
        if Beyond.RESUMED in scenario.beyond:
            record = await self._resumed(record, place)
        return Result(
            scenario=scenario,
            record=record,
            verdicts=judge(scenario, record, self._limits),
            seconds=record.over_at - (record.before[0] if record.before else record).asked_at,
            beyond=judge_beyond(scenario, record),
        )

    async def _resumed(self, record: Record, place: AnswerTarget) -> Record:
        """Answers the agent's questions until it asks no more. Returns the last run, with those before it."""
        before: list[Record] = []
        while isinstance(record.outcome, NeedsInput) and len(before) < MOST_RESUMES:
            before.append(record)
            decided = tuple(_decided(asked) for asked in record.outcome.asked)
            place = replace(place, run_id=new_id())
            run_input = replace(_run_input("", place, self._conversation_of(place)), messages=(), decided=decided)
            record = await self._record(place, run_input)
        return replace(record, before=tuple(before))

    async def _record(self, place: AnswerTarget, run_input: RunInput) -> Record:
        heard: list[Heard] = []
        asked_at = self._slack.now()
        answer = LiveAnswer(place, self._slack.gateway.streams, clock=self._slack.now)
        shown = await answer.show(self._noted(self._agent.run(run_input), heard))
        await self._post_rest(place, shown)
        messages = await self._slack.messages(place)
        await asyncio.sleep(SETTLING_SECONDS)
        return Record(
            asked_at=asked_at,
            heard=tuple(heard),
            calls=await self._slack.calls(place),
            messages=messages,
            messages_later=await self._slack.messages(place),
            outcome=shown.outcome,
        )

    async def _noted(
        self, events: AsyncGenerator[AgentEvent, None], into: list[Heard]
    ) -> AsyncGenerator[AgentEvent, None]:
        async with aclosing(events):
            async for event in events:
                into.append(Heard(at=self._slack.now(), event=event))
                yield event

    async def _post_rest(self, place: AnswerTarget, shown: AnswerShown) -> None:
        """Posts text that was not shown live, as the coordinator would. If there is no text, the note is posted
        instead."""
        closing = shown.closing
        parts = split(shown.leftover, PART_CHARACTERS)
        if not parts and closing.note:
            parts, closing = [closing.note], replace(closing, note="")
        for number, part in enumerate(parts, start=1):
            below = closing if number == len(parts) else NOTHING_BELOW
            delivery = _delivery(place, part)
            await self._slack.gateway.ready(delivery)
            answer = await self._slack.gateway.deliver(replace(delivery, closing=below, place=place))
            if not isinstance(answer, DeliveryAccepted):
                raise Unavailable(f"The twin did not accept a post: {answer}.")


async def examine(
    examination: Examination,
    scenarios: Sequence[Scenario],
    *,
    begun: Callable[[Scenario], None],
    done: Callable[[Result], None],
) -> list[Result]:
    """Runs the scenarios one after another, and reports the progress. Raises Unavailable if the agent cannot be
    reached."""
    await examination.insist_on_health()
    results = []
    for scenario in scenarios:
        begun(scenario)
        results.append(await examination.run(scenario))
        done(results[-1])
    return results


def _run_input(prompt: str, place: AnswerTarget, conversation_id: str) -> RunInput:
    message = InputMessage(id=place.thread_ts, speaker=Speaker.USER, text=prompt, author="Alice")
    return RunInput(
        run_id=place.run_id,
        agui_run_id=new_id(),
        trace_id=new_trace_id(),
        conversation_id=conversation_id,
        messages=(message,),
        client_context={"source": SOURCE, "channel_type": "channel", "channel_name": f"#{CHANNEL}"},
    )


def _decided(asked: Asked) -> Decided:
    """Returns a positive decision: an approval, or a form that is filled in."""
    request = request_of(asked, asked.id)
    decision = HumanDecision.APPROVE if HumanDecision.APPROVE in request.decisions else HumanDecision.ANSWER
    return decision_on(request, decision, {field.name: _value(field) for field in request.fields})


def _value(field: FormField) -> object:
    if field.default is not None:
        return field.default
    match field.type:
        case FieldType.BOOLEAN:
            return True
        case FieldType.NUMBER | FieldType.INTEGER:
            return int(field.min or 1)
        case FieldType.SELECT:
            return field.options[0].value if field.options else ANSWER
        case FieldType.MULTISELECT:
            return [option.value for option in field.options[:1]]
        case FieldType.URL:
            return "https://example.org/"
        case FieldType.EMAIL:
            return "alice@example.org"
        case _:
            return ANSWER


def _delivery(place: AnswerTarget, text: str) -> Delivery:
    return Delivery(
        id=new_id(),
        kind=DeliveryKind.POST,
        channel=place.channel,
        thread_ts=place.thread_ts,
        target_ts=None,
        text=text,
        broadcast=False,
        agent_name=place.agent_name,
        attempts=1,
    )
