"""The folder of documents: its files and their contents.

Nothing outside the folder is read. Links to files inside it are followed, because Kubernetes mounts a ConfigMap this
way; links to folders are not followed. Names that begin with a dot are ignored. All functions block and should be
called on a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

SUFFIXES: Final = (".md", ".markdown", ".txt", ".rst", ".html", ".htm")
"""The suffixes of documents; other files are ignored."""

_BYTE_ORDER_MARKS: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class Unreadable(Exception):
    """Raised for a file that is not a document; the message contains the reason."""


class FileState(NamedTuple):
    """File attributes that reveal a change without reading the file."""

    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970, according to the file system


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """The location of the documents, and the limits for them."""

    path: Path
    suffixes: Collection[str] = SUFFIXES
    most_bytes: int = 2_000_000  # maximum size of one file
    most_documents: int = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """The files found in a folder."""

    files: dict[str, FileState]  # by path relative to the folder, with slashes
    unknown: tuple[str, ...]  # folders that could not be read, each with a trailing slash
    left_out: int  # documents beyond the limit


def look(folder: Folder) -> Inventory:
    """Lists the documents in a folder, without reading them. Raises OSError if the folder cannot be read at all."""
    root = os.path.realpath(folder.path)
    os.scandir(root).close()  # os.walk would ignore an error and find nothing
    unknown: list[str] = []
    found = sorted(_files(root, folder.suffixes, lambda error: unknown.append(_below(root, error.filename) + "/")))
    chosen = found[: folder.most_documents]
    return Inventory(files=dict(chosen), unknown=tuple(unknown), left_out=len(found) - len(chosen))


def read(folder: Folder, path: str) -> tuple[bytes, FileState]:
    """Reads the bytes of a document, and its state before the read. Raises `Unreadable` with the reason, and
    OSError.
    """
    root = os.path.realpath(folder.path)
    # Opened without blocking, because the file may have become a pipe since it was listed.
    opened = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(opened, "rb") as file:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file")
        if not _is_inside(root, os.readlink(f"/proc/self/fd/{opened}")):  # the real location after resolving all links
            raise Unreadable("it lies outside the folder")
        content = b"" if status.st_size > folder.most_bytes else file.read(folder.most_bytes + 1)
    if max(len(content), status.st_size) > folder.most_bytes:
        raise Unreadable(f"it is larger than {folder.most_bytes:,} bytes")
    return content, FileState(status.st_size, status.st_mtime_ns)


def decode(content: bytes) -> str:
    """Decodes a document, with newlines as line ends. Raises `Unreadable` for content that is not text."""
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
    """Returns the state of a regular file inside the folder; None for anything else."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not _is_inside(root, os.path.realpath(path)):
                return None
            status = os.stat(path)
    except OSError:  # missing, or a broken link
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileState(status.st_size, status.st_mtime_ns)


def _is_usable(name: str) -> bool:
    """Whether a name is visible and contains no characters that are invalid in an id."""
    return not name.startswith(".") and name.isprintable()


def _is_inside(root: str, path: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def _below(root: str, path: str) -> str:
    return os.path.relpath(path, root)
