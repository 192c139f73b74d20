"""Sessions, permissions and questions of CLIs, with a door whose turns are written here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from packages.swarm_runner.tests.conftest import Office
from packages.swarm_runner.tests.scripted import ScriptedDoor, ScriptedSession, saying
from swarm_runner.port import (
    CliEvent,
    PermissionAsked,
    QuestionAsked,
    StepShown,
    TextAdded,
    ToolState,
    TurnEnded,
    TurnOutcome,
)
from tests.support.waiting import wait_until


def bash(number: int) -> PermissionAsked:
    return PermissionAsked(
        id=f"ask-{number}", tool="Bash", title=f"Run command {number}", arguments={"command": f"rm {number}"}
    )


async def asks_two(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
    """Asks for two permissions at once, and says what came of them."""
    first, second = session.ask(bash(1)), session.ask(bash(2))
    yield bash(1)
    yield bash(2)
    allowed = [await first, await second]
    yield TextAdded(text=f"Allowed: {allowed}.")
    refused = () if all(allowed) else ("Bash",)
    yield TurnEnded(outcome=TurnOutcome.DONE, refused_tools=refused)


async def decide(office: Office, decision: str, **more: object) -> None:
    """The operator decides on the worker's oldest open request."""
    operator = office.stage.visitor(office.http)

    async def look() -> list[dict[str, object]]:
        found = (await operator.get("/requests?status=open"))["requests"]
        return [request for request in found if request["agent"] == office.name]

    found = await wait_until(look, what="a request is open")
    await operator.post(f"/requests/{found[-1]['id']}/decide", {"decision": decision, **more})


@pytest.mark.req("RUN-05")
async def test_two_permissions_at_once_are_asked_in_the_thread_and_go_back(office: Office) -> None:
    await office.start("claude", ScriptedDoor(asks_two))
    ts, task_id = await office.delegate()
    await office.says(ts, "Run command 1", "Run command 2", "wants to run")
    await decide(office, "approve")
    await decide(office, "approve")
    task = await office.ended(task_id, "completed")
    assert "Allowed: [True, True]." in task["result"]
    await office.says(ts, "Allowed: [True, True].")


@pytest.mark.long
@pytest.mark.req("RUN-05", "RUN-04")
async def test_a_run_whose_tools_were_refused_does_not_call_itself_done(office: Office) -> None:
    await office.start("claude", ScriptedDoor(asks_two))
    ts, task_id = await office.delegate()
    await decide(office, "approve")
    await decide(office, "reject")
    await office.ended(task_id, "dead")
    await office.says(ts, "Allowed: [", "people refused what it needed (Bash)")


@pytest.mark.long
@pytest.mark.req("RUN-05")
async def test_a_grant_of_the_thread_answers_the_next_permission(office: Office) -> None:
    async def asks_in_turn(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        for number in (1, 2):
            decision = session.ask(bash(number))
            yield bash(number)
            yield TextAdded(text=f"{number}: {await decision}. ")

    await office.start("claude", ScriptedDoor(asks_in_turn))
    ts, task_id = await office.delegate()
    await decide(office, "approve_thread")
    await office.ended(task_id, "completed")
    await office.says(ts, "1: True. 2: True.")


@pytest.mark.long
@pytest.mark.req("RUN-05")
async def test_a_question_becomes_a_form_and_its_values_go_back(office: Office) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    question = QuestionAsked(id="ask", message="Which colour?", schema=schema)

    async def asks(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        decision = session.ask(question)
        yield question
        yield TextAdded(text=f"It is {(await decision)['colour']}.")

    await office.start("claude", ScriptedDoor(asks))
    ts, task_id = await office.delegate()
    await decide(office, "answer", values={"colour": "green"})
    await office.ended(task_id, "completed")
    await office.says(ts, "It is green.")


@pytest.mark.req("RUN-02")
async def test_a_follow_up_resumes_the_session_of_the_thread_also_after_a_restart(office: Office) -> None:
    first = ScriptedDoor(saying("One."))
    await office.start("claude", first)
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.idle()
    await office.stop()
    second = ScriptedDoor(saying("Two."), sessions=first.sessions)
    await office.start("claude", second)
    await office.delegate(thread=ts)
    await office.says(ts, "One.", "Two.")
    assert [wanted.resume for wanted in second.opened] == ["session-1"]
    assert first.opened[0].cwd == second.opened[0].cwd


@pytest.mark.long
@pytest.mark.req("RUN-02")
@pytest.mark.parametrize("forks", [False, True])
async def test_a_missing_session_or_another_is_said_and_a_new_one_begins(office: Office, *, forks: bool) -> None:
    door = ScriptedDoor(saying("Hello."))
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    door.forks = forks
    if not forks:
        door.sessions.clear()
    await office.delegate(thread=ts)
    await office.says(ts, "could not be continued")
    await office.idle()
    assert door.at_once == 0
    assert [wanted.resume for wanted in door.opened] == [None, "session-1", None]


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-02")
async def test_a_start_that_fails_once_is_repeated_and_one_that_fails_twice_is_said(office: Office) -> None:
    await office.start("claude", ScriptedDoor(saying("Started."), failing_starts=1))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.says(ts, "Started.")
    await office.stop()
    await office.start("claude", ScriptedDoor(saying("Started."), failing_starts=2))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "dead")
    await office.says(ts, "the program said nothing")


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-04")
async def test_a_cli_that_reports_the_end_itself_is_believed(office: Office) -> None:
    async def completes(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield StepShown(id="1", title="Counting", state=ToolState.IN_PROGRESS)
        yield StepShown(id="1", title="Counting", state=ToolState.COMPLETE)
        access = door.opened[-1].mcp
        worker = office.stage.visitor(office.http, access.headers["Authorization"].removeprefix("Bearer "))
        lease = access.headers["X-Swarm-Lease"]
        await worker.uses("task-complete", lease, task_id=task_id, result="Twelve.", reply="It is twelve.")
        yield TextAdded(text="I have reported it.")

    door = ScriptedDoor(completes)
    await office.start("claude", door)
    ts, task_id = await office.delegate()
    task = await office.ended(task_id, "completed")
    assert task["result"] == "Twelve."
    await office.says(ts, "It is twelve.")
    await office.idle()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_threads_are_worked_on_at_once_up_to_the_limit(office: Office) -> None:
    go = asyncio.Event()

    async def waits(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        await go.wait()
        yield TextAdded(text="Done.")

    door = ScriptedDoor(waits)
    await office.start("claude", door, max_concurrent=2)
    tasks = [(await office.delegate())[1] for _ in range(3)]

    async def look() -> int:
        return door.at_once

    await wait_until(look, lambda count: count == 2, what="two run at once")
    go.set()
    for task_id in tasks:
        await office.ended(task_id, "completed")
    assert door.most_at_once == 2
    await office.idle()
    assert door.closed == 3


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_stop_in_the_thread_ends_the_run_and_nothing_more_is_said(office: Office) -> None:
    async def talks(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        for number in range(1000):
            yield TextAdded(text=f"{number} ")
            await asyncio.sleep(0.1)

    door = ScriptedDoor(talks)
    await office.start("claude", door, max_concurrent=2)
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("0 1" in text for text in seen.answers))
    await office.twin.say("!stop", thread=ts)
    await office.idle()
    assert (await office.task(task_id))["status"] == "cancelled"
    assert door.closed == 1


@pytest.mark.req("RUN-05", "RUN-03", "HITL-01")
async def test_people_read_what_was_said_before_they_are_asked_and_the_log_says_what_they_decided(
    office: Office,
) -> None:
    async def script(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        decision = session.ask(bash(1))
        yield TextAdded(text="I have looked, and now I want to run `this")  # a part that is usually held back
        yield bash(1)
        await decision
        yield TextAdded(text="` command.")

    await office.start("claude", ScriptedDoor(script))
    since = len(await office.twin.calls())
    ts, task_id = await office.delegate()
    await decide(office, "reject")
    await office.says(ts, "Run command 1", "command.")
    shown = [str(call["args"]) for call in await office.twin.calls(since=since, ok=True)]
    text, card = (
        next(place for place, args in enumerate(shown) if words in args)
        for words in ("`this", "wants to run")  # the text may have come in two parts
    )
    assert text < card
    await office.ended(task_id, "dead")
    operator = office.stage.visitor(office.http)
    (run,) = (await operator.get(f"/tasks/{task_id}/runs"))["runs"]
    log = (await operator.get(f"/runs/{run['id']}/log"))["text"]
    assert "[asked] May I use Bash? Run command 1\n" in log
    assert "[rejected] May I use Bash? Run command 1 (by " in log


@pytest.mark.req("RUN-05")
async def test_a_stop_while_people_are_asked_cancels_the_question_and_no_later_tool_runs(office: Office) -> None:
    allowed: list[object] = []

    async def asks(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        decision = session.ask(bash(1))
        yield bash(1)
        allowed.append(await decision)
        yield TextAdded(text="And now the next tool.")

    await office.start("claude", ScriptedDoor(asks))
    ts, task_id = await office.delegate()
    operator = office.stage.visitor(office.http)

    async def asked(status: str) -> list[object]:
        found = (await operator.get(f"/requests?status={status}"))["requests"]
        return [request for request in found if request["agent"] == office.name]

    await wait_until(lambda: asked("open"), what="a request is open")
    await office.twin.say("!stop", thread=ts)
    await office.idle()
    await wait_until(lambda: asked("cancelled"), what="the request is cancelled")
    assert (await office.task(task_id))["status"] == "cancelled"
    assert allowed == []
    assert not any("next tool" in text for text in await office.says(ts))
