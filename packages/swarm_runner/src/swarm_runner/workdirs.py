"""The folders in which CLIs work: one for all runs, one per thread, or a git worktree and branch per thread.

A thread keeps its folder, so that a follow-up finds the work. A branch begins at the repository's HEAD or a given base.
A worktree that a crash has left unfinished, without its repository's entry, or missing is made again from its branch.
When a run ends well, what it has not committed is committed to the branch; after a failure everything stays as it is.
Worktrees that have changed nothing, or whose branch is merged, are removed after some days; others are never removed.

git runs without hooks and without the operator's own environment, and is told where the repository is, so that a
planted `.git` counts for nothing. What the repository's own settings could still run (filters, files to include) is
refused, unless the repository is trusted.

In a sandbox a CLI has no worktree, because whoever can write refs of a repository can plant what its owner's git runs
next: a thread has a clone, which git touches in the sandbox only. The commits leave it as a bundle, which is data.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex
from subprocess import PIPE
from typing import IO, Final

import structlog

from swarm_base.errors import SwarmError
from swarm_base.processes.captured import Ran, run_program
from swarm_base.processes.child import Child, to_the_end
from swarm_runner.sandbox import Sandbox

_GIT_SECONDS: Final = 600.0
_MOST_BYTES: Final = 600_000
_MOST_NAME_BYTES: Final = 32 << 20
_DAY_SECONDS: Final = 86_400
_SAFE: Final = (
    "--no-pager", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false",
    "-c", "core.alternateRefsCommand=", "-c", "submodule.recurse=false", "-c", "diff.ignoreSubmodules=dirty",
    "-c", "gc.auto=0", "-c", "maintenance.auto=false",
)  # fmt: skip
_PLAIN_DIFF: Final = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty")
_OFFLINE: Final = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
"""Keeps git from fetching what a partial clone lacks, for which the repository's settings name programs."""

_RUNS_PROGRAMS: Final = re.compile(r"filter\..+\.(?:clean|smudge|process)|include(?:if\..+)?\.path|hook\..+\.command")
_OF_CLONES: Final = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)"
    r"|remote\.origin\.(?:url|fetch)|branch\..+\.(?:remote|merge)|extensions\.(?:objectformat|refstorage)"
)
"""The settings that ``git clone`` writes."""

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
    git: Mapping[str, str] = field(default_factory=dict)  # variables that say where its repository is
    shown: tuple[Path, ...] = ()  # folders beside it that are seen in the sandbox


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What a worktree has changed since its base."""

    branch: str
    summary: str  # such as "2 files changed, 10 insertions(+)"; empty without changes
    diff: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What was done in a worktree before its CLI, and said of it."""

    done: str = ""  # stands for the set-up that has succeeded; empty: none
    files: tuple[str, ...] = ()  # what was copied there, which no commit of ours contains
    told: str = ""  # a digest of the changes that the thread has been told last


class Workdirs:
    """The folders of a runner. ``repo`` is a repository's path or URL; ``shared`` is one folder for all runs.

    With ``trusted``, what the settings of the repository run is run. ``base`` is where new branches begin.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        *,
        repo: str | None,
        shared: Path | None,
        environment: Mapping[str, str],
        sandbox: Sandbox | None = None,
        trusted: bool = False,
        base: str | None = None,
    ) -> None:
        self._home, self._sandbox, self._is_trusted, self._begin = home, sandbox, trusted, base
        self._folder = home / ("rooms" if sandbox and repo else "work")
        self._repos = home / "repos"
        self._name = name
        self._repo, self._shared = repo, shared
        self._environment = dict(environment) | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        self._is_tidy = False
        self._preparing = asyncio.Lock()  # git locks the repository while it adds a worktree

    async def of(self, key: str, subject: str) -> Workdir:
        """Returns the folder of a thread, and creates a missing one; ``subject`` names a new branch.

        Raises GitFailed, and OSError if the folder cannot be created.
        """
        if self._repo is None:
            path = self._shared or self._folder / _slug(key)
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            return Workdir(path=path)
        path, branch = self._folder / _slug(key), f"swarm/{_slug(subject, key)}"
        if self._sandbox:
            return await self._clone(path, branch)
        async with self._preparing:
            return await self._worktree(path, branch)

    def wrap(self, workdir: Workdir, sandbox: Sandbox | None = None) -> tuple[str, ...]:
        """Returns the command of the sandbox, by default that of git, around a folder; empty without one."""
        sandbox = sandbox or self._sandbox
        return sandbox.wrap([workdir.path], workdir.shown) if sandbox else ()

    async def changes(self, workdir: Workdir, message: str) -> Changes | None:
        """Commits what is left and returns what the branch has changed; None without a worktree. Raises GitFailed."""
        if workdir.branch is None or workdir.base is None:
            return None
        await self._check_settings(workdir.path, workdir)
        await self._add(workdir)
        copied = frozenset(self.prepared(workdir).files)
        staged = await self.names(workdir.path, "diff", "--cached", "--name-only", within=workdir)
        if wrong := copied.intersection(staged):  # the CLI has changed what git ignores
            await self._git(workdir.path, "--literal-pathspecs", "reset", "--quiet", "--", *wrong, within=workdir)
        if not wrong.issuperset(staged):
            who = ("-c", f"user.name={self._name}", "-c", f"user.email={self._name}@swarm.invalid")
            how = ("--quiet", "--no-verify", "--no-gpg-sign")  # nobody is there who could unlock a key
            await self._git(workdir.path, *who, "commit", *how, "--message", message, within=workdir)
        span = (await self._common(workdir, workdir.base), "HEAD")
        summary = await self._git(workdir.path, "diff", *_PLAIN_DIFF, "--shortstat", *span, within=workdir)
        diff = await self._git(workdir.path, "diff", *_PLAIN_DIFF, *span, within=workdir) if summary else ""
        changed = await self.names(workdir.path, "diff", "--no-renames", "--name-only", *span, within=workdir)
        if leaked := sorted(copied.intersection(changed)):
            summary, diff = (
                f"{summary.rstrip()}. Do not push it: it contains `{leaked[0]}`, which git should ignore",
                "",
            )
        branch = await self.publish(workdir) if self._sandbox else await self._branch(workdir, workdir.branch)
        return Changes(branch=branch or workdir.branch, summary=summary.strip(), diff=diff)

    async def checkout(self) -> Path | None:
        """Returns the top folder of the repository's own checkout. A URL has none, nor has a bare repository."""
        if self._repo is None or (local := _local(self._repo)) is None:
            return None
        with suppress(GitFailed):
            return Path((await self._git(local, "rev-parse", "--show-toplevel")).strip())
        return None

    def prepared(self, workdir: Workdir) -> Prepared:
        """Returns what was done in a worktree before its CLI."""
        with suppress(OSError, ValueError, TypeError):  # nothing yet, or damaged
            kept = json.loads(self._note(workdir.path).read_text(encoding="utf-8"))
            return Prepared(done=kept["done"], files=tuple(kept["files"]), told=kept.get("told", ""))
        return Prepared()

    def note(self, workdir: Workdir, prepared: Prepared) -> None:
        """Keeps what was done in a worktree, atomically."""
        note = self._note(workdir.path)
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = note.with_suffix(".new")
        new.write_text(json.dumps(asdict(prepared)), encoding="utf-8")
        new.replace(note)

    def _note(self, path: Path) -> Path:
        return self._home / "prepared" / path.parent.name / path.name

    async def publish(self, workdir: Workdir) -> str | None:
        """Hands the commits of a clone to the repository, if there are any. Returns the branch. Raises GitFailed.

        A branch that somebody else has moved meanwhile stays, and the commits get one named after it and their last.
        """
        if self._sandbox is None or workdir.branch is None or workdir.base is None:
            return None
        repository = await self._repository()
        commit = (await self._git(workdir.path, "rev-parse", "HEAD", within=workdir)).strip()
        if not await self._git(workdir.path, "rev-list", "--max-count=1", commit, f"^{workdir.base}", within=workdir):
            return None
        with tempfile.NamedTemporaryFile(dir=self._home, prefix=".bundle-") as bundle:
            await self._bundle(workdir, bundle)
            for ref in (workdir.branch, f"{workdir.branch}-{commit[:7]}"):
                fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", bundle.name)
                try:
                    await self._git(repository, *fetch, f"HEAD:refs/heads/{ref}", protocols="file")
                    return ref
                except GitFailed as error:
                    refused = error
        raise refused

    async def _bundle(self, workdir: Workdir, file: IO[bytes]) -> None:
        """Writes the commits since the base into a file. Nothing of the clone is read outside of the sandbox."""
        argv = [*self.wrap(workdir), "git", *_SAFE, "bundle", "create", "--quiet", "-", "HEAD", f"^{workdir.base}"]
        environment = self._of(workdir)
        child = await Child.start(argv, cwd=workdir.path, env=environment, stdout=file, stderr=PIPE, grace_seconds=1.0)
        try:
            async with asyncio.timeout(_GIT_SECONDS):
                words = (await child.stderr.read()).decode(errors="replace")
                await child.ended.wait()
        finally:
            await to_the_end(child.kill())
            child.close()
        if child.code != 0:
            raise GitFailed(f"git bundle failed: {_reason(words)}")

    async def _add(self, workdir: Workdir) -> None:
        """Stages everything; of a submodule its commit only, because git would ask the submodule's own repository."""
        entries = await self.names(workdir.path, "ls-files", "--stage", within=workdir)
        parts = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
        others = [f":(top,exclude,literal){part}" for part in parts]
        await self._git(workdir.path, "add", "--all", "--", ":(top)", *others, within=workdir)
        if there := [part for part in parts if (workdir.path / part / ".git").exists()]:
            await self._git(workdir.path, "update-index", "--", *there, within=workdir)

    async def tidy(self, keep_seconds: float) -> list[Path]:
        """Removes old worktrees that have nothing of their own. Returns them. Never raises for a single one."""
        if self._repo is None or not self._folder.exists():
            return []
        until = time.time() - keep_seconds
        return [
            one for one in list(self._folder.iterdir()) if _is_older(one, until) and await self._removed(one, until)
        ]

    async def _removed(self, path: Path, until: float) -> bool:
        try:
            async with self._preparing:
                repository = await self._repository()
                common, base = await self._common_dir(repository), await self._base(repository)
            workdir = self._found(path, common)  # nobody waits while git looks at what a guest has left
            await self._check_settings(path, workdir)
            branch = (await self._git(path, "rev-parse", "--abbrev-ref", "HEAD", within=workdir)).strip()
            own = await self._git(path, "rev-list", "--max-count=1", "HEAD", f"^{base}", within=workdir)
            if own or await self._git(path, "status", "--porcelain", within=workdir):
                return False
            async with self._preparing:
                if not _is_older(path, until):  # it is in use by now
                    return False
                self._note(path).unlink(missing_ok=True)
                if self._sandbox:
                    return await self._delete(path)
                await self._git(repository, "worktree", "remove", str(path))
                if branch.startswith("swarm/"):
                    await self._git(repository, "branch", "--delete", "--force", branch)
                return True
        except (GitFailed, OSError) as error:
            _log.warning("A worktree was not removed.", action="runner_worktree", path=str(path), error=str(error))
            return False

    async def _clone(self, path: Path, branch: str) -> Workdir:
        """Returns the clone of a thread, in the sandbox. It reads the objects of the repository where these are."""
        async with self._preparing:
            repository = await self._repository()
            common, base = await self._common_dir(repository), await self._base(repository)
            branch = await self._named(repository, branch)
            with suppress(FileNotFoundError):
                os.utime(path)  # it is in use, so it is not removed as an old one
        workdir, git, has_files = self._found(path, common), path / ".git", _has_files(path)
        if is_new := not ((git / "HEAD").exists() and (git / "objects" / "info" / "alternates").exists()):
            if not has_files:
                self._note(path).unlink(missing_ok=True)
            new = path.with_name(f"{path.name}.new")  # a crash leaves nothing unfinished in the thread's folder
            await self._delete(new)
            new.mkdir(parents=True, mode=0o700)
            whole = replace(workdir, path=new, git={}, shown=(common, *workdir.shown))
            clone = ("clone", "--quiet", "--shared", "--no-checkout", "--", str(common), ".")
            await self._git(new, *clone, within=whole, protocols="file")
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            with suppress(FileNotFoundError):
                git.rename(new / "broken")
            (new / ".git").rename(git)
            await self._delete(new)
        await asyncio.to_thread(_unlock, git)
        if not (git / "index").exists():  # or all would count as deleted
            await self._begin_at(branch, base, repository, workdir, keeps_files=is_new and has_files)
        branch = await self._named(path, branch, workdir)
        return replace(workdir, branch=branch, base=await self._common(workdir, base))

    async def _begin_at(self, branch: str, base: str, repository: Path, workdir: Workdir, *, keeps_files: bool) -> None:
        """Checks the branch out in a clone without an index: the clone's own branch, or the repository's, or a new
        one. Files of earlier work are kept, but not those of a checkout that a crash has ended."""
        find, ref = ("for-each-ref", "--format=%(objectname)"), f"refs/heads/{branch}"
        commit = (await self._git(repository, *find, ref)).strip() or base
        if keeps_files:
            await self._git(workdir.path, "update-ref", ref, commit, within=workdir)
            await self._git(workdir.path, "symbolic-ref", "HEAD", ref, within=workdir)
        how = ("checkout", "--quiet", "--force", "-B", branch, commit)
        has_own = await self._git(workdir.path, *find, ref, within=workdir)
        await self._git(workdir.path, *(("reset", "--quiet") if has_own else how), within=workdir)

    def _found(self, path: Path, common: Path) -> Workdir:
        """Returns a folder with the variables that say where its repository is, whatever its `.git` says."""
        if self._sandbox:
            own = {"GIT_DIR": str(path / ".git"), "GIT_COMMON_DIR": str(path / ".git"), "GIT_WORK_TREE": str(path)}
            return Workdir(path=path, git=own, shown=_objects(common))
        if entry := _entry(path, common):
            own = {"GIT_DIR": str(entry), "GIT_COMMON_DIR": str(common), "GIT_WORK_TREE": str(path)}
            return Workdir(path=path, git=own)
        raise GitFailed("The repository does not know the worktree of this thread any more.")

    async def _common_dir(self, repository: Path) -> Path:
        return Path((await self._git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")).strip())

    async def _check_settings(self, cwd: Path, within: Workdir | None = None, *, is_clone: bool = False) -> None:
        """Raises GitFailed if the repository's own settings would run a program that no option of ours prevents."""
        if self._is_trusted or (self._sandbox and within):
            return
        listed = await self._git(cwd, "config", "--list", "--null", "--name-only", "--show-scope", within=within)
        words = listed.split("\0")
        names = [name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree")]
        wrong = [
            name for name in names if not _OF_CLONES.fullmatch(name) and (is_clone or _RUNS_PROGRAMS.fullmatch(name))
        ]
        if wrong:
            raise GitFailed(
                f"The repository's own settings may run a program ({wrong[0]}), so nothing was done with it.",
                hint="Look at its .git/config. If it is as you want it, start the runner with --trust-repository.",
            )

    async def _worktree(self, path: Path, branch: str) -> Workdir:
        repository = await self._repository()
        common = await self._common_dir(repository)
        await self._check_settings(repository)
        branch = await self._named(repository, branch)
        entry = _entry(path, common)
        if entry and not _is_unfinished(entry, path):  # of earlier work in this thread
            (path / ".git").write_text(f"gitdir: {entry}\n")
            _unlock(entry)
            (common / "refs" / "heads" / f"{branch}.lock").unlink(missing_ok=True)
            os.utime(path)  # it is in use, so it is not removed as an old one
        else:
            await self._make(repository, path, branch, is_unfinished=entry is not None)
        workdir = self._found(path, common)
        branch = await self._branch(workdir, branch)
        return replace(workdir, branch=branch, base=await self._common(workdir, await self._base(repository)))

    async def _make(self, repository: Path, path: Path, branch: str, *, is_unfinished: bool) -> None:
        """Makes a worktree, and keeps the files of one that the repository does not know any more."""
        aside = path.with_name(f"{path.name}.lost")
        self._note(path).unlink(missing_ok=True)
        await asyncio.to_thread(_put_aside, path, aside, is_unfinished=is_unfinished)
        await self._git(repository, "worktree", "prune")
        how = ("--quiet", "--force", "--force")  # twice: also if the missing worktree is locked
        await self._git(repository, "worktree", "add", *how, *await self._new(repository, path, branch))
        await asyncio.to_thread(_restore, aside, path)

    async def _new(self, repository: Path, path: Path, branch: str) -> tuple[str, ...]:
        """Returns how to add a worktree: with its branch, or one from there if somebody has that branch in use."""
        named = await self._git(repository, "for-each-ref", "--format=%(refname)", "refs/heads/swarm")
        if "refs/heads/swarm" in named.split():
            raise GitFailed("The repository has a branch `swarm`, so it can have none below `swarm/`: rename it.")
        there = await self._git(repository, "for-each-ref", "--format=at %(worktreepath)", f"refs/heads/{branch}")
        if not there:
            return "-b", branch, str(path), await self._base(repository)
        if there.strip() in ("at", f"at {path}"):
            return str(path), branch
        return "-b", f"{branch}-{token_hex(2)}", str(path), branch

    async def _branch(self, workdir: Workdir, name: str) -> str:
        """Returns the branch of a worktree. If a CLI has left the branch, its commits get one whose name begins with
        ``name``, so that people find them."""
        branch = (await self._git(workdir.path, "rev-parse", "--abbrev-ref", "HEAD", within=workdir)).strip()
        if branch != "HEAD":
            return branch
        commit = (await self._git(workdir.path, "rev-parse", "--short", "HEAD", within=workdir)).strip()
        await self._git(workdir.path, "branch", "--force", f"{name}-{commit}", "HEAD", within=workdir)
        return f"{name}-{commit}"

    async def _common(self, workdir: Workdir, base: str) -> str:
        """Returns the commit at which a worktree has left ``base``; without a common history, ``base`` itself."""
        try:
            return (await self._git(workdir.path, "merge-base", "HEAD", base, within=workdir)).strip()
        except GitFailed:
            return base

    async def _repository(self) -> Path:
        """Returns the repository's folder; that of a URL is cloned once and then fetched."""
        assert self._repo is not None
        if (local := _local(self._repo)) is not None:
            return local
        clone = self._repos / hashlib.sha256(self._repo.encode()).hexdigest()[:16]
        if not self._is_tidy:  # nobody works yet, so what is locked or unfinished is so by a crash
            _unlock(clone / ".git")
            for one in self._repos.glob("*.new-*"):
                shutil.rmtree(one, ignore_errors=True)
            self._is_tidy = True
        if clone.exists():
            await self._check_settings(clone, is_clone=True)
            await self._git(clone, "fetch", "--quiet", "--prune", "origin", protocols=None)
            return clone
        self._repos.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = clone.with_suffix(f".new-{time.time_ns()}")
        await self._git(
            self._repos, "clone", "--quiet", "--no-checkout", "--", self._repo, str(unfinished), protocols=None
        )
        unfinished.replace(clone)
        return clone

    async def _base(self, repository: Path) -> str:
        """Returns the commit at which a new branch begins: that of ``--base``, the default branch of a clone, or the
        folder's HEAD."""
        is_clone, find = repository.parent == self._repos, ("rev-parse", "--verify", "--quiet")
        if self._begin:
            for ref in ([f"refs/remotes/origin/{self._begin}"] if is_clone else []) + [self._begin]:
                with suppress(GitFailed):
                    return (await self._git(repository, *find, f"{ref}^{{commit}}")).strip()
            raise GitFailed(f"The repository has no commit {self._begin!r}, at which --base lets branches begin.")
        head = _ORIGIN if is_clone else "HEAD"
        try:
            try:
                return (await self._git(repository, *find, head)).strip()
            except GitFailed:
                if not is_clone:
                    raise
                # It was empty, or has another.
                await self._git(repository, "remote", "set-head", "origin", "--auto", protocols=None)
                return (await self._git(repository, *find, head)).strip()
        except GitFailed as error:
            raise GitFailed("The repository has no commit to begin at: make a first one.") from error

    def _of(self, within: Workdir | None) -> dict[str, str]:
        """Returns the environment of git in a folder."""
        own = self._sandbox.environment if self._sandbox and within else {}
        return self._environment | own | dict(within.git if within else {})

    def _missing(self, error: OSError, cwd: Path) -> str:
        if not cwd.exists():
            return "its folder is gone"
        if shutil.which("git", path=self._environment.get("PATH")) is None:
            return "it is not installed on the runner's machine, or not in its PATH"
        return error.strerror or str(error)

    async def _delete(self, path: Path) -> bool:
        """Deletes a folder, however deep a guest has made it, and with whatever modes. Returns whether it is gone."""
        argv = ("sh", "-c", 'chmod -R u+rwx "$0" 2>/dev/null; exec rm -rf "$0"', str(path))
        env, seconds = self._environment, _GIT_SECONDS
        return (await run_program(argv, cwd="/", env=env, timeout_seconds=seconds, most_bytes=_MOST_BYTES)).code == 0

    async def _named(self, cwd: Path, branch: str, within: Workdir | None = None) -> str:
        """Returns the branch that a thread has already, which may be named after another subject, or ``branch``."""
        find = ("for-each-ref", "--count=1", "--format=%(refname:lstrip=2)", f"refs/heads/swarm/*{branch[-8:]}")
        return (await self._git(cwd, *find, within=within)).strip() or branch

    async def names(self, cwd: Path, *arguments: str, within: Workdir | None = None) -> list[str]:
        """Runs git for a list of files, in the sandbox if ``within`` is a thread's folder. Raises GitFailed."""
        return (await self._git(cwd, *arguments, "-z", within=within, whole=True)).split("\0")[:-1]

    async def _git(
        self, cwd: Path, *arguments: str, within: Workdir | None = None, protocols: str | None = "", whole: bool = False
    ) -> str:
        """Runs git: in the sandbox if ``within`` is a thread's folder. ``protocols`` may be used; None: as usual. The
        middle of a long output is missing; if it is needed as a ``whole``, it is refused."""
        argv = [*(self.wrap(within) if within else ()), "git", *_SAFE, *arguments]
        offline = {} if self._is_trusted or protocols is None else _OFFLINE | {"GIT_ALLOW_PROTOCOL": protocols}
        try:
            ran: Ran = await run_program(
                argv, cwd=cwd, env=self._of(within) | offline, timeout_seconds=_GIT_SECONDS,
                most_bytes=_MOST_NAME_BYTES if whole else _MOST_BYTES, errors_apart=True,
            )  # fmt: skip
        except OSError as error:
            raise GitFailed(f"git cannot be started: {self._missing(error, cwd)}.") from error
        if ran.cut and whole:
            raise GitFailed(f"git {arguments[0]} failed: it names too many files.")
        if ran.code != 0:
            words = _reason(ran.errors) or ("it took too long" if ran.timed_out else "no reason given")
            command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
            raise GitFailed(f"git {command} failed: {words}")
        return ran.output


def _reason(errors: str) -> str:
    """Returns what git says, from its first error on."""
    words = " ".join(errors.split())
    return words[max(0, min((at for at in map(words.find, ("fatal:", "error:")) if at >= 0), default=0)) :][:300]


def _objects(common: Path) -> tuple[Path, ...]:
    """Returns the folders with the objects of a repository, also those that it borrows from others."""
    found = [common / "objects"]
    for folder in found:
        with suppress(OSError):
            lines = (folder / "info" / "alternates").read_text(errors="replace").splitlines()
            found += [one for line in lines if line and (one := folder / line).is_dir() and one not in found]
    return tuple(found)


def _entry(path: Path, common: Path) -> Path | None:
    """Returns the folder in which a repository keeps what it knows of a worktree."""
    for name in (common / "worktrees").glob("*/gitdir"):
        if name.read_text(errors="replace").strip() == str(path / ".git"):
            return name.parent
    return None


def _is_unfinished(entry: Path, path: Path) -> bool:
    """Whether a worktree is missing, or git was killed while it made it."""
    lock = entry / "locked"
    return (
        not path.exists()
        or not any(path.iterdir())
        or (lock.exists() and lock.read_text(errors="replace").strip() == "initializing")
    )


def _has_files(path: Path) -> bool:
    return path.exists() and any(one.name != ".git" for one in path.iterdir())


def _unlock(git: Path) -> None:
    """Removes the locks of a git that was killed, where nobody else works."""
    folders = [] if git.is_symlink() else [str(git)]
    for folder in folders:
        with suppress(OSError):
            for one in os.scandir(folder):
                if one.is_dir(follow_symlinks=False):
                    folders.append(one.path)
                elif one.name.endswith(".lock"):
                    os.unlink(one)


def _put_aside(path: Path, aside: Path, *, is_unfinished: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if is_unfinished:  # by a crash: no CLI has worked there
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and not aside.exists():
        path.rename(aside)


def _restore(aside: Path, path: Path) -> None:
    """Puts the files of a lost worktree into the new one."""
    if aside.is_dir():
        shutil.copytree(
            aside, path, symlinks=True, dirs_exist_ok=True, ignore=lambda at, _: [".git"] * (at == str(aside))
        )
        shutil.rmtree(aside)


def _is_older(path: Path, until: float) -> bool:
    with suppress(OSError):  # somebody has removed it
        return path.stat().st_mtime < until
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
