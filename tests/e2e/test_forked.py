"""What tests fork behaves as what they could have started, and does not outlive them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from swarm_base.processes.supervisor import process
from tests.support.processes import SWARM, Processes, free_port
from tests.support.waiting import wait_until

PROBE = """
import atexit, json, os, signal, sys, threading
print(json.dumps({
    "is named": (__name__, sys.argv[1:], os.path.basename(sys.argv[0]), "probe" in sys.modules),
    "leads a session": os.getsid(0) == os.getpgrp() == os.getpid(),
    "files": {number: os.readlink(f"/proc/self/fd/{number}") for number in ("0", "2")},
    "open": os.listdir("/proc/self/fd"),
    "stdin": (sys.stdin.fileno(), sys.stdin.read()),
    "says at once": sys.stdout.write_through,
    "texts": (sys.flags.utf8_mode, sys.stdout.encoding, sys.stdout.errors),
    "environment": {name: value for name, value in os.environ.items() if name not in ("LC_CTYPE",)},
    "folder": (os.getcwd(), sys.path[0]),
    "signals": {number.name: str(signal.getsignal(number)) for number in sorted(signal.valid_signals()) if number < 32},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "threads": threading.active_count(),
}, indent=1))
atexit.register(print, "the last word")
threading.Timer(0.2, print, ["a thread's word"]).start()
sys.exit(7)
"""

TESTER = """
import sys, time
from pathlib import Path
from tests.support import forked
from tests.support.processes import processes_in
forked.LOADED = []
with processes_in(Path.cwd()) as processes:
    one = processes.fork("sleeper", "sleeper", env={})
    other = processes.start("sleeper", sys.executable, "-m", "sleeper", env={})
    print("sleeps:", one.pid, other.pid, flush=True)
    time.sleep(100)
"""


async def test_what_is_forked_finds_what_it_would_have_found_had_it_been_started(processes: Processes) -> None:
    (processes.folder / "probe.py").write_text(PROBE)
    started = processes.start("as", sys.executable, "-m", "probe", "x", env={"NAME": "value"})
    forked = processes.fork("as", "probe", "x", env={"NAME": "value"})
    assert (await started.exit_code(60), await forked.exit_code(60)) == (7, 7)
    expected = started.output.replace("00-as.log", "01-as.log")
    assert forked.output == expected
    assert expected.endswith("}\na thread's word\nthe last word\n")


async def test_a_command_that_is_forked_says_and_ends_as_one_that_is_started(processes: Processes) -> None:
    for words in (("slack", "manifest"), ("agents", "list"), ("agents", "lost")):
        env = {"PORT": str(free_port()), "SWARM_HOME": "home", "SWARM_OPERATOR_TOKEN": "operator-of-the-test"}
        assert await processes.command(*words, env=env) == await processes.run(SWARM, *words, env=env)


async def test_two_that_are_forked_roll_dice_of_their_own(processes: Processes) -> None:
    (processes.folder / "dice.py").write_text("import random, uuid_utils; print(random.random(), uuid_utils.uuid4())")
    both = [processes.fork("dice", "dice", env={}) for _ in range(2)]
    assert [await one.exit_code(60) for one in both] == [0, 0]
    first, second = (one.output.split() for one in both)
    assert len({*first, *second}) == 4


async def test_whatever_tests_have_started_ends_with_a_tester_that_is_killed(processes: Processes) -> None:
    (processes.folder / "sleeper.py").write_text("import time; time.sleep(100)")
    tester = processes.start("tester", sys.executable, "-c", TESTER, env={"PYTHONPATH": str(Path.cwd())})
    sleepers = (await tester.says(r"^sleeps: (\d+) (\d+)$")).groups()
    assert _there(sleepers) == [*sleepers]
    tester.kill()

    async def there() -> list[str]:
        return _there(sleepers)

    await wait_until(there, lambda pids: not pids, what="they have ended")


def test_a_signal_to_one_that_has_ended_unnoticed_is_lost(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (processes.folder / "sleeper.py").write_text("import time; time.sleep(100)")
    process = processes.fork("sleeper", "sleeper", env={})

    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", gone)
        process.send(signal.SIGTERM)
    process.kill()
    assert not process.alive


NEIGHBOUR = """
import itertools, sys
from tests.support import processes
processes._numbers = itertools.count(int(sys.argv[1]))
print(processes.free_port())
"""


async def test_two_runs_of_the_tests_are_never_given_the_same_port(processes: Processes) -> None:
    ours = free_port()
    worker = {name: os.environ[name] for name in ("PYTEST_XDIST_WORKER",) if name in os.environ}
    env = {"PYTHONPATH": str(Path.cwd()), **worker}
    ended = await processes.run(sys.executable, "-c", NEIGHBOUR, str(ours), env=env)
    assert (ended.code, int(ended.out)) == (0, ours + 1)


def _there(pids: Iterable[str]) -> list[str]:
    """Those that run. The dead may wait to be collected: other tests have made this process one that adopts orphans."""
    return [pid for pid in pids if (found := process(int(pid))) and not found.is_dead]
