"""The folders in which CLIs work: one for all runs, one per thread, or a git worktree and branch per thread.

A thread keeps its folder, so that a follow-up finds the work. The branch of a worktree begins at the repository's HEAD.
When a run ends well, what it has not committed is committed to the branch; after a failure everything stays as it is.
Worktrees that have changed nothing, or whose branch is merged, are removed after some days; others are never removed.

git runs without hooks and without the operator's own environment. With a sandbox it runs inside, since the CLI may have
written the repository's settings.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from swarm.domain.errors import SwarmError
from swarm.processes.captured import Ran, run_program

_GIT_SECONDS: Final = 600.0
_MOST_BYTES: Final = 600_000
_DAY_SECONDS: Final = 86_400
_SAFE: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
_PLAIN_DIFF: Final = ("--no-ext-diff", "--no-textconv", "--no-color")
_ORIGIN: Final = "refs/remotes/origin/HEAD"

_log = structlog.get_logger(__name__)


class GitFailed(SwarmError):
    """git could not do what the work needs."""

    code = "git_failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workdir:
    """The folder of one run. ``branch`` and ``base`` (a commit) are those of a worktree."""

    path: Path
    branch: str | None = None
    base: str | None = None
    shared: tuple[Path, ...] = ()  # folders beside it that the work must be able to write


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What a worktree has changed since its base."""

    branch: str
    summary: str  # such as "2 files changed, 10 insertions(+)"; empty without changes
    diff: str


class Workdirs:
    """The folders of a runner. ``repo`` is a repository's path or URL; ``shared`` is one folder for all runs."""

    def __init__(self, home: Path, name: str, *, repo: str | None, shared: Path | None, environment: Mapping[str, str]):
        self._folder = home / "work"
        self._repos = home / "repos"
        self._name = name
        self._repo, self._shared = repo, shared
        self._environment = dict(environment) | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        self._preparing = asyncio.Lock()  # git locks the repository while it adds a worktree

    async def of(self, key: str, subject: str) -> Workdir:
        """Returns the folder of a thread, and creates a missing one; ``subject`` names a new branch.

        Raises GitFailed, and OSError if the folder cannot be created.
        """
        if self._repo is None:
            path = self._shared or self._folder / _slug(key)
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            return Workdir(path=path)
        async with self._preparing:
            return await self._worktree(self._folder / _slug(key), f"swarm/{_slug(subject, key)}")

    async def changes(self, workdir: Workdir, wrap: Sequence[str], message: str) -> Changes | None:
        """Commits what is left and returns what the branch has changed; None without a worktree. Raises GitFailed."""
        if workdir.branch is None or workdir.base is None:
            return None
        await self._git(workdir.path, "add", "--all", wrap=wrap)
        if await self._git(
            workdir.path, "diff", "--cached", "--name-only", wrap=wrap
        ):  # of a submodule, its commit only
            who = ("-c", f"user.name={self._name}", "-c", f"user.email={self._name}@swarm.invalid")
            how = ("--quiet", "--no-verify", "--no-gpg-sign")  # nobody is there who could unlock a key
            await self._git(workdir.path, *who, "commit", *how, "--message", message, wrap=wrap)
        span = (await self._common(workdir.path, workdir.base, wrap), "HEAD")
        summary = await self._git(workdir.path, "diff", *_PLAIN_DIFF, "--shortstat", *span, wrap=wrap)
        diff = await self._git(workdir.path, "diff", *_PLAIN_DIFF, *span, wrap=wrap) if summary else ""
        branch = await self._branch(workdir.path, workdir.branch, wrap)
        return Changes(branch=branch, summary=summary.strip(), diff=diff)

    async def tidy(self, keep_seconds: float) -> list[Path]:
        """Removes old worktrees that have nothing of their own. Returns them. Never raises for a single one."""
        if self._repo is None or not self._folder.exists():
            return []
        until = time.time() - keep_seconds
        return [path for path in list(self._folder.iterdir()) if _is_older(path, until) and await self._removed(path)]

    async def _removed(self, path: Path) -> bool:
        try:
            async with self._preparing:
                repository = await self._repository()
                branch = (await self._git(path, "rev-parse", "--abbrev-ref", "HEAD")).strip()
                base = await self._base(repository)
                own = await self._git(path, "rev-list", "--max-count=1", "HEAD", f"^{base}")
                if own or await self._git(path, "status", "--porcelain"):
                    return False
                await self._git(repository, "worktree", "remove", str(path))
                if branch.startswith("swarm/"):
                    await self._git(repository, "branch", "--delete", "--force", branch)
                return True
        except (GitFailed, OSError) as error:
            _log.warning("A worktree was not removed.", action="runner_worktree", path=str(path), error=str(error))
            return False

    async def _worktree(self, path: Path, branch: str) -> Workdir:
        repository = await self._repository()
        common = Path((await self._git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")).strip())
        if not (path / ".git").exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            await self._git(repository, "worktree", "prune")
            there = await self._git(repository, "branch", "--list", branch)
            base = await self._base(repository)
            new = ("--force", str(path), branch) if there else ("-b", branch, str(path), base)
            await self._git(repository, "worktree", "add", "--quiet", *new)
        else:  # of earlier work in this thread
            os.utime(path)  # it is in use, so it is not removed as an old one
            branch = await self._branch(path, branch)
        base = await self._common(path, await self._base(repository))
        return Workdir(path=path, branch=branch, base=base, shared=(common,))

    async def _branch(self, path: Path, name: str, wrap: Sequence[str] = ()) -> str:
        """Returns the branch of a worktree. If a CLI has left the branch, its commits get one whose name begins with
        ``name``, so that people find them."""
        branch = (await self._git(path, "rev-parse", "--abbrev-ref", "HEAD", wrap=wrap)).strip()
        if branch != "HEAD":
            return branch
        commit = (await self._git(path, "rev-parse", "--short", "HEAD", wrap=wrap)).strip()
        await self._git(path, "branch", "--force", f"{name}-{commit}", "HEAD", wrap=wrap)
        return f"{name}-{commit}"

    async def _common(self, path: Path, base: str, wrap: Sequence[str] = ()) -> str:
        """Returns the commit at which a worktree has left ``base``; without a common history, ``base`` itself."""
        try:
            return (await self._git(path, "merge-base", "HEAD", base, wrap=wrap)).strip()
        except GitFailed:
            return base

    async def _repository(self) -> Path:
        """Returns the repository's folder; that of a URL is cloned once and then fetched."""
        assert self._repo is not None
        if (local := _local(self._repo)) is not None:
            return local
        clone = self._repos / hashlib.sha256(self._repo.encode()).hexdigest()[:16]
        if clone.exists():
            await self._git(clone, "fetch", "--quiet", "--prune", "origin")
            return clone
        self._repos.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = clone.with_suffix(f".new-{time.time_ns()}")
        await self._git(self._repos, "clone", "--quiet", "--no-checkout", "--", self._repo, str(unfinished))
        unfinished.replace(clone)
        return clone

    async def _base(self, repository: Path) -> str:
        """Returns the commit at which a new branch begins: the default branch of a clone, or the folder's HEAD."""
        is_clone = repository.parent == self._repos
        find = ("rev-parse", "--verify", "--quiet", _ORIGIN if is_clone else "HEAD")
        try:
            try:
                return (await self._git(repository, *find)).strip()
            except GitFailed:
                if not is_clone:
                    raise
                await self._git(repository, "remote", "set-head", "origin", "--auto")  # it was empty, or has another
                return (await self._git(repository, *find)).strip()
        except GitFailed as error:
            raise GitFailed("The repository has no commit to begin at: make a first one.") from error

    async def _git(self, cwd: Path, *arguments: str, wrap: Sequence[str] = ()) -> str:
        argv = [*wrap, "git", *_SAFE, *arguments]
        try:
            ran: Ran = await run_program(
                argv, cwd=cwd, env=self._environment, timeout_seconds=_GIT_SECONDS, most_bytes=_MOST_BYTES,
                errors_apart=True,
            )  # fmt: skip
        except OSError as error:
            raise GitFailed(f"git cannot be started: {error.strerror or error}.") from error
        if ran.code != 0:
            words = _reason(ran.errors) or ("it took too long" if ran.timed_out else "no reason given")
            command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
            raise GitFailed(f"git {command} failed: {words}")
        return ran.output


def _reason(errors: str) -> str:
    """Returns what git says, from its first error on."""
    words = " ".join(errors.split())
    return words[max(0, min((at for at in map(words.find, ("fatal:", "error:")) if at >= 0), default=0)) :][:300]


def _is_older(path: Path, until: float) -> bool:
    try:
        return path.stat().st_mtime < until
    except OSError:  # somebody has removed it
        return False


def _local(repo: str) -> Path | None:
    """Returns the folder of a repository on this machine; None for a URL."""
    path = Path(repo).expanduser()
    return path.resolve() if path.exists() else None


def _slug(text: str, key: str | None = None) -> str:
    """Returns a name for a folder or a branch. Different keys, by default the texts, have different names."""
    digest = hashlib.sha256((key or text).encode()).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:40].strip("-")
    return f"{words}-{digest}" if words else digest
