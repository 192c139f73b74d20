"""The end of a process that hangs, and of all that it has started: real processes, which hang in different ways."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Processes, processes_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("OPS-12")

PROGRAM = """
import asyncio, subprocess, sys, threading, time
from swarm.app import process
from swarm_base import log

DEAF = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {fork}; time.sleep(600)"
FORKS = "os.fork() == 0 and (os.setsid(), os.fork())"  # children and theirs, in a session of their own

def started(fork="0"):
    return subprocess.Popen([sys.executable, "-S", "-c", DEAF.format(fork=fork)], start_new_session=True)

async def main():
    log.configure()
    stop = process.stop_on_signals(cut_seconds=0.5)
    started(), started(FORKS)
    threads = [threading.Thread(target=time.sleep, args=(600,)) for _ in range(HANGING_THREADS)]
    for thread in threads: thread.start()
    print("ready", flush=True)
    BODY

LOOP
"""

LOOPS = {
    "asyncio": "asyncio.run(main())",
    "uvloop": "from asyncio import Runner\nwith Runner(loop_factory=process.fast_loop) as runner: runner.run(main())",
}
FOR_EVER = "await asyncio.Event().wait()"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes


def program(body: str, *, threads: int = 0, loop: str = "uvloop") -> str:
    text = PROGRAM.replace("HANGING_THREADS", str(threads)).replace("BODY", body)
    return text.replace("LOOP", LOOPS[loop])


async def nothing_is_left(processes: Processes) -> None:
    async def alive() -> list[int]:
        return processes.alive()

    await wait_until(alive, lambda pids: not pids, what="nothing is left")


HANGS = {
    "that nobody ends": (FOR_EVER, 0, "uvloop"),
    "with a loop of the library's": (FOR_EVER, 0, "asyncio"),
    "whose loop is stuck": ("while True: pass", 0, "uvloop"),
    "that waits for a thread": ("await stop.wait()", 1, "uvloop"),
    "that ends by itself, and waits for a thread": ("stop.begin(3)", 1, "uvloop"),
}


@pytest.mark.parametrize(("body", "threads", "loop"), HANGS.values(), ids=HANGS)
async def test_a_process_is_cut_off_with_all_that_it_has_started(
    processes: Processes, body: str, threads: int, loop: str
) -> None:
    hangs = processes.start("hangs", sys.executable, "-c", program(body, threads=threads, loop=loop), env={})
    await hangs.says("ready")
    is_signalled = "begin" not in body
    if is_signalled:
        hangs.send(signal.SIGTERM)
    assert await hangs.exit_code(20) == (128 + signal.SIGTERM if is_signalled else 3)
    await nothing_is_left(processes)
    assert "cut_off" in hangs.output
    if body == "while True: pass":
        assert "in main" in hangs.output, "the log says where it hung"


@pytest.mark.parametrize("body", [FOR_EVER, "while True: pass"], ids=["waits", "is stuck"])
async def test_a_second_signal_ends_it_at_once_with_all_that_it_has_started(processes: Processes, body: str) -> None:
    text = program(body).replace("cut_seconds=0.5", "cut_seconds=600")
    hangs = processes.start("hangs", sys.executable, "-c", text, env={})
    await hangs.says("ready")
    hangs.send(signal.SIGTERM)
    hangs.send(signal.SIGINT)  # of signals that wait, the lower number comes first
    assert await hangs.exit_code(20) in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    await nothing_is_left(processes)


async def test_a_process_that_ends_in_time_is_not_cut_off(processes: Processes) -> None:
    ends = processes.start("ends", sys.executable, "-c", program("await stop.wait()"), env={})
    await ends.says("ready")
    ends.send(signal.SIGINT)
    assert await ends.exit_code(20) == 0
    assert "cut_off" not in ends.output
