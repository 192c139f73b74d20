"""What a CLI gets of this machine: a clean environment, and what ``--sandbox`` needs to be there.

A CLI gets the variables that it needs to run, and those that the operator names. Nothing else of the runner's
environment reaches it, since that may contain tokens.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from swarm_base.errors import ConfigurationError
from swarm_runner.sandbox import CERTIFICATES
from swarm_runner.settings import INCLUDE_FILE, kind_of, program_of

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_PASSED: Final = ("HOME", "PATH", "LANG", "TERM", *CERTIFICATES, *_PROXIES, *(name.lower() for name in _PROXIES))

_LEAVES_ALONE: Final = (("claude", "claude"), ("acp", "claude-agent-acp"))
"""The kinds and programs that can be told to leave the settings of a repository alone, and are."""


def cli_environment(own: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """Returns the complete environment of a CLI. Raises ConfigurationError for a named variable that is not set."""
    names = list(named)
    if missing := [name for name in names if name not in own]:
        raise ConfigurationError(
            f"--env names {', '.join(missing)}, which is not set.",
            hint="Set it in the runner's environment, or leave the option out.",
        )
    return {name: own[name] for name in (*_PASSED, *names) if name in own}


def fallback(text: str, own: Mapping[str, str]) -> tuple[str, dict[str, str], list[str]]:
    """Returns the provider of a ``--fallback``, the variables that it gets besides those of the first provider, and the
    names of ours that it takes: a value may be ``$NAME``, or begin with ``~``. Raises ConfigurationError."""
    found: dict[str, str] = {}
    names: list[str] = []
    provider = text.strip()
    while match := re.match(r"([A-Za-z_]\w*)=(\$?)(\S*)\s+", provider):
        name, is_ours, value = match.groups()
        if is_ours and value not in own:
            raise ConfigurationError(f"--fallback gives {name} the value of {value}, which is not set.")
        names += [value] if is_ours else []
        found[name] = own[value] if is_ours else os.path.expanduser(value)
        provider = provider[match.end() :]
    try:
        kind_of(provider)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"--fallback is {text!r}: a provider is expected, with NAME=value before it where it needs variables.",
            hint="For example: --fallback codex, or --fallback 'HOME=~/second claude'.",
        ) from error
    return provider, found, names


def check_program(provider: str, environment: Mapping[str, str], option: str = "--provider") -> None:
    """Raises ConfigurationError if the CLI's program is not there."""
    program = program_of(provider)
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise ConfigurationError(
            f"The program '{program}' of {option} {provider.partition(':')[0]} is not installed, or cannot be run.",
            hint="Check that your shell finds it: `command -v` with its name. The runner searches the same PATH.",
        )


def check_trust(provider: str, *, repo: str | None, sandbox: bool, trusted: bool) -> None:
    """Raises ConfigurationError for a CLI that would run what the settings of a repository name, without a sandbox."""
    if repo and not sandbox and not trusted and (kind_of(provider), _name(provider)) not in _LEAVES_ALONE:
        raise ConfigurationError(
            f"{provider.partition(' ')[0]} runs what the settings of a repository name (plugins, servers, scripts), "
            "before anybody is asked.",
            hint="Add --sandbox, or --trust-repository if you trust everybody who writes to this repository.",
        )


def _name(provider: str) -> str:
    return program_of(provider).rpartition("/")[2]


def unbound(provider: str, *, sandbox: bool, operator_file: Path) -> str:
    """Returns what it means that a CLI has no sandbox on the coordinator's machine; empty elsewhere, and with one."""
    if sandbox or not operator_file.exists():
        return ""
    return (
        f"No --sandbox: {program_of(provider)} runs as you on the coordinator's machine. It can read {operator_file} "
        "and decide as the operator, so approvals do not bind it."
    )


def not_included(repo: str | None, *, trusted: bool) -> str:
    """Returns that the list of files of a repository does not count; empty without one, and if it counts."""
    if not repo or trusted or not Path(repo, INCLUDE_FILE).exists():
        return ""
    return (
        f"The repository's {INCLUDE_FILE} does not count without --trust-repository. To copy files that git ignores, "
        "name them with --include."
    )


def check_sandbox() -> None:
    """Raises ConfigurationError if this machine has no sandbox."""
    if not shutil.which("bwrap"):
        raise ConfigurationError(
            "--sandbox needs bubblewrap, which is not installed on this machine.",
            hint="Install it (apt install bubblewrap; Linux only), or use a container instead of --sandbox.",
        )
