"""Agents that speak ACP, played by the agent's side of the protocol's package."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from packages.swarm_runner.tests.doors import acp_agent
from packages.swarm_runner.tests.doors.conftest import Desk, running_in, text_in, turn_of
from swarm_runner.doors.acp import AcpDoor
from swarm_runner.doors.acp_updates import TurnUpdates, permission_of
from swarm_runner.doors.repository import OWN_TOOLS
from swarm_runner.port import (
    CliSession,
    FileDiff,
    LogLine,
    PermissionAsked,
    QuestionAsked,
    SessionMissing,
    StartFailed,
    StepShown,
    TextAdded,
    ToolState,
    TurnOutcome,
    UsageReported,
)
from tools.tool import discover


@pytest.mark.parametrize(
    ("update", "step"),
    [
        (
            {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "status": "in_progress"},
            StepShown(id="c", title="ls", state=ToolState.IN_PROGRESS),
        ),
        (
            {"sessionUpdate": "plan", "entries": [{"content": "Look", "status": "completed"}]},
            StepShown(id="plan-1", title="Look", state=ToolState.COMPLETE),
        ),
    ],
)
def test_the_text_before_a_step_ends_with_a_paragraph(update: dict[str, Any], step: StepShown) -> None:
    updates = TurnUpdates()
    said = [{"sessionUpdate": "agent_message_chunk", "content": {"text": text}} for text in ("```\nls\n```", "Found.")]
    given = (update, said[0], {**update, "title": "ls -l"}, {**update, "title": "ls -l"}, said[1])
    seen = [event for one in given for event in updates.events(one)]
    texts = [TextAdded(text=text) for text in ("```\nls\n```", "\n\n", "Found.")]
    assert [event for event in seen if isinstance(event, TextAdded)] == texts
    assert seen[:3] == [step, *texts[:2]]
    assert isinstance(seen[3], StepShown)
    updates.begin()
    assert all(isinstance(event, StepShown) for event in updates.events(update))


async def test_text_steps_and_usage(desk: Desk) -> None:
    session = await desk.open(desk.acp("works"))
    events, ended = await turn_of(session, "First.")
    assert session.id == "s-1"
    assert text_in(events) == "I look. \n\nFound."
    steps = [(event.title, event.state) for event in events if isinstance(event, StepShown)]
    assert steps == [("Look", ToolState.IN_PROGRESS), ("ls", ToolState.PENDING), ("ls", ToolState.COMPLETE)]
    assert [event for event in events if isinstance(event, UsageReported)][-1] == UsageReported(
        input_tokens=10, output_tokens=5, cost_dollars=0.25
    )
    assert (ended.outcome, ended.refused_tools) == (TurnOutcome.DONE, ())


async def test_the_session_is_opened_with_the_mcp_server_and_the_system_prompt_once(desk: Desk) -> None:
    session = await desk.open(desk.acp("works"))
    await turn_of(session, "First.")
    await turn_of(session, "Second.")
    told, opened, *prompts = desk.noted()
    assert not told["capabilities"]["terminal"]
    assert not told["capabilities"]["fs"]["readTextFile"]
    assert opened["new"] == str(desk.folder)
    (server,) = opened["mcp"]
    assert (server["type"], server["url"]) == ("http", "http://127.0.0.1:9/mcp")
    assert {one["name"]: one["value"] for one in server["headers"]} == {
        "Authorization": "Bearer t",
        "X-Swarm-Lease": "l",
    }
    assert [one["prompt"] for one in prompts] == ["You are a worker.\n\nFirst.", "Second."]
    await session.close(20)
    assert running_in(desk.folder) == []


async def test_two_permissions_at_once(desk: Desk) -> None:
    session = await desk.open(desk.acp("asks twice"))
    asked: list[PermissionAsked] = []

    async def decide(event: object) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event)
        if len(asked) == 2 and isinstance(event, PermissionAsked):
            await session.permit(asked[1].id, allowed=False, reason="No.")
            await session.permit(asked[0].id, allowed=True, always=True)
            await session.permit("unknown", allowed=True)

    events, ended = await turn_of(session, seen=decide)
    assert {(one.tool, one.title, one.arguments["command"], one.can_grant) for one in asked} == {
        ("execute", "rm 1", "rm 1", True),
        ("execute", "rm 2", "rm 2", True),
    }
    first = "ever no" if asked[0].title == "rm 1" else "no ever"
    assert text_in(events) == first
    assert (ended.outcome, ended.refused_tools) == (TurnOutcome.DONE, ("execute",))


async def test_an_agent_that_dies_while_it_asks_is_no_error_of_ours(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    _, ended = await turn_of(await desk.open(desk.acp("dies while it asks")))
    assert ended.outcome is TurnOutcome.FAILED
    assert "exit code 7" in ended.reason
    await desk.sessions[-1].close(0)
    assert caplog.records == []


@pytest.mark.req("HITL-14")
async def test_people_are_not_asked_for_a_permission_that_could_only_be_given_for_always(desk: Desk) -> None:
    session = await desk.open(desk.acp("asks for always"))
    events, ended = await turn_of(session)
    assert [event for event in events if isinstance(event, PermissionAsked)] == []
    assert (text_in(events), ended.refused_tools) == ("no", ("execute",))
    assert "does not offer to allow execute once" in str(events)


@pytest.mark.req("RUN-05")
async def test_the_tools_of_the_swarm_are_allowed_and_others_asked_by_their_names(desk: Desk) -> None:
    session = await desk.open(desk.acp("uses tools"))
    asked: list[PermissionAsked] = []

    async def refuse(event: object) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event)
            await session.permit(event.id, allowed=False)

    events, ended = await turn_of(session, seen=refuse)
    assert text_in(events) == "yes yes " + "no " * 9
    names = [
        *(
            "mcp__files__delete",
            "mcp__files__delete",
            "execute",
            "mcp__swarm__evil",
            "mcp__swarm__",
            "mcp__swarm__evil",
        ),
        *("mcp__swarm____tray", "MCP__swarm__tray", "mcp__swarm__tray "),
    ]
    assert [one.tool for one in asked] == names
    assert ended.refused_tools == tuple(names)


@pytest.mark.req("SEC-08")
def test_the_own_tools_are_those_of_the_coordinator() -> None:
    assert discover().keys() == OWN_TOOLS


@pytest.mark.req("RUN-05")
@pytest.mark.parametrize("program", ["codex-acp", "opencode", "other"])
async def test_agents_are_told_to_ask_people_unless_the_operator_says_otherwise(desk: Desk, program: str) -> None:
    command = desk.folder.parent / program
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {acp_agent.__file__} "shows its environment" {desk.state}\n')
    command.chmod(0o700)
    found = []
    for given in ({}, {"INITIAL_AGENT_MODE": "agent", "OPENCODE_PERMISSION": '"allow"'}):
        environment = {**desk.wanted.environment, **given}
        session = await desk.open(AcpDoor([str(command), "acp"]), environment=environment)
        found.append(json.loads(text_in((await turn_of(session))[0])))
    asking, own = found
    assert asking["INITIAL_AGENT_MODE"] == ("read-only" if program == "codex-acp" else None)
    rules = json.loads(asking["OPENCODE_PERMISSION"] or "{}")
    assert list(rules.items())[:1] == ([("*", "ask")] if program == "opencode" else [])
    assert {name for name, rule in rules.items() if rule != "ask"}.isdisjoint({"bash", "edit", "webfetch", "task"})
    assert (own["INITIAL_AGENT_MODE"], own["OPENCODE_PERMISSION"]) == ("agent", '"allow"')


@pytest.mark.req("RUN-05")
@pytest.mark.parametrize(
    ("habit", "set_to"), [("decides itself", "default"), ("asks", None), ("has other modes", None)]
)
@pytest.mark.parametrize("resume", [None, "s-1"])
async def test_an_agent_that_would_decide_itself_is_set_to_ask_people(
    desk: Desk, habit: str, set_to: str | None, resume: str | None
) -> None:
    await desk.open(desk.acp(habit), resume=resume)
    assert [one["mode"] for one in desk.noted() if "mode" in one] == ([set_to] if set_to else [])


@pytest.mark.parametrize(
    ("values", "answer"),
    [({"colour": "red"}, {"action": "accept", "content": {"colour": "red"}}), (None, {"action": "decline"})],
)
async def test_a_question(desk: Desk, values: dict[str, str] | None, answer: object) -> None:
    session = await desk.open(desk.acp("questions"))

    async def decide(event: object) -> None:
        if isinstance(event, QuestionAsked):
            assert event.message == "Which colour?"
            assert event.schema["properties"]["colour"]["enum"] == ["red", "blue"]
            await session.answer(event.id, values)

    events, _ = await turn_of(session, seen=decide)
    assert json.loads(text_in(events)) == answer


@pytest.mark.parametrize("habit", ["waits", "waits for leave"])
async def test_cancelling_ends_the_turn_and_the_session_goes_on(desk: Desk, habit: str) -> None:
    session = await desk.open(desk.acp(habit))

    async def decide(event: object) -> None:
        if isinstance(event, TextAdded | PermissionAsked) and event != TextAdded(text="cancelled"):
            await session.cancel()

    _, ended = await turn_of(session, seen=decide)
    assert ended.outcome is TurnOutcome.CANCELLED
    assert session.id == "s-1"


@pytest.mark.req("RUN-05")
async def test_once_is_not_always_and_a_refusal_counts_for_its_turn(desk: Desk) -> None:
    session = await desk.open(desk.acp("asks once"))
    found = []
    for given in ({"allowed": False}, {"allowed": True}, {"allowed": True, "always": True}):

        async def decide(event: object, given: dict[str, bool] = given) -> None:
            if isinstance(event, PermissionAsked):
                await session.permit(event.id, **given)  # type: ignore[arg-type]

        events, ended = await turn_of(session, seen=decide)
        found.append((text_in(events), ended.refused_tools))
    assert found == [("no", ("execute",)), ("yes", ()), ("ever", ())]


@pytest.mark.parametrize(("habit", "said"), [("names an address", "cancel"), ("speaks of another session", "Mine.")])
async def test_what_is_not_for_us_is_left_out(desk: Desk, habit: str, said: str) -> None:
    events, _ = await turn_of(await desk.open(desk.acp(habit)))
    assert text_in(events) == said
    assert not any(isinstance(event, QuestionAsked) for event in events)


async def test_an_agent_that_wants_a_key_gets_the_one_of_the_environment(desk: Desk) -> None:
    with pytest.raises(StartFailed, match=r"not logged in.*API key"):
        await desk.open(desk.acp("wants a key"))
    session = await desk.open(
        desk.acp("wants a key"), environment={**desk.wanted.environment, "OPENAI_API_KEY": "the key"}
    )
    assert session.id == "s-1"


def test_usage_counts_what_was_cached_and_dollars_only() -> None:
    updates = TurnUpdates()
    for amount, currency in ((0.5, "USD"), (7, "EUR"), (-1, "USD")):
        assert [
            event.cost_dollars
            for event in updates.events(
                {"sessionUpdate": "usage_update", "cost": {"amount": amount, "currency": currency}}
            )
            if isinstance(event, UsageReported)
        ] == ([0.5] if currency == "USD" and amount > 0 else [])
    usage = {"inputTokens": 1, "cachedReadTokens": 20, "cachedWriteTokens": 300, "outputTokens": 4}
    assert updates.total(usage) == UsageReported(input_tokens=321, output_tokens=4, cost_dollars=0.5)
    assert updates.total({}) is None


@pytest.mark.req("RUN-06")
def test_codex_tells_the_context_of_each_request_which_is_input_of_the_next() -> None:
    updates, usage = TurnUpdates(agent="codex-acp"), {"inputTokens": 600, "outputTokens": 40}

    def certain(*contexts: int) -> list[int | None]:
        given = ({"sessionUpdate": "usage_update", "used": used, "size": 1000} for used in contexts)
        return [
            event.input_tokens for one in given for event in updates.events(one) if isinstance(event, UsageReported)
        ]

    assert certain(110, 210, 210, 320) == [0, 110, 110, 320]  # told twice, it counts once
    assert updates.total(usage) == UsageReported(input_tokens=600, output_tokens=40)
    assert certain(50, 100) == [600, 650]  # a context that was made smaller
    assert updates.total(usage) == UsageReported(input_tokens=1200, output_tokens=80)
    (other,) = TurnUpdates(agent="other").events(
        {"sessionUpdate": "usage_update", "used": 9, "cost": {"amount": 0.5, "currency": "USD"}}
    )
    assert other == UsageReported(cost_dollars=0.5)


@pytest.mark.req("RUN-06")
@pytest.mark.parametrize("habit", ["counts by session", "counts by process", "counts tokens by session"])
async def test_a_session_counts_its_own_turns_whatever_the_agent_counts(desk: Desk, habit: str) -> None:
    async def used(session: CliSession) -> UsageReported:
        events, _ = await turn_of(session)
        return [event for event in events if isinstance(event, UsageReported)][-1]

    def turns(count: int) -> UsageReported:
        return UsageReported(input_tokens=10 * count, output_tokens=5 * count, cost_dollars=count / 4)

    first = await desk.open(desk.acp(habit))
    assert [await used(first) for _ in range(3)] == [turns(1), turns(2), turns(3)]
    await first.close(1)
    second = await desk.open(desk.acp(habit), resume="s-1", spent=turns(3))
    assert [await used(second) for _ in range(5)] == [turns(count) for count in range(1, 6)]


@pytest.mark.req("RUN-06")
def test_a_cost_that_falls_has_begun_anew_and_one_that_was_not_kept_counts() -> None:
    updates = TurnUpdates(UsageReported(cost_dollars=1.0), "unknown")
    costs = [updates.used.cost(dollars).cost_dollars for dollars in (0.25, 0.5, 0.125, 0.125 - 1e-9)]
    assert costs == [0.25, 0.5, 0.625, pytest.approx(0.625)]
    assert TurnUpdates(UsageReported(cost_dollars=1.0)).used.cost(1.25).cost_dollars == 0.25


def test_a_grant_is_offered_only_if_the_agent_offers_it_and_a_failed_step_is_an_error() -> None:
    updates = TurnUpdates()
    for kinds, can_grant in ((["allow_once"], False), (["allow_once", "allow_always"], True)):
        options = [{"kind": kind, "optionId": kind} for kind in kinds]
        asked, _ = permission_of("a", {"toolCall": {"toolCallId": "c", "title": "rm"}, "options": options}, updates)
        assert asked.can_grant is can_grant
    failed = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}
    assert [*updates.events(failed)] == [StepShown(id="c", title="rm", state=ToolState.ERROR)]


@pytest.mark.req("HITL-10")
def test_a_permission_has_the_diffs_the_content_and_the_places_of_its_call() -> None:
    updates = TurnUpdates()
    diff = {"type": "diff", "path": "/w/a.py", "oldText": "1\n", "newText": "2\n"}
    new = {"type": "diff", "path": "/w/b.py", "newText": "3\n"}
    plan = {"type": "content", "content": {"type": "text", "text": "Then I push."}}
    call = {"toolCallId": "c", "title": "Read README", "kind": "edit", "content": [diff, new, plan]}
    [
        *updates.events(
            {"sessionUpdate": "tool_call", "locations": [{"path": "/w/a.py", "line": 3}, {"path": "b"}], **call}
        )
    ]
    asked, _ = permission_of("a", {"toolCall": {"toolCallId": "c"}}, updates)
    assert asked.diffs == (
        FileDiff(path="/w/a.py", old="1\n", new="2\n"),
        FileDiff(path="/w/b.py", old=None, new="3\n"),
    )
    assert (asked.locations, asked.arguments) == (("/w/a.py:3", "b"), {"content": ["Then I push."]})
    more = {"toolCallId": "c", "content": [{"type": "terminal", "terminalId": "t"}], "rawInput": {"content": "x"}}
    asked, _ = permission_of("a", {"toolCall": more}, updates)
    assert asked.arguments == {"content": "x", "shown": [{"type": "terminal", "terminalId": "t"}]}
    more = more | {"rawInput": {"content": "x", "shown": "y", "also_shown": "z"}}
    asked, _ = permission_of("a", {"toolCall": more}, updates)
    assert asked.arguments["also_also_shown"] == [{"type": "terminal", "terminalId": "t"}]


@pytest.mark.parametrize("habit", ["works", "has pages", "replays"])
async def test_a_session_is_resumed_with_a_proof(desk: Desk, habit: str) -> None:
    session = await desk.open(desk.acp(habit), resume="s-1")
    events, _ = await turn_of(session, "More.")
    assert session.id == "s-1"
    assert desk.noted()[-1]["prompt"] == "More."
    assert "Earlier." not in text_in(events)


@pytest.mark.parametrize(("habit", "id"), [("works", "s-2"), ("replays nothing", "s-1")])
async def test_without_a_proof_the_session_is_missing(desk: Desk, habit: str, id: str) -> None:
    with pytest.raises(SessionMissing):
        await desk.open(desk.acp(habit), resume=id)
    assert running_in(desk.folder) == []


async def test_an_agent_that_does_not_start(desk: Desk) -> None:
    with pytest.raises(StartFailed, match=r"exit code 3.*no licence"):
        await desk.open(desk.acp("dead"))
    with pytest.raises(StartFailed, match="speaks version 99 of ACP"):
        await desk.open(desk.acp("new protocol"))
    assert running_in(desk.folder) == []


async def test_an_agent_without_mcp_over_http(desk: Desk) -> None:
    session = await desk.open(desk.acp("no mcp"))
    events, _ = await turn_of(session)
    assert any("no MCP servers over HTTP" in event.text for event in events if isinstance(event, LogLine))
    assert desk.noted()[1]["mcp"] == []


def said(text: str, id: str | None = None) -> dict[str, Any]:
    """An update with text of a message."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"text": text}, **({"messageId": id} if id else {})}


@pytest.mark.req("RUN-04")
def test_messages_are_separated_and_what_the_adapter_says_itself_goes_to_the_log() -> None:
    updates = TurnUpdates(agent="codex-acp codex")
    warning, notice = said("Warning: model metadata not found.\n\n"), {"sessionUpdate": "notice", "title": "Compacted"}
    given = (warning, said("One ", "a"), notice, said("whole.", "a"), said("Another.", "b"))
    seen = [event for one in given for event in updates.events(one)]
    assert text_in(seen) == "One whole.\n\nAnother."
    logged = [event.text for event in seen if isinstance(event, LogLine)]
    assert logged == ["Warning: model metadata not found.", "(Compacted)"]
    assert text_in(list(TurnUpdates(agent="other").events(warning))) == "Warning: model metadata not found.\n\n"


@pytest.mark.req("RUN-04", "RUN-08")
@pytest.mark.parametrize("program", ["codex-acp", "opencode", "unknown"])
async def test_only_known_agents_fail_by_their_words(desk: Desk, program: str) -> None:
    script = desk.folder / program
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{acp_agent.__file__}" limited "{desk.state}"\n')
    script.chmod(0o700)
    events, ended = await turn_of(await desk.open(AcpDoor([str(script)])))
    assert ended.outcome is (TurnOutcome.DONE if program == "unknown" else TurnOutcome.FAILED)
    assert bool(ended.resets_at) == (program != "unknown")
    assert "hit your usage limit" in text_in(events)
