"""What is in the folder where the demo was started: its files and their lines, counted when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LARGEST_BYTES: Final = 1_000_000
"""Larger files are left out."""

_LOOKED_AT_BYTES: Final = 1_024


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A text file."""

    path: str  # below the folder, with slashes
    lines: int

    @property
    def kind(self) -> str:
        """Its suffix."""
        return Path(self.path).suffix or "(no suffix)"

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return self.path.rpartition("/")[0] or "."

    @property
    def part(self) -> str:
        """The folder that it is in, of those at the top."""
        return self.path.partition("/")[0] if "/" in self.path else "."


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files that have something in common."""

    name: str
    files: int
    lines: int


def folders(root: Path) -> Iterator[Path]:
    """The folder and those below it, but for what tools keep there."""
    yield root
    for child in root.iterdir():
        if child.is_dir() and not child.is_symlink() and not child.name.startswith((".", "__")):
            yield from folders(child)


def files(folder: Path) -> Iterator[Path]:
    """The files of one folder, by name, without very large ones."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_BYTES:
            yield path


def listed(root: Path) -> list[Path]:
    """All text files of the folder and of those below it."""
    return [path for folder in sorted(folders(root)) for path in files(folder) if _is_text(path)]


def counted(root: Path, paths: Iterable[Path]) -> list[File]:
    """The same with their lines."""
    return [File(path=path.relative_to(root).as_posix(), lines=len(path.read_bytes().splitlines())) for path in paths]


def by_kind(found: Iterable[File]) -> list[Group]:
    """Files of one suffix together, the most lines first."""
    return _grouped((file.kind, file) for file in found)


def by_part(found: Iterable[File]) -> list[Group]:
    """Files of one folder at the top together, the most lines first."""
    return _grouped((file.part, file) for file in found)


def by_folder(found: Iterable[File]) -> list[Group]:
    """Files of one folder together, the most lines first."""
    return _grouped((file.folder, file) for file in found)


def _grouped(named: Iterable[tuple[str, File]]) -> list[Group]:
    groups: dict[str, list[File]] = {}
    for name, file in named:
        groups.setdefault(name, []).append(file)
    made = (Group(name=n, files=len(fs), lines=sum(file.lines for file in fs)) for n, fs in groups.items())
    return sorted(made, key=lambda group: (-group.lines, group.name))


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(_LOOKED_AT_BYTES)
