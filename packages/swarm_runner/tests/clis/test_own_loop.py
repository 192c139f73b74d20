"""The lines of docs/coding-agents.md for a loop of one's own, run as they stand there."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from packages.swarm_runner.tests.clis.conftest import PATIENCE_SECONDS, Bench
from packages.swarm_runner.tests.clis.known import CLIS, Cli, path_with
from packages.swarm_runner.tests.conftest import Office
from tests.support.processes import Ended
from tests.support.providers.request import Request
from tests.support.providers.script import Reply, Say
from tests.support.waiting import wait_until

SECTION = re.search(
    r"^## Your own loop\n(.*?)^## ", Path("docs/coding-agents.md").read_text(), re.DOTALL | re.MULTILINE
)
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", SECTION[1] if SECTION else "", re.DOTALL | re.MULTILINE)
ANSWER = "Answered by a loop of my own."
OF = {
    "claude": ("swarm.json", "mcpServers"),
    "codex": (".codex/config.toml", "[mcp_servers.swarm]"),
    "opencode": ("opencode.json", '"mcp"'),
}
"""The file of each CLI, and how its configuration is recognised."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.req("RUN-01")]


def block(office: Office, *words: str) -> str:
    """The block of the documentation with these words, for this coordinator."""
    found: str
    (found,) = [text for _, text in BLOCKS if all(word in text for word in words)]
    return found.replace("http://127.0.0.1:8080", office.stage.base)


async def run(office: Office, lines: str, env: dict[str, str]) -> Ended:
    """Runs lines in a shell, in the folder of the test."""
    if not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("NOT TESTED HERE: curl and jq are not both installed")
    token = {"SWARM_TOKEN": office.lead.token}
    ended = await office.stage.processes.run(
        "sh", "-ec", lines, env={**office.environment, **token, **env}, cwd=office.folder
    )
    assert ended.code == 0, ended
    return ended


async def asked(office: Office, *, lines: int) -> str:
    """A person asks, and the first lines of the documentation are run."""
    ts = await office.twin.say("@swarm what do you think?")
    await run(office, "\n".join(block(office, "poll?").splitlines()[:lines]), {})
    return ts


async def test_three_lines_answer_a_message(office: Office) -> None:
    ts = await asked(office, lines=3)
    await office.says(ts, "Hello from curl.")
    assert "what do you think?" in (office.folder / "prompt.txt").read_text()


@pytest.mark.parametrize("cli", CLIS[:3], ids=lambda cli: cli.provider)
async def test_a_cli_with_the_documented_configuration_reads_and_answers(bench: Bench, cli: Cli) -> None:
    office = bench.office
    path_with(cli.provider)
    name, words = OF[cli.provider]
    with (office.folder / name).open("a") as file:
        file.write("\n" + block(office, words))
    ts = await asked(office, lines=2)
    trigger = json.loads((office.folder / "trigger.json").read_text())["triggers"][0]
    about = {"inbox_message_id": trigger["inbox_messages"][-1]["id"], "lease_token": trigger["lease"]["token"]}
    calls = [
        cli.swarm("read-inbox-message", inbox_message_id=about["inbox_message_id"]),
        cli.swarm("slack-reply", message=ANSWER, **about),
    ]

    def reply(request: Request) -> Reply:
        done = len(request.results)
        return calls[done] if done < len(calls) else Say("I have answered.")

    bench.reply = reply
    await run(office, block(office, f"{cli.provider} ", "prompt.txt"), bench.env)
    await office.says(ts, ANSWER, within_seconds=PATIENCE_SECONDS)
    last = bench.requests[-1]
    assert {call.tool for call in calls} <= set(last.tools)
    assert "what do you think?" in last.results[0]

    async def gone() -> list[int]:
        return office.left()

    await wait_until(gone, lambda left: not left, within_seconds=PATIENCE_SECONDS, what="no process is left")
