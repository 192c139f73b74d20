"""Hostile programs, and every way in which they come to their end: no process is left of them.

Who is left is asked of the system: this process adopts what loses all others (a subreaper, as coordinators are), so
whoever is below it belongs to the coordinator of a test, whatever it has done to hide.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarm_base.processes import supervisor
from swarm_base.processes.supervisor import Process, become_subreaper, descendants, processes, send
from tests.support.quick import quick
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("SEC-07")

HOSTILE = Path(__file__).with_name("hostile.py")
MANNERS = tuple(re.findall(r'case "(.+)":', HOSTILE.read_text()))
SECONDS = 10.0  # a supervisor's grace is a fraction of a second here
START_SECONDS = 60.0  # dozens of programs are started at once

COORDINATOR = """
import asyncio, pathlib, signal, sys
from swarm.app.process import end_at_once
from swarm_base.processes import child

child.SUPERVISOR_SECONDS = 1.0  # for one that is stopped by what it runs

async def main(hostile, folder, *manners):
    loop, pipe, over = asyncio.get_running_loop(), child.subprocess.PIPE, asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    signal.signal(signal.SIGUSR1, lambda *_: end_at_once(1))
    loop.add_reader(0, over.set)
    children = [
        await child.Child.start(
            [sys.executable, "-I", "-S", hostile, manner, folder], env={}, stdin=pipe, stdout=pipe, grace_seconds=0.2
        )
        for manner in manners
    ]
    try:
        await over.wait()
        loop.remove_reader(0)
    finally:
        for one in children:
            one.stdin.close()
        await asyncio.gather(*(one.end() for one in children))
    (pathlib.Path(folder) / "nothing is left").touch()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""

OF_EVERY_KIND = """
import asyncio, os, pathlib, sys
from swarm.config.mcp_servers import McpServer, Program
from swarm_agents.mcp.servers import McpServers
from swarm_agents.system_prompts.files import Template
from swarm_agents.system_prompts.limits import RenderLimits
from swarm_agents.system_prompts.renderer import Renderer
from swarm_lab.programs import Programs
from swarm_base.processes.captured import run_program

async def main(server, folder):
    place = pathlib.Path(folder)
    program = Program(command=sys.executable, args=("-I", "-S", server, folder, "deaf", "child", "daemon"))
    servers = McpServers([McpServer(name="plain", reached=program, allowed=("echo",))])
    await servers.start()
    assert servers.status()[0].is_up, servers.status()
    renderer = Renderer(RenderLimits(seconds=60.0))
    assert await renderer.render(Template(name="quick", text="{{ user }}"), {"user": "Ada"}) == "Ada"
    parts = Programs(place / "logs")
    await parts.start("part", ["packages.swarm_base.tests.hostile", "forks twice", folder], {})
    script = "trap '' TERM HUP; (trap '' TERM HUP; exec setsid sleep 1000) & : > $PLACE/tool.$$; wait; sleep 1000"
    env = {**os.environ, "PLACE": folder}
    await run_program(["sh", "-c", script], cwd=folder, env=env, timeout_seconds=600, most_bytes=9)

asyncio.run(main(*sys.argv[1:]))
"""
SERVER = Path(__file__).parents[2] / "swarm_agents" / "tests" / "agents" / "mcp" / "programs" / "plain_server.py"


class Coordinator:
    """A process that has started one program of each manner."""

    def __init__(
        self, folder: Path, manners: tuple[str, ...], program: Path = HOSTILE, code: str = COORDINATOR
    ) -> None:
        become_subreaper()
        self._others = {one.pid for one in processes() if one.parent == os.getpid()}
        self._folder = folder
        self._manners = manners
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(program), str(folder), *manners],
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            stdin=subprocess.PIPE,
        )

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: object) -> None:
        """What is left is killed, and collected."""
        self.close()
        self.process.kill()
        self.process.wait()
        while found := self._ours():
            send(signal.SIGKILL, [one for one in found if not one.is_dead])
            for one in found:
                if one.parent == os.getpid():
                    os.waitpid(one.pid, 0)

    def close(self) -> None:
        """Tell it to end its programs, and to stay."""
        assert self.process.stdin
        self.process.stdin.close()

    def survivors(self) -> list[str]:
        """The commands of all that are below the coordinator, or adopted from it; supervisors included."""
        return [_command(one.pid) for one in self._ours() if one.pid != self.process.pid and not one.is_dead]

    def _ours(self) -> list[Process]:
        adopted = [one for one in processes() if one.parent == os.getpid() and one.pid not in self._others]
        return adopted + descendants({one.pid for one in adopted})

    async def until_all_are_there(self) -> None:
        """Each has become what it is: 31 of the storm, two of most others."""

        def are_there(names: list[str]) -> bool:
            return {*names} == {*self._manners} and names.count("forks for ever") > 31

        async def look() -> int:
            return len(self.survivors())

        await wait_until(self._names, are_there, within_seconds=START_SECONDS, what="all are there")
        await wait_until(look, lambda count: count > 40, what="all are seen")  # those of the storm replace each other

    async def until_it_says_so(self) -> None:
        await wait_until(self._names, lambda names: "nothing is left" in names, within_seconds=SECONDS)

    async def until_nobody_is_left(self) -> None:
        async def look() -> list[str]:
            return self.survivors()

        await wait_until(look, lambda left: not left, within_seconds=SECONDS, what="nobody is left")

    async def _names(self) -> list[str]:
        return [path.name.partition(".")[0] for path in self._folder.iterdir()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return "ended meanwhile"


@pytest.mark.parametrize("how", quick(["killed", "they end by themselves", "they are ended", "stopped", "cut off"]))
async def test_no_process_is_left(tmp_path: Path, how: str) -> None:
    by_themselves = how == "they end by themselves"
    # Of one whose supervisor is stopped nobody can hear the end; its time limit ends it.
    manners = tuple(manner for manner in MANNERS if not (by_themselves and manner == "stops its supervisor"))
    with Coordinator(tmp_path, manners) as coordinator:
        await coordinator.until_all_are_there()
        match how:
            case "they end by themselves":
                (tmp_path / "over").touch()
            case "they are ended":
                coordinator.close()
                await coordinator.until_it_says_so()
                assert coordinator.survivors() == []
                assert coordinator.process.pid not in {one.parent for one in processes()}  # the dead are collected
            case "stopped":
                coordinator.process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(coordinator.process.wait, SECONDS)
                assert coordinator.survivors() == []
            case "cut off":
                coordinator.process.send_signal(signal.SIGUSR1)
                assert await asyncio.to_thread(coordinator.process.wait, SECONDS) == 1
            case _:
                coordinator.process.kill()
                coordinator.process.wait()
        await coordinator.until_nobody_is_left()


async def test_no_child_of_any_kind_outlives_a_coordinator_that_is_killed(tmp_path: Path) -> None:
    """A tool, an MCP server, the templates' process and a part of the demo, each with what it has started."""
    (tmp_path / "tools.json").write_text('["echo"]')
    with Coordinator(tmp_path, (), SERVER, OF_EVERY_KIND) as coordinator:
        alive = {"sleep 1000": 1, "plain_server.py": 1, "system_prompts.render_process": 1, "hostile": 2}

        async def look() -> list[str]:
            return coordinator.survivors() if list(tmp_path.glob("tool.*")) else []

        def are_there(commands: list[str]) -> bool:
            return all(sum(kind in command for command in commands) >= count for kind, count in alive.items())

        await wait_until(look, are_there, within_seconds=60.0, what="one of each kind is there")
        coordinator.process.kill()
        coordinator.process.wait()
        await coordinator.until_nobody_is_left()


_PRIVATE = r"""
import os, runpy, sys
module = runpy.run_path(sys.argv[1])
if sys.argv[2] == "private":
    module["become_private"]()
pid = os.getpid()
if os.fork() == 0:
    read = f"try: print(open('/proc/{pid}/environ').read())\nexcept PermissionError: print('refused')"
    os.execv(sys.executable, [sys.executable, "-c", read])
os.wait()
"""


@pytest.mark.req("SEC-08")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
@pytest.mark.parametrize(("how", "is_read"), [("private", False), ("plain", True)])
def test_what_a_private_process_knows_is_not_read_by_programs_of_its_user(
    tmp_path: Path, how: str, *, is_read: bool
) -> None:
    module = tmp_path / "supervisor.py"
    module.write_text(Path(str(supervisor.__file__)).read_text())
    is_root = os.getuid() == 0
    python = "/usr/bin/python3" if is_root else sys.executable  # root may read everything
    if not Path(python).exists():
        pytest.skip("NOT TESTED HERE: no Python that another user can run")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    ran = subprocess.run(
        [python, "-c", _PRIVATE, str(module), how],
        env={"KEY": "secret-of-the-runner"},
        user=65534 if is_root else None,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("secret-of-the-runner" in ran.stdout, "refused" in ran.stdout) == (is_read, not is_read), ran.stderr
