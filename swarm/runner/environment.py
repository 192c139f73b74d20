"""What a CLI gets of this machine: a clean environment, and with ``--sandbox`` a read-only file system.

A CLI gets the variables that it needs to run, and those that the operator names. Nothing else of the runner's
environment reaches it, since that may contain tokens.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from swarm.domain.errors import ConfigurationError
from swarm.runner.settings import program_of

_PASSED: Final = ("HOME", "PATH", "LANG", "TERM")

_TMP: Final = "/tmp"  # noqa: S108 -- the sandbox has its own

_STATE: Final[Mapping[str, tuple[str, ...]]] = {
    "claude": (".claude", ".claude.json", ".cache/claude"),
    "codex": (".codex",),
    "opencode": (".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
    "acp": (".claude", ".claude.json", ".codex", ".config/opencode", ".local/share/opencode", ".local/state/opencode"),
    "command": (),
}
"""Where each kind of CLI keeps its sessions and its login, below the home folder of the user."""


def cli_environment(own: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """Returns the complete environment of a CLI. Raises ConfigurationError for a named variable that is not set."""
    names = list(named)
    if missing := [name for name in names if name not in own]:
        raise ConfigurationError(
            f"--env names {', '.join(missing)}, which is not set.",
            hint="Set it in the environment of `swarm run`, or leave the option out.",
        )
    return {name: own[name] for name in (*_PASSED, *names) if name in own}


def check_program(provider: str, environment: Mapping[str, str]) -> None:
    """Raises ConfigurationError if the CLI's program is not there."""
    program = program_of(provider)
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise ConfigurationError(
            f"The program '{program}' of --provider {provider.partition(':')[0]} is not installed, or cannot be run.",
            hint="Check that your shell finds it: `command -v` with its name. `swarm run` searches the same PATH.",
        )


def check_sandbox() -> None:
    """Raises ConfigurationError if this machine has no sandbox."""
    if not shutil.which("bwrap"):
        raise ConfigurationError(
            "--sandbox needs bubblewrap, which is not installed on this machine.",
            hint="Install it (apt install bubblewrap; Linux only), or use a container instead of --sandbox.",
        )


def sandbox(kind: str, hidden: Path, writable: Iterable[Path], user_home: Path) -> tuple[str, ...]:
    """Returns the command that starts a program in a sandbox, to which the program's own command is appended.

    The file system is read-only except ``writable``, a private /tmp, and the CLI's own state below ``user_home``; the
    folder ``hidden`` is empty. The network is left. Missing folders of the state are created: a CLI that has not been
    used before could not create them itself, and would lose its sessions.
    """
    state = [user_home / name for name in _STATE[kind]]
    if kind != "acp":  # nobody knows which of them an agent uses
        for folder in state:
            if folder.suffix != ".json":
                with suppress(OSError):  # where the user has no home folder, there is nothing to keep
                    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    shown = [path for path in (*state, *writable) if path.exists()]
    binds = [word for path in shown for word in ("--bind", str(path), str(path))]
    return (
        "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev",
        "--proc", "/proc", "--tmpfs", _TMP, "--tmpfs", str(hidden), *binds, "--",
    )  # fmt: skip
