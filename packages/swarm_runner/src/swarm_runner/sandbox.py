"""The sandbox of a runner: what its CLI sees of this machine, as a list of what is allowed. Everything else is absent.

It has the folders of the system, the program and its package, a few files for names, certificates and users below
/etc, one folder for the state and the caches of the CLI, the work, and what the operator names. The person's home
folder is absent, with all settings, plugins and keys: only the file of the CLI's login is shared, since it is renewed.
The settings in the state folder are read-only, because a later run would obey what an earlier one has planted there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from swarm_base.errors import ConfigurationError
from swarm_runner.settings import RunnerSettings, program_words

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system")
_ETC: Final = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "fonts", "gai.conf", "group",
    "host.conf", "hostname", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types",
    "nsswitch.conf", "os-release", "passwd", "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "protocols",
    "resolv.conf", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
_TMP: Final = "/tmp"  # noqa: S108 -- the sandbox has its own
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name files of certificates."""

STATE: Final[Mapping[str, str]] = {
    "HOME": "", "CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex", "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state", "XDG_CACHE_HOME": ".cache",
}  # fmt: skip
"""Variables that name folders for state, and where these are in the runner's own."""

_LOGINS: Final = {
    "claude": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "opencode": ".local/share/opencode/auth.json",
}
_SETTINGS: Final[Mapping[str, str]] = {
    ".claude/settings.json": "{}\n",
    ".codex/config.toml": "",
    ".codex/hooks.json": "{}\n",
    **dict.fromkeys((".claude/CLAUDE.md", ".codex/AGENTS.md", ".codex/AGENTS.override.md"), ""),
    **dict.fromkeys((".config/opencode/.gitignore", ".opencode/.gitignore"), "*\n"),  # it would write them itself
}
"""Files that decide what a CLI may do, and what they contain at first."""

_FIXED: Final = (
    *(f".claude/{name}" for name in ("agents", "commands", "output-styles", "plugins", "rules", "skills")),
    *(f".codex/{name}" for name in ("prompts", "rules", "skills")),
    ".agents",
    ".config/opencode",
    ".opencode",
)
"""Folders of the same kind."""

_NAMED: Final = (*STATE.values(), *_FIXED, *(f"{Path(name).parent}" for name in (*_SETTINGS, *_LOGINS.values())))
_FOLDERS: Final = sorted({folder for name in _NAMED for folder in (Path(name), *Path(name).parents)})
"""All folders that are known by name. Each is a mount of its own, so that a guest can put no link in its place, which
would lead us outside at the next start."""

_Shown = Path | tuple[Path, Path]
"""A file or a folder, and where it is in the sandbox: in the same place, or in another one."""


class Sandbox:
    """The sandbox of one runner, with bubblewrap. Raises ConfigurationError for settings that would show secrets."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._home = settings.home
        self._state = settings.home / (f"cli-{settings.account}" if settings.account else "cli")
        self._folders = [self._state / folder for folder in _FOLDERS]
        own = Path(settings.environment.get("HOME", "/nonexistent"))
        roots = (own, own.resolve(), settings.home, *settings.private)
        self._private = {folder for root in roots for folder in (root, *root.parents)}
        self._check(settings)
        self.environment = dict(settings.environment) | {
            name: str(self._state / folder) for name, folder in STATE.items()
        }
        words = program_words(settings.provider)
        kind = next((name for name in _LOGINS if name in (settings.provider, *Path(words[0]).name.split("-"))), "")
        self._login = (own / _LOGINS[kind], self._state / _LOGINS[kind]) if kind else None
        path = settings.environment.get("PATH", "")
        named = {Path(settings.environment[name]) for name in CERTIFICATES if name in settings.environment}
        seen = (*settings.readable, *named - self._private)
        self._shown = [*self._programs(words, path), *map(_bind, seen)]
        self._identity = self._make(settings.environment)

    def wrap(self, writable: Iterable[Path], readable: Iterable[Path] = ()) -> tuple[str, ...]:
        """Returns the command that starts a program in the sandbox, to which the program's own command is appended.

        The work ``writable`` can be changed; ``readable`` is seen beside it.
        """
        etc = [(Path("/etc", name).resolve(), Path("/etc", name)) for name in _ETC]
        system: list[_Shown] = [*map(Path, SYSTEM), *etc]
        words = [word for one in system for word in ("--ro-bind-try", *_ends(one))]
        words += ["--tmpfs", _TMP, "--dev", "/dev", "--proc", "/proc"]
        words += [word for shown in self._shown for word in shown]
        words += [word for one in readable for word in ("--ro-bind", *_ends(one))]
        for one in (*self._folders, *writable):
            words += ["--bind", *_ends(one)]
        kept: list[_Shown] = [
            (self._identity, self._state / ".gitconfig"),
            *(self._state / name for name in (*_SETTINGS, *_FIXED)),
        ]
        words += [word for one in kept for word in ("--ro-bind", *_ends(one))]
        if self._login and self._login[0].is_file():
            words += ["--bind", *_ends(self._login)]
        return ("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL", *words, "--")

    def _check(self, settings: RunnerSettings) -> None:
        if named := [name for name in STATE if name != "HOME" and name in settings.environment]:
            raise ConfigurationError(
                f"{named[0]} cannot be set with --sandbox, where the CLI has a state folder of its own.",
                hint=f"Put settings of the CLI into {self._state}, or leave --sandbox out.",
            )
        for option, folder in (("--workdir", settings.workdir), *(("--readable", one) for one in settings.readable)):
            if folder and folder in self._private:
                raise ConfigurationError(
                    f"{option} {folder} would show your home folder, or the swarm's, to the CLI in the sandbox.",
                    hint="Name a folder that contains neither.",
                )

    def _make(self, environment: Mapping[str, str]) -> Path:
        """Creates the folder for state, with the files that are read-only in the sandbox. Returns that for git."""
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in _SETTINGS.items():
            if not (self._state / name).is_file():
                (self._state / name).write_text(content, encoding="utf-8")
        lines = [f'\t{key} = "{_quoted(value)}"\n' for key in ("name", "email") if (value := _of_git(key, environment))]
        identity = self._home / "gitconfig"
        identity.write_text("".join(("[user]\n", *lines)), encoding="utf-8")
        return identity

    def _programs(self, words: Iterable[str], path: str) -> Iterator[tuple[str, ...]]:
        """Yields how to show the program, the files that its command names, and the interpreters of scripts."""
        first, *rest = words
        named = [Path(found).absolute() for found in (shutil.which(first, path=path),) if found]
        named += [Path(word) for word in rest if word.startswith("/") and Path(word).exists()]
        for one in (file for file in named if file not in self._private):
            yield from self._program(one)
            if interpreter := _interpreter(one, path):
                yield from self._program(interpreter)

    def _program(self, file: Path) -> Iterator[tuple[str, ...]]:
        for one in dict.fromkeys((file.parent.resolve() / file.name, file.resolve())):
            yield _bind(self._package(one))
        yield from [("--symlink", str(file.resolve()), str(file))] if self._needs_link(file) else []

    def _needs_link(self, file: Path) -> bool:
        """Whether the name of a program is a link that no folder in the sandbox contains."""
        return file.is_symlink() and not _is_system(file) and self._package(file) == file

    def _package(self, file: Path) -> Path:
        """Returns the folder of a program's package: that of its modules, of its environment or its installation. A
        folder with anything private in it is none, nor is a checkout; then it is the file alone."""
        within = [folder for folder in file.parents if not (folder in self._private or (folder / ".git").exists())]
        modules = [folder for folder in within if folder.name == "node_modules"]
        marked = [
            folder for folder in within if any((folder / mark).exists() for mark in ("pyvenv.cfg", "package.json"))
        ]
        prefix = [file.parents[1]] if file.parent.name == "bin" and (file.parents[1] / "lib").is_dir() else []
        whole = [folder for folder in prefix if folder in within and folder.name != ".local"]
        return next(iter((*modules[-1:], *marked[:1], *whole)), file)


def _is_system(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in SYSTEM)


def _bind(path: Path) -> tuple[str, ...]:
    """Returns how to show a file or a folder; nothing for one of the system, and for a link."""
    return () if _is_system(path) or path.is_symlink() else ("--ro-bind-try", str(path), str(path))


def _ends(one: _Shown) -> tuple[str, str]:
    return (str(one), str(one)) if isinstance(one, Path) else (str(one[0]), str(one[1]))


def _interpreter(file: Path, path: str) -> Path | None:
    """Returns the interpreter that a script names in its first line."""
    with suppress(OSError, UnicodeDecodeError):
        with file.open("rb") as script:
            first = script.readline(500).decode()
        if words := re.match(r"#!\s*(\S+)(?:\s+(?:-\S+\s+)*(\S+))?", first):
            name = words[2] if words[1].endswith("/env") and words[2] else words[1]
            found = shutil.which(name, path=path)
            return Path(found).absolute() if found else None
    return None


def _of_git(key: str, environment: Mapping[str, str]) -> str:
    words = ["git", "config", "--global", "--get", f"user.{key}"]
    with suppress(OSError):
        ran = subprocess.run(words, env=dict(environment), capture_output=True, text=True, check=False)  # noqa: S603 - a list
        return " ".join(ran.stdout.split())
    return ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
