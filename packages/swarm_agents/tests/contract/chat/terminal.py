"""A terminal for tests: `swarm chat` as a process of its own on a pseudo-terminal, and one who types and looks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from tests.support.forked import Forked

WITHIN_SECONDS = 100.0
ENTER, NEW_LINE, CTRL_C, CTRL_D, ALT_ENTER = "\r", "\n", "\x03", "\x04", "\x1b\r"

_SEQUENCES = re.compile(r"\x1b\[[0-9;?>]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>78()][B0]?|\r")


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a newcomer's shell would have, and nothing of the tester's."""
    usual = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    return {**usual, "SWARM_HOME": str(home / "home"), **more}


def pasted(text: str) -> str:
    """As terminals hand over what is pasted."""
    return f"\x1b[200~{text}\x1b[201~"


class Terminal:
    """What is on the other side of a pseudo-terminal."""

    def __init__(self, process: Forked, master: int) -> None:
        self._process = process
        self._master = master
        self._seen = b""
        self._mark = 0
        self._closed = False  # and all that it wrote has been read
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def seen(self) -> str:
        """What was written since `forget`, without colours and movements."""
        return _SEQUENCES.sub("", self._seen[self._mark :].decode(errors="replace"))

    def forget(self) -> None:
        """Look only at what comes from now on."""
        self._mark = len(self._seen)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def asks(self) -> None:
        """Wait until a line is read."""
        await self.says("❯ ")

    async def says(self, pattern: str, within_seconds: float = WITHIN_SECONDS) -> str:
        """Wait until what was written has this in it; all of that. Fails if the process ends without it."""
        try:
            async with asyncio.timeout(within_seconds):
                while not re.search(pattern, self.seen):
                    assert not self._closed, f"it ended:\n{self.seen}"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in:\n{self.seen}") from None
        return self.seen

    async def exit_code(self) -> int:
        return await asyncio.to_thread(self._process.wait, WITHIN_SECONDS)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the process has closed it
            data = b""
        if not data:
            self._closed = True
            asyncio.get_running_loop().remove_reader(self._master)
        self._seen += data
        self._changed.set()


@contextlib.asynccontextmanager
async def terminal(*arguments: str, env: Mapping[str, str], cwd: Path) -> AsyncIterator[Terminal]:
    """``python -m swarm`` with these arguments, on a terminal of its own; ended with all that it started."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    process = Forked("swarm", arguments, env, cwd, terminal=os.ttyname(slave))
    os.close(slave)
    opened = Terminal(process, master)
    try:
        yield opened
    finally:
        asyncio.get_running_loop().remove_reader(master)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)
