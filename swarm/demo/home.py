"""The home folder of the demo: held by one demo at a time, and as new as the twin's workspace."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK: Final = "demo.lock"
"""Held while a demo runs, even after a kill; its existence marks the database beside it as a demo's."""

DATABASE: Final = "swarm.db"


class InUse(Exception):
    """Another demo runs in this home."""


@contextmanager
def held(home: Path, *, begins_anew: bool) -> Iterator[None]:
    """Holds the home for the block. Raises InUse, and OSError if the home cannot be made.

    ``begins_anew`` removes the database of an earlier demo: the twin keeps its workspace in memory, so its threads are
    gone, and answers into them would fail. A database without the demo's mark stays.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = home / LOCK
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
