"""`swarm conformance` examines a built-in agent like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import Scripted, Step, place
from packages.swarm_lab.tests.conformance.agents import lines
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import Finished, RunInput, TextDelta, ToolEnded, ToolStarted
from swarm_lab.conformance.scenarios import ALL_SCENARIOS, Check
from tests.support.processes import processes_in

PAUSE_SECONDS = 0.4
"""What a model needs for a line; Slack shows it meanwhile."""


def good(run_input: RunInput) -> Iterator[Step]:
    (scenario,) = (scenario for scenario in ALL_SCENARIOS if scenario.prompt in run_input.messages[-1].text)
    if Check.TOOLS in scenario.checks:
        yield from (ToolStarted(id="t1", name="search"), PAUSE_SECONDS, ToolEnded(id="t1"))
    for line in lines(scenario):
        yield from (TextDelta(text=line, message_id="m"), PAUSE_SECONDS)
    yield Finished()


@pytest.mark.req("AGENT-09", "CONF-01")
@pytest.mark.long
@pytest.mark.parametrize("dialect", [Dialect.AGUI, Dialect.CAIPE])
async def test_a_good_built_in_agent_passes_all_checks(dialect: Dialect, sqlite_url: str, tmp_path: Path) -> None:
    agent = Scripted(script=lambda run_input: list(good(run_input)))
    async with place(sqlite_url, {"ada": agent}) as here:
        wim = await here.client()
        url = f"{here.base}/agui/ada" if dialect is Dialect.AGUI else here.base
        arguments = ("--suite", "--agent", url, "--dialect", dialect.value)
        with processes_in(tmp_path) as processes:
            env = {"SWARM_CONFORMANCE_TOKEN": wim.token}
            ran = await processes.command("conformance", *arguments, env=env)
    assert (ran.code, ran.out.strip().splitlines()[-1]) == (0, "22 of 22 checks passed"), ran
    assert [one.input.client_context.get("source") for one in agent.ran] == ["slack"] * len(ALL_SCENARIOS)
