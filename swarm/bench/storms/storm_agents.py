"""The agents of a storm: each a process, killed at random and started again with its token."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from swarm.bench.figures import BenchError
from swarm.bench.parts.agent import Part

_LAST_CHARACTERS: Final = 1_000
_PAUSE_SECONDS: Final = (0.0, 1.0)
"""A killed agent is away for a time between these."""


class Crowd:
    """Processes that play a part each."""

    def __init__(self, parts: Sequence[Part], chance: random.Random, log: Path) -> None:
        self.kills = 0
        self._parts = parts
        self._chance = chance
        self._log = log
        self._running: dict[int, Process] = {}
        self._calm = asyncio.Event()

    async def start(self) -> None:
        """Starts all of them."""
        for number in range(len(self._parts)):
            await self._start(number)

    async def _start(self, number: int) -> None:
        with self._log.open("ab") as said:
            self._running[number] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "swarm.bench.parts.agent"),
                env={**os.environ, **self._parts[number].environment},
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    async def kill_now_and_then(self, every_seconds: float) -> None:
        """Kills a random agent (SIGKILL) at about this interval, and starts it again; until `calm`.

        Raises BenchError once an agent has ended by itself.
        """
        while not await self._calm_within(self._chance.uniform(0.5, 1.5) * every_seconds):
            number = self._chance.randrange(len(self._parts))
            self.check()
            await self._end(number)
            self.kills += 1
            await self._calm_within(self._chance.uniform(*_PAUSE_SECONDS))
            await self._start(number)

    def calm(self) -> None:
        """Ends the killing; agents that are away come back at once."""
        self._calm.set()

    async def _calm_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._calm.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def check(self) -> None:
        """Raises BenchError if an agent has ended by itself: this would be a different storm."""
        if ended := [process.returncode for process in self._running.values() if process.returncode is not None]:
            said = self._log.read_text(errors="replace")[-_LAST_CHARACTERS:].strip()
            raise BenchError(f"an agent ended by itself, with {ended[0]}; it said:\n{said}")

    async def stop(self) -> None:
        """Ends all of them."""
        for number in list(self._running):
            await self._end(number)

    async def _end(self, number: int) -> None:
        process = self._running.pop(number)
        with contextlib.suppress(ProcessLookupError):  # ended by itself
            process.kill()
        await process.wait()


@asynccontextmanager
async def crowd(parts: Sequence[Part], chance: random.Random) -> AsyncIterator[Crowd]:
    """Runs the agents, and ends them afterwards."""
    with tempfile.TemporaryDirectory(prefix="swarm-bench-") as folder:
        found = Crowd(parts, chance, Path(folder) / "agents.log")
        try:
            await found.start()
            yield found
        finally:
            await asyncio.shield(found.stop())
