"""Points at which a process is killed: the N-th time that it writes, brings to the disk, or sends, of its own accord.

`kill_shim.c` comes before the system's library in the process and counts. Test and process share some memory::

    point = KillPoint(folder / "control")
    stage.preload = built_shim(folder)
    stage.settings |= point.environment
    point.arm(Kill(kind=Kind.SYNC, number=17, moment=Moment.HALF))
    ...
    assert point.fired
"""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import struct
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

_SOURCE = Path(__file__).with_name("kill_shim.c")
_WORDS = struct.Struct("@5Q4Q")
_ARMED = struct.Struct("@Q")


class Kind(IntEnum):
    """What calls are counted; as in `kill_shim.c`."""

    WRITE = 1  # into a file
    SYNC = 2  # of a file with the disk
    SEND = 3  # into a socket


class Moment(IntEnum):
    """Where the process ends; as in `kill_shim.c`."""

    BEFORE = 0  # nothing of the call is done
    HALF = 1  # half of the bytes are written
    AFTER = 2  # the call is done, and its caller never learns it


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """The N-th call of a kind, and what becomes of the process."""

    kind: Kind
    number: int  # from 1
    moment: Moment
    signal: signal.Signals = signal.SIGKILL


class KillPoint:
    """What a test and the processes with the shim share."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_WORDS.size))
        path.chmod(0o666)  # a database may run as somebody else
        self._path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _WORDS.size)

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process of it."""
        return {"KILL_CONTROL": str(self._path)}

    @property
    def fired(self) -> int:
        """The process that has made the call, or 0."""
        return int(_WORDS.unpack(self._memory)[4])

    @property
    def counts(self) -> dict[Kind, int]:
        """The calls since it was armed or disarmed."""
        return {kind: int(_WORDS.unpack(self._memory)[5 + kind]) for kind in Kind}

    def arm(self, kill: Kill) -> None:
        """Count from now on."""
        self.disarm()
        self._memory[:] = _WORDS.pack(0, kill.number, kill.moment, kill.signal, 0, 0, 0, 0, 0)
        self._memory[: _ARMED.size] = _ARMED.pack(kill.kind)

    def disarm(self) -> None:
        """Count from now on, without an end."""
        self._memory[: _ARMED.size] = _ARMED.pack(0)
        self._memory[:] = bytes(_WORDS.size)


class NoCompiler(Exception):
    """There is no C compiler here: install Debian's gcc, or any other as `cc`."""


def built_shim(folder: Path) -> Path:
    """The library, compiled into a folder that others may read. Raises `NoCompiler`."""
    if shutil.which("cc") is None:
        raise NoCompiler(NoCompiler.__doc__)
    library = folder / "kill_shim.so"
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    os.chmod(folder, 0o755)
    return library
