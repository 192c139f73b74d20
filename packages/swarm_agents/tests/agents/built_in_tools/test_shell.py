"""Commands that the operator allowed, and no others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from swarm_agents.built_in_tools.shell import shell_tool
from swarm_agents.toolbox.tool import Tool, ToolAnswer
from swarm_base.processes.captured import clean_environment

pytestmark = pytest.mark.req("TOOL-05")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The work tree."""
    made = tmp_path / "tree"
    made.mkdir()
    return made


def _tool(root: Path, *commands: str, **more: Any) -> Tool:
    tool = shell_tool(root, commands, env=clean_environment(os.environ), **more)
    assert tool is not None
    return tool


def test_without_allowed_commands_there_is_no_tool(root: Path) -> None:
    assert shell_tool(root, [], env={}) is None


@pytest.mark.parametrize("command", ["/bin/sh", "./run", "..", ""])
def test_only_names_can_be_allowed(root: Path, command: str) -> None:
    with pytest.raises(ValueError, match="not the name of a program"):
        shell_tool(root, ["ls", command], env={})


def test_what_is_allowed_is_told_to_the_model(root: Path) -> None:
    tool = _tool(root, "ls", "cat")
    assert "cat, ls" in tool.description
    Draft202012Validator.check_schema(tool.parameters)
    assert tool.parameters["properties"]["command"]["enum"] == ["cat", "ls"]


async def test_an_allowed_command_runs_in_the_work_tree(root: Path) -> None:
    (root / "d").mkdir()
    tool = _tool(root, "pwd")
    assert await tool.call({"command": "pwd"}) == ToolAnswer(text=str(root))
    assert await tool.call({"command": "pwd", "working_directory": "d"}) == ToolAnswer(text=str(root / "d"))


async def test_arguments_are_not_read_by_a_shell(root: Path) -> None:
    arguments = ["$HOME", "`id`", "a; touch x", "*", "> y", ""]
    answer = await _tool(root, "printf").call({"command": "printf", "args": ["[%s]", *arguments]})
    assert answer.text == "".join(f"[{argument}]" for argument in arguments)
    assert not list(root.iterdir())


@pytest.mark.parametrize("command", ["cat", "/bin/ls", "ls ", "LS", "../ls", "ls;cat"])
async def test_other_commands_are_refused(root: Path, command: str) -> None:
    answer = await _tool(root, "ls").call({"command": command})
    assert answer == ToolAnswer(text=f"{command} is not among the allowed commands: ls.", failed=True)


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize(
    "call",
    [{"command": "cat"}, {"command": "ls", "args": ["a\0b"]}, {"command": "ls", "working_directory": "../x"}],
)
async def test_nobody_is_asked_for_what_is_refused_anyway(root: Path, call: dict[str, Any]) -> None:
    tool = _tool(root, "ls")
    assert await tool.refuse({"command": "ls"}) is None
    assert await tool.refuse(call) == await tool.call(call)


async def test_a_program_of_that_name_in_the_work_tree_is_not_run(root: Path) -> None:
    (root / "ls").write_text("#!/bin/sh\ntouch ran\n")
    (root / "ls").chmod(0o755)
    assert (await _tool(root, "ls").call({"command": "ls"})).text == "ls"


async def test_a_command_that_is_not_installed_is_said(root: Path) -> None:
    answer = await _tool(root, "no-such").call({"command": "no-such"})
    assert answer == ToolAnswer(text="no-such is allowed but not installed here.", failed=True)


@pytest.mark.parametrize("folder", ["..", "/", "away", "absent"])
async def test_a_command_does_not_start_elsewhere(root: Path, folder: str) -> None:
    (root / "away").symlink_to("/tmp")
    answer = await _tool(root, "pwd").call({"command": "pwd", "working_directory": folder})
    assert answer.failed
    assert "work tree" in answer.text


async def test_a_failure_says_its_code_and_what_was_printed(root: Path) -> None:
    answer = await _tool(root, "ls").call({"command": "ls", "args": ["absent"]})
    assert answer.failed
    assert "No such file" in answer.text
    assert answer.text.endswith("ls failed with exit code 2.")


async def test_a_command_that_hangs_is_ended(root: Path) -> None:
    answer = await _tool(root, "sleep", timeout_seconds=0.2).call({"command": "sleep", "args": ["1000"]})
    assert answer == ToolAnswer(text="sleep was terminated because it took longer than 0.2 seconds.", failed=True)


async def test_a_silent_success_is_said(root: Path) -> None:
    assert (await _tool(root, "true").call({"command": "true"})).text == "true succeeded and printed nothing."


async def test_colours_and_passwords_in_addresses_are_left_out(root: Path) -> None:
    said = "\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07https://me:secret@host/x\r\nnext"
    answer = await _tool(root, "printf").call({"command": "printf", "args": ["%s", said]})
    assert answer.text == "red https://…@host/x\nnext"


async def test_what_no_program_can_take_is_refused(root: Path) -> None:
    answer = await _tool(root, "ls").call({"command": "ls", "args": ["a\0b"]})
    assert answer.failed
    assert "NUL" in answer.text


async def test_too_long_an_argument_is_an_answer(root: Path) -> None:
    answer = await _tool(root, "echo").call({"command": "echo", "args": ["x" * 200_000]})
    assert answer.failed
    assert "Argument list too long" in answer.text


async def test_the_environment_is_what_the_operator_passes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567")
    assert "sk-" not in (await _tool(root, "env").call({"command": "env"})).text
