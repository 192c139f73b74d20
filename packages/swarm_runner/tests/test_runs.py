"""What becomes of a task whose worker is a CLI, as people see it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import datetime

import pytest
from structlog.testing import capture_logs

from packages.swarm_runner.tests.conftest import Office, fake
from packages.swarm_runner.tests.scripted import Script, ScriptedDoor, ScriptedSession
from swarm_runner.doors.command import CommandDoor
from swarm_runner.endings import failed_of
from swarm_runner.port import CliEvent, TextAdded


@pytest.mark.req("RUN-01", "RUN-04")
async def test_the_output_of_a_command_is_the_answer_and_the_result(office: Office) -> None:
    await office.start(fake("normal"))
    ts, task_id = await office.delegate()
    task = await office.ended(task_id, "completed")
    assert "You said" in task["result"]
    assert "did not report an end itself" in task["result"]
    seen = await office.says(ts, "You said")
    assert sum("You said" in answer for answer in seen) == 1
    assert not any("did not report" in answer for answer in seen)
    await office.idle()
    await office.gone()


@pytest.mark.long
@pytest.mark.req("RUN-02", "RUN-04")
@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("mute", ["the agent ended without an answer"]),
        ("fails", ["the command ended with exit code 3"]),
        ("halves", ['{"answer": "half', "the command was killed"]),
    ],
)
async def test_a_command_without_a_whole_answer_is_said_to_have_failed(
    office: Office, habit: str, words: list[str]
) -> None:
    await office.start(fake(habit))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "dead")
    await office.says(ts, *words)
    await office.idle()
    await office.gone()


@pytest.mark.req("RUN-02", "SEC-07")
async def test_what_a_command_leaves_behind_is_ended(office: Office) -> None:
    await office.start(fake("forks"))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.says(ts, "I am done.")
    await office.idle()
    await office.gone()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_a_command_that_has_finished_and_does_not_exit_counts_as_done(office: Office) -> None:
    words = fake("stays").partition(":")[2].split()
    await office.start(fake("stays"), CommandDoor(words, exit_seconds=0.5))
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.says(ts, "The answer is 42.")
    await office.idle()
    await office.gone()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_a_gigabyte_of_output_is_cut_and_the_rest_costs_nothing(office: Office) -> None:
    await office.start(fake("floods"))
    ts, task_id = await office.delegate()
    task = await office.ended(task_id, "completed", within_seconds=120)
    assert "The rest is in `output.txt`" in task["result"]
    await office.says(ts, "The rest is in `output.txt`", within_seconds=120)
    await office.idle()
    await office.gone()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_silence_is_shown_and_ends_the_run_at_its_limit(office: Office) -> None:
    await office.start(fake("ignores"), silence_seconds=0.5, silence_limit_seconds=1.5)
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("I think about it." in text for text in seen.answers))
    await office.ended(task_id, "dead")
    await office.says(ts, "I think about it.", "wrote nothing for 1.5 s")
    assert any("no output for 0.5 s" in str(call["args"]) for call in await office.twin.calls())
    await office.idle()
    await office.gone()


@pytest.mark.req("RUN-02")
async def test_a_limit_of_silence_that_is_below_the_notice_ends_the_run(office: Office) -> None:
    await office.start(fake("ignores"), silence_limit_seconds=1.0)
    await office.says((await office.delegate())[0], "wrote nothing for")


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_a_cancelled_task_ends_a_command_that_ignores_requests_to_end(office: Office) -> None:
    await office.start(fake("ignores"), max_concurrent=2)
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("I think about it." in text for text in seen.answers))
    assert office.left()
    await office.lead.uses("cancel-task", task_id=task_id, reason="no longer needed")
    await office.idle()
    await office.gone()
    assert (await office.task(task_id))["status"] == "cancelled"


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-02")
async def test_a_message_during_a_task_is_the_next_turn_and_is_answered(office: Office) -> None:
    await office.start(fake("tells_later"), max_concurrent=2)
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    await office.twin.say("and the spaces, please", thread=ts)
    await office.until_told()
    (office.folder / "go").write_text("")
    task = await office.ended(task_id, "completed")
    seen = await office.says(ts, "Finished.", "The prompt mentions spaces: True")
    assert sum("spaces: True" in answer for answer in seen) == 1
    assert "spaces: True" in task["result"]
    assert await office.news() == ["task_finished"]  # and not the message, which is answered
    await office.idle()


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_a_coordinator_that_is_killed_meanwhile_changes_nothing(office: Office) -> None:
    await office.start(fake("waits"))
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    office.stage.kill_coordinator()
    (office.folder / "go").write_text("")
    await office.gone()  # the command has ended while nobody could hear its answer
    await office.stage.start_coordinator()
    await office.ended(task_id, "completed")
    seen = await office.says(ts, "Finished.")
    assert sum(answer.count("Finished.") for answer in seen) == 1
    await office.idle()


@pytest.mark.long
@pytest.mark.req("RUN-01", "SEC-07")
async def test_a_runner_that_stops_gives_its_work_back(office: Office) -> None:
    await office.start(fake("ignores"), stop_seconds=0.2)
    _, task_id = await office.delegate()
    await office.ended(task_id, "in_progress")
    await office.stop()
    await office.gone()
    assert (await office.task(task_id))["status"] == "pending"
    found = (await office.stage.visitor(office.http).get("/agents"))["agents"]
    (seen_at,) = [agent["last_seen_at"] for agent in found if agent["name"] == office.name]
    assert time.time() - datetime.fromisoformat(seen_at).timestamp() > 100  # it has said good-bye


@pytest.mark.long
@pytest.mark.req("RUN-02")
async def test_after_three_failures_the_runner_pauses_says_so_and_tries_again(office: Office) -> None:
    with capture_logs() as lines:
        await office.start(fake("fails"), pause_seconds=0.5)
        tasks = [(await office.delegate())[1] for _ in range(4)]
        for task_id in tasks:
            await office.ended(task_id, "dead")
        await office.idle()
    events = [line["action"] for line in lines if line["action"] in ("runner_run_started", "runner_paused")]
    assert events == [*["runner_run_started"] * 3, "runner_paused", "runner_run_started", "runner_paused"]


@pytest.mark.req("RUN-08")
async def test_at_a_limit_of_the_account_the_work_waits_and_goes_on_by_itself(office: Office) -> None:
    turns: list[str] = []

    async def limited(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        turns.append(session.id)
        if len(turns) == 1:
            yield TextAdded(text="I begin.")
            yield failed_of("limit reached", resets_at=time.time() + 6)
        else:
            yield TextAdded(text="Here it is.")

    await office.start("claude", ScriptedDoor(limited))
    ts, task_id = await office.delegate()
    await office.says(ts, "I begin.", "The account of", "has reached its limit. The work waits, and goes on by itself")
    found = (await office.stage.visitor(office.http).get("/agents"))["agents"]
    (parked,) = [agent for agent in found if agent["name"] == office.name]
    assert (parked["status"], bool(parked["parked_until"])) == ("online", True)
    task = await office.ended(task_id, "completed")
    assert (task["attempts"], turns) == (0, ["session-1", "session-1"])
    seen = await office.says(ts, "Here it is.")
    assert not any("Retry" in one for one in seen)


@pytest.mark.req("RUN-08")
@pytest.mark.parametrize("other", ["codex", "claude"])
@pytest.mark.parametrize("has_time", [True, False])
async def test_at_a_limit_another_account_or_cli_goes_on_in_the_same_folder(
    office: Office, other: str, *, has_time: bool
) -> None:
    prompts: list[str] = []

    async def limited(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        prompts.append(prompt)
        yield TextAdded(text="I begin.")
        yield failed_of("limit reached", resets_at=time.time() + 3600 if has_time else None)

    async def whole(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        prompts.append(prompt)
        yield TextAdded(text="Here it is.")

    first, second = ScriptedDoor(limited), ScriptedDoor(whole)
    await office.start("claude", first, {other: second})
    ts, task_id = await office.delegate()
    task = await office.ended(task_id, "completed")
    who = "codex-acp" if other == "codex" else "Another account of claude"
    seen = await office.says(ts, "I begin.", f"has reached its limit. {who} goes on with the work.", "Here it is.")
    assert not any("Retry" in one or "goes on by itself" in one for one in seen)
    assert task["attempts"] == 0
    assert "I begin" not in task["result"]
    assert len(prompts) == 2
    assert prompts[1].startswith("Another account has begun this work")
    assert first.opened[0].cwd == second.opened[0].cwd
    assert first.closed == 1
    assert second.opened[0].resume is None
    _, follow_up = await office.delegate(thread=ts)  # the other's session goes on while the limit lasts
    await office.ended(follow_up, "completed")
    assert (len(first.opened), second.opened[1].resume) == (1, "session-1")


@pytest.mark.req("RUN-08")
async def test_when_every_limit_is_reached_the_work_waits_for_the_first_that_ends(office: Office) -> None:
    def limited(seconds: float) -> Script:
        async def script(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
            if len(second.opened) < 2 and not (len(first.opened) > 1 and seconds == 3600):
                yield failed_of("limit reached", resets_at=time.time() + seconds)
            else:
                yield TextAdded(text="Here it is.")

        return script

    first, second = ScriptedDoor(limited(3600)), ScriptedDoor(limited(4))
    await office.start("claude", first, {"codex": second})
    ts, task_id = await office.delegate()
    await office.says(ts, "codex-acp goes on with the work.", "The work waits, and goes on by itself in about ")
    await office.ended(task_id, "completed")
    assert (len(first.opened), len(second.opened)) == (1, 2)


@pytest.mark.req("RUN-08")
async def test_without_a_time_and_another_account_the_limit_is_the_reason(office: Office) -> None:
    async def limited(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield failed_of("Credit balance is too low")

    await office.start("claude", ScriptedDoor(limited), {"codex": ScriptedDoor(limited)})
    ts, task_id = await office.delegate()
    await office.ended(task_id, "dead")
    await office.says(ts, "codex-acp goes on with the work.", "Credit balance is too low", "Retry")
