"""``file-read`` and ``file-write``: read and write text files in the work tree, in full or by line range."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from swarm.clock import new_id
from swarm_agents.built_in_tools.work_tree import (
    NoFolder,
    ResolvedPath,
    ToolRefused,
    WorkTree,
    answering,
    checking,
    is_git_data,
    plain,
)
from swarm_agents.toolbox.tool import Tool, ToolAnswer, object_schema
from swarm_base.processes.child import to_the_end

_MOST_BYTES: Final = 256 * 1024
"""The limit for one read and for one write."""

_LARGEST_BYTES: Final = 64 * 1024 * 1024
"""Larger files are neither read nor appended to, because their lines must be counted from the beginning."""

_MOST_ENTRIES: Final = 500
_CHUNK_BYTES: Final = 1 << 16

_PATH: Final = {
    "type": "string",
    "minLength": 1,
    "description": "Path relative to the work tree, for example docs/a.md",
}

_READ_PARAMETERS: Final = object_schema(
    {
        "path": _PATH,
        "offset": {
            "type": "integer",
            "minimum": 1,
            "default": 1,
            "description": "The first line to read, counted from 1",
        },
        "limit": {"type": "integer", "minimum": 1, "description": "How many lines; without it, as many as fit"},
    },
    required=("path",),
)

_WRITE_PARAMETERS: Final = object_schema(
    {
        "path": _PATH,
        "content": {"type": "string", "description": "The complete new text, or the text to append"},
        "append": {"type": "boolean", "default": False, "description": "Add to the end instead of replacing"},
    },
    required=("path", "content"),
)


def file_tools(root: Path, *, most_bytes: int = _MOST_BYTES) -> tuple[Tool, Tool]:
    """Returns ``file-read`` and ``file-write``, confined to ``root``.

    A path may contain symbolic links that stay within the tree. Only regular files with UTF-8 text are read. Only
    regular files are written, either completely or not at all. Git's own files (``.git``) are neither read nor written.
    ``most_bytes`` limits one read and one write. For a folder, ``file-read`` returns a listing.
    """
    files = _Files(tree=WorkTree(root=root), most_bytes=most_bytes)
    read = Tool(
        name="file-read",
        description=(
            "Read a text file of the work tree, or list one of its folders. Long files come in parts: "
            "the answer gives the line at which to continue."
        ),
        parameters=_READ_PARAMETERS,
        call=answering(files.read),
        is_read_only=True,
    )
    call, refuse = checking(files.write)
    write = Tool(
        name="file-write",
        description=(
            "Write a text file of the work tree: create it, with any missing folders, replace it, or append to it."
        ),
        parameters=_WRITE_PARAMETERS,
        call=call,
        refuse=refuse,
    )
    return read, write


@dataclass(frozen=True, kw_only=True, slots=True)
class _Files:
    tree: WorkTree
    most_bytes: int

    async def read(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        path, first, limit = arguments["path"], int(arguments.get("offset") or 1), arguments.get("limit")
        return ToolAnswer(text=await to_the_end(asyncio.to_thread(self._read, path, first, limit)))

    async def write(self, arguments: Mapping[str, Any]) -> AsyncGenerator[ToolAnswer | None]:
        path, content = arguments["path"], plain(arguments["content"], "The content").encode()
        if len(content) > self.most_bytes:
            raise ToolRefused(f"That is {len(content):,} bytes; at most {self.most_bytes:,} can be written at once.")
        self._check_writable(path)
        yield None
        append = bool(arguments.get("append"))
        yield ToolAnswer(text=await to_the_end(asyncio.to_thread(self._write, path, content, append)))

    def _check_writable(self, path: str) -> None:
        """Refuses what `_write` would refuse, and makes no folders."""
        if is_git_data(os.path.normpath(path)):
            raise ToolRefused(f"{path} belongs to git and is neither read nor written; use the git tool.")
        with contextlib.suppress(NoFolder), self.tree.place(path) as place:
            _check_not_git(place)
            if place.found is not None:
                _check_plain(place, path)

    def _read(self, path: str, first: int, limit: int | None) -> str:
        with self.tree.place(path) as place:
            _check_not_git(place)
            if place.is_folder:
                return _listing(place)
            with open(_opened(place, path), "rb") as file:
                return _lines_of(file, place.path, first=first, limit=limit, most_bytes=self.most_bytes)

    def _write(self, path: str, content: bytes, append: bool) -> str:
        with self.tree.place(path, create_folders=True) as place:
            _check_not_git(place)
            old = b""
            if place.found is not None:
                _check_plain(place, path)
                old = _content(place, path) if append else b""
            _replace(place, old + content)
            done = "Appended" if append and place.found is not None else "Wrote"
            return f"{done} {len(content):,} bytes to {place.path}."


def _check_not_git(place: ResolvedPath) -> None:
    if is_git_data(place.path):
        raise ToolRefused(f"{place.path} belongs to git and is neither read nor written; use the git tool.")


def _check_plain(place: ResolvedPath, path: str) -> None:
    """Refuses files that are not plain files: opening a device or a pipe may block forever or have side effects."""
    if place.found is None:
        raise ToolRefused(f"There is no file {path} in the work tree.")
    if place.is_folder:
        raise ToolRefused(f"{path} is a folder.")
    if not stat.S_ISREG(place.mode):
        raise ToolRefused(f"{path} is not a plain file but a device, a pipe or a socket.")


def _opened(place: ResolvedPath, path: str) -> int:
    """Opens for reading exactly the file that was checked."""
    _check_plain(place, path)
    file = os.open(place.by_descriptor, os.O_RDONLY | os.O_CLOEXEC)
    if (size := os.fstat(file).st_size) > _LARGEST_BYTES:
        os.close(file)
        raise ToolRefused(f"{path} has {size:,} bytes; files of more than {_LARGEST_BYTES:,} are not opened.")
    return file


def _content(place: ResolvedPath, path: str) -> bytes:
    with open(_opened(place, path), "rb") as file:
        return file.read(_LARGEST_BYTES)


def _listing(place: ResolvedPath) -> str:
    with os.scandir(place.by_descriptor) as entries:
        names = sorted(entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in entries)
    shown = [name.encode(errors="replace").decode() for name in names[:_MOST_ENTRIES]]
    more = [f"... and {len(names) - _MOST_ENTRIES:,} more"] if len(names) > _MOST_ENTRIES else []
    return "\n".join([f"{place.path} is a folder with {len(names):,} entries.", *shown, *more])


def _replace(place: ResolvedPath, content: bytes) -> None:
    """Replaces a file completely or not at all. Hard links elsewhere keep the old content."""
    new = f".swarm-{new_id()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(new, flags, 0o666, dir_fd=place.folder), "wb") as file:
            _like_before(file.fileno(), place)
            file.write(content)
        os.rename(new, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=place.folder)
        raise


def _like_before(file: int, place: ResolvedPath) -> None:
    """Copies the permissions and owner of the replaced file as far as permitted, without set-user-id bits."""
    if place.found is not None:
        before = os.fstat(place.found)
        with contextlib.suppress(PermissionError):
            os.fchown(file, before.st_uid, before.st_gid)
        os.fchmod(file, before.st_mode & 0o777)


def _lines_of(file: BinaryIO, path: str, *, first: int, limit: int | None, most_bytes: int) -> str:
    """Returns lines ``first`` to ``first + limit - 1``, at most ``most_bytes``, and the line at which to continue.

    A line longer than the limit is returned in part. Memory is bounded by ``most_bytes``.

    Raises:
        ToolRefused: The file is not text (it contains a NUL byte, or is not UTF-8), or has fewer lines.
    """
    part = _Part(first=first, last=None if limit is None else first + limit - 1, most_bytes=most_bytes)
    while chunk := file.read(_CHUNK_BYTES):
        if b"\0" in chunk:
            raise ToolRefused(f"{path} is a binary file, not text.")
        part.add(chunk)
    if first > 1 and part.line < first:
        raise ToolRefused(f"{path} has {part.line:,} lines; there is no line {first:,}.")
    return part.text(path)


@dataclass(slots=True)
class _Part:
    """The requested lines, collected while the file is read."""

    first: int
    last: int | None
    most_bytes: int
    line: int = 0  # the line number of the last byte read
    wanted: bytearray = field(default_factory=bytearray)
    full: bool = False  # a requested byte did not fit
    begins: bool = True  # the next byte starts a line

    def add(self, chunk: bytes) -> None:
        for piece in _lines(chunk):
            self.line += self.begins
            self.begins = piece.endswith(b"\n")
            if self.line >= self.first and (self.last is None or self.line <= self.last):
                room = self.most_bytes - len(self.wanted)
                self.wanted += piece[:room]
                self.full = self.full or len(piece) > room

    def text(self, path: str) -> str:
        """Returns the lines, followed by a note in brackets about the remaining lines."""
        if not self.line:
            return f"{path} is empty."
        try:
            text = self._whole_characters().decode()
        except UnicodeDecodeError:
            raise ToolRefused(f"{path} is a binary file, or its text is not UTF-8.") from None
        after = self.first + text.count("\n") if self.full else (self.last or self.line) + 1
        if self.full and "\n" not in text:
            return f"{text}\n[line {self.first:,} continues; it is too long to be read completely]"
        if self.full:
            text = text[: text.rindex("\n") + 1]
        return (
            text if after > self.line else f"{text}[{path} continues; read from offset={after}, of {self.line} lines]"
        )

    def _whole_characters(self) -> bytes:
        """Returns the bytes without a character that the limit cut in two."""
        if not self.full:
            return bytes(self.wanted)
        end = len(self.wanted)
        while end and len(self.wanted) - end < 4 and self.wanted[end - 1] & 0xC0 == 0x80:
            end -= 1
        lead = self.wanted[end - 1] if end else 0
        return bytes(self.wanted[: end - 1] if lead >= 0xC0 else self.wanted)


def _lines(chunk: bytes) -> list[bytes]:
    """Splits after line feeds only."""
    *whole, rest = chunk.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])
