"""What our own client hears of a built-in agent over HTTP is what the agent did, in both dialects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from ag_ui.core import EventType
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from packages.swarm_agents.tests.contract.agui_api.scene import (
    EVENT,
    RESUME,
    START,
    Client,
    Place,
    Scripted,
    kinds,
    place,
    run_input,
    start,
)
from swarm.domain.answers.agents import Dialect, RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Asked,
    Broken,
    Cancelled,
    Decided,
    Failed,
    Finished,
    Interrupted,
    PlanShown,
    PlanStep,
    SourceChanged,
    StepNamed,
    StepStatus,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    Warned,
)
from swarm.domain.model.requests import FieldType, FormField, ToolRequest, options
from swarm_agents.agui.agui_events import AguiEventWriter, encoded
from swarm_base.characters import strip_invisible

pytestmark = pytest.mark.req("AGENT-09", "STREAM-01")

words = st.sampled_from(["search", "git status", "Grüße", "look it up"])
visible = st.characters(exclude_categories=["Cs", "Cc", "Cf"]).filter(lambda char: strip_invisible(char) == char)
texts = st.text(visible | st.just("\n"), max_size=20)
ids = st.sampled_from(["", "a", "b"])
calls = st.sampled_from(["t1", "t2", "t3"])
steps = st.lists(
    st.builds(PlanStep, id=st.sampled_from("123456"), title=words, status=st.sampled_from(StepStatus)),
    max_size=4,
    unique_by=lambda step: step.id,
).map(tuple)
_CHOICES = (FieldType.SELECT, FieldType.MULTISELECT)
_DEFAULTS: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.BOOLEAN: st.none() | st.booleans(),
    FieldType.NUMBER: st.none() | st.integers(0, 9),
    FieldType.INTEGER: st.none() | st.integers(0, 9),
    FieldType.MULTISELECT: st.none(),
}
fields = st.sampled_from(FieldType).flatmap(
    lambda kind: st.builds(
        FormField,
        name=st.sampled_from(["repo", "size", "note"]),
        label=st.just("") | words,
        type=st.just(kind),
        required=st.booleans(),
        description=st.just("") | words,
        options=st.lists(words, min_size=1, max_size=3, unique=True).map(lambda values: options(*values))
        if kind in _CHOICES
        else st.just(()),
        default=_DEFAULTS.get(kind, st.none() | words),
    )
)
questions = st.builds(
    Asked, id=st.sampled_from(["i1", "i2"]), prompt=st.just("") | words, reason=st.just("") | words,
    fields=st.lists(fields, max_size=3, unique_by=lambda field: field.name).map(tuple),
    tool=st.none() | st.builds(ToolRequest, name=words),
)  # fmt: skip
doings = st.lists(
    st.builds(TextDelta, text=texts, message_id=ids)
    | st.builds(TextEnded, message_id=ids)
    | st.builds(ToolStarted, id=calls, name=words)
    | st.builds(ToolEnded, id=calls, failed=st.booleans())
    | st.builds(PlanShown, steps=steps, title=st.just("") | words)
    | st.builds(StepNamed, name=words)
    | st.builds(SourceChanged, sub_agent=st.none() | words)
    | st.builds(Warned, message=words),
    max_size=25,
)
ends = (
    st.builds(Finished, result=st.none() | words)
    | st.builds(Interrupted, asked=st.lists(questions, min_size=1, max_size=2, unique_by=lambda one: one.id).map(tuple))
    | st.just(Cancelled())
    | st.builds(Failed, message=words, code=st.sampled_from(["", "limit"]))
    | st.builds(Broken, reason=words)
)


@dataclass
class Seen:
    """What a reader makes of a run: ids of messages, and how texts were cut into pieces, do not matter."""

    told: list[Any] = field(default_factory=list)
    source: str | None = None
    message: str | None = None  # that is being said; its id is the agent's own affair
    count: int = 0  # of messages
    calls: dict[str, bool] = field(default_factory=dict)
    plan: tuple[PlanStep, ...] = ()

    def see(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(text=text, message_id=id) if text:
                if self.message != id:
                    self.message, self.count = id, self.count + 1
                self._say(text)
            case TextEnded(message_id=id) if self.message == id:
                self.message = None
            case SourceChanged(sub_agent=source) if source != self.source:
                self.message, self.source = None, source
            case ToolStarted(id=id):
                self.message = None
                if id not in self.calls:
                    self.calls[id] = False
                    self.told.append(event)
            case ToolEnded(id=id) if self.calls.get(id) is False:
                self.calls[id] = True
                self.told.append(event)
            case PlanShown(steps=steps) if steps and steps != self.plan:
                self.plan = steps
                self.told.append(steps)
            case StepNamed() | Warned():
                self.told.append(event)
            case Finished():
                self.told += [ToolEnded(id=id) for id, has_ended in self.calls.items() if not has_ended]
                self.told.append(event)
            case Interrupted(asked=asked):
                self.told.append([replace(one, raw={}) for one in asked])
            case Broken(reason=reason):
                self.told.append(Failed(message=f"The agent could not answer: {reason}.", code="broken"))
            case Failed() | Cancelled():
                self.told.append(event)

    def _say(self, text: str) -> None:
        before = self.told[-1] if self.told and isinstance(self.told[-1], tuple) else ()
        if before[:3] == ("said", self.source, self.count):
            self.told[-1] = (*before[:3], before[3] + text)
        else:
            self.told.append(("said", self.source, self.count, text))


def seen(events: Sequence[AgentEvent]) -> list[Any]:
    reader = Seen()
    for event in events:
        reader.see(event)
    return reader.told


@pytest.fixture
def served(sqlite_url: str) -> Iterator[tuple[asyncio.Runner, Place, Client]]:
    """One coordinator for all examples of a property, and a loop in which it lives."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def opened() -> tuple[Place, Client]:
            here = await stack.enter_async_context(place(sqlite_url, {"ada": Scripted()}))
            return here, await here.client()

        here, wim = runner.run(opened())
        yield runner, here, wim
        runner.run(stack.aclose())


@pytest.mark.parametrize("dialect", Dialect)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(doings, ends)
@example([TextDelta(text="a"), ToolStarted(id="t1", name="x"), TextDelta(text="b"), ToolEnded(id="t1")], Finished())
@example([ToolStarted(id="t1", name="write_todos"), ToolEnded(id="t1", failed=True)], Finished(result="a"))
def test_our_client_hears_what_the_agent_did(
    served: tuple[asyncio.Runner, Place, Client], dialect: Dialect, did: list[AgentEvent], end: RunEnd
) -> None:
    runner, here, wim = served
    here.agents["ada"].script = lambda run_input: [*did, end]

    async def heard() -> list[AgentEvent]:
        async with wim.agent("ada", dialect) as agent:
            return [event async for event in agent.run(run_input())]

    assert seen(runner.run(heard())) == seen([*did, end])


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(doings, ends)
def test_every_event_is_valid_and_all_that_was_begun_is_ended_before_the_run(
    did: list[AgentEvent], end: RunEnd
) -> None:
    writer = AguiEventWriter("c1", "r1")
    written = [writer.started(), *(one for event in [*did, end] for one in writer.write(event))]
    told = [EVENT.validate_json(encoded(event).removeprefix(b"data: ")) for event in written]
    assert [event.type for event in told if event.type in (EventType.RUN_STARTED, *ENDS)] == [
        EventType.RUN_STARTED,
        told[-1].type,
    ]
    open_ones: set[tuple[str, str]] = set()
    ever: set[tuple[str, str]] = set()
    for event in told:
        for begin, finish, name in PAIRS:
            if event.type == begin:
                one = (name, getattr(event, name))
                assert one not in open_ones
                assert name == "step_name" or one not in ever
                open_ones.add(one)
                ever.add(one)
            elif event.type == finish:
                open_ones.remove((name, getattr(event, name)))
    assert open_ones == set()


ENDS = (EventType.RUN_FINISHED, EventType.RUN_ERROR)
PAIRS = (
    (EventType.TEXT_MESSAGE_START, EventType.TEXT_MESSAGE_END, "message_id"),
    (EventType.TOOL_CALL_START, EventType.TOOL_CALL_END, "tool_call_id"),
    (EventType.STEP_STARTED, EventType.STEP_FINISHED, "step_name"),
    (EventType.SUBAGENT_STARTED, EventType.SUBAGENT_FINISHED, "subagent_run_id"),
)


async def test_text_between_tool_calls_is_a_message_of_its_own(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: [
        TextDelta(text="Let me look.", message_id="m"),
        ToolStarted(id="t1", name="search"),
        ToolEnded(id="t1"),
        TextDelta(text="And there.", message_id="m"),
        ToolStarted(id="t2", name="search"),
        ToolEnded(id="t2", failed=True),
        TextDelta(text="It is 17.", message_id="m"),
        Finished(),
    ]
    told = await wim.said(START, start())
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    tool = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT", "TOOL_CALL_END"]  # as caipe services do
    assert kinds(told) == ["RUN_STARTED", *text, *tool, *text, *tool, *text, "RUN_FINISHED"]
    assert len({event["messageId"] for event in told if event["type"] == "TEXT_MESSAGE_START"}) == 3
    assert [event["content"] for event in told if event["type"] == "TOOL_CALL_RESULT"] == [
        "done",
        '{"error": "The tool failed."}',
    ]
    again = await wim.said(START, start())
    assert not {event.get("messageId") for event in told} & {
        event["messageId"] for event in again if "messageId" in event
    }


async def test_halves_of_characters_do_not_break_an_answer(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: [
        TextDelta(text="a\ud83d"),
        TextDelta(text="\ud83d\ude00"),
        Finished(result="\udc00"),
    ]
    told = await wim.said(START, start())
    assert "".join(event["delta"] for event in told if "delta" in event) == "a\ufffd😀"
    assert told[-1]["result"] == "\ufffd"


async def test_a_run_that_asks_nothing_has_failed(here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: [Interrupted(asked=())]
    assert (await wim.said(START, start()))[-1]["type"] == "RUN_ERROR"


ASKED = (
    Asked(id="i1", prompt="Which?", reason="input", fields=(FormField(name="repo", required=True),), raw={"mine": 1}),
    Asked(
        id="i2",
        prompt="Really?",
        reason="tool_call",
        fields=(FormField(name="sure", type=FieldType.BOOLEAN),),
        tool=ToolRequest(name="delete"),
        raw={"toolCall": {"id": "t1", "name": "delete", "arguments": "{}"}},
    ),
)


def asking_once(run_input: Any) -> list[AgentEvent]:
    if run_input.decided:
        return [TextDelta(text="Thanks."), Finished()]
    return [ToolStarted(id="t1", name="delete"), Interrupted(asked=ASKED)]


@pytest.mark.parametrize("dialect", Dialect)
async def test_what_people_answer_to_our_client_reaches_the_agent_question_by_question(
    dialect: Dialect, here: Place, wim: Client, assistant: Scripted
) -> None:
    assistant.script = asking_once
    async with wim.agent("assistant", dialect) as agent:
        asked = [event async for event in agent.run(run_input())][-1]
        assert isinstance(asked, Interrupted)
        assert [one.tool.name if one.tool else "" for one in asked.asked] == ["", "delete"]
        assert asked.asked[1].raw["toolCall"] == {"id": "t1", "name": "delete", "arguments": "{}"}
        decided = (
            Decided(interrupt_id="i1", values={"repo": "a"}, raw=asked.asked[0].raw),
            Decided(interrupt_id="i2", values={"sure": True}, raw=asked.asked[1].raw),
        )
        events = [event async for event in agent.run(run_input(decided=decided, client_context={"source": "slack"}))]
    assert events[-1] == Finished()
    resumed = assistant.ran[1].input
    assert resumed.decided == (
        Decided(interrupt_id="i1", values={"repo": "a"}, raw=ASKED[0].raw),
        Decided(interrupt_id="i2", values={"sure": True}, raw=ASKED[1].raw),
    )
    assert resumed.messages == ()
    assert resumed.client_context == {"source": "slack"}


@pytest.mark.parametrize(
    ("form_data", "values"),
    [
        ({"repo": "a", "other": 1}, {"repo": "a"}),
        ('{"repo": "a"}', {"repo": "a"}),
        ("User dismissed the input form without providing values.", None),
        ("the blue one", {"repo": "the blue one"}),
        ("17", {"repo": "17"}),
    ],
)
async def test_a_form_is_an_object_or_its_json_or_words(
    form_data: object, values: object, here: Place, wim: Client, router: Scripted
) -> None:
    router.script = lambda run_input: [Finished()] if run_input.decided else [Interrupted(asked=ASKED[:1])]
    await wim.said(START, start())
    await wim.said(RESUME, {"conversation_id": "c1", "form_data": form_data})
    assert router.ran[-1].input.decided == (Decided(interrupt_id="i1", values=values, raw={"mine": 1}),)  # type: ignore[arg-type]


async def test_what_nobody_asked_cannot_be_answered(here: Place, wim: Client, router: Scripted) -> None:
    router.script = asking_once
    body = {"conversation_id": "c1", "form_data": "yes"}
    assert (await wim.refusal(RESUME, body))[0] == 409
    await wim.said(START, start())
    ada = await here.client("ada")
    assert (await ada.refusal(RESUME, body))[0] == 409, "the question was another client's"
    assert (await wim.refusal(RESUME, body | {"agent_id": "assistant"}))[0] == 409, "another agent asked"
    await wim.said(RESUME, body)
    assert (await wim.refusal(RESUME, body))[1]["code"] == "conflict", "it was answered already"


@pytest.mark.req("SEC-04")
async def test_nothing_invisible_reaches_a_client(here: Place, wim: Client, router: Scripted) -> None:
    hidden = "\U000e0041\u202e\u200b"
    router.script = lambda run_input: [
        StepNamed(name=f"look{hidden}"),
        ToolStarted(id="t", name=f"search{hidden}"),
        ToolEnded(id="t"),
        TextDelta(text=f"one{hidden[:1]}"),
        TextDelta(text=f"{hidden[1:]} heart \u2764"),
        TextDelta(text="\ufe0f\U000e0042"),
        Finished(),
    ]
    said = await wim.said(START, start())
    assert not [char for char in hidden if char in json.dumps(said, ensure_ascii=False)]
    assert "".join(event.get("delta", "") for event in said if event["type"] == "TEXT_MESSAGE_CONTENT") == (
        "one heart \u2764\ufe0f"
    )
