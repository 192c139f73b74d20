"""The home folder of the demo, held by one demo at a time and as new as the twin's workspace, and its work tree.

The assistant's work tree is a small git repository that exists for as long as the demo runs. The demo's working
directory cannot be the work tree: the coordinator reads its settings there, and refuses such a tree.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_LOCK: Final = "demo.lock"
"""Held while a demo runs, even after a kill; its existence marks the database beside it as a demo's."""

DATABASE: Final = "swarm.db"
_NOTES: Final = "# Notes\n\nThe demo has made this repository, and removes it when it ends.\n"


class InUse(Exception):
    """Another demo runs in this home."""


@contextmanager
def held(home: Path, *, begins_anew: bool) -> Iterator[None]:
    """Holds the home for the block. Raises InUse, and OSError if the home cannot be made.

    ``begins_anew`` removes the database of an earlier demo: the twin keeps its workspace in memory, so its threads are
    gone, and answers into them would fail. A database without the demo's mark stays.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = home / _LOCK
    was_a_demos = lock.exists()
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUse(
                f"A demo runs in {home} already (process {file.read().strip() or 'unknown'}). Stop it with Ctrl-C, or "
                "start this one with another SWARM_HOME, PORT and TWIN_PORT."
            ) from error
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        if begins_anew and was_a_demos:
            for ending in ("", "-wal", "-shm", "-journal"):
                (home / f"{DATABASE}{ending}").unlink(missing_ok=True)
        yield


@contextmanager
def made(*apart_from: Path) -> Iterator[Path | None]:
    """Makes the repository; None if the folder for temporary files lies in one of these folders."""
    parent = Path(tempfile.gettempdir()).resolve()
    if any(parent.is_relative_to(folder.resolve()) for folder in apart_from):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="swarm-demo-", dir=parent, ignore_cleanup_errors=True) as name:
        (Path(name) / "notes.md").write_text(_NOTES, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        with suppress(OSError):  # git is not installed, which its tool reports when called
            subprocess.run(["git", "init", "--quiet", "--template=", name], env=environment, check=False)
        yield Path(name)
