"""The folders of the demo: its home, which only one demo can use at a time, and its assistant's work tree."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

LOCK: Final = "demo.lock"
"""The lock file, locked while a demo runs and released even if the demo is killed. Its existence marks the database in
the same folder as a demo's."""

DATABASE: Final = "swarm.db"
CODER_HOME: Final = "coder"


class InUse(Exception):
    """Another demo is running in this home."""


class Unusable(Exception):
    """The home cannot be created, or is not writable."""


@contextmanager
def held(home: Path, *, begins_anew: bool) -> Iterator[None]:
    """Locks the home for the duration of the block. Raises InUse or Unusable.

    ``begins_anew`` removes the database of an earlier demo, and the coder's work. The twin keeps its workspace in
    memory, so earlier threads no longer exist, and answers in them would fail. A database without the demo's lock file
    is kept.
    """
    lock = home / LOCK
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        was_a_demos = lock.exists()
        opened = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unusable(
            f"The folder {home} of the demo cannot be used: {error.strerror}. Choose another one with SWARM_HOME."
        ) from error
    with os.fdopen(opened, "r+") as file:
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
            shutil.rmtree(home / CODER_HOME, ignore_errors=True)
        yield


_NOTES: Final = "# Notes\n\nThe demo has made this repository, and removes it when it ends.\n"


@contextmanager
def work_tree(*apart_from: Path) -> Iterator[Path | None]:
    """Creates a small git repository for the duration of the block. Yields None if the folder for temporary files is
    inside one of these folders.

    The demo's working directory cannot be the work tree, since the coordinator reads its settings there and refuses
    such a work tree.
    """
    parent = Path(tempfile.gettempdir()).resolve()
    if any(parent.is_relative_to(folder.resolve()) for folder in apart_from):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="swarm-demo-", dir=parent, ignore_cleanup_errors=True) as name:
        (Path(name) / "notes.md").write_text(_NOTES, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        with suppress(OSError):  # git is not installed; its tool reports this when called
            subprocess.run(["git", "init", "--quiet", "--template=", name], env=environment, check=False)
        yield Path(name)
