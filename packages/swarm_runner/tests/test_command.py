"""`swarm run` as people start it: enrolment, one runner a name, secrets, signals, and being killed."""

from __future__ import annotations

import signal
import stat

import pytest

from packages.swarm_runner.tests.conftest import Office, fake, lead_beside
from swarm.clock import new_id
from tests.support.processes import Process
from tests.support.stage import OPERATOR_TOKEN


def started(office: Office, habit: str, *arguments: str, **env: str) -> Process:
    """The command for this office's worker, as a process of its own."""
    provider = ("--provider", fake(habit), "--env", "RUNNER_MARK", "--env", "GO", *arguments)
    return office.stage.processes.fork(
        "run", "swarm.cli.main", "run", office.name, *provider, env=environment(office) | env
    )


def environment(office: Office) -> dict[str, str]:
    return {
        **office.environment,
        "SWARM_HOME": str(office.folder / "swarm"),
        "SWARM_URL": office.stage.base,
        "SWARM_TOKEN": office.token,
    }


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_runner_enrols_once_and_keeps_its_token_for_itself(office: Office) -> None:
    await office.stage.visitor(office.http).ask("DELETE", f"/agents/{office.name}")
    env = {"SWARM_TOKEN": "", "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN}
    for _ in range(2):
        runner = started(office, "normal", "--description", "counts letters", **env)
        await runner.says("is connected to")
        await office.online()
        runner.send(signal.SIGTERM)
        assert await runner.exit_code(15) == 0
        env = {"SWARM_TOKEN": ""}
    (token,) = (office.folder / "swarm").rglob("token")
    assert token.parent == office.folder / "swarm" / "runners" / office.name
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert stat.S_IMODE(token.parent.stat().st_mode) == 0o700
    agents = (await office.stage.visitor(office.http).get("/agents"))["agents"]
    assert [agent["role"] for agent in agents if agent["name"] == office.name] == ["worker"]


@pytest.mark.long
@pytest.mark.req("RUN-01")
@pytest.mark.parametrize(
    ("arguments", "env", "words"),
    [
        (["--provider", "clade"], {}, "--provider is 'clade'"),
        (["--provider", "command:"], {}, "--provider is 'command:'"),
        (["--provider", "command:true", "--env", "NOT_SET"], {}, "NOT_SET, which is not set"),
        (["--provider", "command:true", "--max-concurrent", "0"], {}, "--max-concurrent is 0"),
        (["--provider", "command:true", "--repo", ".", "--workdir", "."], {}, "exclude each other"),
        (["--provider", "command:true", "--repo", "nowhere"], {}, "neither a folder nor the URL"),
        (["--provider", "command:true", "--repo", "/"], {}, "git finds no commit to begin at: fatal: not a git"),
        (["--provider", "command:true", "--show-diff"], {}, "--show-diff needs --repo"),
        (["--provider", "command:true", "--silence-limit", "0"], {}, "--silence-limit is 0"),
        (["--provider", "command:true", "--cost-limit", "-1"], {}, "--cost-limit is -1"),
        (["--provider", "command:true", "--url", "localhost:80"], {}, "--url is 'localhost:80'"),
        (["--provider", "command:./nowhere.sh"], {}, "nowhere.sh' of --provider command is not installed"),
        (["--provider", "codex"], {"PATH": "/nowhere"}, "The program 'codex-acp' of --provider codex is not installed"),
        (["--provider", "command:true"], {"SWARM_TOKEN": ""}, "has no token"),
        (["--provider", "command:true", "--role", "lead"], {}, "is a worker, not a lead. Start it with --role worker"),
        (
            ["--provider", "command:true", "--role", "lead"],
            {"SWARM_TOKEN": "", "SWARM_ENROLMENT_KEY": "key"},
            "SWARM_OPERATOR_TOKEN to the operator's token (an enrolment key registers workers only)",
        ),
        (["--provider", "command:true"], {"SWARM_TOKEN": "wrong"}, "does not accept the token"),
    ],
)
async def test_a_wrong_start_says_what_to_do(
    office: Office, arguments: list[str], env: dict[str, str], words: str
) -> None:
    ended = await office.stage.processes.command("run", office.name, *arguments, env=environment(office) | env)
    assert ended.code == 1
    assert words in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_programs_path_is_relative_to_the_folder_of_the_start(office: Office) -> None:
    script = office.stage.processes.folder / "answer.sh"
    script.write_text("#!/bin/sh\ncat > /dev/null; echo The script has answered.\n")
    script.chmod(0o700)
    command = ("swarm.cli.main", "run", office.name, "--provider", "command:./answer.sh")
    runner = office.stage.processes.fork("run", *command, env=environment(office))
    await runner.says("is connected to")
    ts, task_id = await office.delegate()
    await office.ended(task_id, "completed")
    await office.says(ts, "The script has answered.")


@pytest.mark.long
@pytest.mark.req("RUN-01")
@pytest.mark.parametrize("yaml", ["agents: {builtin: {lea: {kind: assistant}}}", "agents: {builtin: {lea"])
async def test_a_runner_starts_beside_settings_that_are_not_finished(office: Office, yaml: str) -> None:
    file = office.stage.processes.folder / "unfinished.yaml"
    file.write_text(yaml)
    runner = started(office, "normal", SWARM_CONFIG=str(file))
    await runner.says("is connected to")
    assert ("runner_settings" in runner.output) == (not yaml.endswith("}"))
    _, task_id = await office.delegate()
    await office.ended(task_id, "completed")


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_second_runner_of_a_name_is_refused_on_the_same_machine(office: Office) -> None:
    first = started(office, "normal")
    await first.says("is connected to")
    second = started(office, "normal")
    assert await second.exit_code(30) == 1
    assert f"(process {first.pid})" in second.output


@pytest.mark.long
@pytest.mark.req("RUN-02", "SEC-07")
async def test_a_command_gets_the_named_secrets_only_and_cannot_tell_them(office: Office) -> None:
    runner = started(office, "leaks", "--env", "SECRET", SECRET="s3cret-of-the-test", OTHER="other-of-the-test")
    await runner.says("is connected to")
    await office.online()
    ts, task_id = await office.delegate()
    task = await office.ended(task_id, "completed")
    assert "The secret is [secret removed], the other None." in task["result"]
    shown = await office.says(ts, "[secret removed]")
    assert "of-the-test" not in f"{shown} {task} {runner.output}"


@pytest.mark.long
@pytest.mark.req("RUN-02", "SEC-07")
async def test_a_stopped_runner_gives_back_its_work_and_leaves_no_process(office: Office) -> None:
    runner = started(office, "ignores")
    await office.online()
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("I think" in text for text in seen.answers))
    runner.send(signal.SIGINT)
    assert await runner.exit_code(12) == 0
    await office.gone()
    assert (await office.task(task_id))["status"] == "pending"


@pytest.mark.long
@pytest.mark.req("RUN-02", "SEC-07")
async def test_a_killed_runner_leaves_no_process_and_its_work_is_done_once_by_the_next(office: Office) -> None:
    runner = started(office, "waits")
    await office.online()
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    runner.kill()
    await office.gone()
    again = started(office, "waits")
    await again.says("is connected to")
    (office.folder / "go").write_text("")
    await office.ended(task_id, "completed", within_seconds=120)  # the lease ends first
    shown = await office.says(ts, "Finished.")
    assert sum(text.count("Finished.") for text in shown) == 1
    assert any("incomplete" in text for text in shown) or len(shown) > 1


@pytest.mark.long
@pytest.mark.req("RUN-01")
async def test_a_second_runner_of_a_name_is_refused_on_another_machine_until_the_first_stops(office: Office) -> None:
    first = started(office, "normal")
    await first.says("is connected to")
    elsewhere = {"SWARM_HOME": str(office.folder / "another machine")}
    second = started(office, "normal", **elsewhere)
    assert await second.exit_code(30) == 1
    assert "is connected to" not in second.output
    (line,) = second.output.splitlines()
    assert line.startswith(f"swarm: The agent '{office.name}' is served by another instance, since ")
    first.send(signal.SIGTERM)
    assert await first.exit_code(15) == 0
    third = started(office, "normal", **elsewhere)
    await third.says("is connected to")
    _, task_id = await office.delegate()
    await office.ended(task_id, "completed")


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-02", "SEC-07")
async def test_a_runner_that_was_replaced_ends_its_processes_and_leaves_the_work_to_its_successor(
    office: Office,
) -> None:
    runner = started(office, "ignores")
    await office.online()
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("I think" in text for text in seen.answers))
    (path,) = (office.folder / "swarm").rglob("instance")
    worker, old, new = office.stage.visitor(office.http, office.token), path.read_text().strip(), new_id()
    # As if it had been away for longer than a lease, and somebody else had begun.
    for method, route, instance in (("DELETE", "/me/instance", old), ("GET", "/poll?wait_seconds=0", new)):
        answer = await worker.ask(method, route, headers={"X-Swarm-Instance": instance})
        assert answer.is_success
    assert await runner.exit_code(40) == 1
    assert f"Another runner has taken over '{office.name}', so 1 of its runs were ended here." in runner.output
    await office.gone()
    assert (await office.task(task_id))["status"] == "in_progress"  # until its lease ends
    assert (await worker.ask("GET", "/poll?wait_seconds=0", headers={"X-Swarm-Instance": old})).status_code == 409


@pytest.mark.long
@pytest.mark.req("RUN-03")
async def test_the_log_of_a_task_is_shown_while_it_is_written_and_afterwards(office: Office) -> None:
    commands, env = office.stage.processes, office.stage.environment
    await office.start(fake("waits"))
    ts, task_id = await office.delegate()
    await office.twin.until(ts, lambda seen: any("Begun." in text for text in seen.answers))
    follows = commands.fork("logs", "swarm.cli.main", "logs", task_id, "--follow", env=env)
    await follows.says("Begun.")
    (office.folder / "go").write_text("")
    assert await follows.exit_code(60) == 0
    assert "Finished." in follows.output
    await office.ended(task_id, "completed")
    for arguments in ([task_id], [task_id, "--run", "1"]):
        shown = await commands.command("logs", *arguments, env=env)
        assert (shown.code, shown.out.split()) == (0, ["Begun.", "Finished."])
        assert f"Run 1 of 1, by {office.name}, since" in shown.err
    about = await commands.command("tasks", "show", task_id, env=env)
    assert f"logs: of 1 run(s), see `swarm logs {task_id}`" in about.out
    none = await commands.command("logs", task_id, "--run", "2", env=env)
    assert (none.code, none.err) == (1, "swarm: There is no run 2: the task has 1.\n")
    made = await office.lead.uses("create-task", title="count", description="count")
    nothing = await commands.command("logs", made["id"], env=env)
    assert (nothing.code, nothing.err) == (0, "No agent has worked on this task yet.\n")
    unknown = await commands.command("logs", "nothing", env=env)
    assert unknown.code == 1
    assert "There is no task and no run 'nothing'" in unknown.err


@pytest.mark.long
@pytest.mark.req("RUN-03")
async def test_a_log_is_followed_from_before_its_run_and_through_the_end_of_a_coordinator(office: Office) -> None:
    commands, env = office.stage.processes, office.stage.environment
    made = await office.lead.uses("create-task", title="count", description="count")
    follows = commands.fork("logs", "swarm.cli.main", "logs", made["id"], "--follow", env=env)
    await follows.says("No agent has worked on this task yet")
    await office.start(fake("waits"))
    await office.lead.uses("assign-task", task_id=made["id"], agent=office.name)
    await follows.says("Run 1 of 1")
    await follows.says("Begun.")
    office.stage.kill_coordinator()
    await follows.says("The coordinator does not answer")
    await office.stage.start_coordinator()
    (office.folder / "go").write_text("")
    assert await follows.exit_code(60) == 0
    assert follows.output.split().count("Begun.") == follows.output.split().count("Finished.") == 1
    cancelled = await office.lead.uses("create-task", title="count", description="count")
    await office.lead.uses("cancel-task", task_id=cancelled["id"], reason="not needed")
    nothing = await commands.command("logs", cancelled["id"], "--follow", env=env)
    assert (nothing.code, nothing.err) == (0, "No agent has worked on this task yet.\n")


@pytest.mark.long
@pytest.mark.req("RUN-03")
async def test_who_stops_following_sees_no_error(office: Office) -> None:
    await office.start(fake("hangs"))
    made = await office.lead.uses("create-task", title="count", description="count", agent=office.name)
    await office.ended(made["id"], "in_progress")
    follows = office.stage.processes.fork(
        "logs", "swarm.cli.main", "logs", made["id"], "--follow", env=office.stage.environment
    )
    await follows.says("I think about it.")
    follows.send(signal.SIGINT)
    assert await follows.exit_code(15) in (0, 130)
    assert "Traceback" not in follows.output


@pytest.mark.long
@pytest.mark.req("RUN-10", "RUN-01")
async def test_a_lead_registers_with_the_operators_token_and_a_second_one_of_its_name_is_refused(
    office: Office,
) -> None:
    office.name = office.name.replace("wim", "lio")
    operator = {"SWARM_TOKEN": "", "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN}
    lead = started(office, "leads", "--role", "lead", **operator)
    await lead.says(r"as a lead\)")
    agents = (await office.stage.visitor(office.http).get("/agents"))["agents"]
    assert [agent["role"] for agent in agents if agent["name"] == office.name] == ["lead"]
    second = started(office, "leads", "--role", "lead", **operator, SWARM_HOME=str(office.folder / "elsewhere"))
    assert await second.exit_code(30) == 1
    assert f"The coordinator has an agent '{office.name}' already" in second.output
    lead.send(signal.SIGTERM)
    assert await lead.exit_code(15) == 0
    worker = started(office, "leads", SWARM_TOKEN="")
    assert await worker.exit_code(30) == 1
    assert "is a lead, not a worker. Start it with --role lead" in worker.output


@pytest.mark.long
@pytest.mark.req("RUN-10")
async def test_a_lead_that_is_killed_after_it_has_delegated_gets_the_result_when_it_is_back(office: Office) -> None:
    lead, worker = await lead_beside(office), started(office, "waits")
    await worker.says("is connected to")
    more = ("--role", "lead", "--env", "WORKER")
    runner = started(lead, "leads", *more, WORKER=office.name)
    await runner.says("is connected to")
    ts = await office.twin.say(f"swarm#{lead.name} please COUNT, and STAY")
    words = ("Begun.", "I have passed it on.")
    await office.twin.until(ts, lambda seen: all(any(one in text for text in seen.answers) for one in words))
    runner.kill()
    again = started(lead, "leads", *more, WORKER=office.name)
    await again.says("is connected to")
    (office.folder / "go").write_text("")
    shown = "\n".join(await office.says(ts, "Finished.", "It came back: done.", within_seconds=150))
    assert [shown.count(words) for words in ("I have passed it on.", "It came back")] == [1, 1]
    whole = str(await office.twin.messages(thread_ts=ts))
    assert not any(words in whole for words in ("starts again", "There is no answer", "not complete", "Retry"))
