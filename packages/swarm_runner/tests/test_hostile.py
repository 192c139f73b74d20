"""CLIs that misbehave, through each door: each ends in a state that people see and that is true, and none is left."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from packages.swarm_runner.tests.conftest import Office, fake
from packages.swarm_runner.tests.doors import acp_agent, claude_cli
from swarm_runner.doors.acp import AcpDoor
from swarm_runner.doors.claude import ClaudeDoor
from swarm_runner.port import CliDoor

COMMAND, CLAUDE, ACP = "command", "claude", "acp"

ENDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "forks": ("completed", ()),
    "floods": ("completed", ("The rest is in `output.txt`",)),
    "stays": ("completed", ()),
    "mute": ("dead", ("the agent ended without an answer",)),
    "exits": ("dead", ("ended with exit code 0, without a result",)),
    "half": ("dead", ("There is no answer",)),
    "hangs": ("dead", ("no output for", "wrote nothing for")),
    "ignores": ("dead", ("I begin.", "no output for", "wrote nothing for")),
    "dead": ("dead", ("no licence",)),
    "dies": ("dead", ("Half of", "out of luck")),
}
"""What becomes of the task, and what people see, by the CLI's habit."""

_AS_COMMAND = {"exits": "", "half": "halves", "dead": "", "dies": ""}
"""Other names of habits of a plain command; empty: it has none, because another test has what exit codes mean."""

_AS_PROTOCOL = {"hangs": "silent"}
_SAID = {(COMMAND, "ignores"): ("I think about it.",), (COMMAND, "half"): ("is not complete: the command",)}


def _as_command(habit: str) -> str:
    return _AS_COMMAND.get(habit, habit)


def door(kind: str, habit: str, office: Office) -> CliDoor | None:
    """The door to the fake; None: the provider says it all."""
    name, state = _AS_PROTOCOL.get(habit, habit), str(office.folder / "state.jsonl")
    if kind == CLAUDE:
        return ClaudeDoor([sys.executable, "-I", str(claude_cli.__file__), name, state])
    return AcpDoor([sys.executable, str(acp_agent.__file__), name, state]) if kind == ACP else None


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-02", "RUN-04", "SEC-07")
@pytest.mark.parametrize(
    ("habit", "kind"),
    [(habit, kind) for habit in ENDS for kind in (COMMAND, CLAUDE, ACP) if kind != COMMAND or _as_command(habit)],
)
@pytest.mark.parametrize("sandboxed", [False, True], ids=["plain", "sandboxed"])
async def test_a_cli_that_misbehaves(office: Office, habit: str, kind: str, *, sandboxed: bool) -> None:
    if sandboxed and not shutil.which("bwrap"):
        pytest.skip("NOT TESTED HERE: bubblewrap is not installed")
    status, words = ENDS[habit]
    office.environment["PYTHONPATH"] = ":".join(sys.path)
    provider = fake(_as_command(habit)) if kind == COMMAND else "claude" if kind == CLAUDE else "acp:x"
    is_held_open = habit == "stays" and kind == COMMAND and sandboxed  # bubblewrap itself keeps the output open
    if is_held_open:
        status, words = "dead", ("The answer is 42.", "wrote nothing for")
    limits = (
        {"silence_seconds": 1.0, "silence_limit_seconds": 2.0} if is_held_open or habit in ("hangs", "ignores") else {}
    )
    seen = (Path(__file__).parents[3], Path(sys.base_prefix))  # the fakes, which the provider does not name
    fake_door = door(kind, habit, office)
    await office.start(provider, fake_door, sandbox=sandboxed, readable=seen, exit_seconds=1.0, **limits)
    ts, task_id = await office.delegate()
    await office.ended(task_id, status, within_seconds=120)
    await office.says(ts, *_SAID.get((kind, habit), words), within_seconds=120)
    await office.idle()
    await office.gone()
