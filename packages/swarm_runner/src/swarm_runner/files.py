"""Files in folders that a guest can change: through no link, and without waiting for a pipe."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def opened_folder(opened: ExitStack, root: Path, names: Iterable[str], *, make: bool = False) -> int:
    """Opens a folder below ``root``. Raises NotADirectoryError for a link on the way."""
    at = os.open(root, _FOLDER)
    opened.callback(os.close, at)
    for name in names:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
        at = os.open(name, _FOLDER, dir_fd=at)
        opened.callback(os.close, at)
    return at


def opened_file(opened: ExitStack, folder: int, name: str) -> IO[bytes] | None:
    """Opens a regular file; None for anything else. Raises OSError."""
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return None
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    return opened.enter_context(os.fdopen(file, "rb"))


def beginning_of(file: Path, folder: Path, most_bytes: int) -> bytes | None:
    """Returns the beginning of a regular file in a folder, which a link may name; None for anything else."""
    with suppress(OSError, ValueError), ExitStack() as opened:  # missing, or outside
        root = Path(os.path.realpath(folder))
        *folders, name = Path(os.path.realpath(file)).relative_to(root).parts
        if found := opened_file(opened, opened_folder(opened, root, folders), name):
            return found.read(most_bytes)
    return None
