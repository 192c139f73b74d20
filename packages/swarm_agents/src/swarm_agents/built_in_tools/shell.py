"""``shell``: runs programs that the operator allowed by name, without a shell."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from swarm_agents.built_in_tools.work_tree import ToolRefused, WorkTree, checking, plain, program_answer
from swarm_agents.toolbox.tool import Tool, ToolAnswer, object_schema
from swarm_base.processes.captured import run_program

_TIMEOUT_SECONDS: Final = 60.0
_MOST_BYTES: Final = 64 * 1024

_log = structlog.get_logger(__name__)


def shell_tool(
    root: Path,
    commands: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_seconds: float = _TIMEOUT_SECONDS,
    most_bytes: int = _MOST_BYTES,
) -> Tool | None:
    """Returns the tool ``shell``; None if no command is allowed, which is the default.

    Args:
        root: The work tree, in which a command starts. A command is *not* confined to it: allow only programs that may
            use all permissions of the coordinator's user (an interpreter, ``make`` or ``find`` runs anything).
        commands: Names of programs, found on the ``PATH`` in ``env``; no paths.
        env: The commands' complete environment, see `captured.clean_environment`.

    Raises:
        ValueError: A command is empty, or is a path.
    """
    if wrong := [name for name in commands if not name or "/" in name or name in (".", "..")]:
        raise ValueError(f"{wrong[0]!r} is not the name of a program; name it without its path")
    if not commands:
        return None
    shell = _Shell(
        tree=WorkTree(root=root),
        commands=frozenset(commands),
        env=dict(env),
        timeout_seconds=timeout_seconds,
        most_bytes=most_bytes,
    )
    names, (call, refuse) = sorted(shell.commands), checking(shell.run)
    return Tool(
        name="shell",
        description=(
            f"Run one of these programs in the work tree: {', '.join(names)}. It is run directly, not by a shell: no "
            f"pipes, redirections, variables or wildcards. It is ended after {timeout_seconds:g} seconds."
        ),
        parameters=_parameters(names),
        call=call,
        refuse=refuse,
    )


def _parameters(names: Sequence[str]) -> Mapping[str, Any]:
    return object_schema(
        {
            "command": {"type": "string", "enum": list(names), "description": "The program"},
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "default": [],
                "description": "Its arguments, one item each, without quoting",
            },
            "working_directory": {
                "type": "string",
                "default": ".",
                "description": "Folder in which to run it, relative to the work tree",
            },
        },
        required=("command",),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shell:
    tree: WorkTree
    commands: frozenset[str]
    env: Mapping[str, str]
    timeout_seconds: float
    most_bytes: int

    async def run(self, arguments: Mapping[str, Any]) -> AsyncGenerator[ToolAnswer | None]:
        name, args = arguments["command"], [plain(word, "An argument") for word in arguments.get("args") or ()]
        if name not in self.commands:
            raise ToolRefused(f"{name} is not among the allowed commands: {', '.join(sorted(self.commands))}.")
        if (program := shutil.which(name, path=self.env.get("PATH"))) is None:
            raise ToolRefused(f"{name} is allowed but not installed here.")
        with self.tree.folder(arguments.get("working_directory") or ".") as folder:
            yield None
            _log.info("a command", action="tool_command", command=name)
            ran = await run_program(
                [program, *args],
                cwd=folder.by_descriptor,
                env=self.env,
                timeout_seconds=self.timeout_seconds,
                most_bytes=self.most_bytes,
            )
        yield program_answer(ran, name, self.timeout_seconds)
