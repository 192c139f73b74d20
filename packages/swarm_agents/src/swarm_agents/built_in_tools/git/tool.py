"""``git``: the subcommands that a coding agent needs, safe with malicious repositories.

Three protections keep a call within the work tree: the allowed arguments (`subcommands`), the allowed repositories
(`repository` and the configuration check of `process`), and git's environment, which takes precedence over all files:
no hooks, no prompts, no editor, no pager, no signatures, no configuration except the repository's own, and only some
protocols. A program that runs nevertheless is terminated with the call.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from swarm_agents.built_in_tools.git.repository import Git, GitOptions, Repository, Setting, repository_of
from swarm_agents.built_in_tools.git.subcommands import SUBCOMMANDS, ArgumentKind, Parsed, understood
from swarm_agents.built_in_tools.work_tree import (
    Outside,
    ResolvedPath,
    ToolRefused,
    WorkTree,
    checking,
    is_git_data,
    plain,
    program_answer,
)
from swarm_agents.toolbox.tool import Tool, ToolAnswer, object_schema
from swarm_base.processes.child import to_the_end

_REMOTE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_REFSPEC: Final = re.compile(r"[^:+\-\s][^:\s]*(:[^:+\-\s][^:\s]*)?")

_PARAMETERS: Final = object_schema(
    {
        "subcommand": {"type": "string", "enum": list(SUBCOMMANDS), "description": "The git subcommand"},
        "args": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
            "default": [],
            "description": (
                "Arguments: a list, one item each, without quoting; or one string, quoted as in a shell. Options come "
                "first and are spelt out; for log, diff and checkout paths come after an item '--'."
            ),
        },
        "working_directory": {
            "type": "string",
            "default": ".",
            "description": "Folder of the repository, relative to the work tree",
        },
    },
    required=("subcommand",),
)
_DESCRIPTION: Final = (
    "Run git in a repository of the work tree: status, add, commit, push, log, diff, branch, checkout, pull, fetch, "
    "stash. Anything that would discard commits or files (forced pushes, resets, cleaning) is refused, as are options "
    "that run programs. What discards uncommitted changes (checkout -- FILE, stash drop) asks a person first."
)

_RISKS: Final = ("checkout --", "stash drop")
"""What discards changes that exist nowhere else."""

_log = structlog.get_logger(__name__)


def git_tool(root: Path, *, env: Mapping[str, str], options: GitOptions | None = None) -> Tool:
    """Returns the tool ``git`` for repositories at or below ``root``.

    Args:
        env: The environment from which git's variables are taken, see `captured.clean_environment`. Git gets PATH, HOME
            (for ~/.netrc and ~/.ssh) and proxies, and of git's own variables only those for authentication
            (GIT_ASKPASS, GIT_SSH_COMMAND, GIT_SSL_*).
    """
    tool = _GitTool(tree=WorkTree(root=root), git=Git(env=dict(env), options=options or GitOptions()))
    call, refuse = checking(tool.run)
    return Tool(
        name="git",
        description=_DESCRIPTION,
        parameters=_PARAMETERS,
        call=call,
        refuse=refuse,
        operation="subcommand",
        risks=_RISKS,
        risk=_risk,
    )


def _parsed(arguments: Mapping[str, Any]) -> Parsed:
    """Returns a call's command. Raises ToolRefused."""
    args = arguments.get("args") or ()
    try:
        words = shlex.split(args) if isinstance(args, str) else args
    except ValueError as error:
        raise ToolRefused(f"The arguments have a quote or a backslash without its counterpart: {args}") from error
    return understood(arguments["subcommand"], [plain(word, "An argument") for word in words])


def _risk(arguments: Mapping[str, Any]) -> str:
    """Returns which of `_RISKS` a call is; empty for any other call, and for one that is refused."""
    try:
        parsed = _parsed(arguments)
    except (ToolRefused, TypeError, KeyError):  # people may be asked before the arguments are checked
        return ""
    name = " ".join(parsed.command) + (" --" if parsed.paths else "")
    return name if name in _RISKS else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _GitTool:
    tree: WorkTree
    git: Git
    locks: WeakValueDictionary[Path, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def run(self, arguments: Mapping[str, Any]) -> AsyncGenerator[ToolAnswer | None]:
        parsed = _parsed(arguments)
        with self.tree.folder(arguments.get("working_directory") or ".") as folder:
            if is_git_data(folder.path):
                raise ToolRefused(f"{folder.path} belongs to git; use the folder above it.")
            _check_paths(self.tree, folder, parsed.paths)
            repository = await to_the_end(asyncio.to_thread(repository_of, self.tree, folder))
            async with self.locks.setdefault(repository.common_dir, asyncio.Lock()):  # calls of a step are concurrent
                _check_remote(parsed, await self.git.inspected(repository))
                if parsed.rule.looks_within:
                    await self.git.inspect_submodules(repository, self.tree)
                yield None
                yield await self._run(folder, repository, parsed)

    async def _run(self, folder: ResolvedPath, repository: Repository, parsed: Parsed) -> ToolAnswer:
        rule, command = parsed.rule, " ".join(parsed.command)
        _log.info("git", action="tool_git", subcommand=command)
        rebasing = _is_rebasing(repository)
        ran = await self.git.run(repository, parsed.argv(), cwd=folder.by_descriptor)
        answer, more = program_answer(ran, f"git {command}", self.git.options.timeout_seconds), ""
        if command == "pull" and not rebasing and _is_rebasing(repository):
            await self.git.run(repository, ["rebase", "--abort"], cwd=folder.by_descriptor)
            more = "\nThe rebase has conflicts and was undone; pull with --no-rebase to resolve them."
        elif answer.failed and rule.words is ArgumentKind.REVISIONS and parsed.words and not parsed.paths:
            more = "\nIf you meant a path: paths come after an argument '--'."
        return ToolAnswer(text=answer.text + more, failed=answer.failed)


def _check_paths(tree: WorkTree, folder: ResolvedPath, paths: Sequence[str]) -> None:
    """Refuses paths outside the tree. Git itself refuses most of them, but diff would compare files anywhere."""
    for path in paths:
        if path.startswith(":"):
            raise ToolRefused(f"{path}: paths that begin with ':' are not allowed; give plain paths.")
        below = path if path.startswith("/") else f"{folder.path}/{path}"
        if os.path.normpath(below).startswith(".."):
            raise ToolRefused(f"{path} leads outside the work tree.")
        try:
            with tree.place(below):
                pass
        except Outside:
            raise
        except ToolRefused:
            pass  # git handles missing and deleted files


def _check_remote(parsed: Parsed, settings: Sequence[Setting]) -> None:
    """Requires a configured remote, and refspecs that neither force nor delete."""
    if parsed.rule.words is not ArgumentKind.REMOTE or not parsed.words:
        return
    name, *refspecs = parsed.words
    known = sorted({found[1] for setting in settings if (found := re.fullmatch(r"remote\.(.+)\.url", setting.key))})
    if name not in known or not _REMOTE.fullmatch(name):
        raise ToolRefused(f"{name} is not a remote of this repository. Its remotes: {', '.join(known) or 'none'}.")
    for refspec in refspecs:
        if refspec.startswith("+"):
            raise ToolRefused(f"{refspec} is forced, which is not allowed; leave out the '+'.")
        if refspec.startswith(":"):
            raise ToolRefused(f"{refspec} deletes a branch of the remote, which is not allowed.")
        if not _REFSPEC.fullmatch(refspec):
            raise ToolRefused(f"{refspec} is not a branch, or two as in main:main.")


def _is_rebasing(repository: Repository) -> bool:
    return any((repository.git_dir / name).is_dir() for name in ("rebase-merge", "rebase-apply"))
