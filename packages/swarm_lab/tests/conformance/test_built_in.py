"""`swarm conformance` with the name of a built-in agent: it runs the agent itself, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from swarm_lab.conformance.scenarios import ALL_SCENARIOS, SCENARIOS
from swarm_lab.demo.rules.model_server import application
from swarm_lab.demo.settings_file import PAPERS
from tests.support.doors import serving
from tests.support.processes import processes_in

pytestmark = [pytest.mark.req("AGENT-09", "CONF-01", "TOOL-06"), pytest.mark.xdist_group("processes")]

PAGE: Final = (Path(__file__).parents[4] / "tests" / "STREAMING_CONFORMANCE.md").read_text(encoding="utf-8")
ROW: Final = re.compile(
    r"^\| `([a-z-]+)` \| ([a-z ]+) \| (passes|does not apply) \| (passes|does not apply) \|(.*)\|$", re.M
)

Checks = Mapping[tuple[str, str], bool]


def table(agent: str) -> dict[tuple[str, str], bool]:
    """What the page says of an agent: which checks it passes."""
    column = {"assistant": 2, "tools": 3}[agent]
    return {(row[0], row[1]): row[column] == "passes" for row in ROW.findall(PAGE)}


BEYOND_ROW: Final = re.compile(r"^\| `([a-z-]+)` \| ([a-z ]+) \| (passes|does not apply) \|([^|]*)\|$", re.M)


def beyond_table() -> dict[tuple[str, str], bool]:
    """What the page says of an assistant beyond the 22 checks."""
    return {(row[0], row[1]): row[2] == "passes" for row in BEYOND_ROW.findall(PAGE)}


@pytest.fixture
async def model() -> AsyncIterator[str]:
    """Where the demo's rules are, in place of a model."""
    async with serving(application()) as address:
        yield address


def settings(folder: Path, model: str, agents: Mapping[str, Any]) -> dict[str, str]:
    """Write the settings of a coordinator that has never run; the environment that goes with them."""
    made = {"agents": {"builtin": agents}, "documents": {"folder": str(PAPERS)}}
    (folder / "swarm.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    calculator = {"command": sys.executable, "args": ["-m", "swarm_lab.demo.calculator"], "allowedTools": ["multiply"]}
    (folder / "servers_config.json").write_text(
        json.dumps({"mcpServers": {"calculator": calculator}}), encoding="utf-8"
    )
    return {
        "LLM_MODEL": "demo-rules",
        "LLM_PROVIDER": "openai",
        "OPENAI_BASE_URL": f"{model.rstrip('/')}/v1",
        "OPENAI_API_KEY": "of-nobody",
        "TMPDIR": str(folder / "tmp"),
    }


async def examined(
    agent: str, folder: Path, model: str, *arguments: str, what: str = "checks", **more: str
) -> tuple[int, Checks]:
    (folder / "tmp").mkdir()
    allowed = {"tools": ["write-plan", "file-write"], "approve": ["file-write"]} if more else {}
    agents = {"assistant": {"kind": "assistant", **allowed}, "tools": {"kind": "router"}}
    environment = settings(folder, model, agents) | more
    with processes_in(folder) as processes:
        wanted = arguments or ("--suite",)
        ran = await processes.command("conformance", *wanted, "--json", "--agent", agent, env=environment)
    assert ran.out, ran.err
    found = json.loads(ran.out)["scenarios"]
    assert list((folder / "tmp").glob("swarm-conformance-*")) == []
    return ran.code, {(one["name"], check["check"]): check["passed"] for one in found for check in one[what]}


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_an_assistant_with_documents_passes_all_checks(model: str, tmp_path: Path) -> None:
    code, found = await examined("assistant", tmp_path, model)
    assert [check for check, passed in found.items() if not passed] == []
    assert (code, len(found)) == (0, 22)
    assert table("assistant") == found


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_a_router_passes_the_checks_that_apply_to_it_and_no_other(model: str, tmp_path: Path) -> None:
    code, found = await examined("tools", tmp_path, model)
    assert found == table("tools")
    assert code == 1


@pytest.mark.req("CONF-05")
@pytest.mark.long
@pytest.mark.timeout(240)
async def test_an_assistant_with_a_plan_and_approvals_passes_what_applies_to_it_beyond_the_22(
    model: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = tmp_path_factory.mktemp("tree")
    arguments = ("--scenario", "rag-complex", "--scenario", "human-input")
    more = {"SWARM_WORK_TREE": str(tree), "SEARCH_MAX_CALLS": "1"}
    code, found = await examined("assistant", tmp_path, model, *arguments, what="beyond", **more)
    assert found == beyond_table()
    assert code == 0
    assert "ask me what it should say" in (tree / "notes.md").read_text()


async def test_a_built_in_agent_that_cannot_be_opened_is_one_line(model: str, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment = settings(tmp_path, model, {"assistant": {"kind": "assistant"}}) | {"SWARM_DOCUMENTS": "nowhere"}
    with processes_in(tmp_path) as processes:
        ran = await processes.command("conformance", "--suite", "--agent", "assistant", env=environment)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1), ran
    assert "nowhere" in ran.err


def test_the_table_of_built_in_agents_names_every_check_and_a_reason_for_each_that_does_not_apply() -> None:
    wanted = [(scenario.name, check.value) for scenario in SCENARIOS for check in scenario.checks]
    assert [(row[0], row[1]) for row in ROW.findall(PAGE)] == wanted
    beyond = [(scenario.name, check.value) for scenario in ALL_SCENARIOS for check in scenario.beyond]
    assert list(beyond_table()) == beyond
    assert all(row[4].strip() for row in ROW.findall(PAGE) if "does not apply" in row[2:4])
