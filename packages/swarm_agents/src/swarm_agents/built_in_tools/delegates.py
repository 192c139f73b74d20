"""``kiro-delegate``, ``claude-delegate``, ``codex-delegate``: delegate work to a coding program."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from swarm_agents.built_in_tools.coding_programs import (
    CLAUDE_OPTIONS,
    CODEX_OPTIONS,
    CodingProgram,
    ProgramOutput,
    claude_code,
    codex_cli,
    could_not_connect,
    kiro_cli,
)
from swarm_agents.built_in_tools.work_tree import ToolRefused, WorkTree, checking, plain
from swarm_agents.toolbox.tool import Tool, ToolAnswer, object_schema
from swarm_base.processes.captured import Ran, run_program
from swarm_base.redaction import HIDDEN
from swarm_base.secrets import MIN_SECRET_CHARACTERS

_TIMEOUT_SECONDS: Final = 300.0
_KIRO_PATH: Final = Path("~/.local/bin/kiro-cli")
_MOST_TASK_BYTES: Final = 100_000
"""Linux accepts 128 KiB in one argument; a longer task belongs in a file."""

_PAUSE_SECONDS: Final = 2.0  # before the second attempt
_SECRET: Final = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
_PLAIN_TERMINAL: Final = {"TERM": "dumb", "NO_COLOR": "1"}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Delegates:
    """The available tools, and the reasons why others are unavailable."""

    tools: tuple[Tool, ...]
    absent: tuple[str, ...]  # one line per missing tool, with the reason


def delegate_tools(
    root: Path,
    *,
    env: Mapping[str, str],
    kiro_path: Path = _KIRO_PATH,
    claude: Path = Path("claude"),
    codex: Path = Path("codex"),
    claude_options: Sequence[str] = CLAUDE_OPTIONS,
    codex_options: Sequence[str] = CODEX_OPTIONS,
    timeout_seconds: float = _TIMEOUT_SECONDS,
    pause_seconds: float = _PAUSE_SECONDS,
) -> Delegates:
    """Returns a tool for each coding program that is installed.

    Args:
        root: The work tree. A program starts in it, but is *not* confined to it.
        env: The programs' complete environment, see `captured.clean_environment`: with their sign-in data, and without
            the coordinator's secrets. Programs given by name are searched for on its ``PATH``.
        timeout_seconds: For a task, including a second attempt.
        pause_seconds: Before the second attempt of a program that could not connect.
    """
    wanted = ((kiro_cli(), kiro_path), (claude_code(claude_options), claude), (codex_cli(codex_options), codex))
    found = [(program, path, _found(path, env)) for program, path in wanted]
    secrets = [value for name, value in env.items() if _SECRET.search(name) and len(value) >= MIN_SECRET_CHARACTERS]
    return Delegates(
        tools=tuple(
            _Delegate(
                program=program,
                path=binary,
                tree=WorkTree(root=root),
                env={**env, **_PLAIN_TERMINAL},
                secrets=sorted(secrets, key=len, reverse=True),
                timeout_seconds=timeout_seconds,
                pause_seconds=pause_seconds,
            ).tool()
            for program, _, binary in found
            if binary is not None
        ),
        absent=tuple(_absence(program, path, env) for program, path, binary in found if binary is None),
    )


def _found(path: Path, env: Mapping[str, str]) -> str | None:
    """Returns a program's absolute path, because it starts in another folder. A bare name is searched for on
    the PATH.
    """
    found = shutil.which(_expanded(path, env), path=env.get("PATH", ""))
    return None if found is None else str(Path(found).absolute())


def _expanded(path: Path, env: Mapping[str, str]) -> str:
    """Replaces ``~`` with the home directory in the program's environment."""
    first, *rest = path.parts or ("",)
    return str(Path(env["HOME"], *rest)) if first == "~" and "HOME" in env else str(path)


def _absence(program: CodingProgram, path: Path, env: Mapping[str, str]) -> str:
    expanded = _expanded(path, env)
    if "/" not in expanded:
        why = f"there is no program '{expanded}' on the PATH"
    else:
        why = f"{expanded} {'is not an executable program' if Path(expanded).exists() else 'does not exist'}"
    return f"{program.name}-delegate: {why}; install it, or set tools.delegates.{program.name}."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Delegate:
    program: CodingProgram
    path: str
    tree: WorkTree
    env: Mapping[str, str]
    secrets: Sequence[str] = field(repr=False)  # longest first
    timeout_seconds: float
    pause_seconds: float

    @property
    def name(self) -> str:
        return f"{self.program.name}-delegate"

    def tool(self) -> Tool:
        call, refuse = checking(self.run)
        return Tool(
            name=self.name,
            description=(
                f"Hand a coding task to {self.program.about}, which works on the files of the work tree by itself: it "
                f"reads and changes them, and reports. It knows nothing of this conversation, cannot ask questions, "
                f"and is ended after {self.timeout_seconds:g} seconds."
            ),
            parameters=_PARAMETERS,
            call=call,
            refuse=refuse,
        )

    async def run(self, arguments: Mapping[str, Any]) -> AsyncGenerator[ToolAnswer | None]:
        task = _task(arguments["task"])
        with self.tree.folder(arguments.get("working_directory") or ".") as folder:
            yield None
            _log.info("work is delegated", action="tool_delegate", tool=self.name, folder=folder.path)
            ran, output = await self._ran(task, folder.by_descriptor)
        answer = self._answer(ran, output)
        _log.info(
            "delegated work has ended", action="tool_delegate", tool=self.name, code=ran.code, failed=answer.failed
        )
        yield answer

    async def _ran(self, task: str, folder: str) -> tuple[Ran, ProgramOutput]:
        """Runs the program, and runs it again if it could not connect and did nothing. Both runs share one time
        limit.
        """
        deadline = asyncio.get_running_loop().time() + self.timeout_seconds
        ran = await self._run(task, folder, self.timeout_seconds)
        output = await asyncio.to_thread(self.program.heard, ran)  # the output may be long
        if could_not_connect(ran, output):
            await asyncio.sleep(min(self.pause_seconds, self._left(deadline)))
            if (left := self._left(deadline)) > 0:
                _log.info("a second attempt", action="tool_delegate_again", tool=self.name)
                ran = await self._run(task, folder, left)
                output = await asyncio.to_thread(self.program.heard, ran)
        return ran, output

    @staticmethod
    def _left(deadline: float) -> float:
        return max(0.0, deadline - asyncio.get_running_loop().time())

    async def _run(self, task: str, folder: str, seconds: float) -> Ran:
        try:
            return await run_program(
                [self.path, *self.program.argv(task)],
                cwd=folder,
                env=self.env,
                stdin=task.encode() if self.program.reads_task else None,
                timeout_seconds=seconds,
                most_bytes=self.program.most_bytes,
                errors_apart=True,
            )
        except OSError as error:
            raise ToolRefused(
                f"{self.path} cannot be started ({error.strerror or error}); the operator has to install it again."
            ) from error

    def _answer(self, ran: Ran, output: ProgramOutput) -> ToolAnswer:
        why = _why(ran, output, Path(self.path).name, self.timeout_seconds)
        text = self._hidden(output.text) or ("" if why else "It finished without output.")
        note = f"[{self.program.name}: {output.note}]" if output.note else ""
        return ToolAnswer(text="\n\n".join(filter(None, (why, text, note))), failed=bool(why))

    def _hidden(self, text: str) -> str:
        """Removes the secrets given to the program. Other text that resembles secrets may be the code under
        discussion.
        """
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


_PARAMETERS: Final = object_schema(
    {
        "task": {"type": "string", "minLength": 1, "description": "The task, with all necessary information"},
        "working_directory": {
            "type": "string",
            "default": ".",
            "description": "Folder in which to work, relative to the work tree",
        },
    },
    required=("task",),
)


def _task(value: str) -> str:
    task = plain(value, "The task").strip()
    if not task:
        raise ToolRefused("The task is empty; describe what to do.")
    if (size := len(task.encode())) > _MOST_TASK_BYTES:
        raise ToolRefused(
            f"The task has {size:,} bytes; the maximum is {_MOST_TASK_BYTES:,}; put the rest into a file."
        )
    return task


def _why(ran: Ran, output: ProgramOutput, name: str, timeout_seconds: float) -> str:
    """Returns the reason for a failure; empty if there is none."""
    if ran.timed_out:
        return f"{name} was terminated after {timeout_seconds:g} seconds. Its changes up to then are kept."
    if could_not_connect(ran, output):
        return f"{name} could not connect, twice; try again later."
    if ran.code is None or ran.code < 0:
        return f"{name} was terminated by the system. Its changes up to then are kept."
    if ran.code:
        return f"{name} failed (exit code {ran.code})."
    if not output.is_done:
        return f"{name} did not finish."
    return ""
