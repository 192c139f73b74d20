"""``swarm demo`` as a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.processes import SWARM, Process, Processes, free_port

FOLDERS: Final = 45
LINES_EACH: Final = 10
DEMO_LINES: Final = FOLDERS * LINES_EACH
"""What there is for the demo's workers to count. It takes them so long that people can interrupt them."""


class Demo:
    """The demo on free ports, started when it is wanted, and again after a test has ended it."""

    def __init__(
        self, processes: Processes, settings: Mapping[str, str] | None = None, *, command: str = SWARM
    ) -> None:
        self.processes = processes
        self._command = command
        self._settings = dict(settings or {})
        self._ports = {"PORT": str(free_port()), "TWIN_PORT": str(free_port())}
        self._temporary = processes.folder.with_name(
            f"{processes.folder.name}-tmp"
        )  # what is killed leaves things there
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process, "the demo has not been started"
        return self._process

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self._ports['TWIN_PORT']}"

    async def open(self) -> None:
        """Start it unless it runs, and wait until it says where to look."""
        if self._process is None or not self._process.alive:
            self._write_code()
            self._temporary.mkdir(exist_ok=True)
            env = {"TMPDIR": str(self._temporary), **self._ports, **self._settings}
            self._process = self.processes.start("demo", self._command, "demo", env=env)
        await self._process.says(rf"^Open {self.url}$")

    def _write_code(self) -> None:
        for number in range(FOLDERS):
            folder = self.processes.folder / f"part{number:02}"
            folder.mkdir(exist_ok=True)
            (folder / "code.py").write_text("ingest = 1\n" * LINES_EACH)
        (self.processes.folder / "tools").mkdir(exist_ok=True)  # a package of the person's, named as one of ours
        (self.processes.folder / "tools" / "__init__.py").touch()

    def calculators(self) -> list[str]:
        """The process ids of its MCP servers; their environment is their own, so they are not among the others."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                is_ours = (process / "cwd").readlink() == self.processes.folder
                if is_ours and b"swarm_lab.demo.calculator" in (process / "cmdline").read_bytes():
                    found.append(process.name)
            except OSError:  # no process, or it has ended, or it is somebody else's
                continue
        return found

    def logs_of(self, part: str) -> str:
        """What a part of it has written to its log."""
        return (self.processes.folder / ".demo" / "logs" / f"{part}.log").read_text(errors="replace")
