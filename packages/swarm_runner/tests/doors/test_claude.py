"""Claude Code, played by a program that speaks its protocol."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packages.swarm_runner.tests.doors.conftest import Desk, running_in, text_in, turn_of
from swarm_runner.doors.claude import ClaudeDoor
from swarm_runner.doors.claude_messages import TurnMessages, permission_of
from swarm_runner.doors.repository import OWN_NAMES
from swarm_runner.port import (
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


def replies_in(desk: Desk) -> list[Any]:
    """The answers to the CLI's control requests."""
    return [one["response"]["response"] for one in desk.noted() if one.get("type") == "control_response"]


def message(kind: str, *blocks: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    """A message with these blocks; ``parent`` is the tool call of a subagent."""
    return {"type": kind, "message": {"id": "m", "content": list(blocks)}, "parent_tool_use_id": parent}


def streamed(text: str, parent: str | None = None) -> dict[str, Any]:
    """A piece of text."""
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent}


def test_the_text_before_a_step_ends_with_a_paragraph_and_a_failed_step_is_an_error() -> None:
    use = {"type": "tool_use", "id": "u", "name": "Bash", "input": {"command": "ls"}}
    failed = {"type": "tool_result", "tool_use_id": "u", "is_error": True}
    start = {"type": "content_block_start", "content_block": {"type": "text"}}
    messages, step = TurnMessages(), StepShown(id="u", title="Bash: ls", state=ToolState.IN_PROGRESS)
    seen = [
        event
        for one in (
            streamed("```\nls\n```"),
            message("assistant", use),
            message("user", failed),
            {"type": "stream_event", "event": start, "parent_tool_use_id": None},
            streamed("Found."),
            {"type": "stream_event", "event": start, "parent_tool_use_id": None},
            streamed("More."),
            message("assistant", {"type": "text", "text": "Not streamed."}),
        )
        for event in messages.events(one)
    ]
    words = ("```\nls\n```", "\n\n", "Found.", "\n\n", "More.", "\n\n", "Not streamed.")
    texts = [TextAdded(text=text) for text in words]
    assert seen == [*texts[:2], step, replace(step, state=ToolState.ERROR), *texts[2:]]
    messages.begin()
    assert [*messages.events({"type": "stream_event", "event": start, "parent_tool_use_id": None})] == []


def test_subagents_have_steps_and_no_text() -> None:
    use, text = {"type": "tool_use", "id": "u", "name": "Read", "input": {}}, {"type": "text", "text": "Mine."}
    messages = TurnMessages()
    given = (streamed("Main"), streamed("Mine.", "s"), message("assistant", text, use, parent="s"), streamed(" text."))
    seen = [event for one in given for event in messages.events(one)]
    assert text_in(seen) == "Main text."
    assert [event.title for event in seen if isinstance(event, StepShown)] == ["Read"]


async def test_text_steps_and_usage(desk: Desk) -> None:
    session = await desk.open(desk.claude("works"))
    events, ended = await turn_of(session)
    assert text_in(events) == "I look.\n\n"
    steps = [(event.title, event.state) for event in events if isinstance(event, StepShown)]
    assert steps == [("Bash: ls", ToolState.IN_PROGRESS), ("Bash: ls", ToolState.COMPLETE)]
    assert [event for event in events if isinstance(event, UsageReported)] == [
        UsageReported(input_tokens=10, output_tokens=5, cost_dollars=0.5, model="model-1")
    ]
    assert (ended.outcome, ended.text) == (TurnOutcome.DONE, "The end.")


async def test_the_arguments_and_the_file_with_the_token(desk: Desk) -> None:
    session = await desk.open(desk.claude("works"), cost_limit_dollars=2.5)
    await turn_of(session)
    _, ended = await turn_of(session, "Second.")
    assert ended.outcome is TurnOutcome.DONE  # the end of a turn is not the end of the process
    started = desk.noted()[0]
    arguments = started["arguments"]
    assert arguments[arguments.index("--session-id") + 1] == session.id
    assert arguments[arguments.index("--append-system-prompt") + 1] == "You are a worker."
    assert arguments[arguments.index("--max-budget-usd") + 1] == "2.5"
    assert "Bearer" not in " ".join(arguments)
    server = started["config"]["mcpServers"]["swarm"]
    assert server["headers"] == {"Authorization": "Bearer t", "X-Swarm-Lease": "l"}
    assert (server["alwaysLoad"], started["search"]) == (True, "false")  # the model sees the swarm's tools at once
    assert started["mode"] == 0o600
    file = Path(arguments[arguments.index("--mcp-config") + 1])
    assert file.exists()
    await session.close(20)
    assert not file.exists()
    assert running_in(desk.folder) == []


@pytest.mark.req("HITL-10")
def test_what_a_call_does_to_a_file_is_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1\n")
    (tmp_path.parent / "private").write_text("secret\n")

    def asked(tool: str, **given: Any) -> PermissionAsked:
        return permission_of("a", tool, given, tmp_path, can_grant=True)

    written = asked("Write", file_path=str(tmp_path / "a.py"), content="2\n")
    assert written.diffs == (FileDiff(path=str(tmp_path / "a.py"), old="1\n", new="2\n"),)
    assert written.arguments == {"file_path": str(tmp_path / "a.py")}
    assert asked("Write", file_path="new.py", content="2\n").diffs == (FileDiff(path="new.py", new="2\n"),)
    other = asked("Write", file_path="../private", content="2\n")
    assert (other.diffs, other.arguments["content"]) == ((), "2\n"), "people see no content of other files"
    edit = {"old_string": "1", "new_string": "2", "replace_all": True}
    edited = asked("Edit", file_path="a.py", **edit)
    assert edited.diffs == (FileDiff(path="a.py", old="1", new="2"),)
    assert edited.arguments == {"file_path": "a.py", "replace_all": True}
    assert len(asked("MultiEdit", file_path="a.py", edits=[edit, edit]).diffs) == 2
    assert asked("MultiEdit", file_path="a.py", edits=[edit, {"old_string": 1}]).diffs == ()
    assert asked("Bash", command="ls").diffs == ()


@pytest.mark.req("SEC-08")
@pytest.mark.parametrize("name", ["pipe", "loop", "outside", "folder"])
async def test_what_is_no_file_of_the_folder_is_neither_waited_for_nor_read(desk: Desk, name: str) -> None:
    (desk.folder.parent / "private").write_text("secret\n")
    for place in (desk.folder / name, desk.folder / "CLAUDE.md"):
        match name:
            case "pipe":
                os.mkfifo(place)
            case "loop":
                place.symlink_to(place.name)
            case "outside":
                place.symlink_to(desk.folder.parent / "private")
            case _:
                place.mkdir()
    asked = permission_of("a", "Write", {"file_path": name, "content": "2\n"}, desk.folder, can_grant=False)
    assert (asked.diffs, asked.arguments["content"]) == ((), "2\n")
    (desk.folder / "AGENTS.md").write_bytes("Say cherry.".encode("utf-16"))  # an argument can contain no NUL
    await desk.open(desk.claude("works"))
    arguments = desk.noted()[0]["arguments"]
    prompt = arguments[arguments.index("--append-system-prompt") + 1]
    assert prompt.endswith("Say cherry.")
    assert "CLAUDE.md" not in prompt


async def test_two_permissions_at_once(desk: Desk) -> None:
    session = await desk.open(desk.claude("asks twice"))
    asked: list[PermissionAsked] = []

    async def decide(event: object) -> None:
        if isinstance(event, PermissionAsked):
            asked.append(event)
            if len(asked) == 2:
                await session.permit(asked[1].id, allowed=False, reason="Not this file.")
                await session.permit(asked[0].id, allowed=True, always=True)
                await session.permit("unknown", allowed=True)

    events, ended = await turn_of(session, seen=decide)
    assert [(one.tool, one.title, one.can_grant) for one in asked] == [("Bash", "", True), ("Write", "", True)]
    assert text_in(events) == "allow deny"
    assert ended.refused_tools == ("Write",)
    answers = replies_in(desk)
    assert {"behavior": "deny", "message": "Not this file."} in answers
    allowed = {"behavior": "allow", "updatedInput": {"command": "rm 1"}, "updatedPermissions": [{"type": "addRules"}]}
    assert allowed in answers


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"question_1": "red", "question_2": ["S"]}, {"Which colour?": "red", "Which sizes?": "S"}),
        (None, None),
    ],
)
async def test_a_question(desk: Desk, values: dict[str, object] | None, answer: object) -> None:
    session = await desk.open(desk.claude("questions"))

    async def decide(event: object) -> None:
        if isinstance(event, QuestionAsked):
            assert event.message == "Which colour?\nWhich sizes?"
            assert event.schema["properties"]["question_1"]["enum"] == ["red", "blue"]
            assert event.schema["properties"]["question_2"]["type"] == "array"
            await session.answer(event.id, values)

    events, ended = await turn_of(session, seen=decide)
    assert json.loads(text_in(events)) == answer
    assert (ended.outcome, ended.refused_tools) == (TurnOutcome.DONE, ())


async def test_a_form_of_an_mcp_server_is_a_question_and_an_address_is_not_offered(desk: Desk) -> None:
    session = await desk.open(desk.claude("elicits"))
    asked: list[QuestionAsked] = []

    async def decide(event: object) -> None:
        if isinstance(event, QuestionAsked):
            asked.append(event)
            await session.answer(event.id, {"colour": "red"} if len(asked) == 1 else None)

    (first, _), (second, _) = await turn_of(session, seen=decide), await turn_of(session, seen=decide)
    assert text_in(first) == '{"action": "accept", "content": {"colour": "red"}}error'
    assert text_in(second) == '{"action": "decline"}error'
    assert [(one.message, [*one.schema["properties"]]) for one in asked] == [("Which colour?", ["colour"])] * 2


async def test_what_is_asked_outside_of_a_turn_is_refused_at_once(desk: Desk) -> None:
    await desk.open(desk.claude("asks early"))
    async with asyncio.timeout(30):
        while len(replies := replies_in(desk)) < 2:
            await asyncio.sleep(0.02)
    assert replies == [{"behavior": "deny", "message": "Nobody can be asked now."}, {"action": "cancel"}]


async def test_a_request_that_the_cli_has_withdrawn_is_not_answered(desk: Desk) -> None:
    session = await desk.open(desk.claude("withdraws"))

    async def decide(event: object) -> None:
        if isinstance(event, TextAdded):
            await session.permit("w", allowed=False)

    for _ in range(2):
        _, ended = await turn_of(session, seen=decide)
        assert ended.refused_tools == ()
    assert replies_in(desk) == []


async def test_the_file_with_the_token_is_shown_in_the_sandbox(desk: Desk) -> None:
    sandbox, seen = desk.folder.parent / "sandbox", desk.folder.parent / "seen"
    sandbox.write_text(f'#!/bin/sh\necho "$@" > {seen}\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    sandbox.chmod(0o700)
    await desk.open(desk.claude("works"), wrap=(str(sandbox), "--die-with-parent", "--"))
    arguments = desk.noted()[0]["arguments"]
    file = arguments[arguments.index("--mcp-config") + 1]
    assert seen.read_text().startswith(f"--die-with-parent --ro-bind {file} {file} -- ")


async def test_cancelling_ends_the_turn(desk: Desk) -> None:
    session = await desk.open(desk.claude("waits"))

    async def decide(event: object) -> None:
        if isinstance(event, TextAdded):
            await session.cancel()

    _, ended = await turn_of(session, seen=decide)
    assert ended.outcome is TurnOutcome.CANCELLED
    assert desk.noted()[-1]["request"] == {"subtype": "interrupt"}


async def test_a_last_message_without_a_line_break_counts(desk: Desk) -> None:
    _, ended = await turn_of(await desk.open(desk.claude("unfinished")))
    assert (ended.outcome, ended.text) == (TurnOutcome.DONE, "The end.")


async def test_tools_that_the_cli_itself_refused_are_told(desk: Desk) -> None:
    _, ended = await turn_of(await desk.open(desk.claude("refuses")))
    assert ended.refused_tools == ("Bash",)


async def test_a_session_is_resumed(desk: Desk) -> None:
    session = await desk.open(desk.claude("works"), resume="11111111-1111-4111-8111-111111111111")
    await turn_of(session)
    assert session.id == "11111111-1111-4111-8111-111111111111"


async def test_a_session_is_missing_only_if_the_cli_says_so_of_one_to_resume(desk: Desk) -> None:
    id = "11111111-1111-4111-8111-111111111111"
    with pytest.raises(SessionMissing):
        await desk.open(desk.claude("missing"), resume=id)
    with pytest.raises(StartFailed, match="No conversation found"):
        await desk.open(desk.claude("missing"))
    with pytest.raises(StartFailed, match="no licence"):
        await desk.open(desk.claude("dead"), resume=id)
    assert running_in(desk.folder) == []


async def test_the_session_to_resume_next_is_the_one_that_the_cli_names_unless_it_is_an_option(desk: Desk) -> None:
    session = await desk.open(desk.claude("changes"))
    await turn_of(session)
    assert session.id == "another"
    session = await desk.open(desk.claude("changes to an option"))
    await turn_of(session)
    arguments = [one["arguments"] for one in desk.noted() if "arguments" in one][-1]
    assert session.id == arguments[arguments.index("--session-id") + 1]


async def test_a_cli_that_does_not_start(desk: Desk) -> None:
    with pytest.raises(StartFailed, match=r"exit code 3.*no licence"):
        await desk.open(desk.claude("dead"))
    with pytest.raises(StartFailed, match="does not exist"):
        await desk.open(ClaudeDoor(["no-such-cli"]))


async def test_a_swarm_that_the_cli_cannot_reach_is_told(desk: Desk) -> None:
    events, _ = await turn_of(await desk.open(desk.claude("no mcp")))
    assert any("not connected: failed" in event.text for event in events if isinstance(event, LogLine))


@pytest.mark.slow
async def test_a_flood_does_not_grow_memory(desk: Desk) -> None:
    session = await desk.open(desk.claude("floods"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    characters = 0
    async with asyncio.timeout(100):
        async for event in session.turn("Go."):
            characters += len(getattr(event, "text", ""))
    assert characters >= 96 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB, of 192 MB


@pytest.mark.req("RUN-05")
async def test_a_refusal_counts_for_its_turn_also_if_the_cli_does_not_report_it_and_once_is_not_always(
    desk: Desk,
) -> None:
    session = await desk.open(desk.claude("asks once"))

    async def turn(*, allowed: bool, always: bool = False) -> tuple[str, ...]:
        async def decide(event: object) -> None:
            if isinstance(event, PermissionAsked):
                for _ in range(2):  # the second is too late
                    await session.permit(event.id, allowed=allowed, always=always)

        return (await turn_of(session, seen=decide))[1].refused_tools

    assert await turn(allowed=False) == ("Bash",)
    assert await turn(allowed=True) == ()
    assert await turn(allowed=True, always=True) == ()
    replies = replies_in(desk)
    assert [reply["behavior"] for reply in replies] == ["deny", "allow", "allow"]
    assert ["updatedPermissions" in reply for reply in replies] == [False, False, True]
    arguments = desk.noted()[0]["arguments"]
    assert "--strict-mcp-config" in arguments
    assert set(arguments[arguments.index("--allowedTools") + 1].split(",")) == OWN_NAMES


@pytest.mark.req("RUN-06")
async def test_each_request_to_the_model_is_counted_once_and_the_result_corrects_it(desk: Desk) -> None:
    session = await desk.open(desk.claude("counts"))
    events, _ = await turn_of(session)
    used = [(event.input_tokens, event.output_tokens) for event in events if isinstance(event, UsageReported)]
    assert used == [(100, 10), (300, 20), (600, 30), (500, 40)]
    events, _ = await turn_of(session)
    used = [(event.input_tokens, event.output_tokens) for event in events if isinstance(event, UsageReported)]
    assert used[-4:-1] == [(600, 50), (800, 60), (1100, 70)]


@pytest.mark.req("RUN-06")
@pytest.mark.parametrize(
    ("habit", "own"),
    [("counts earlier processes", [(100, 10, 0.5), (200, 20, 1.0)]), ("counts", [(500, 40, 0.5)])],
)
async def test_what_earlier_processes_of_a_session_have_used_is_left_out(
    desk: Desk, habit: str, own: list[tuple[int, int, float]]
) -> None:
    spent = UsageReported(input_tokens=1000, output_tokens=60, cost_dollars=2)
    session = await desk.open(desk.claude(habit), spent=spent)
    for told in own:
        events, _ = await turn_of(session)
        used = [event for event in events if isinstance(event, UsageReported)][-1]
        assert (used.input_tokens, used.output_tokens, used.cost_dollars) == told


@pytest.mark.req("RUN-04", "RUN-08")
@pytest.mark.parametrize("habit", ["limited", "limited by words", "says that it is limited", "recovers"])
async def test_what_the_cli_says_in_place_of_the_model_is_no_answer(desk: Desk, habit: str) -> None:
    events, ended = await turn_of(await desk.open(desk.claude(habit)))
    if not habit.startswith("limited"):
        assert ended.outcome is TurnOutcome.DONE
        return
    assert (ended.outcome, text_in(events)) == (TurnOutcome.FAILED, "")
    assert ended.reason == "You've hit your limit · resets 3pm (UTC)"
    assert ended.resets_at


@pytest.mark.req("STREAM-14")
async def test_a_limit_of_tokens_is_no_end_of_an_answer(desk: Desk) -> None:
    events, ended = await turn_of(await desk.open(desk.claude("reaches its limit of tokens")))
    assert (ended.outcome, text_in(events)) == (TurnOutcome.FAILED, "Half of ")
    assert ended.reason == "the answer is cut short: the model's limit of tokens is reached"


@pytest.mark.req("RUN-05")
async def test_a_stop_withdraws_what_is_asked_so_that_no_later_tool_runs(desk: Desk) -> None:
    session = await desk.open(desk.claude("asks and is stopped"))
    _, ended = await turn_of(
        session, seen=lambda event: session.cancel() if isinstance(event, PermissionAsked) else None
    )
    assert ended.outcome is TurnOutcome.CANCELLED
    assert [(one["behavior"], one.get("interrupt")) for one in replies_in(desk)] == [("deny", True)]


@pytest.mark.req("RUN-09")
async def test_that_root_is_refused_is_said_with_what_to_do(desk: Desk) -> None:
    with pytest.raises(StartFailed, match=r"as root.*start the runner as another user"):
        await desk.open(desk.claude("root"))
