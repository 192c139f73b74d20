"""The folder that documents come from: which files it has, and what one of them says.

Nothing outside the folder is read. Links to files inside it are followed, as Kubernetes mounts a ConfigMap; links to
folders are not. Names that begin with a dot are not looked at. All of this blocks; call it on a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swarm.domain.documents.documents import FileState

SUFFIXES: Final = (".md", ".markdown", ".txt", ".rst", ".html", ".htm")
"""What documents are called; other files are not looked at."""

_BYTE_ORDER_MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class Unreadable(Exception):
    """A file that is no document; the message says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """Where documents are, and which files are documents."""

    path: Path
    suffixes: Collection[str] = SUFFIXES
    most_bytes: int = 2_000_000  # of one file
    most_documents: int = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """What was found in a folder."""

    files: dict[str, FileState]  # by path below the folder, with slashes
    unknown: tuple[str, ...]  # folders that could not be read, each with a slash at its end
    left_out: int  # documents beyond the limit


def look(folder: Folder) -> Inventory:
    """The documents in a folder, without reading them. Raises OSError if it cannot be read at all."""
    root = os.path.realpath(folder.path)
    os.scandir(root).close()  # os.walk would keep an error to itself, and find nothing
    unknown: list[str] = []
    found = sorted(_files(root, folder.suffixes, lambda error: unknown.append(_below(root, error.filename) + "/")))
    chosen = found[: folder.most_documents]
    return Inventory(files=dict(chosen), unknown=tuple(unknown), left_out=len(found) - len(chosen))


def read(folder: Folder, path: str) -> tuple[bytes, FileState]:
    """The bytes of a document and its state before they were read. Raises `Unreadable` with the reason, and OSError."""
    root = os.path.realpath(folder.path)
    # Not blocking: it may have become a pipe since it was found.
    opened = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(opened, "rb") as file:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file")
        if not _is_inside(root, os.readlink(f"/proc/self/fd/{opened}")):  # where it is, whatever links led there
            raise Unreadable("it lies outside the folder")
        content = b"" if status.st_size > folder.most_bytes else file.read(folder.most_bytes + 1)
    if max(len(content), status.st_size) > folder.most_bytes:
        raise Unreadable(f"it is larger than {folder.most_bytes:,} bytes")
    return content, FileState(size=status.st_size, modified_ns=status.st_mtime_ns)


def decode(content: bytes) -> str:
    """The text of a document, its lines ended by a newline. Raises `Unreadable` if it is not text."""
    encoding = _BYTE_ORDER_MARKS.get(content[:2], "utf-8-sig")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable("it is neither UTF-8 nor UTF-16 text") from error
    if "\0" in text:
        raise Unreadable("it is binary")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _files(
    root: str, suffixes: Collection[str], on_error: Callable[[OSError], object]
) -> Iterator[tuple[str, FileState]]:
    for place, folders, names in os.walk(root, onerror=on_error):
        folders[:] = [name for name in folders if _is_usable(name)]
        for name in names:
            if _is_usable(name) and os.path.splitext(name)[1].lower() in suffixes:
                whole = os.path.join(place, name)
                if state := _state(root, whole):
                    yield _below(root, whole), state


def _state(root: str, path: str) -> FileState | None:
    """The state of a regular file inside the folder; None for anything else."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not _is_inside(root, os.path.realpath(path)):
                return None
            status = os.stat(path)
    except OSError:  # it went away, or leads nowhere
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileState(size=status.st_size, modified_ns=status.st_mtime_ns)


def _is_usable(name: str) -> bool:
    """Neither hidden nor with characters that an id cannot have."""
    return not name.startswith(".") and name.isprintable()


def _is_inside(root: str, path: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _below(root: str, path: str) -> str:
    return os.path.relpath(path, root)
