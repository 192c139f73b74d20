"""The repository of a folder, refused unless all of it lies in the work tree."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
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
        """Returns the values of core.worktree without effect: a submodule always sets one."""
        return str(self.work_tree), os.path.relpath(self.work_tree, self.git_dir)


def repository_of(tree: WorkTree, folder: ResolvedPath) -> Repository:
    """Returns the repository to which a folder of the tree belongs. Blocks on the file system.

    Only a ``.git`` counts, at the folder or above it up to the root of the tree: git itself also accepts a folder that
    merely looks like a repository.

    Raises:
        ToolRefused: No repository was found, or parts of it lie outside of the tree.
    """
    root = _real(tree.root)
    for relative in (Path(folder.path), *Path(folder.path).parents):
        if (repository := repository_at(tree, root / relative)) is not None:
            return repository
    raise ToolRefused(f"{folder.path} belongs to no git repository of the work tree.")


def repository_at(tree: WorkTree, folder: Path) -> Repository | None:
    """Returns the repository whose top is a folder below the root; None without a folder or repository. Blocks.

    Raises:
        ToolRefused: Parts of it lie outside of the tree.
    """
    root = _real(tree.root)
    relative = folder.relative_to(root)
    with tree.place(str(relative)) as place:
        if not place.is_folder:
            return None
    with tree.place(str(relative / ".git")) as place:
        if place.found is None:
            return None
        if place.path != str(relative / ".git"):
            raise ToolRefused(f"{relative / '.git'} is a symbolic link; git is not run there.")
        git_dir = folder / ".git" if place.is_folder else _linked(root, folder, place)
    common = git_dir / "commondir"
    common_dir = _inside(root, git_dir, _line(common)) if common.is_file() else git_dir
    for data in {git_dir, common_dir}:
        _check_links(root, data)
    _check_alternates(root, common_dir)
    return Repository(work_tree=folder, git_dir=git_dir, common_dir=common_dir)


def _linked(root: Path, here: Path, place: ResolvedPath) -> Path:
    """Returns the repository named in a ``.git`` file."""
    if not stat.S_ISREG(place.mode):
        raise ToolRefused(f"{place.path} is neither a folder nor a file.")
    kind, _, target = _line(here / ".git").partition("gitdir:")
    if kind or not target:
        raise ToolRefused(f"{place.path} does not name a repository.")
    return _inside(root, here, target.strip())


def _inside(root: Path, base: Path, target: str) -> Path:
    real = _real(base / target)
    if not real.is_relative_to(root):
        raise ToolRefused(f"The repository's data lies at {target}, outside of the work tree; git is not run there.")
    return real


def _line(path: Path) -> str:
    if not path.is_file():  # opening a pipe would block
        raise ToolRefused(f"{path.name} of the repository is not a plain file.")
    with path.open("rb") as file:
        return os.fsdecode(file.read(_MOST_LINK_BYTES)).strip()


def _check_links(root: Path, git_dir: Path) -> None:
    """Refuses symbolic links in git's own data: git writes to their targets, of COMMIT_EDITMSG or logs for example."""
    for name, folders, files in os.walk(git_dir):
        for path in (Path(name, entry) for entry in (*folders, *files)):
            if path.is_symlink() and not _real(path).is_relative_to(root):
                where = path.relative_to(root)
                raise ToolRefused(f"{where} is a symbolic link that leads out of the work tree; remove it.")
        if Path(name) == git_dir and "hooks" in folders:
            folders.remove("hooks")  # never run
        if Path(name).name == "objects":  # never written in place
            folders[:] = [entry for entry in folders if entry in ("info", "pack")]


def _check_alternates(root: Path, common_dir: Path) -> None:
    """Refuses alternates outside of the tree: other repositories whose objects this one may read."""
    alternates = common_dir / "objects" / "info" / "alternates"
    if not os.path.lexists(alternates):
        return
    for line in _line(alternates).splitlines():
        if not line.startswith("#") and not _real(common_dir / "objects" / line.strip('"')).is_relative_to(root):
            raise ToolRefused("The repository borrows objects from one outside of the work tree; git is not run there.")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def remove_abandoned(lock: Path) -> None:
    """Remove a lock of the index that no process holds.

    Git removes its locks when it is ended, but a git that is ended between making its first lock and installing its
    signal handler leaves it, and every later call fails. Such a lock is empty, and no process has it open; a git at
    work has its lock open until the index is written.
    """
    try:
        found = lock.lstat()
        if found.st_size == 0 and stat.S_ISREG(found.st_mode) and not _is_open(found):
            lock.unlink()
    except OSError:
        pass  # usually there is none; a lock whose holder cannot be known stays


def _is_open(file: os.stat_result) -> bool:
    """Whether a process may have the file open. Assumed of a git whose files cannot be listed."""
    return any(_may_have(Path("/proc", pid), file) for pid in filter(str.isdecimal, os.listdir("/proc")))


def _may_have(process: Path, file: os.stat_result) -> bool:
    try:
        return any(_is_same(opened, file) for opened in (process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return False
    except PermissionError:
        return (process / "comm").read_text().startswith("git")


def _is_same(opened: Path, file: os.stat_result) -> bool:
    with suppress(FileNotFoundError):  # closed meanwhile
        return os.path.samestat(opened.stat(), file)
    return False
