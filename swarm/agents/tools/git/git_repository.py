"""Which repository a folder belongs to, and whether all of it lies in the work tree."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swarm.agents.tools.answers import ToolRefused
from swarm.agents.tools.work_tree import ResolvedPath, WorkTree

_MOST_LINK_BYTES: Final = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """A repository, by real paths below the root."""

    work_tree: Path
    git_dir: Path
    common_dir: Path  # differs from git_dir in a linked work tree (git worktree add)

    @property
    def own_work_trees(self) -> tuple[str, ...]:
        """What core.worktree says when it says nothing new: in a submodule it always stands there."""
        return str(self.work_tree), os.path.relpath(self.work_tree, self.git_dir)


def repository_of(tree: WorkTree, folder: ResolvedPath) -> Repository:
    """The repository to which a folder of the tree belongs. Blocks on the file system.

    Only a ``.git`` counts, at the folder or above it up to the root of the tree: git itself would also take a folder
    for a repository that merely looks like one.

    Raises:
        Refused: There is none, or parts of it lie outside of the tree.
    """
    root = Path(os.path.realpath(tree.root))
    for relative in (Path(folder.path), *Path(folder.path).parents):
        with tree.place(str(relative / ".git")) as place:
            if place.found is not None:
                return _repository(root, relative, place)
    raise ToolRefused(f"{folder.path} belongs to no git repository of the work tree.")


def repository_at(tree: WorkTree, folder: Path) -> Repository | None:
    """The repository that a folder below the root itself is; None: it is none, or is not there. Blocks.

    Raises:
        Refused: Parts of it lie outside of the tree.
    """
    root = Path(os.path.realpath(tree.root))
    relative = folder.relative_to(root)
    with tree.place(str(relative)) as place:
        if not place.is_folder:
            return None
    with tree.place(str(relative / ".git")) as place:
        return None if place.found is None else _repository(root, relative, place)


def _repository(root: Path, relative: Path, place: ResolvedPath) -> Repository:
    here = root / relative
    if place.path != str(relative / ".git"):
        raise ToolRefused(f"{relative / '.git'} is a symbolic link; git is not run there.")
    git_dir = here / ".git" if place.is_folder else _linked(root, here, place)
    common = git_dir / "commondir"
    common_dir = _inside(root, git_dir, _line(common)) if common.is_file() else git_dir
    for folder in {git_dir, common_dir}:
        _check_links(root, folder)
    _check_alternates(root, common_dir)
    return Repository(work_tree=here, git_dir=git_dir, common_dir=common_dir)


def _linked(root: Path, here: Path, place: ResolvedPath) -> Path:
    """The repository that a ``.git`` file names."""
    if not stat.S_ISREG(place.mode):
        raise ToolRefused(f"{place.path} is neither a folder nor a file.")
    kind, _, target = _line(here / ".git").partition("gitdir:")
    if kind or not target:
        raise ToolRefused(f"{place.path} does not name a repository.")
    return _inside(root, here, target.strip())


def _inside(root: Path, base: Path, target: str) -> Path:
    real = Path(os.path.realpath(base / target))
    if not real.is_relative_to(root):
        raise ToolRefused(f"The repository's data lies at {target}, outside of the work tree; git is not run there.")
    return real


def _line(path: Path) -> str:
    if not path.is_file():  # a pipe would be waited for
        raise ToolRefused(f"{path.name} of the repository is not a plain file.")
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MOST_LINK_BYTES)).strip()


def _check_links(root: Path, git_dir: Path) -> None:
    """Git writes through symbolic links among its own data: to what COMMIT_EDITMSG or logs are, for example."""
    for path in _links(git_dir):
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise ToolRefused(
                f"{path.relative_to(root)} is a symbolic link that leads out of the work tree; remove it."
            )


def _links(folder: Path) -> Iterator[Path]:
    """The symbolic links in a repository. Hooks are never run, and objects never written in place."""
    for name, folders, files in os.walk(folder):
        here = Path(name)
        yield from (path for entry in (*folders, *files) if (path := here / entry).is_symlink())
        if here == folder and "hooks" in folders:
            folders.remove("hooks")
        if here.name == "objects":
            folders[:] = [entry for entry in folders if entry in ("info", "pack")]


def _check_alternates(root: Path, common_dir: Path) -> None:
    """Objects of other repositories, which this one may read."""
    alternates = common_dir / "objects" / "info" / "alternates"
    if not os.path.lexists(alternates):
        return
    for line in _line(alternates).splitlines():
        if not line.startswith("#") and not _real(alternates.parents[1], line).is_relative_to(root):
            raise ToolRefused("The repository borrows objects from one outside of the work tree; git is not run there.")


def _real(base: Path, target: str) -> Path:
    return Path(os.path.realpath(base / target.strip('"')))
