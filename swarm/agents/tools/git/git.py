"""``git``: what a coding agent needs of it, on repositories that may mean harm.

Three things keep a call within the work tree: what may be said (`git_subcommands`), what the repository may be
(`git_repository`, `git_config`), and what git is told by its environment, which it obeys above all files: no hooks, no
prompts, no editor, no pager, no signatures, no configuration but the repository's own, only some protocols. A program
that would run nevertheless is ended with the call.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from swarm.agents.toolbox.tool import Tool, ToolAnswer
from swarm.agents.tools.answers import ToolRefused, answering, plain
from swarm.agents.tools.endings import said
from swarm.agents.tools.git import git_config
from swarm.agents.tools.git.git_inspection import inspect_submodules, inspected, located
from swarm.agents.tools.git.git_process import Git, GitOptions
from swarm.agents.tools.git.git_repository import Repository
from swarm.agents.tools.git.git_rules import ArgumentKind, Parsed
from swarm.agents.tools.git.git_subcommands import SUBCOMMANDS, understood
from swarm.agents.tools.work_tree import Outside, ResolvedPath, WorkTree, is_git_data

_REMOTE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_REFSPEC: Final = re.compile(r"[^:+\-\s][^:\s]*(:[^:+\-\s][^:\s]*)?")

_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "subcommand": {"type": "string", "enum": list(SUBCOMMANDS), "description": "What git is to do"},
        "args": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": (
                "Arguments, one item each, without quoting. Options come first and are spelt out; "
                "for log, diff and checkout paths come after an item '--'."
            ),
        },
        "working_directory": {
            "type": "string",
            "default": ".",
            "description": "Folder of the repository, relative to the work tree",
        },
    },
    "required": ["subcommand"],
    "additionalProperties": False,
}

_DESCRIPTION: Final = (
    "Run git in a repository of the work tree: status, add, commit, push, log, diff, branch, checkout, pull, fetch, "
    "stash. What would throw work away (forced pushes, resets, cleaning) is refused, as are options that run programs."
)

_log = structlog.get_logger(__name__)


def git_tool(root: Path, *, env: Mapping[str, str], options: GitOptions | None = None) -> Tool:
    """The tool ``git`` for repositories at or below ``root``.

    Args:
        env: What git gets of an environment, see `captured.clean_environment`. PATH, HOME (for ~/.netrc and ~/.ssh) and
            proxies count; of variables of git only those for authentication (GIT_ASKPASS, GIT_SSH_COMMAND, GIT_SSL_*).
    """
    tool = _GitTool(tree=WorkTree(root=root), git=Git(env=dict(env), options=options or GitOptions()))
    return Tool(name="git", description=_DESCRIPTION, parameters=_PARAMETERS, call=answering(tool.run))


@dataclass(frozen=True, kw_only=True, slots=True)
class _GitTool:
    tree: WorkTree
    git: Git
    locks: WeakValueDictionary[Path, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def run(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        args = [plain(word, "An argument") for word in arguments.get("args") or ()]
        parsed = understood(arguments["subcommand"], args)
        with self.tree.folder(arguments.get("working_directory") or ".") as folder:
            if is_git_data(folder.path):
                raise ToolRefused(f"{folder.path} is git's own; work in the folder above it.")
            self._check_paths(folder, parsed.paths)
            repository = await located(self.tree, folder)
            async with self.locks.setdefault(repository.common_dir, asyncio.Lock()):  # calls of one turn come together
                return await self._run(folder, repository, parsed)

    async def _run(self, folder: ResolvedPath, repository: Repository, parsed: Parsed) -> ToolAnswer:
        _check_remote(parsed, await inspected(self.git, repository))
        if parsed.rule.looks_within:
            await inspect_submodules(self.git, self.tree, repository)
        _log.info("git", action="tool_git", subcommand=" ".join(parsed.command))
        rebasing = _is_rebasing(repository)
        ran = await self.git.run(repository, parsed.argv(), cwd=folder.by_descriptor)
        answer = said(ran, f"git {' '.join(parsed.command)}", self.git.options.timeout_seconds)
        if parsed.command[0] == "pull" and not rebasing and _is_rebasing(repository):
            await self.git.run(repository, ["rebase", "--abort"], cwd=folder.by_descriptor)
            return _with(answer, "The rebase has conflicts and was undone; pull with --no-rebase to resolve them.")
        if answer.failed and parsed.rule.words is ArgumentKind.REVISIONS and parsed.words and not parsed.paths:
            return _with(answer, "If you meant a path: paths come after an argument '--'.")
        return answer

    def _check_paths(self, folder: ResolvedPath, paths: Sequence[str]) -> None:
        """Git itself refuses most of this; diff would compare files anywhere."""
        for path in paths:
            if path.startswith(":"):
                raise ToolRefused(f"{path}: paths that begin with ':' are not allowed; give plain paths.")
            below = path if path.startswith("/") else f"{folder.path}/{path}"
            if os.path.normpath(below).startswith(".."):
                raise ToolRefused(f"{path} leads out of the work tree.")
            self._check_walk(below)

    def _check_walk(self, path: str) -> None:
        try:
            with self.tree.place(path):
                pass
        except ToolRefused as refusal:
            if isinstance(refusal, Outside):
                raise  # and what is missing or deleted is for git to know


def _check_remote(parsed: Parsed, settings: Sequence[git_config.Setting]) -> None:
    """A remote is one that is configured, and a refspec forces and deletes nothing."""
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


def _with(answer: ToolAnswer, more: str) -> ToolAnswer:
    return ToolAnswer(text=f"{answer.text}\n{more}", failed=answer.failed)
