"""Looking at a repository before git obeys it: its configuration, and that of the repositories within it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from swarm.agents.tools.git.git_config import Setting, check, settings_in
from swarm.agents.tools.git.git_process import Git
from swarm.agents.tools.git.git_repository import Repository, repository_at, repository_of
from swarm.agents.tools.work_tree import ResolvedPath, WorkTree
from swarm.processes.finishing import to_the_end

_MOST_SETTINGS_BYTES: Final = 1 << 20
_MOST_FILES_BYTES: Final = 1 << 26  # of more than half a million files
_SUBMODULE: Final = "160000 "


async def located(tree: WorkTree, folder: ResolvedPath) -> Repository:
    """The repository of a folder, see `repository_of`."""
    return await to_the_end(asyncio.to_thread(repository_of, tree, folder))


async def inspected(git: Git, repository: Repository, where: str = "the repository") -> list[Setting]:
    """The repository's own configuration, once it is found to be harmless.

    Raises:
        Refused: Something in it could run a program or reach outside.
    """
    listing = ["config", "--list", "--show-scope", "--null", "--no-includes"]
    settings = list(settings_in(await git.listed(repository, listing, most_bytes=_MOST_SETTINGS_BYTES)))
    check(settings, where, trusted=git.options.trusted_keys, work_trees=repository.own_work_trees)
    return settings


async def inspect_submodules(git: Git, tree: WorkTree, repository: Repository) -> None:
    """The same for every submodule that is there, and for theirs: git looks into them as their configuration says.

    Raises:
        Refused: Something in it could run a program or reach outside.
    """
    files = await git.listed(repository, ["ls-files", "--stage", "-z"], most_bytes=_MOST_FILES_BYTES)
    for path in _submodules(files):
        within = await to_the_end(asyncio.to_thread(repository_at, tree, repository.work_tree / path))
        if within is not None:
            await inspected(git, within, f"the submodule {path}")
            await inspect_submodules(git, tree, within)


def _submodules(files: str) -> Iterator[str]:
    """The folders that are other repositories, from ``git ls-files --stage -z``."""
    for entry in files.split("\0"):
        if entry.startswith(_SUBMODULE):
            yield entry.partition("\t")[2]
