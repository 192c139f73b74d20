"""A program that does not want to end: ``hostile.py MANNER FOLDER``. It leaves a file in the folder for each process.

It ends by itself when there is a file ``over``; what it has started goes on.
"""

import os
import signal
import sys
import time
from pathlib import Path

MANNER, FOLDER = sys.argv[1], Path(sys.argv[2])


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def here() -> None:
    (FOLDER / f"{MANNER}.{os.getpid()}").touch()


def daemon() -> bool:
    """Whether this is the process that has left its parents and its session."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    deaf()
    return True


def stay() -> None:
    here()
    while True:
        time.sleep(600)


def storm(depth: int) -> None:
    """Processes that start others all the time, and sessions: 31 at once, one after the other for ever."""
    deaf()
    for _ in range(2 if depth else 0):
        if not os.fork():
            os.setsid()
            storm(depth - 1)
    here()
    while True:
        time.sleep(0.2)
        if not depth and os.fork():
            os._exit(0)


def wait() -> None:
    here()
    while not (FOLDER / "over").exists():
        time.sleep(0.01)


def be(manner: str) -> None:
    supervisor = os.getppid()
    match manner:
        case "starts a session":
            if not os.fork():
                os.setsid()
                stay()
        case "forks twice":
            if daemon():
                stay()
        case "ignores SIGTERM and the end of its input":
            deaf()
        case "empties its environment":
            if daemon():
                os.execve(sys.executable, [sys.executable, "-I", "-S", *sys.argv, "stay"], {})
        case "closes its files":
            if daemon():
                here()
                os.closerange(0, 4096)
                while True:
                    time.sleep(600)
        case "is stopped":
            if daemon():
                here()
                os.kill(os.getpid(), signal.SIGSTOP)
        case "forks for ever":
            if not os.fork():
                storm(4)
        case "kills its supervisor":
            if daemon():
                here()
                os.kill(supervisor, signal.SIGKILL)
                stay()
        case "kills its supervisor when it is to end":
            signal.signal(signal.SIGTERM, lambda *_: os.kill(supervisor, signal.SIGKILL))
            if daemon():
                stay()
        case "stops its supervisor":
            if daemon():
                os.kill(supervisor, signal.SIGSTOP)
                stay()


if len(sys.argv) > 3:
    deaf()
    stay()
be(MANNER)
wait()
