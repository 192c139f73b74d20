"""Running programs for tools: what they print, how long they may, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from swarm_base.processes import supervisor
from swarm_base.processes.captured import Ran, clean_environment, run_program
from swarm_base.processes.child import Child
from tests.support.idle_time import time_passes
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("TOOL-02")

_LONG = 1000.0


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Neither alive nor dead: all were collected."""
    before = _children()
    yield
    assert _children() <= before


def _children() -> set[int]:
    """Our children, those among them that nobody has collected too. Other tests of this process may have some."""
    return {
        pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _state_and_parent(pid)[1] == os.getpid()
    }


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(parent)


class Running:
    """Programs that say their process ids in files, wherever they go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**clean_environment(os.environ), "PIDS": str(folder)}
        self.started: list[Child] = []

    def pids(self) -> list[int]:
        """The processes that said that they are there."""
        return [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]

    def alive(self) -> list[int]:
        """Those of them that still are."""
        return [pid for pid in self.pids() if Path(f"/proc/{pid}").exists()]

    def is_supervisor_stopped(self) -> bool:
        """Whether the one program that is there has stopped its parent."""
        return [_state_and_parent(_state_and_parent(pid)[1])[0] for pid in self.pids()] == ["T"]

    async def gone(self) -> None:
        """Wait until none is alive. Somebody else has become their parent, who may collect them late or never."""

        async def look() -> list[str]:
            states = [_state_and_parent(pid)[0] for pid in self.alive()]
            return [state for state in states if state not in "ZX"]

        await wait_until(look, lambda found: not found, what="they are gone")

    async def ran_too_long(self, script: str, there: Callable[[], object], **more: object) -> Ran:
        """Run a script whose time is up once something is ``there``, however long the machine takes for that.

        The start has ended by then, unless the script has stopped its supervisor.
        """
        running = asyncio.create_task(self.ran(script, timeout_seconds=_LONG, **more))

        async def look() -> object:
            return there() and (self.started or self.is_supervisor_stopped())

        await wait_until(look, what="the program is where it should be")
        time_passes(_LONG)
        return await running

    async def ran(self, script: str, *, timeout_seconds: float = 60, **more: object) -> Ran:
        """Run a script of the shell, in which ``here`` says that a process is there."""
        return await run_program(
            ["sh", "-c", f"here() {{ : > $PIDS/$$; }}; {script}"],
            **{"cwd": self.folder, "env": self.env, "timeout_seconds": timeout_seconds, "most_bytes": 10_000, **more},  # type: ignore[arg-type]
        )


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Programs in a folder of their own."""
    programs, start = Running(tmp_path), Child.start

    async def noted(*args: Any, **options: Any) -> Child:
        child = await start(*args, **options)
        programs.started.append(child)
        return child

    monkeypatch.setattr(Child, "start", noted)
    return programs


async def test_a_program_runs_where_and_with_what_it_is_told(running: Running) -> None:
    ran = await running.ran("pwd; cat; echo oops >&2; exit 3", stdin=b"task")
    assert ran == Ran(code=3, output=f"{running.folder}\ntaskoops\n")


async def test_errors_may_be_kept_apart(running: Running) -> None:
    ran = await running.ran("echo out; echo err >&2", errors_apart=True)
    assert (ran.output, ran.errors) == ("out\n", "err\n")


async def test_a_program_that_is_given_nothing_to_read_does_not_wait(running: Running) -> None:
    assert await running.ran("cat") == Ran(code=0, output="")


async def test_a_large_task_is_read_by_a_program_that_prints_meanwhile(running: Running) -> None:
    ran = await running.ran("cat", stdin=b"x" * 5_000_000, most_bytes=6_000_000)
    assert len(ran.output) == 5_000_000


async def test_a_signal_is_told_from_an_exit_code(running: Running) -> None:
    assert (await running.ran("kill -SEGV $$")).code == -signal.SIGSEGV


async def test_what_is_not_utf_8_does_no_harm(running: Running) -> None:
    assert (await running.ran(r"printf 'a\377b'")).output == "a�b"


async def test_a_program_sees_nothing_of_the_coordinators_environment(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("PASSED", "on")
    env = clean_environment(os.environ, passed=["PASSED", "ABSENT"])
    assert (
        not set(env)
        - {"HOME", "LANG", "LOGNAME", "PATH", "PASSED", "SHELL", "TMPDIR", "TZ", "USER"}
        - {name for name in env if name.startswith("LC_")}
    )
    ran = await running.ran("env", env=env)
    assert "xoxb" not in ran.output
    assert "PASSED=on" in ran.output


async def test_the_supervisor_is_not_reached_by_what_it_runs(running: Running) -> None:
    """No descriptor but the three, so that a program can neither stop its end nor forge its result."""
    assert (await running.ran("ls /proc/self/fd")).output.split() == ["0", "1", "2", "3"]  # 3: the folder that ls reads


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["no-such-program"], FileNotFoundError),
        (["/etc/passwd"], PermissionError),
        (["/"], PermissionError),
        (["echo", "x" * 200_000], OSError),
    ],
)
async def test_a_program_that_cannot_be_started_is_an_error(
    running: Running, argv: list[str], error: type[OSError]
) -> None:
    with pytest.raises(error):
        await run_program(argv, cwd=running.folder, env=running.env, timeout_seconds=5, most_bytes=100)


async def test_a_text_file_without_an_interpreter_is_no_program(running: Running) -> None:
    script = running.folder / "script"
    script.write_text("echo hi\n")
    script.chmod(0o755)
    with pytest.raises(OSError, match="Exec format"):
        await run_program([str(script)], cwd=running.folder, env=running.env, timeout_seconds=5, most_bytes=100)


async def test_a_folder_that_is_not_there_is_an_error(running: Running) -> None:
    with pytest.raises(FileNotFoundError):
        await running.ran("true", cwd=running.folder / "absent")


async def test_of_too_much_output_the_beginning_and_the_end_are_kept(running: Running) -> None:
    ran = await running.ran("seq 1 100000", most_bytes=100)
    assert ran.cut
    assert ran.output.startswith("1\n2\n3\n")
    assert ran.output.endswith("99999\n100000\n")
    assert "bytes left out" in ran.output
    assert len(ran.output) < 200


async def test_output_of_just_the_limit_is_whole(running: Running) -> None:
    ran = await running.ran("printf 1234567890", most_bytes=10)
    assert ran == Ran(code=0, output="1234567890")


async def test_a_billion_bytes_cost_us_neither_memory_nor_time(running: Running) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    ran = await running.ran("head -c 1000000000 /dev/zero; echo; grep VmHWM /proc/$PPID/status", most_bytes=10_000)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert ran.code == 0
    assert len(ran.output) < 10_100
    assert "9999900" in ran.output
    assert "bytes left out" in ran.output
    assert after.ru_maxrss - before.ru_maxrss < 20_000  # KiB
    assert int(ran.output.split()[-2]) < 50_000  # KiB, of the supervisor
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


async def test_a_program_that_takes_too_long_is_ended_and_what_it_said_is_kept(running: Running) -> None:
    ran = await running.ran_too_long("echo begun; here; sleep 1000", running.pids)
    assert ran == Ran(code=None, output="begun\n", timed_out=True)
    assert not running.alive()


async def test_a_program_may_clean_up_before_it_is_killed(running: Running) -> None:
    script = "trap 'rm lock; exit 0' TERM; touch lock; while :; do sleep 0.01; done"
    lock = running.folder / "lock"
    ran = await running.ran_too_long(script, lock.exists, grace_seconds=60)
    assert ran.timed_out
    assert not lock.exists()


_DEAF_PYTHON = (
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "open(os.environ['PIDS'] + f'/{os.getpid()}', 'w').close(); time.sleep(1000)"
)
_ESCAPES = {
    "is deaf to SIGTERM": f'exec {sys.executable} -c "{_DEAF_PYTHON}"',
    "starts a session": "here; setsid sh -c ': > $PIDS/$$; sleep 1000' & wait",
    "forks twice": "(sh -c ': > $PIDS/$$; sleep 1000' &) ; here; sleep 1000",
    "forgets its environment": 'P=$PIDS; env -i setsid sh -c ": > $P/\\$\\$; sleep 1000" & here; wait',
    "is a deaf daemon": (
        "P=$PIDS; (env -i setsid sh -c \"trap '' TERM HUP; : > $P/\\$\\$; while :; do sleep 1000; done\" &) ; "
        "here; sleep 1000"
    ),
    "is stopped": "here; kill -STOP $$; sleep 1000",
    "forks for ever": (
        "here; trap '' TERM; f() { : > $PIDS/$(sh -c 'echo $PPID'); sleep 0.05; f & }; f & wait; sleep 1000"
    ),
}
_COUNT = {
    _ESCAPES["starts a session"]: 2,
    _ESCAPES["forks twice"]: 2,
    _ESCAPES["forgets its environment"]: 2,
    _ESCAPES["is a deaf daemon"]: 2,
    _ESCAPES["forks for ever"]: 4,
}
"""So many processes say that they are there, if not one."""


@pytest.mark.parametrize("script", _ESCAPES.values(), ids=_ESCAPES.keys())
async def test_nothing_outlives_a_timeout(running: Running, script: str) -> None:
    ran = await running.ran_too_long(script, lambda: len(running.pids()) >= _COUNT.get(script, 1), grace_seconds=0.2)
    assert ran.timed_out
    assert not running.alive()


@pytest.mark.parametrize("script", _ESCAPES.values(), ids=_ESCAPES.keys())
async def test_nothing_outlives_a_cancellation(running: Running, script: str) -> None:
    task = asyncio.create_task(running.ran(script, grace_seconds=0.2))

    async def said() -> bool:
        return len(running.pids()) >= _COUNT.get(script, 1)

    await wait_until(said, what="the program is there")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # once more, while it is being ended
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running.alive()


async def test_a_cancellation_before_it_began_leaves_nothing(running: Running) -> None:
    for turns in range(6):
        task = asyncio.create_task(running.ran("here; sleep 1000", grace_seconds=0.2))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not running.alive()


async def test_a_program_does_not_begin_if_it_is_cancelled_while_its_supervisor_is_told_what_to_start(
    running: Running,
) -> None:
    """What it is told is longer than a socket takes at once."""
    env = {**running.env, **{f"LONG_{number}": "x" * 100_000 for number in range(12)}}
    starting = asyncio.create_task(Child.start(["sh", "-c", ": > $PIDS/$$; sleep 1000"], env=env, grace_seconds=0.2))
    for _ in range(4):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not running.pids()


async def test_what_a_program_leaves_behind_is_ended_with_it(running: Running) -> None:
    ran = await running.ran("env -i setsid sleep 1000 & echo $! ; echo done")
    pid, done = ran.output.split()
    assert (ran.code, done) == (0, "done")
    assert not Path(f"/proc/{pid}").exists()


async def test_a_child_that_holds_the_output_open_is_not_waited_for(running: Running) -> None:
    ran = await running.ran("sleep 1000 & echo done")
    assert ran == Ran(code=0, output="done\n")


async def test_what_has_killed_its_supervisor_is_ended_too(running: Running) -> None:
    ran = await running.ran(
        "here; setsid sh -c ': > $PIDS/$$; sleep 1000' & until [ $(ls $PIDS | wc -l) = 2 ]; do sleep 0.01; done; "
        "kill -9 $PPID; sleep 1000"
    )
    assert ran.code is None
    assert len(running.pids()) == 2

    await running.gone()


async def test_a_supervisor_that_is_stopped_does_not_hold_us_up(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_base.processes.child.SUPERVISOR_SECONDS", 0.1)

    ran = await running.ran_too_long(
        "here; kill -STOP $PPID; sleep 1000", running.is_supervisor_stopped, grace_seconds=0.1
    )
    assert ran.timed_out

    await running.gone()


async def test_a_supervisor_that_is_stopped_before_it_has_said_that_it_started_does_not_hold_us_up(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_base.processes.child.SUPERVISOR_SECONDS", 0.1)
    quick = Path(supervisor.__file__).read_text()
    slow = quick.replace('self._tell(b"started', 'time.sleep(0.5); self._tell(b"started')
    assert slow != quick
    (running.folder / "slow.py").write_text(slow)
    monkeypatch.setattr(supervisor, "__file__", str(running.folder / "slow.py"))

    ran = await running.ran_too_long(
        "here; kill -STOP $PPID; sleep 1000", running.is_supervisor_stopped, grace_seconds=0.1
    )
    assert ran == Ran(code=None, output="", timed_out=True)

    await running.gone()


async def test_nothing_outlives_the_coordinator(running: Running) -> None:
    """A power cut for us alone: the supervisor sees its socket closed."""
    of_others = _children()  # a server that other tests share, say
    code = (
        "import asyncio, os\nfrom swarm_base.processes.captured import run_program\n"
        "script = 'trap \"\" TERM; : > $PIDS/$$; setsid sleep 1000 & echo $! > $PIDS/$!; wait; sleep 1000'\n"
        "asyncio.run(run_program(['sh', '-c', script], cwd='.', env=os.environ, timeout_seconds=60, most_bytes=9,"
        " grace_seconds=0.1))"
    )
    env = {**running.env, "PYTHONPATH": str(Path.cwd())}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=env)

    async def said() -> int:
        return len(running.pids())

    await wait_until(said, lambda count: count == 2, what="both are there")
    process.kill()
    await process.wait()

    await running.gone()
    for pid in _children() - of_others:
        os.waitpid(pid, 0)  # the supervisor, which has become our child


async def test_many_run_at_once(running: Running) -> None:
    every = await asyncio.gather(*(running.ran(f"echo {number}") for number in range(12)))
    assert [ran.output for ran in every] == [f"{number}\n" for number in range(12)]


async def test_no_descriptor_is_left_open(running: Running) -> None:
    await running.ran("true")
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    await running.ran("echo", stdin=b"x", errors_apart=True)
    await running.ran_too_long("here; sleep 1000", running.pids)
    with pytest.raises(FileNotFoundError):
        await running.ran("true", cwd="/absent")
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("connected", [0, 1, 2])
async def test_a_start_that_is_cancelled_leaves_no_pipe_open(
    running: Running, monkeypatch: pytest.MonkeyPatch, connected: int
) -> None:
    """Cancelled while the next of the three pipes is connected."""
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    loop = asyncio.get_running_loop()
    kinds: list[str] = []

    def cancels(kind: str, connect: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def connecting(*args: Any) -> Awaitable[Any]:
            if len(kinds) == connected:
                starting.cancel()
            kinds.append(kind)
            return connect(*args)

        return connecting

    for kind in ("connect_read_pipe", "connect_write_pipe"):
        monkeypatch.setattr(loop, kind, cancels(kind, getattr(loop, kind)))
    argv = ["sh", "-c", ": > $PIDS/$$; sleep 1000"]
    starting = asyncio.create_task(
        Child.start(argv, env=running.env, stdin=PIPE, stdout=PIPE, stderr=PIPE, grace_seconds=0.1)
    )
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.sleep(0)  # a transport closes its pipe in the next round of the loop
    assert len(kinds) > connected
    assert len(os.listdir("/proc/self/fd")) <= before
    await running.gone()
