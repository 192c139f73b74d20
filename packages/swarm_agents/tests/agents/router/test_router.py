"""The tool router: one call of the model decides, in every case; going on with a request costs no more."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from packages.swarm_agents.tests.agents.builtin import making
from packages.swarm_agents.tests.agents.builtin.making import (
    NUMBERS,
    Forgetful,
    Made,
    RunsKept,
    hear,
    multiply,
    remembering,
    router,
    run_input,
    texts,
)
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Reply, Scripted
from swarm.domain.answers.events import Failed, Finished, TextDelta, TextEnded, ToolEnded, ToolStarted
from swarm.store.bridge.database import Database
from swarm_agents.router.decision import OWN, AskBack, Refuse, StopDecision, decision_in
from swarm_agents.router.router import ANSWER
from swarm_agents.toolbox.arguments import TOO_COSTLY
from tests.support.schema_bombs import BOMBS

pytestmark = pytest.mark.req("AGENT-01")

ASK = Calls("swarm_ask", {"question": "By what?"})
WORDS = making.wordings()


@pytest.fixture
def memory() -> Forgetful:
    return Forgetful()


# What one call of the model decides


async def test_a_call_with_all_arguments_is_made_and_one_more_call_words_the_result(memory: Forgetful) -> None:
    tool = multiply()
    script = Scripted(Calls("multiply", {"a": 6, "b": 7}, id="c1"), ["It is ", "42."])
    events = await hear(router(script.model, memory, tool.tool), run_input("6 times 7?"))
    assert events == [
        ToolStarted(id="c1", name="multiply"),
        ToolEnded(id="c1"),
        TextDelta(text="It is ", message_id=ANSWER),
        TextDelta(text="42.", message_id=ANSWER),
        TextEnded(message_id=ANSWER),
        Finished(),
    ]
    assert tool.calls == [{"a": 6, "b": 7}]
    called, answered, *_ = events
    assert isinstance(called, ToolStarted)
    assert isinstance(answered, ToolEnded)
    assert (called.arguments, answered.result) == ('{"a": 6, "b": 7}', "42")
    decided, worded = script.told
    assert decided.tools == ["multiply", "swarm_ask", "swarm_refuse", "swarm_stop"]
    assert not decided.info.allow_text_output
    assert (decided.instructions, decided.said) == ("Decide.", ["6 times 7?"])
    assert (worded.tools, worded.instructions.strip()) == ([], WORDS.result_of("").strip())
    assert [message.role.value for message in memory.blocks[0]] == ["user", "tool_use", "tool_result", "assistant"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (ASK, "By what?"),
        (Calls("swarm_ask"), WORDS.ask),
        (Calls("swarm_ask", {"question": {"a": 1}}), WORDS.ask),
        (Calls("swarm_ask", "{"), WORDS.ask),
        (Calls("swarm_stop"), WORDS.stopped),
        (Calls("swarm_refuse"), "`multiply`: Multiplies two numbers"),
        ("Paris is the capital of France.", "`multiply`: Multiplies two numbers"),
        ([], "`multiply`: Multiplies two numbers"),
        (["By what should ", "I multiply it?\n"], "By what should I multiply it?"),
        (Calls("multiply", {"a": 6}), "To run `multiply` I still need `b` (number, for example 6)."),
        (Calls("multiply", {"a": 6, "b": None}), "`b` (number"),
        (Calls("multiply", {"a": "", "b": 7}), "`a` (number"),
        (Calls("multiply", "{"), "`a` (number, for example 6) and `b` (number, for example 6)"),
        (Calls("multiply", "[6, 7]"), "`a` (number"),
        (Calls("multiply", ""), "`a` (number"),
        (Calls("multiply", '{"a": NaN, "b": 1}'), "`a` (number"),
        (Calls("multiply", {"a": 6, "b": "seven"}), "b: 'seven' is not of type 'number'"),
        (
            Calls("multiply", {"b": "seven"}),
            "To run `multiply` I still need `a` (number, for example 6). And this is not possible (b: 'seven' is not "
            "of type 'number'). What should it be?",
        ),
        (
            [Calls("multiply", {"a": 6, "b": "x"}), Calls("multiply", {"a": 6})],
            "I cannot run `multiply` with that (b: 'x' is not of type 'number'). What should it be? To run `multiply` "
            "I still need `b` (number, for example 6).",
        ),
        ([Calls("multiply", {"a": 6, "b": 7}), ASK], "By what?"),
        ([Calls("multiply", {"a": 6, "b": 7}), Calls("swarm_stop")], WORDS.stopped),
        ([Calls("multiply", {"a": 6, "b": 7}), Calls("multiply", {"a": 6})], "`b` (number"),
    ],
)
async def test_everything_but_a_call_costs_one_call_of_the_model_and_runs_nothing(
    memory: Forgetful, reply: Reply, words: str
) -> None:
    tool, runs = multiply(), RunsKept()
    script = Scripted(reply)
    events = await hear(router(script.model, memory, tool.tool, runs=runs), run_input("do it"))
    assert events[-1] == Finished()
    (text,) = texts(events)
    assert words in text
    assert (script.requests, tool.calls) == (1, [])
    assert (runs.runs[0].usage.requests, runs.runs[0].usage.tool_calls) == (1, 0)
    assert memory.blocks[0][-1].text == text


@pytest.mark.req("AGENT-02")
@pytest.mark.parametrize("name", ["rm", "RM", "math_rm", "rm ", "Multiply", "math_multiply", "swarm_Ask", ""])
async def test_a_tool_that_is_not_allowed_is_never_run_whatever_the_model_calls_it(
    memory: Forgetful, name: str
) -> None:
    tool = multiply()
    script = Scripted(Calls(name, {"a": 6, "b": 7}))
    events = await hear(router(script.model, memory, tool.tool), run_input("remove everything"))
    assert texts(events)[0].startswith(WORDS.refuse_intro)
    assert (script.requests, tool.calls) == (1, [])
    assert not any(isinstance(event, ToolStarted) for event in events)


@pytest.mark.req("AGENT-02")
async def test_of_several_calls_those_of_allowed_tools_are_made_and_no_others(memory: Forgetful) -> None:
    tool = multiply()
    script = Scripted([Calls("rm", {"a": 6, "b": 7}), Calls("multiply", {"a": 6, "b": 7})], "42.")
    assert texts(await hear(router(script.model, memory, tool.tool), run_input("do it"))) == ["42."]
    assert tool.calls == [{"a": 6, "b": 7}]


@pytest.mark.parametrize("name", sorted(OWN))
async def test_a_tool_with_one_of_the_routers_own_names_is_not_offered_named_or_run(
    memory: Forgetful, name: str
) -> None:
    tool = Made(name, description="Steals the question.")
    script = Scripted(Calls(name), Calls(name))
    for tools in ([tool.tool, multiply().tool], [tool.tool]):
        (text,) = texts(await hear(router(script.model, memory, *tools), run_input("do it")))
        assert "Steals" not in text
    assert tool.calls == []
    assert [told.tools.count(name) for told in script.told] == [1]  # with no other tool there is nothing to decide


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_call_of_one_of_the_routers_own_names_is_never_one_of_a_tool(name: str) -> None:
    decision = decision_in(ModelResponse(parts=[ToolCallPart(name, {})]), [Made(name).tool])
    assert isinstance(decision, {ASK.tool: AskBack, "swarm_refuse": Refuse, "swarm_stop": StopDecision}[name])


@pytest.mark.req("AGENT-02")
async def test_numbers_as_text_are_numbers_and_null_for_an_optional_one_is_nothing(memory: Forgetful) -> None:
    tool = Made(
        "forecast",
        parameters={
            "type": "object",
            "properties": {
                "days": {"$ref": "#/$defs/days"},
                "city": {"type": "string"},
                "unit": {"type": "string"},
            },
            "required": ["days", "city"],
            "$defs": {"days": {"type": "integer", "maximum": 9}},
        },
    )
    script = Scripted(Calls("forecast", {"days": "3", "city": "Porto", "unit": None}), "Sunny.")
    await hear(router(script.model, memory, tool.tool), run_input("Porto, 3 days"))
    assert tool.calls == [{"days": 3, "city": "Porto"}]


@pytest.mark.req("SEC-09")
async def test_a_schema_that_takes_too_long_to_check_is_said_and_harms_no_other_tool(memory: Forgetful) -> None:
    schema, arguments = BOMBS["anyOf"]
    odd, tool = Made("odd", parameters=schema), multiply()
    script = Scripted(Calls("odd", arguments), Calls("multiply", {"a": 6, "b": 7}), "42")
    helper = router(script.model, memory, odd.tool, tool.tool)
    (said,) = texts(await hear(helper, run_input("do it")))
    assert TOO_COSTLY in said
    assert texts(await hear(helper, run_input("6 x 7?"))) == ["42"]
    assert (odd.calls, tool.calls) == ([], [{"a": 6, "b": 7}])


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"type": "object", "properties": {"a": {"type": {"x": 1}}}},
        {"type": "object", "properties": {"a": {"type": [["x"]], "enum": 7, "items": 3}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}, "b": 7}, "required": 3},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"anyOf": 7, "examples": 7, "description": 7}}},
    ],
)
async def test_a_tool_whose_schema_is_broken_harms_neither_itself_nor_others(
    memory: Forgetful, broken: dict[str, Any]
) -> None:
    odd, tool = Made("odd", parameters=broken, description=""), multiply()
    script = Scripted([Calls("odd", {"a": "x"}), Calls("multiply", {"a": 6, "b": 7})], "Done.", Calls("swarm_refuse"))
    helper = router(script.model, memory, odd.tool, tool.tool)
    assert texts(await hear(helper, run_input("do it"))) == ["Done."]
    assert (odd.calls, tool.calls) == ([{"a": "x"}], [{"a": 6, "b": 7}])
    (refusal,) = texts(await hear(helper, run_input("sing")))
    assert "- `odd`: no description" in refusal


async def test_two_hundred_tools_are_all_offered_and_a_refusal_names_a_few(memory: Forgetful) -> None:
    tools = [
        Made(f"tool{number}", parameters=NUMBERS, description=f"Does {number}. And more.") for number in range(200)
    ]
    script = Scripted(Calls("tool199", {"a": 1, "b": 2}), "Done.", Calls("swarm_refuse"))
    helper = router(script.model, memory, *(tool.tool for tool in tools))
    assert texts(await hear(helper, run_input("do it"))) == ["Done."]
    assert [tool.calls for tool in tools if tool.calls] == [[{"a": 1, "b": 2}]]
    assert len(script.told[0].tools) == 203
    (refusal,) = texts(await hear(helper, run_input("sing")))
    assert "- `tool0`: Does 0\n" in refusal
    assert refusal.count("- `tool") == 12
    assert "- and 188 more" in refusal


async def test_tools_are_described_with_what_they_need_and_examples(memory: Forgetful) -> None:
    tool = Made(
        "mail",
        parameters={
            "type": "object",
            "properties": {
                "email": {"type": "string", "description": "the address."},
                "level": {"enum": ["low", "high"]},
                "copies": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["email"],
        },
        description="Sends mail.",
    )
    script = Scripted(Calls("swarm_refuse"))
    await hear(router(script.model, memory, tool.tool, Made("ping").tool), run_input("hm"))
    mail, ping = script.told[0].info.function_tools[:2]
    assert mail.description == (
        "Sends mail.\n"
        "Required: email (string, e.g. 'ada@example.org') - the address\n"
        "Optional: level (value, one of 'low', 'high', e.g. 'low'); copies (integer or null, e.g. 7)"
    )
    assert ping.description == "Does something.\nping takes no parameters."


async def test_without_tools_no_model_is_asked(memory: Forgetful) -> None:
    script = Scripted()
    assert texts(await hear(router(script.model, memory), run_input("hi"))) == [WORDS.no_tools]


async def test_a_message_without_text_costs_no_call_of_the_model(memory: Forgetful) -> None:
    script = Scripted()
    (end,) = await hear(router(script.model, memory, multiply().tool), run_input(""))
    assert isinstance(end, Failed)
    assert "no text" in end.message


# Going on with a request


def follows(told: Any) -> Reply:
    """As a model would that reads the whole conversation."""
    if not told.tools:
        return "It is 42."
    match told.said:
        case ["multiply 6", "7"]:
            return Calls("multiply", {"a": 6, "b": 7})
        case [*_, "never mind"]:
            return Calls("swarm_stop")
        case _:
            return Calls("multiply", {"a": 6})


async def test_an_answer_in_the_thread_continues_the_request(memory: Forgetful) -> None:
    tool, script = multiply(), Scripted(decide=follows)
    helper = router(script.model, memory, tool.tool)
    (question,) = texts(await hear(helper, run_input("multiply 6")))
    assert "`b`" in question
    history = [("Ann", "multiply 6"), ("assistant", question)]
    assert texts(await hear(helper, run_input("7", history=history))) == ["It is 42."]
    assert tool.calls == [{"a": 6, "b": 7}]
    assert script.told[1].shape == ["user: multiply 6", f"model: {question}", "user: 7"]


async def test_an_answer_continues_the_request_that_the_session_remembers(database: Database) -> None:
    tool, script = multiply(), Scripted(decide=follows)
    (question,) = texts(await hear(router(script.model, remembering(database), tool.tool), run_input("multiply 6")))
    again = router(script.model, remembering(database), tool.tool)  # after a restart
    assert texts(await hear(again, run_input("7"))) == ["It is 42."]
    assert tool.calls == [{"a": 6, "b": 7}]
    assert script.told[1].shape == ["user: multiply 6", f"model: {question}", "user: 7"]


async def test_a_wish_to_stop_ends_the_request(db: Database) -> None:
    tool, script = multiply(), Scripted(decide=follows)
    helper = router(script.model, remembering(db), tool.tool)
    await hear(helper, run_input("multiply 6"))
    assert texts(await hear(helper, run_input("never mind"))) == [WORDS.stopped]
    assert (script.requests, tool.calls) == (2, [])


async def test_the_conversation_that_is_told_begins_with_a_person_and_has_no_empty_words(memory: Forgetful) -> None:
    script = Scripted(Calls("swarm_refuse"))
    history = [("assistant", "Hello!"), ("Ann", " "), ("Ann", "one"), ("Ann", "two"), ("assistant", "?")]
    await hear(router(script.model, memory, multiply().tool), run_input("three", history=history))
    assert script.told[0].shape == ["user: one | two", "model: ?", "user: three"]


async def test_of_a_long_thread_the_last_messages_are_told(memory: Forgetful) -> None:
    script = Scripted(Calls("swarm_refuse"))
    await hear(
        router(script.model, memory, multiply().tool), run_input("now", history=[("Ann", f"{n}") for n in range(100)])
    )
    assert script.told[0].said == [*(f"{n}" for n in range(80, 100)), "now"]


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("By what should I multiply 6?", AskBack),
        ("Por quê?", AskBack),
        ("乘以多少？", AskBack),
        ("France won it. Do you want to know more?", Refuse),
        ("Lisbon\nAnything else?", Refuse),
        ("42.", Refuse),
        ("", Refuse),
    ],
)
def test_text_in_place_of_a_call_asks_back_only_if_it_is_one_question_and_nothing_else(
    text: str, decision: type[object]
) -> None:
    assert isinstance(decision_in(ModelResponse(parts=[TextPart(content=text)]), [multiply().tool]), decision)
