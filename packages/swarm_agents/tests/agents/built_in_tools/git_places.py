"""Repositories for the tests of the git tool, and canaries: programs that leave a trace if they are run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from swarm_agents.built_in_tools.git.repository import GitOptions
from swarm_agents.built_in_tools.git.tool import git_tool
from swarm_agents.toolbox.tool import ToolAnswer
from swarm_base.processes.captured import clean_environment

_ENVIRONMENT = {
    **clean_environment(os.environ),
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_{part}": "someone" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")},
}

TRUSTING = GitOptions(trusted_keys=["*"])
"""The operator vouches for every key, so that only what git is told beside can hold it."""


class Place:
    """A work tree that is a repository, and what lies outside of it."""

    def __init__(self, folder: Path, *, template: Path | None = None) -> None:
        self.folder = folder
        self.root = folder / "tree"
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "secret").write_text("secret\n")
        self._traces = folder / "traces"
        self._traces.mkdir()
        self.canary = folder / "canary"
        self.canary.write_text(f'#!/bin/sh\n: > {self._traces}/ran\ncat "$1" 2> /dev/null || cat\n')
        self.canary.chmod(0o755)
        if template is not None:
            shutil.copytree(template, self.root, symlinks=True)

    def git(self, *argv: str, at: Path | None = None, **variables: str) -> str:
        """Git as a person runs it."""
        where = at or self.root
        done = subprocess.run(
            ["git", *argv], cwd=where, env=_ENVIRONMENT | variables, check=True, capture_output=True, text=True
        )
        return done.stdout

    async def say(
        self,
        *words: str,
        at: str = ".",
        options: GitOptions | None = None,
        env: dict[str, str] | None = None,
        root: Path | None = None,
    ) -> ToolAnswer:
        """Call the tool: a subcommand and its arguments. What it refuses early, it refuses in the same words."""
        tool = git_tool(root or self.root, env=env or clean_environment(os.environ), options=options)
        arguments = {"subcommand": words[0], "args": list(words[1:]), "working_directory": at}
        refusal = await tool.refuse(arguments)
        answer = await tool.call(arguments)
        assert refusal in (None, answer)
        self.is_refused = refusal is not None
        return answer

    def hook(self, name: str) -> Path:
        """Make the canary a hook."""
        path = self.root / ".git/hooks" / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(self.canary, path)
        return path

    def sang(self) -> bool:
        """Whether a canary was run. Forgets it."""
        found = list(self._traces.iterdir())
        for trace in found:
            trace.unlink()
        return bool(found)

    def unharmed(self) -> bool:
        """No canary was run, and outside everything is as it was."""
        kept = {str(path.relative_to(self.outside)): path.read_bytes() for path in self.outside.rglob("*")}
        entries = {"canary", "outside", "traces", "tree"}
        return (
            not self.sang() and kept == {"secret": b"secret\n"} and {p.name for p in self.folder.iterdir()} <= entries
        )


def template_in(folder: Path) -> Path:
    """A repository with two branches that differ, and something that is not committed."""
    place = Place(folder)
    place.root.mkdir()
    place.git("init", "-q", "-b", "main")
    (place.root / "src").mkdir()
    (place.root / "a.txt").write_text("one\n")
    (place.root / "src/b.txt").write_text("two\n")
    place.git("add", ".")
    place.git("commit", "-q", "-m", "first")
    place.git("checkout", "-q", "-b", "other")
    (place.root / "a.txt").write_text("other\n")
    place.git("commit", "-q", "-a", "-m", "on the other")
    place.git("checkout", "-q", "main")
    (place.root / "a.txt").write_text("changed\n")
    return place.root
