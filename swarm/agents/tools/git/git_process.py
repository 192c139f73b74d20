"""Running git: with an environment that no file of a repository can overrule."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swarm.agents.tools.answers import ToolRefused
from swarm.agents.tools.endings import said
from swarm.agents.tools.git.git_config import OVERRIDES
from swarm.agents.tools.git.git_repository import Repository
from swarm.processes.captured import Ran, run_program
from swarm.processes.finishing import to_the_end

TIMEOUT_SECONDS: Final = 30.0
MOST_BYTES: Final = 64 * 1024

_OPERATORS: Final = frozenset({"GIT_ASKPASS", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"})
"""Variables of git that the operator may set; all others are ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitOptions:
    """What the operator decides."""

    author_name: str = "swarm"
    author_email: str = "swarm@localhost"
    protocols: Sequence[str] = (
        "https",
        "ssh",
    )  # over which remotes are reached; "file" runs the hooks of the other side
    credential_helper: str = ""  # as in git's credential.helper; empty: none, which leaves ~/.netrc and ssh keys
    trusted_keys: Sequence[str] = ()  # patterns of configuration keys that a repository may set beside harmless ones
    timeout_seconds: float = TIMEOUT_SECONDS
    most_bytes: int = MOST_BYTES  # of the output


@dataclass(frozen=True, kw_only=True, slots=True)
class Git:
    """The program, as it is run for everybody here."""

    env: Mapping[str, str]
    options: GitOptions

    async def run(self, repository: Repository, argv: Sequence[str], *, cwd: str) -> Ran:
        """Run a subcommand, errors among what it prints.

        Raises:
            Refused: There is no git.
        """
        return await self._run(repository, argv, cwd, self.options.most_bytes, errors_apart=False)

    async def listed(self, repository: Repository, argv: Sequence[str], *, most_bytes: int) -> str:
        """What a subcommand prints for us to read: all of it, and nothing else.

        Raises:
            Refused: It fails, or prints more than ``most_bytes``.
        """
        ran = await self._run(repository, argv, str(repository.work_tree), most_bytes, errors_apart=True)
        if ran.code == 0 and not ran.cut:
            return ran.output
        if ran.cut:
            raise ToolRefused("The repository is too large for this tool.")
        ending = said(
            Ran(code=ran.code, output=ran.errors, timed_out=ran.timed_out), "git", self.options.timeout_seconds
        )
        raise ToolRefused(f"The repository cannot be read. {ending.text}")

    async def _run(
        self, repository: Repository, argv: Sequence[str], cwd: str, most_bytes: int, *, errors_apart: bool
    ) -> Ran:
        lock = repository.git_dir / "index.lock"
        was_locked = lock.exists()
        try:
            return await run_program(
                ["git", *argv],
                cwd=cwd,
                env=self._environment(repository),
                timeout_seconds=self.options.timeout_seconds,
                most_bytes=most_bytes,
                errors_apart=errors_apart,
            )
        except FileNotFoundError as error:
            raise ToolRefused("git is not installed here.") from error
        finally:
            if not was_locked:
                await to_the_end(asyncio.to_thread(_remove_abandoned, lock))

    def _environment(self, repository: Repository) -> dict[str, str]:
        """All that git knows. What stands here cannot be overruled by a file."""
        kept = {name: value for name, value in self.env.items() if not name.startswith("GIT_") or name in _OPERATORS}
        who = {"NAME": self.options.author_name, "EMAIL": self.options.author_email}
        return {
            "GIT_ASKPASS": "",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
            "GIT_SSH_VARIANT": "ssh",
            **kept,
            "LC_ALL": "C.UTF-8",
            "GIT_DIR": str(repository.git_dir),
            "GIT_WORK_TREE": str(repository.work_tree),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_MERGE_AUTOEDIT": "no",
            "GIT_ALLOW_PROTOCOL": ":".join(self.options.protocols),
            "SSH_ASKPASS_REQUIRE": "never",
            **dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), ":"),
            **dict.fromkeys(("GIT_PAGER", "PAGER"), "cat"),
            **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in who.items()},
            **_overrides(self.options.credential_helper),
        }


def _remove_abandoned(lock: Path) -> None:
    """Remove a lock of the index that nobody holds.

    Git removes its locks when it is ended, but one that is ended between making its first lock and preparing for that
    leaves it, and no later call would get past it. Such a lock is empty, and no process has it open: a git that is at
    work has, until it has written the index.
    """
    try:
        found = lock.lstat()
        if found.st_size == 0 and stat.S_ISREG(found.st_mode) and not _is_open(found):
            lock.unlink()
    except OSError:
        pass  # there is none, as usual; or it cannot be known whose it is, and stays


def _is_open(file: os.stat_result) -> bool:
    """Whether a process may have it open. Of a git whose files cannot be seen it is assumed."""
    return any(_may_have(Path("/proc", pid), file) for pid in filter(str.isdecimal, os.listdir("/proc")))


def _may_have(process: Path, file: os.stat_result) -> bool:
    try:
        return any(_is_same(opened, file) for opened in (process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False
    except PermissionError:
        return (process / "comm").read_text().startswith("git")


def _is_same(opened: Path, file: os.stat_result) -> bool:
    with suppress(FileNotFoundError):  # closed meanwhile
        return os.path.samestat(opened.stat(), file)
    return False


def _overrides(credential_helper: str) -> dict[str, str]:
    """Configuration by the environment."""
    pairs = list(OVERRIDES.items())
    if credential_helper:
        pairs.append(("credential.helper", credential_helper))
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return numbered
