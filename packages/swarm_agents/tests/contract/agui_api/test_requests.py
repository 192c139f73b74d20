"""What is asked of a built-in agent, who may ask it, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import (
    CANCEL,
    FOREVER,
    INVOKE,
    RESUME,
    START,
    Client,
    Place,
    Scripted,
    agui_input,
    kinds,
    place,
    run_input,
    start,
)
from swarm.domain.answers.agents import Dialect, Health
from swarm.domain.answers.events import (
    Asked,
    Broken,
    Cancelled,
    Decided,
    Failed,
    Finished,
    InputMessage,
    Interrupted,
    Origin,
    Speaker,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.model.language_models import Door
from swarm.entrypoints.web.openapi import CODES

pytestmark = pytest.mark.req("AGENT-09", "STREAM-01")

RUN = "/agui/router"
BODIES: list[tuple[str, dict[str, Any]]] = [
    (START, start()),
    (INVOKE, start()),
    (RESUME, {"conversation_id": "c1", "form_data": "x"}),
    (CANCEL, {"conversation_id": "c1"}),
    (RUN, agui_input()),
]


async def test_a_start_is_one_new_message_of_a_client_that_we_know(here: Place, wim: Client, router: Scripted) -> None:
    context = {"source": "web", "page": {"path": "/a"}, "overthink": True}
    told = await wim.said(START, start("what *is* 17?", trace_id="trace1", client_context=context, extra="is fine"))
    asked = router.ran[0].input
    assert (told[0]["threadId"], told[0]["runId"], told[0]["protocolVersion"]) == ("c1", asked.agui_run_id, "1.0")
    assert [(message.speaker, message.text) for message in asked.messages] == [(Speaker.USER, "what *is* 17?")]
    assert (asked.conversation_id, asked.trace_id, asked.history, asked.run_id) == ("c1", "trace1", (), "")
    assert asked.client_context == context
    assert asked.origin == Origin(door=Door.AGUI, client=wim.id, client_name="wim")
    await wim.said(START, start())
    again = router.ran[1].input
    assert again.client_context == {}
    assert len({asked.agui_run_id, again.agui_run_id, again.trace_id, again.messages[0].id, asked.messages[0].id}) == 5


async def test_without_a_name_the_first_agent_answers(
    here: Place, wim: Client, router: Scripted, assistant: Scripted
) -> None:
    await wim.said(START, start())
    await wim.said(START, start(agent_id=None))
    await wim.said(START, start(agent_id="assistant"))
    assert (len(router.ran), len(assistant.ran)) == (2, 1)


async def test_an_agent_that_is_not_there_is_refused_with_those_that_are(here: Place, wim: Client) -> None:
    asked = [(path, body | {"agent_id": "roter"}) for path, body in BODIES[:4]]
    for path, body in [*asked, ("/agui/roter", agui_input())]:
        status, error = await wim.refusal(path, body)
        assert (status, error["code"]) == (404, "not_found")
        assert "'roter'" in error["message"]
        assert error["hint"] == "Available agents: router, assistant."


async def test_only_agents_and_the_operator_are_served(here: Place, router: Scripted) -> None:
    stranger = dataclasses.replace(here.operator, token="who-knows")
    for method, path, body in [("POST", *one) for one in BODIES] + [
        ("GET", RUN, None),
        ("GET", "/api/v1/agents", None),
    ]:
        assert (await stranger.ask(method, path, body)).status_code == 401
        assert (await here.enroller.ask(method, path, body)).status_code == 403
        assert (await here.http.request(method, here.base + path)).status_code == 401
    assert router.ran == []
    assert kinds(await here.operator.said(START, start()))[-1] == "RUN_FINISHED"


async def test_nobody_is_taken_for_the_operator(here: Place, router: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.services.operate.agents.check_new_name", str)  # an agent from before it was reserved
    impostor = await here.client("operator")
    assert (await impostor.refusal(START, start()))[0] == 403
    assert router.ran == []


async def test_conversations_of_the_terminal_are_the_operators(here: Place, wim: Client, router: Scripted) -> None:
    for path, body in ((START, start(conversation="cli:1")), (RUN, agui_input(thread="cli:1"))):
        assert (await wim.refusal(path, body))[1]["code"] == "forbidden"
        await here.operator.said(path, body)
    await here.operator.said(START, start(conversation="1"))
    assert [ran.input.origin for ran in router.ran] == [
        Origin(door=Door.CLI, client="operator", client_name="operator"),
        Origin(door=Door.CLI, client="operator", client_name="operator"),
        Origin(door=Door.AGUI, client="operator", client_name="operator"),
    ]


DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]


INVALID: list[tuple[dict[str, object], str]] = [
    ({"message": None}, "message"),
    ({"message": ""}, "message"),
    ({"message": "  \n"}, "message"),
    ({"conversation_id": ""}, "conversation_id"),
    ({"conversation_id": "c" * 201}, "conversation_id"),
    ({"trace_id": "t" * 201}, "trace_id"),
    ({"client_context": {}}, "client_context.source"),
    ({"client_context": {"page": 1}}, "client_context.source"),
    ({"client_context": {"source": ""}}, "client_context.source"),
    ({"client_context": {"source": 7}}, "client_context.source"),
    ({"client_context": "slack"}, "client_context"),
    ({"client_context": {"source": "web", "more": "x" * 65_536}}, "client_context"),
    ({"client_context": {"source": "web", "more": DEEP}}, "client_context"),
]


@pytest.mark.parametrize("path", [START, INVOKE])
async def test_what_is_not_valid_is_named(path: str, here: Place, wim: Client, router: Scripted) -> None:
    for changes, field in INVALID:
        status, error = await wim.refusal(path, {**start(), **changes})
        assert (status, error["code"], list(error["fields"])) == (422, "invalid", [field])
    assert router.ran == []


async def test_only_our_protocol_is_spoken(here: Place, wim: Client) -> None:
    assert kinds(await wim.said(f"{START}?protocol=agui", start()))[-1] == "RUN_FINISHED"
    status, error = await wim.refusal(f"{START}?protocol=custom", start())
    assert (status, list(error["fields"])) == (422, ["protocol"])


async def test_too_much_and_nonsense_are_refused(here: Place, wim: Client) -> None:
    assert (await wim.refusal(START, start("x" * 1024 * 1024)))[0] == 413
    assert (await wim.refusal(START, start("a\0b")))[1]["code"] == "invalid"
    assert (await wim.refusal(START, ["no", "object"]))[1]["code"] == "invalid"


# AG-UI's own way


async def test_of_the_messages_of_a_run_the_last_ones_of_people_are_new(
    here: Place, wim: Client, router: Scripted
) -> None:
    messages = [
        {"id": "s", "role": "system", "content": "be rude"},
        {"id": "1", "role": "user", "content": "what is 17?", "name": "Ada"},
        {"id": "2", "role": "assistant", "toolCalls": [CALL]},
        {"id": "3", "role": "tool", "toolCallId": "t1", "content": "prime"},
        {"id": "4", "role": "assistant", "content": "a prime"},
        {"id": "5", "role": "user", "content": "sure?", "name": "Bob"},
        {
            "id": "",
            "role": "user",
            "content": [{"type": "text", "text": "or"}, IMAGE, {"type": "text", "text": "not?"}],
        },
    ]
    told = await wim.said(RUN, agui_input() | {"messages": messages})
    asked = router.ran[0].input
    assert asked.history == (
        InputMessage(id="1", speaker=Speaker.USER, text="what is 17?", author="Ada"),
        InputMessage(id="4", speaker=Speaker.ASSISTANT, text="a prime"),
    )
    assert [(message.text, message.author) for message in asked.messages] == [("sure?", "Bob"), ("or\n\nnot?", "")]
    assert all(message.id for message in asked.messages)
    assert told[0]["runId"] == told[-1]["runId"] == "r1"
    assert asked.agui_run_id != "r1", "a client may use a name twice"


CALL = {"id": "t1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
IMAGE = {"type": "image", "source": {"type": "url", "value": "https://example.org/a.png"}}


@pytest.mark.parametrize("dialect", Dialect)
async def test_what_our_own_client_sends_is_understood(
    dialect: Dialect, here: Place, wim: Client, router: Scripted
) -> None:
    context = {"source": "slack", "channel_name": "#ops", "overthink": True}
    async with wim.agent("router", dialect) as agent:
        assert [event async for event in agent.run(run_input("hello", client_context=context))][-1] == Finished()
    asked = router.ran[0].input
    assert [message.text for message in asked.messages] == ["hello"]
    assert (asked.client_context, asked.trace_id, asked.conversation_id) == (context, "trace1", "c1")


CONTEXTS: list[tuple[dict[str, object], dict[str, object]]] = [
    ({}, {}),
    ({"context": []}, {}),
    ({"context": [{"description": "page", "value": "/a"}]}, {"source": "agui", "page": "/a"}),
    ({"context": [{"description": "source", "value": "web"}]}, {"source": "web"}),
    (
        {
            "context": [{"description": "source", "value": "x"}],
            "forwardedProps": {"client_context": {"source": "web", "n": 1}},
        },
        {"source": "web", "n": 1},
    ),
    ({"forwardedProps": "anything"}, {}),
]


async def test_the_context_of_a_run(here: Place, wim: Client, router: Scripted) -> None:
    for more, context in CONTEXTS:
        await wim.said(RUN, agui_input() | more)
        assert router.ran[-1].input.client_context == context


INVALID_RUNS: list[tuple[dict[str, object], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [{"id": "1", "role": "assistant", "content": "hi"}]}, "messages"),
    ({"messages": [{"id": "1", "role": "user", "content": " "}]}, "messages"),
    ({"messages": [{"id": "1", "role": "nobody"}]}, "messages.0"),
    ({"threadId": ""}, "threadId"),
    ({"runId": "r" * 201}, "runId"),
    ({"forwardedProps": {"client_context": {"page": 1}}}, "client_context.source"),
    ({"context": [{"description": "a", "value": "x" * 65_536}]}, "client_context"),
]


async def test_a_run_that_is_not_valid_is_refused(here: Place, wim: Client, router: Scripted) -> None:
    for changes, field in INVALID_RUNS:
        status, error = await wim.refusal(RUN, agui_input() | changes)
        assert (status, error["code"], list(error["fields"])) == (422, "invalid", [field])
    assert router.ran == []


async def test_a_run_answers_only_open_questions(here: Place, wim: Client, router: Scripted) -> None:
    asked = tuple(Asked(id=id, prompt="?", raw={"of": id}) for id in ("i1", "i2", "i3"))
    router.script = lambda run_input: [Finished() if run_input.decided else Interrupted(asked=asked)]
    resume: list[dict[str, object]] = [
        {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}},
        {"interruptId": "i2", "status": "resolved", "payload": "blue"},
        {"interruptId": "i3", "status": "cancelled"},
    ]
    assert (await wim.refusal(RUN, agui_input("delete it", resume=resume)))[1]["code"] == "conflict"
    await wim.said(RUN, agui_input("delete it"))
    for wrong in ([*resume, {"interruptId": "i4", "status": "cancelled"}], [resume[0], resume[0]]):
        status, error = await wim.refusal(RUN, agui_input("delete it", resume=wrong))
        assert (status, error["code"], list(error["fields"])) == (422, "invalid", ["resume"])
    await wim.said(RUN, agui_input("delete it", resume=resume))
    assert len(router.ran) == 2
    resumed = router.ran[1].input
    assert resumed.decided == (
        Decided(interrupt_id="i1", values={"approved": True}, raw={"of": "i1"}),
        Decided(interrupt_id="i2", values={"answer": "blue"}, raw={"of": "i2"}),
        Decided(interrupt_id="i3", values=None, raw={"of": "i3"}),
    )
    assert (resumed.messages, [message.text for message in resumed.history]) == ((), ["delete it"])


# Whole answers


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([TextDelta(text="It is "), TextDelta(text="17."), Finished()], {"success": True, "content": "It is 17."}),
        ([Finished(result="17")], {"success": True, "content": "17"}),
        ([ToolStarted(id="t", name="x"), ToolEnded(id="t"), Finished()], "The agent finished without an answer."),
        ([Failed(message="No money.", code="limit")], "No money."),
        ([Broken(reason="it is tired")], "The agent could not answer: it is tired."),
        ([Cancelled()], "The run was cancelled."),
        ([Interrupted(asked=(Asked(id="i", prompt="Which?"),))], "The agent has a question: Which?"),
    ],
)
async def test_a_whole_answer(steps: Any, answer: Any, here: Place, wim: Client, router: Scripted) -> None:
    router.script = lambda run_input: steps
    response = await wim.ask("POST", INVOKE, start(trace_id="trace1"))
    told = response.json()
    assert response.status_code == 200
    expected = answer if isinstance(answer, dict) else {"success": False, "error": answer}
    assert expected.items() <= told.items()
    ids = {
        "agent_id": "router",
        "conversation_id": "c1",
        "trace_id": "trace1",
        "run_id": router.ran[0].input.agui_run_id,
    }
    assert ids.items() <= told.items()
    async with wim.agent("router", Dialect.CAIPE) as agent:
        end = await agent.invoke(run_input())
    assert end == (Finished(result=told["content"]) if told["success"] else Failed(message=told["error"]))


async def test_a_whole_answer_takes_no_longer_than_it_may(sqlite_url: str) -> None:
    ada = Scripted(FOREVER)
    async with place(sqlite_url, {"ada": ada}, invoke_seconds=0.1) as here:
        told = (await (await here.client()).ask("POST", INVOKE, start())).json()
        assert told["error"] == "The agent could not answer: it did not finish within 0.1 s."
        assert told["code"] == "broken"
        assert ada.ran[0].over.is_set()


# What there is


async def test_the_agents_are_listed_with_their_health(here: Place, wim: Client, assistant: Scripted) -> None:
    assistant.is_well = Health(reachable=False, detail="its model does not answer")
    assert (await wim.ask("GET", "/api/v1/agents")).json() == {
        "agents": [
            {"name": "router", "default": True, "reachable": True, "detail": "it is well"},
            {"name": "assistant", "default": False, "reachable": False, "detail": "its model does not answer"},
        ]
    }
    assert (await wim.ask("GET", RUN)).json()["name"] == "router"
    assert (await wim.ask("GET", "/agui/assistant")).json()["error"]["code"] == "unavailable"


@pytest.mark.parametrize("dialect", Dialect)
async def test_our_client_sees_whether_an_agent_can_be_asked(
    dialect: Dialect, here: Place, wim: Client, router: Scripted
) -> None:
    async with wim.agent("router", dialect) as agent:
        assert (await agent.health()).reachable
    if dialect is Dialect.AGUI:
        router.is_well = Health(reachable=False, detail="no")
        async with wim.agent("router", dialect) as agent:
            assert not (await agent.health()).reachable
        async with wim.agent("router", dialect, token="wrong") as agent:
            assert not (await agent.health()).reachable


async def test_every_route_is_described(here: Place) -> None:
    document = (await here.http.get(f"{here.base}/openapi.json")).json()
    described = document["paths"]
    ways = {START: "post", RESUME: "post", CANCEL: "post", INVOKE: "post", "/api/v1/agents": "get"}
    for path, method in [*ways.items(), ("/agui/{agent}", "post"), ("/agui/{agent}", "get")]:
        operation = described[path][method]
        assert operation["description"]
        assert operation["security"] == [{"bearer": []}]
        assert {int(status) for status in operation["responses"]} & set(CODES)
        assert method == "get" or "schema" in operation["requestBody"]["content"]["application/json"]
        assert (
            path in (CANCEL, INVOKE)
            or method == "get"
            or "text/event-stream" in operation["responses"]["200"]["content"]
        )
    schema = described[START]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["conversation_id", "message"]


async def test_a_stream_is_described_by_what_each_of_its_events_is(here: Place, wim: Client) -> None:
    """As OpenAPI 3.2 does it: a reader that knows only ``schema`` would take that for the schema of an event."""
    document = (await here.http.get(f"{here.base}/openapi.json")).json()
    paths = (START, RESUME, "/agui/{agent}")
    described = [document["paths"][path]["post"]["responses"]["200"]["content"] for path in paths]
    (event,) = {json.dumps(media, sort_keys=True): media for media in described}.values()
    assert set(event) == {"text/event-stream"}
    assert set(event["text/event-stream"]) == {"itemSchema"}
    item = event["text/event-stream"]["itemSchema"]
    async with wim.stream(START, start()) as response:
        lines = [line.partition(": ") for line in (await response.aread()).decode().splitlines() if line]
    assert len(lines) > 3
    for name, _, value in lines:
        jsonschema.validate({name: value}, item)
        jsonschema.validate(json.loads(value), item["properties"]["data"]["contentSchema"])
    assert "#/$defs" not in json.dumps(document["paths"])
