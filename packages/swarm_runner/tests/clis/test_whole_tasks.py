"""The real coding CLIs through whole tasks: `swarm run`, a coordinator and the twin, and a scripted model."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from packages.swarm_runner.tests.clis.conftest import PATIENCE_SECONDS, Bench, after
from packages.swarm_runner.tests.clis.known import CLIS, each
from tests.support.providers.script import Say, Silent

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@each
@pytest.mark.req("RUN-01", "RUN-05")
async def test_a_permission_is_asked_and_given_in_slack_and_a_later_message_continues_the_session(bench: Bench) -> None:
    office = bench.office
    await bench.start()
    bench.reply = after(bench.cli.shell("echo made > made.txt"), then="I made the file.")
    ts, task_id = await office.delegate("make a file named made.txt")
    await bench.decide(ts, "approve")
    task = await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    assert "I made the file." in task["result"]
    await bench.until_shown(ts, "I made the file.")
    text = await bench.over(ts)
    assert text.count("I made the file.") == 1
    assert [path.name for path in (office.folder / "swarm").rglob("made.txt")] == ["made.txt"]

    bench.reply = after(bench.cli.shell("echo more > more.txt"), then="And one more.")
    count = len(bench.requests)
    await office.delegate("make another file", thread=ts)
    await bench.decide(ts, "approve")
    await bench.until_shown(ts, "And one more.")
    text = await bench.over(ts)
    assert text.count("I made the file.") == text.count("And one more.") == 1
    assert "could not be continued" not in text
    later = bench.requests[count]
    assert len(later.results) == 1, "the model is shown the result of the earlier turn's tool"
    assert any("made.txt" in said for said in later.texts)


@each
@pytest.mark.req("RUN-05")
async def test_a_refused_permission_is_not_called_done(bench: Bench) -> None:
    office = bench.office
    await bench.start()
    bench.reply = after(bench.cli.shell("echo made > made.txt"), then="I could not make it.")
    ts, task_id = await office.delegate("make a file")
    await bench.decide(ts, "reject")
    await office.ended(task_id, "dead", within_seconds=PATIENCE_SECONDS)
    await bench.until_shown(ts, "people refused what it needed")
    await bench.over(ts)
    assert not list((office.folder / "swarm").rglob("made.txt"))


@pytest.mark.parametrize("cli", [cli for cli in CLIS if cli.question], ids=lambda cli: cli.provider)
@pytest.mark.req("RUN-05", "HITL-01")
async def test_a_question_is_a_form_in_the_thread_and_its_answer_reaches_the_cli(bench: Bench) -> None:
    assert bench.cli.question
    await bench.start()
    bench.reply = after(bench.cli.question, then="Blue it is.")
    ts, task_id = await bench.office.delegate("paint it")
    await bench.until_shown(ts, "Which colour?")
    await bench.decide(ts, "answer", "blue")
    await bench.office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    assert (await bench.over(ts, "Blue it is.")).count("Blue it is.") == 1
    assert "blue" in bench.requests[-1].results[-1]


@each
@pytest.mark.req("RUN-01")
async def test_text_is_shown_while_it_is_written_and_stop_ends_the_cli(bench: Bench) -> None:
    office = bench.office
    await bench.start()
    bench.reply = lambda _request: [Say("I begin with the first word and "), Silent()]
    ts, task_id = await office.delegate("talk for ever")
    await bench.until_shown(ts, "I begin with the first")
    await office.twin.say("!stop", thread=ts)
    await office.ended(task_id, "cancelled", within_seconds=PATIENCE_SECONDS)
    text = await bench.over(ts)
    assert text.count("I begin with the first") == 1
    assert len(bench.requests) == 1


@each
@pytest.mark.req("RUN-01", "RUN-04")
async def test_the_cli_uses_a_tool_of_the_swarm_without_asking_anybody(bench: Bench) -> None:
    office = bench.office
    await bench.start()
    bench.reply = after(bench.cli.swarm("list-agents"), then="I have looked.")
    ts, task_id = await office.delegate("who is here?")
    await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
    assert office.name in bench.requests[-1].results[-1]
    assert (await bench.over(ts, "I have looked.")).count("I have looked.") == 1


@pytest.mark.req("RUN-01", "SEC-07")
@pytest.mark.parametrize("cli", CLIS[:3], ids=lambda cli: cli.provider)
async def test_in_the_sandbox_a_cli_works_and_keeps_its_session_also_in_a_home_that_it_has_not_used(
    bench: Bench,
) -> None:
    office = bench.office
    if not shutil.which("bwrap"):
        pytest.skip("NOT TESTED HERE: needs bubblewrap")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        office.environment["HOME"] = home
        bench.env = bench.cli.environment(bench.model.base_url, Path(home))
        if bench.env.pop("CODEX_HOME", None):  # the settings of the person do not count
            state = office.folder / "swarm" / "runners" / office.name / "cli"
            shutil.copytree(Path(home) / ".codex", state / ".codex")
        await bench.start("--sandbox")
        bench.reply = after(bench.cli.shell("echo made > made.txt; touch $HOME/outside"), then="I made the file.")
        ts, task_id = await office.delegate("make a file named made.txt")
        await bench.decide(ts, "approve")
        await office.ended(task_id, "completed", within_seconds=PATIENCE_SECONDS)
        assert [path.name for path in (office.folder / "swarm").rglob("made.txt")] == ["made.txt"]
        assert not (Path(home) / "outside").exists()
        bench.reply = lambda _request: Say("The same session.")
        await office.delegate("go on", thread=ts)
        await bench.until_shown(ts, "The same session.")
        assert "could not be continued" not in await bench.over(ts)
        assert len(bench.requests[-1].results) == 1
