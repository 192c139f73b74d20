"""What all CLIs that speak JSON lines share: how their turns end, their junk, and a flood of questions."""

from __future__ import annotations

import asyncio

import pytest

from packages.swarm_runner.tests.doors.conftest import Desk, running_in, text_in, turn_of
from swarm_runner.port import CliSession, LogLine, PermissionAsked, StepShown, TextAdded, TurnOutcome


async def opened(desk: Desk, cli: str, habit: str) -> CliSession:
    return await desk.open(desk.acp(habit) if cli == "acp" else desk.claude(habit))


@pytest.mark.parametrize(
    ("cli", "habit", "reason"),
    [
        ("acp", "refuses", "the agent refused"),
        ("acp", "too long", "limit of tokens"),
        ("acp", "fails", "the model is away (503)"),
        ("claude", "fails", "API Error: 503"),
        ("claude", "killed", "the CLI was killed"),
        *((cli, "dies", "exit code 7, without a result: out of luck") for cli in ("acp", "claude")),
        *((cli, habit, "exit code 0, without a result") for cli in ("acp", "claude") for habit in ("half", "exits")),
    ],
)
async def test_how_a_turn_fails(desk: Desk, cli: str, habit: str, reason: str) -> None:
    session = await opened(desk, cli, habit)
    events, ended = await turn_of(session)
    assert ended.outcome is (TurnOutcome.REFUSED if habit == "refuses" else TurnOutcome.FAILED)
    assert reason in ended.reason
    assert text_in(events) == ("Half of " if habit == "dies" else "")
    if habit == "exits":
        _, again = await turn_of(session)
        assert again.outcome is TurnOutcome.FAILED


@pytest.mark.parametrize("cli", ["acp", "claude"])
async def test_junk_goes_to_the_log(desk: Desk, cli: str) -> None:
    events, ended = await turn_of(await opened(desk, cli, "junk"))
    logged = "\n".join(event.text for event in events if isinstance(event, LogLine))
    assert "not JSON" in logged
    assert "more than 10 MB" in logged
    assert len(logged) < 20_000
    assert text_in(events) == "Still here."
    assert ended.outcome is TurnOutcome.DONE


@pytest.mark.parametrize(
    ("cli", "told"), [("acp", ("cancelled", " 2")), ("claude", ("['100', '101'] ['deny', 'deny']",))]
)
async def test_of_many_permissions_at_once_a_hundred_are_asked_and_the_rest_is_refused(
    desk: Desk, cli: str, told: tuple[str, ...]
) -> None:
    session = await opened(desk, cli, "asks without end")
    asked: list[PermissionAsked] = []
    refused: list[TextAdded] = []

    async def decide(event: object) -> None:
        asked.extend([event] if isinstance(event, PermissionAsked) else [])
        refused.extend([event] if isinstance(event, TextAdded) else [])
        if refused or len(asked) > 100:  # the text may come before the last question
            for one in asked:
                await session.permit(one.id, allowed=True)

    events, ended = await turn_of(session, seen=decide)
    assert len(asked) == 100
    assert [part for part in told if part not in text_in(events)] == []
    assert ended.outcome is TurnOutcome.DONE


@pytest.mark.parametrize("cli", ["acp", "claude"])
async def test_a_silent_cli_is_ended_by_closing(desk: Desk, cli: str) -> None:
    session = await opened(desk, cli, "silent")
    turn = asyncio.create_task(turn_of(session))
    async with asyncio.timeout(30):
        while not any("prompt" in one or one.get("type") == "user" for one in desk.noted()):
            await asyncio.sleep(0.02)
        await session.close(0)
        _, ended = await turn
    assert ended.outcome is TurnOutcome.FAILED
    assert running_in(desk.folder) == []


@pytest.mark.req("RUN-09")
@pytest.mark.parametrize(("cli", "habit"), [("acp", "too long to ask"), ("claude", "too long")])
async def test_a_message_that_is_too_long_is_said_and_the_turn_goes_on(desk: Desk, cli: str, habit: str) -> None:
    events, ended = await turn_of(await opened(desk, cli, habit))
    steps = [event.title for event in events if isinstance(event, StepShown)]
    assert steps
    assert set(steps) == {"a message of more than 10 MB was left out"}
    assert "The request is too long to be shown." in text_in(events)
    assert ended.outcome is TurnOutcome.DONE


@pytest.mark.req("RUN-09")
@pytest.mark.parametrize("cli", ["acp", "claude"])
async def test_what_a_program_says_before_its_protocol_goes_to_the_log(desk: Desk, cli: str) -> None:
    events, ended = await turn_of(await opened(desk, cli, "banner"))
    assert (text_in(events), ended.outcome) == ("Hello.", TurnOutcome.DONE)
    assert any("Welcome" in event.text for event in events if isinstance(event, LogLine))
