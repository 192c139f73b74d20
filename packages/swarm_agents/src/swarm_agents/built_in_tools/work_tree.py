"""The work tree: the folder to which tools are confined, with safe access to its files, and the tools' answers.

A path is walked component by component from an open folder, without ever following a symbolic link: the target of a
link is walked in the same way, so links within the tree work and links that lead outside are refused. The resulting
file stays open (``O_PATH``), so that no other process can replace it between check and use.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from swarm_agents.toolbox.tool import CallTool, RefuseCall, ToolAnswer, failed
from swarm_base.characters import without_escapes
from swarm_base.processes.captured import Ran

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all except tab and line feed
_CREDENTIALS: Final = re.compile(r"(https?://)[^\s/@]+@")
_MOST_LINKS: Final = 40  # same as the operating system's limit
_FLAGS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class ToolRefused(Exception):
    """A tool's refusal of a call. The message gives the model the reason in a sentence."""


def answering(act: Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]) -> CallTool:
    """Converts a function's ToolRefused and OSError to failed answers with a sentence."""

    @functools.wraps(act)
    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await act(arguments)
        except (ToolRefused, OSError) as error:
            return _failure(error)

    return call


def checking(act: Callable[[Mapping[str, Any]], AsyncGenerator[ToolAnswer | None]]) -> tuple[CallTool, RefuseCall]:
    """Returns the call of a tool and its refusals. The function yields None after all its checks, before it does
    anything, and then its answer.
    """

    async def refuse(arguments: Mapping[str, Any]) -> ToolAnswer | None:
        try:
            async with aclosing(act(arguments)) as steps:
                return await anext(steps)
        except (ToolRefused, OSError) as error:
            return _failure(error)

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        async with aclosing(act(arguments)) as steps:
            return [answer async for answer in steps if answer][-1]

    return answering(call), refuse


def _failure(error: ToolRefused | OSError) -> ToolAnswer:
    return failed(f"It failed: {_reason(error)}." if isinstance(error, OSError) else str(error))


def program_answer(ran: Ran, what: str, timeout_seconds: float) -> ToolAnswer:
    """Returns a program's answer: the output, and the reason for a failure."""
    text = readable(ran.output)
    if ran.timed_out:
        ending = f"{what} was terminated because it took longer than {timeout_seconds:g} seconds."
    elif ran.code is None:
        ending = f"{what} was terminated from outside."
    elif ran.code < 0:
        ending = f"{what} was terminated by signal {-ran.code}."
    elif ran.code:
        ending = f"{what} failed with exit code {ran.code}."
    else:
        return ToolAnswer(text=text or f"{what} succeeded and printed nothing.")
    return failed(f"{text}\n{ending}" if text else ending)


def readable(text: str) -> str:
    """Returns a program's output without escape sequences, control characters and credentials in addresses."""
    lines = without_escapes(text).replace("\r\n", "\n").replace("\r", "\n")
    return _CREDENTIALS.sub(r"\1…@", _CONTROLS.sub("", lines)).strip("\n")


def plain(value: str, what: str) -> str:
    """Returns the value if a program or the file system can accept it.

    Raises:
        ToolRefused: The value contains a NUL character or an unpaired surrogate.
    """
    if "\0" in value or not _encodable(value):
        raise ToolRefused(f"{what} has a character that no program accepts (NUL, or an unpaired surrogate).")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{error.strerror or error}{where}"


class Outside(ToolRefused):
    """The refusal of a path that leads outside the work tree."""


class NoFolder(ToolRefused):
    """The refusal of a path with a missing folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPath:
    """The end of a walk. The file descriptors are open during the walk's context."""

    path: str  # relative to the root, without links and dots; "." for the root
    folder: int  # the containing folder; for the root, the root itself
    name: str  # the name in the folder; "." for the root
    found: int | None  # the file itself, opened with O_PATH; None if there is no such file

    @property
    def mode(self) -> int:
        """The type and permissions (``st_mode``); 0 if the file does not exist."""
        return 0 if self.found is None else os.fstat(self.found).st_mode

    @property
    def is_folder(self) -> bool:
        """Whether the path leads to a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def by_descriptor(self) -> str:
        """A path to the file that remains valid after a rename, for this process and its child processes."""
        return f"/proc/self/fd/{self.found}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkTree:
    """A folder and its content. ``root`` is a real path, so if part of it is later replaced by a link, this is
    detected.
    """

    root: Path

    @contextlib.contextmanager
    def place(self, path: str, *, create_folders: bool = False) -> Iterator[ResolvedPath]:
        """Walks to a path, given relative to the root.

        Args:
            create_folders: Creates missing folders on the path.

        Raises:
            Outside: The path leads outside the tree.
            ToolRefused: A part of the path is missing or is not a folder, or its links form a loop.
            OSError: The operating system refuses access.
        """
        if plain(path, "The path").startswith("/"):
            raise Outside(f"{path} is an absolute path. Give one that is relative to the work tree.")
        with contextlib.ExitStack() as opened:
            walk = _Walk(path, self._open_root(opened), create_folders, opened)
            yield walk.to_the_end()

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[ResolvedPath]:
        """Walks to a folder, which must exist.

        Raises:
            ToolRefused: As `place`, or the path is not a folder.
        """
        with self.place(path or ".") as place:
            if place.found is None:
                raise ToolRefused(f"There is no folder {path} in the work tree.")
            if not place.is_folder:
                raise ToolRefused(f"{path} is not a folder.")
            yield place

    def _open_root(self, opened: contextlib.ExitStack) -> int:
        try:
            root = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolRefused(f"The work tree {self.root} cannot be opened: {error.strerror}.") from error
        opened.callback(os.close, root)
        if os.readlink(f"/proc/self/fd/{root}") != os.path.abspath(self.root):
            raise ToolRefused(f"The work tree {self.root} now leads elsewhere; the operator has to check this.")
        return root


@dataclass(slots=True)
class _Walk:
    """One walk: the open folders from the root to here, and the remaining parts."""

    asked: str
    root: int
    create: bool
    opened: contextlib.ExitStack
    folders: list[tuple[str, int]] = field(default_factory=list)  # folders below the root
    links: int = 0

    def to_the_end(self) -> ResolvedPath:
        todo = deque(self.asked.split("/"))
        while todo:
            part = todo.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                self._up()
            elif (place := self._into(part, todo)) is not None:
                return place
        name, found = self.folders[-1] if self.folders else (".", self.root)
        above = self.folders[-2][1] if len(self.folders) > 1 else self.root
        return ResolvedPath(path=self._path(), folder=above, name=name, found=found)

    def _up(self) -> None:
        if not self.folders:
            raise Outside(f"{self.asked} leads outside the work tree.")
        self.folders.pop()

    def _into(self, part: str, todo: deque[str]) -> ResolvedPath | None:
        """Walks one step. Returns the place if the walk ends here."""
        found = self._open(part)
        mode = 0 if found is None else os.fstat(found).st_mode
        if found is not None and stat.S_ISLNK(mode):
            self._link(part, found, todo)
        elif found is not None and stat.S_ISDIR(mode):
            self.folders.append((part, found))
        elif any(name not in ("", ".") for name in todo):
            self._missing(part, todo, exists=found is not None)
        else:
            return ResolvedPath(path=self._path(part), folder=self._here(), name=part, found=found)
        return None

    def _link(self, part: str, found: int, todo: deque[str]) -> None:
        target = os.readlink("", dir_fd=found)
        self.links += 1
        if target.startswith("/"):
            raise Outside(f"{self._path(part)} is a symbolic link that leads outside the work tree.")
        if self.links > _MOST_LINKS:
            raise ToolRefused(f"{self.asked} has too many symbolic links, or they form a loop.")
        todo.extendleft(reversed(target.split("/")))

    def _missing(self, part: str, todo: deque[str], *, exists: bool) -> None:
        """Handles a path component that is missing or not a folder and has more components below it: creates the folder
        or refuses.
        """
        if exists:
            raise ToolRefused(f"{self._path(part)} is not a folder.")
        if not self.create:
            raise NoFolder(f"There is no folder {self._path(part)} in the work tree.")
        self._check_name(part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=self._here())
        todo.appendleft(part)  # walked again, because another process may have created it

    def _check_name(self, part: str) -> None:
        if part.casefold() == ".git" or is_git_data(self._path()):
            raise ToolRefused("Nothing may be written to .git; use the git tool.")

    def _open(self, part: str) -> int | None:
        try:
            found = os.open(part, _FLAGS, dir_fd=self._here())
        except FileNotFoundError:
            return None
        self.opened.callback(os.close, found)
        return found

    def _here(self) -> int:
        return self.folders[-1][1] if self.folders else self.root

    def _path(self, *more: str) -> str:
        return "/".join([*(name for name, _ in self.folders), *more]) or "."


def is_git_data(path: str) -> bool:
    """Returns whether the path of a `ResolvedPath` is a repository's own data rather than its content."""
    return any(part.casefold() == ".git" for part in path.split("/"))
