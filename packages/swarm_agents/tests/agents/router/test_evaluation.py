"""The labelled sentences: a model that follows the labels gets all of them, and each way to be wrong has its cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import TextPart, UserPromptPart

from packages.swarm_agents.tests.agents.builtin.making import router_works
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Raises, Reply, Scripted, Told
from swarm.domain.errors import ConfigurationError
from swarm_agents.router.evaluation import Case, Expected, Forgets, Got, Judged, Suite, confusion, evaluate, load
from swarm_agents.toolbox.arguments import checked

pytestmark = pytest.mark.req("AGENT-01")

SUITE = load()
CATEGORIES = {"complete", "missing", "no tool", "small talk", "not allowed", "other languages", "follow-up"}
ALLOWED = {tool.name: tool for tool in SUITE.tools if tool.allowed}


def heard(told: Told) -> tuple[str, ...]:
    """All that was said, as a model reads it."""
    return tuple(
        str(part.content)
        for message in told.messages
        for part in message.parts
        if isinstance(part, UserPromptPart | TextPart)
    )


CASES = {(*(text for _, text in case.before), case.say): case for case in SUITE.cases}


def follows(case: Case) -> Reply:
    """What the label says."""
    match case.expected:
        case Expected.CALL:
            return Calls(case.tool, arguments_of(case))
        case Expected.ASK:
            return Calls("swarm_ask", {"question": "Which?"})
        case Expected.REFUSE:
            return Calls("swarm_refuse")
        case Expected.STOP:
            return Calls("swarm_stop")


def arguments_of(case: Case) -> dict[str, object]:
    """The labelled arguments, and something for whatever else is required."""
    parameters = ALLOWED[case.tool].parameters
    made_up: dict[str, object] = {"string": "x", "number": 1, "integer": 1, "boolean": True, "array": []}
    rest = {
        name: parameters["properties"][name].get("enum", [made_up[parameters["properties"][name]["type"]]])[0]
        for name in parameters["required"]
        if name not in case.arguments
    }
    return {**case.arguments, **rest}


async def judge(reply: Callable[[Case], Reply], suite: Suite = SUITE) -> tuple[list[Judged], Scripted]:
    script = Scripted(decide=lambda told: reply(CASES[heard(told)]))
    return await evaluate(router_works(script.model, Forgets()), suite), script


async def test_a_model_that_follows_the_labels_gets_every_sentence_with_one_call_each() -> None:
    seen: list[Judged] = []
    script = Scripted(decide=lambda told: follows(CASES[heard(told)]))
    judged = await evaluate(router_works(script.model, Forgets()), SUITE, done=seen.append)
    assert [one.case.id for one in judged if not one.is_right] == []
    assert len(judged) == len(SUITE.cases) == len(seen) == script.requests == 130
    assert [one.case for one in judged] == list(SUITE.cases)
    assert {one.requests for one in judged} == {1}
    table = confusion(judged)
    assert {label: dict(counts) for label, counts in table.items()} == {
        label: {Got(label.value): sum(case.expected is label for case in SUITE.cases)} for label in Expected
    }
    assert all(told.tools[:-3] == list(ALLOWED) for told in script.told)


def test_the_sentences_are_of_all_kinds_and_what_they_label_can_be_called() -> None:
    assert {case.category for case in SUITE.cases} == CATEGORIES
    assert len(CASES) == len({case.id for case in SUITE.cases}) == 130
    assert min(Counter(case.category for case in SUITE.cases).values()) >= 5
    for case in SUITE.cases:
        if case.expected is Expected.CALL:
            tool = ALLOWED[case.tool]
            assert checked(tool.parameters, arguments_of(case)).is_fine, case.id
            assert set(case.arguments) <= set(tool.parameters["properties"]), case.id
        if case.category == "not allowed":
            assert case.expected is Expected.REFUSE, case.id
    assert [tool.name for tool in SUITE.tools if not tool.allowed]


FORBIDDEN = next(tool for tool in SUITE.tools if not tool.allowed)


def wrong_tool(case: Case) -> Reply:
    return Calls("multiply" if case.tool == "add" else "add", {"a": 6, "b": 7})


def wrong_arguments(case: Case) -> Reply:
    return Calls(case.tool, {**arguments_of(case), **{name: _other(value) for name, value in case.arguments.items()}})


def _other(value: object) -> object:
    return value + 1 if isinstance(value, int | float) else f"not {value}"


def incomplete(case: Case) -> Reply:
    return Calls(case.tool, {})


@pytest.mark.parametrize(
    ("reply", "label", "got"),
    [
        (wrong_tool, Expected.CALL, Got.WRONG_TOOL),
        (incomplete, Expected.CALL, Got.ASK),
        (lambda case: "Here is a poem.", Expected.CALL, Got.REFUSE),
        (lambda case: Calls(FORBIDDEN.name, {}), Expected.CALL, Got.REFUSE),
        (lambda case: Calls("swarm_stop"), Expected.CALL, Got.STOP),
        (lambda case: Raises(ModelHTTPError(503, "m")), Expected.CALL, Got.ERROR),
        (lambda case: Calls("add", {"a": 6, "b": 7}), Expected.ASK, Got.CALL),
        (lambda case: Calls("swarm_refuse"), Expected.ASK, Got.REFUSE),
        (lambda case: Calls("swarm_ask", {"question": "What?"}), Expected.REFUSE, Got.ASK),
        (lambda case: Calls("add", {"a": 6, "b": 7}), Expected.REFUSE, Got.CALL),
        (lambda case: Calls("swarm_refuse"), Expected.STOP, Got.REFUSE),
    ],
)
async def test_a_model_that_is_wrong_in_one_way_lands_in_that_cell(
    reply: Callable[[Case], Reply], label: Expected, got: Got
) -> None:
    cases = tuple(
        case
        for case in SUITE.cases
        if case.expected is label and (reply is not incomplete or ALLOWED[case.tool].parameters["required"])
    )[:12]
    judged, script = await judge(reply, Suite(tools=SUITE.tools, cases=cases))
    assert confusion(judged)[label] == Counter({got: len(cases)})
    assert not any(one.is_right for one in judged)
    assert script.requests == len(cases)


async def test_a_call_with_other_values_than_the_label_is_one_with_wrong_arguments() -> None:
    numbers = tuple(
        case
        for case in SUITE.cases
        if case.arguments and all(isinstance(value, int | float) for value in case.arguments.values())
    )
    judged, _ = await judge(wrong_arguments, Suite(tools=SUITE.tools, cases=numbers))
    assert len(judged) > 5
    assert {one.got for one in judged} == {Got.WRONG_ARGUMENTS}
    assert all(case.tool in one.detail for case, one in zip(numbers, judged, strict=True))


async def test_values_are_the_same_without_case_and_outer_space_and_numbers_as_numbers() -> None:
    def spelled(case: Case) -> Reply:
        def other(name: str, value: object) -> object:
            is_free = "enum" not in ALLOWED[case.tool].parameters["properties"][name]
            if isinstance(value, str) and is_free:
                return f" {value.upper()} "
            return f"{value}" if isinstance(value, int | float) and not isinstance(value, bool) else value

        return Calls(case.tool, {name: other(name, value) for name, value in arguments_of(case).items()})

    cases = tuple(case for case in SUITE.cases if case.expected is Expected.CALL)
    judged, _ = await judge(spelled, Suite(tools=SUITE.tools, cases=cases))
    assert [one.case.id for one in judged if not one.is_right] == []


def test_sentences_of_ones_own_are_read_in_the_same_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        """
tools:
  ping: {server: net, description: Pings., parameters: {host: {type: string}}, required: [host]}
sentences:
  mine:
    - {say: ping example.org, call: ping, with: {host: example.org}}
    - {say: never mind, expect: stop, before: [{user: ping it}, {assistant: "Which?"}]}
""",
        encoding="utf-8",
    )
    suite = load(path)
    assert [(case.id, case.expected, case.tool) for case in suite.cases] == [
        ("mine 1", Expected.CALL, "ping"),
        ("mine 2", Expected.STOP, ""),
    ]
    assert suite.cases[1].before == (("user", "ping it"), ("assistant", "Which?"))


TOOL = "tools: {add: {server: s, description: d}, drop: {server: s, description: d, allowed: false}}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file: Input should be a valid dictionary"),
        ("[", "line 1"),
        ("[]", "the file: Input should be a valid dictionary"),
        (TOOL, "sentences: Field required"),
        ("tools: {add: {server: s}}\nsentences: {}", "tools > add > description: Field required"),
        ("tools: {add: 3}\nsentences: {}", "tools > add: "),
        (TOOL + "sentences: {}", "it contains no sentences"),
        (TOOL + "sentences: {x: [{expect: ask}]}", "sentences > x > 1 > say: Field required"),
        (TOOL + "sentences: {x: [{say: hi, expect: sing}]}", "sentences > x > 1 > expect"),
        (TOOL + "sentences: {x: [{say: hi, cal: add}]}", "sentences > x > 1 > cal"),
        (TOOL + "sentences: {x: [{say: hi}]}", "x 1 needs one label"),
        (TOOL + "sentences: {x: [{say: hi, call: add, expect: ask}]}", "x 1 needs one label"),
        (TOOL + "sentences: {x: [{say: hi, expect: ask, with: {a: 1}}]}", "x 1 needs one label"),
        (TOOL + "sentences: {x: [{say: hi, call: sub}]}", "x 1 calls 'sub', which is not a tool"),
        (TOOL + "sentences: {x: [{say: hi, call: drop}]}", "x 1 calls 'drop', which is not a tool"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_problem(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load(path)
    assert raised.value.message.startswith(f"{path} is not a file with labelled sentences: ")
    assert problem in raised.value.message
    assert "sentences.yaml shows the format" in (raised.value.hint or "")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load(tmp_path / "missing.yaml")
