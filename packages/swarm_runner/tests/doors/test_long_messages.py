"""Messages of an agent that are too long, or many that are long: said, refused or left out, and no turn hangs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from packages.swarm_runner.tests.doors.conftest import Desk, text_in, turn_of
from swarm_runner.doors.acp import AcpDoor
from swarm_runner.doors.acp_updates import _MOST_KEPT, TurnUpdates, _size, permission_of
from swarm_runner.port import CliSession, PermissionAsked, StepShown, TurnOutcome, UsageReported

AGENT = Path(__file__).with_name("raw_agent.py")

pytestmark = pytest.mark.req("RUN-09")


async def opened(desk: Desk, habit: str) -> CliSession:
    return await desk.open(AcpDoor([sys.executable, "-I", str(AGENT), habit]))


@pytest.mark.parametrize(
    ("habit", "text"),
    [
        ("a request of 11 MB, id first", "The request is too long to be shown."),
        ("a request of 11 MB, id last", "The request is too long to be shown."),
        ("a message of 100 MB", "Still here."),
        ("an answer of 11 MB", ""),
        ("an answer of 11 MB, id last", ""),
    ],
)
async def test_a_message_that_is_too_long_is_said_answered_and_ends_no_work(desk: Desk, habit: str, text: str) -> None:
    events, ended = await turn_of(await opened(desk, habit))
    assert [one.title for one in events if isinstance(one, StepShown)] == ["a message of more than 10 MB was left out"]
    assert (text_in(events), ended.outcome) == (text, TurnOutcome.DONE)


async def test_an_answer_that_is_too_long_to_tell_how_the_turn_ended_is_the_reason(desk: Desk) -> None:
    _, ended = await turn_of(await opened(desk, "an answer that says nothing"))
    assert (ended.outcome, ended.reason) == (TurnOutcome.FAILED, "what the agent answered is too long to be read")


async def test_files_that_an_agent_wants_us_to_write_are_refused_one_by_one(desk: Desk) -> None:
    events, ended = await turn_of(await opened(desk, "files"))
    assert (text_in(events), ended.outcome) == (" ".join(["True"] * 40), TurnOutcome.DONE)


async def test_of_calls_that_are_too_long_for_people_only_the_title_is_kept(desk: Desk) -> None:
    events, ended = await turn_of(await opened(desk, "calls"))
    assert (len(events), ended.outcome) == (42, TurnOutcome.DONE)  # and a line of the log
    updates = TurnUpdates()
    for number in range(40):
        call = {"toolCallId": f"{number}", "title": "edit", "rawInput": {"content": "x" * (1 << 19)}}
        updates.call(call)
    assert _size(list(updates._calls.values())) > 1 << 20
    assert sum(updates._sizes.values()) <= _MOST_KEPT
    asked, _ = permission_of("a", {"toolCall": {"toolCallId": "0"}}, updates)
    assert not asked.is_whole  # forgotten, so nobody would see what is permitted
    asked, _ = permission_of("a", {"toolCall": {"toolCallId": "39"}}, updates)
    assert asked.is_whole


async def test_calls_that_are_too_long_to_be_shown_are_not_whole(desk: Desk) -> None:
    session = await opened(desk, "asks")
    seen: list[bool] = []

    async def refuse(asked: PermissionAsked) -> None:
        seen.append(asked.is_whole)
        assert asked.arguments == {}
        await session.permit(asked.id, allowed=False)

    events, ended = await turn_of(session, seen=lambda one: refuse(one) if isinstance(one, PermissionAsked) else None)
    assert (text_in(events), ended.refused_tools, seen) == ("reject_once", ("edit",) * 20, [False] * 20)


async def test_half_characters_and_endless_figures_can_be_sent_on(desk: Desk) -> None:
    events, ended = await turn_of(await opened(desk, "half a character"))
    assert (text_in(events), ended.outcome) == ("\ufffd is cut, \U0001f600 is not", TurnOutcome.DONE)
    assert not any(isinstance(one, UsageReported) for one in events)
