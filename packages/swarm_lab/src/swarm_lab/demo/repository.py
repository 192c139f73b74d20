"""The contents of the demo's working directory: its files and their line counts, which are determined on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LARGEST_BYTES: Final = 1_000_000
"""The maximum file size. Larger files are ignored."""

_LOOKED_AT_BYTES: Final = 1_024


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A text file."""

    path: str  # relative to the folder, with slashes
    lines: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group of files with a common property."""

    name: str
    files: int
    lines: int


def folders(root: Path) -> Iterator[Path]:
    """Yields the folder and its subfolders, except folders that belong to tools."""
    yield root
    for child in root.iterdir():
        if child.is_dir() and not child.is_symlink() and not child.name.startswith((".", "__")):
            yield from folders(child)


def files(folder: Path) -> Iterator[Path]:
    """Returns the files of one folder in order of name, without very large files."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_BYTES:
            yield path


def listed(root: Path) -> list[Path]:
    """Returns all text files of the folder and its subfolders."""
    return [path for folder in sorted(folders(root)) for path in files(folder) if _is_text(path)]


def counted(root: Path, paths: Iterable[Path]) -> list[File]:
    """Returns the files with their line counts."""
    return [File(path=path.relative_to(root).as_posix(), lines=len(path.read_bytes().splitlines())) for path in paths]


def grouped(found: Iterable[File], key: Callable[[str], str]) -> list[Group]:
    """Groups files by what ``key`` says of their paths, in descending order of lines."""
    groups: dict[str, list[File]] = {}
    for file in found:
        groups.setdefault(key(file.path), []).append(file)
    made = (Group(name=n, files=len(fs), lines=sum(file.lines for file in fs)) for n, fs in groups.items())
    return sorted(made, key=lambda group: (-group.lines, group.name))


def kind(path: str) -> str:
    """Returns a file's suffix."""
    return Path(path).suffix or "(no suffix)"


def folder(path: str) -> str:
    """Returns a file's folder."""
    return path.rpartition("/")[0] or "."


def part(path: str) -> str:
    """Returns a file's top-level folder."""
    return path.partition("/")[0] if "/" in path else "."


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(_LOOKED_AT_BYTES)
