"""`swarm conformance` as a person runs it: a process of its own, against an agent over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.swarm_lab.tests.conformance.agents import Seen, content, lines, used_tool
from swarm_lab.cli.conformance import Named
from swarm_lab.conformance.scenarios import ALL_SCENARIOS, HUMAN_INPUT, SCENARIOS, Check, Scenario
from tests.support.agui_server import FINISHED, STALL, STARTED, AguiServer, Answer, Drip, Step
from tests.support.processes import Ended, Processes, processes_in

pytestmark = [pytest.mark.req("CONF-01"), pytest.mark.timeout(240), pytest.mark.xdist_group("processes")]

PATIENCE_SECONDS = 200.0
PAUSE = Drip(b":\n\n", 0.2)
NOTHING_TO_GET = Answer(405)  # what an agent says when it is asked for a sign of life
ROOT = Path(__file__).parents[4]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


async def run(processes: Processes, *arguments: str, **more: str) -> Ended:
    """The command to its end, in a folder without settings."""
    return await processes.command("conformance", *arguments, env=more)


def _hears_ctrl_c() -> None:
    """The tests may run in the background, where shells have Ctrl-C ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def paced(scenario: Scenario) -> tuple[Step, ...]:
    """A good agent that takes its time."""
    tool = [step for step in used_tool(Seen()) if not isinstance(step, asyncio.Event)]
    steps: list[Step] = [STARTED]
    if Check.TOOLS in scenario.checks:
        steps += [tool[0], PAUSE, *tool[1:]]
    for line in lines(scenario):
        steps += [content(line), PAUSE]
    return (*steps, FINISHED)


@pytest.mark.slow
async def test_the_suite_tells_how_it_went_and_ends_with_0_only_if_everything_passed(
    server: AguiServer, processes: Processes
) -> None:
    server.next("/", NOTHING_TO_GET)
    for scenario in SCENARIOS:
        server.next("/", *paced(scenario))
    server.on("/", STARTED, content("No."), FINISHED)
    arguments = ("--suite", "--agent", f"{server.url}/")
    good = await run(processes, *arguments)
    assert (good.code, good.out.strip().splitlines()[-1]) == (0, "22 of 22 checks passed"), good
    of_22, beyond = good.out.split("beyond the 22", 1)
    assert "FAILED" not in of_22
    assert "human-input" in beyond
    assert "beyond the 22: 0 of 6 checks passed" in beyond
    assert [line.split(":")[0] for line in good.err.strip().splitlines()] == [s.name for s in ALL_SCENARIOS]

    bad = await run(processes, *arguments)
    assert bad.code == 1
    assert "rag-simple, content delivered: failed" in bad.out
    for word in ("asked:    what is agntcy", "expected: more than 200 characters", "seen:     3 characters", "to do:"):
        assert word in bad.out


async def test_one_scenario_as_json_is_read_by_programs(server: AguiServer, processes: Processes) -> None:
    server.next("/", NOTHING_TO_GET)
    server.on("/", *paced(SCENARIOS[1]))
    ran = await run(processes, "--scenario", "off-topic", "--json", "--agent", f"{server.url}/")
    told = json.loads(ran.out)
    assert (ran.code, told["checks"], told["passed"]) == (0, 4, 4), ran
    assert told["beyond"] == {"checks": 0, "passed": 0}
    [scenario] = told["scenarios"]
    assert (scenario["name"], scenario["prompt"], scenario["passed"]) == ("off-topic", SCENARIOS[1].prompt, True)
    assert scenario["text"].split() == "".join(lines(SCENARIOS[1])).split()
    assert scenario["checks"][0].keys() == {"check", "passed", "expected", "seen", "hint"}
    assert server.to("/")[-1].json["messages"][0]["content"] == SCENARIOS[1].prompt


async def test_an_agent_of_swarm_yaml_is_found_by_its_name_and_a_token_goes_before_its_own(
    server: AguiServer, tmp_path: Path, processes: Processes
) -> None:
    (tmp_path / "swarm.yaml").write_text(
        f"agents: {{remote: {{docs: {{url: '{server.url}/agui', token: from-the-file}}}}}}\n", encoding="utf-8"
    )
    server.on("/agui", STARTED, content("No."), FINISHED)
    arguments = ("--scenario", "off-topic", "--agent", "docs")
    assert (await run(processes, *arguments)).code == 1
    await run(processes, *arguments, SWARM_CONFORMANCE_TOKEN="from-outside")
    posted = [request.headers["authorization"] for request in server.to("/agui") if request.method == "POST"]
    assert posted == ["Bearer from-the-file", "Bearer from-outside"]
    unknown = await run(processes, "--agent", "dcos")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith(
        "swarm: There is no agent 'dcos' below agents.remote or agents.builtin in swarm.yaml (there: docs)."
    )


async def test_an_agent_that_is_not_there_is_one_line_and_exit_code_1(processes: Processes) -> None:
    ran = await run(processes, "--suite", "--agent", "http://somebody:secret@127.0.0.1:9/")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1), ran
    assert ran.err.startswith("swarm: The agent 127.0.0.1:9 cannot be examined: it cannot be reached.")


async def test_an_answer_that_takes_too_long_is_given_up(server: AguiServer, processes: Processes) -> None:
    server.on("/", STARTED, content("Well,\n"), STALL)
    arguments = ("--scenario", "simple-chat", "--timeout-seconds", "0.5", "--agent", f"{server.url}/")
    ran = await run(processes, *arguments)
    assert ran.code == 1
    assert re.search(r"the run failed: it (was silent for|did not (answer|finish) within) 0\.5 s", ran.out)


async def test_ctrl_c_stops_it_at_once_and_closes_the_agents_connection(server: AguiServer, tmp_path: Path) -> None:
    server.on("/", STARTED, content("Well,\n"), STALL)
    arguments = ("-m", "swarm", "conformance", "--suite", "--agent", f"{server.url}/")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=_hears_ctrl_c,
    )
    request = await server.asked("/", count=2, within_seconds=PATIENCE_SECONDS)  # the first asked for its health
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    await asyncio.wait_for(request.left.wait(), PATIENCE_SECONDS)


@pytest.mark.req("CONF-03")
async def test_the_script_is_a_thin_door_to_the_same_suite(server: AguiServer, processes: Processes) -> None:
    script = ROOT / "tests" / "simulate_slack_stream.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) < 25
    server.on("/", STARTED, content("No."), FINISHED)
    arguments = ("--suite", "--json", "--agent", f"{server.url}/")
    ran = await processes.module("tests.simulate_slack_stream", *arguments, env={})
    assert (ran.code, json.loads(ran.out)["checks"]) == (1, 22), ran


@pytest.mark.req("CONF-05")
async def test_what_is_beyond_the_22_counts_only_if_that_is_wanted(server: AguiServer, processes: Processes) -> None:
    server.on("/", STARTED, content("I have written it down without asking."), FINISHED)
    arguments = ("--scenario", "human-input", "--json", "--agent", f"{server.url}/")
    ran = await run(processes, *arguments)
    told = json.loads(ran.out)
    assert (ran.code, told["checks"], told["beyond"]) == (0, 0, {"checks": 3, "passed": 0}), ran
    assert [check["check"] for check in told["scenarios"][0]["beyond"]] == [one.value for one in HUMAN_INPUT.beyond]
    assert (await run(processes, *arguments, "--beyond")).code == 1


def test_the_command_line_knows_every_scenario() -> None:
    assert [name.value for name in Named] == [scenario.name for scenario in ALL_SCENARIOS]
