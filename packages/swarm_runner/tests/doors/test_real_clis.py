"""The real coding CLIs and model servers of this machine. ``SWARM_TEST_CODING_CLIS``: the folder of their commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from packages.swarm_runner.tests.clis.known import (
    claude_environment,
    codex_environment,
    opencode_environment,
    path_with,
)
from packages.swarm_runner.tests.doors.conftest import Desk, text_in, turn_of
from swarm_runner.doors.acp import AcpDoor, codex_door, opencode_door
from swarm_runner.doors.claude import ClaudeDoor
from swarm_runner.port import (
    CliDoor,
    CliSession,
    LogLine,
    PermissionAsked,
    SessionMissing,
    StepShown,
    TurnOutcome,
    UsageReported,
)
from tests.support.providers.anthropic_wire import AnthropicWire
from tests.support.providers.openai_wire import OpenAIWire
from tests.support.providers.request import Request
from tests.support.providers.responses_wire import ResponsesWire
from tests.support.providers.script import Call, Reply, Say, Used
from tests.support.providers.server import serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
MISSING = "11111111-1111-4111-8111-111111111111"


def at(desk: Desk, path: str, **environment: str) -> Desk:
    """The desk with the environment of a CLI, which reaches no network."""
    home = desk.folder.parent
    common = {"HOME": str(home), "PATH": path, "SWARM_DOOR_MARK": desk.wanted.environment["SWARM_DOOR_MARK"]}
    desk.wanted = replace(desk.wanted, environment={**common, **environment})
    return desk


def uses_bash(request: Request) -> Reply:
    """Wants to make a file, and says then that it did."""
    body = request.json
    if request.wire.results(body):
        return Say("I made the file.")
    if "Bash" not in request.wire.tools(body):
        return Say("A title")
    return Call("Bash", {"command": "echo made > made.txt", "description": "Make a file"})


@pytest.mark.parametrize("allowed", [True, False])
async def test_claude_asks_and_obeys(desk: Desk, *, allowed: bool) -> None:
    path = path_with("claude")
    async with serve(AnthropicWire(), uses_bash) as model:
        session = await at(desk, path, **claude_environment(model.base_url, desk.folder.parent)).open(ClaudeDoor())
        asked: list[PermissionAsked] = []

        async def decide(event: object) -> None:
            if isinstance(event, PermissionAsked):
                asked.append(event)
                await session.permit(event.id, allowed=allowed, reason="Not today.")

        events, ended = await turn_of(session, "Make a file.", decide)
        assert [one.tool for one in asked] == ["Bash"]
        assert asked[0].arguments["command"] == "echo made > made.txt"
        assert (desk.folder / "made.txt").exists() is allowed
        assert "I made the file." in text_in(events)
        assert ended.outcome is TurnOutcome.DONE
        assert ended.refused_tools == (() if allowed else ("Bash",))
        assert any(isinstance(event, StepShown) for event in events)
        assert any(isinstance(event, UsageReported) and event.output_tokens for event in events)
        assert any("not connected" in event.text for event in events if isinstance(event, LogLine))

        await session.close(20)
        again = await desk.open(ClaudeDoor(), resume=session.id)
        await turn_of(again, "More.", decide)
        assert again.id == session.id
        assert sum("Make a file." in said for said in model.wire.said(model.requests[-1].json)) >= 1


async def test_claude_says_that_a_session_is_missing(desk: Desk) -> None:
    path = path_with("claude")
    with pytest.raises(SessionMissing):
        await at(desk, path, **claude_environment("http://127.0.0.1:9", desk.folder.parent)).open(
            ClaudeDoor(), resume=MISSING
        )


@pytest.mark.parametrize(
    ("command", "door", "wire"),
    [("opencode", opencode_door, OpenAIWire), ("codex-acp", codex_door, ResponsesWire)],
)
async def test_agents_by_acp_stream_a_turn(
    desk: Desk, command: str, door: Callable[[], CliDoor], wire: Callable[[], OpenAIWire]
) -> None:
    path = path_with(command)
    async with serve(wire(), lambda _request: Say("Hello from the model.")) as model:
        given = opencode_environment if command == "opencode" else codex_environment
        environment = given(model.base_url, desk.folder.parent)
        session = await at(desk, path, **environment).open(door())
        events, ended = await turn_of(session, "Say hello.")
        assert text_in(events).strip().endswith("Hello from the model.")  # codex warns of a model that it does not know
        assert ended.outcome is TurnOutcome.DONE

        await session.close(20)
        again = await desk.open(door(), resume=session.id)
        events, _ = await turn_of(again, "Again.")
        assert text_in(events).strip().endswith("Hello from the model.")
        await again.close(20)
        with pytest.raises(SessionMissing):
            await desk.open(door(), resume=MISSING)


@pytest.mark.req("RUN-06")
@pytest.mark.parametrize(
    ("command", "door", "wire", "given", "dollars"),
    [
        ("claude", ClaudeDoor(), AnthropicWire(), claude_environment, 0.00014),
        ("claude-agent-acp", AcpDoor(["claude-agent-acp"]), AnthropicWire(), claude_environment, 0.00014),
        ("codex-acp", codex_door(), ResponsesWire(), codex_environment, None),
        ("opencode", opencode_door(), OpenAIWire(), opencode_environment, 0.015),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_resumed_session_counts_what_it_has_used_itself(
    desk: Desk, command: str, door: CliDoor, wire: Any, given: Callable[..., dict[str, str]], dollars: float | None
) -> None:
    path = path_with(command)
    title = [Used(input=0, output=0), Say("A title")]  # of a request at a time of its own
    async with serve(wire, lambda request: Say("Hello.") if request.tools else title) as model:
        desk = at(desk, path, **given(model.base_url, desk.folder.parent))
        first = await desk.open(door)
        used = [await _used(first) for _ in range(2)]
        await first.close(20)
        again = await _used(await desk.open(door, resume=first.id, spent=used[-1]))
    for usage, turns in ((used[0], 1), (used[1], 2), (again, 1)):
        assert (usage.input_tokens, usage.output_tokens) == (10 * turns, 5 * turns)
        assert usage.cost_dollars == (dollars and pytest.approx(dollars * turns, rel=0.4))  # a title costs, too


async def _used(session: CliSession) -> UsageReported:
    """The usage that a session has reported by the end of a turn."""
    events, _ = await turn_of(session, "Go.")
    return [event for event in events if isinstance(event, UsageReported)][-1]
