"""What every process needs: a listening socket, an event loop, an orderly shutdown, and a forced end if shutdown hangs.

An orderly shutdown may wait for something that never answers: a database in the middle of a statement, a library's
thread, a disk. An independent thread therefore ends the process and all its descendants once time is up.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import structlog

from swarm.clock import new_id, offset
from swarm.config import HttpSettings
from swarm.domain.errors import ConfigurationError
from swarm.store.bridge.engine import SqliteUrl, parse_url
from swarm_base.processes.supervisor import kill_descendants

SPARE_FILES: Final = 500
"""The number of open files reserved for purposes other than client connections."""

T = TypeVar("T")

CUT_SECONDS: Final = 9.0
"""Seconds from the stop request to the forced end; process supervisors usually wait for ten."""

_log = structlog.get_logger(__name__)


@contextmanager
def listening(http: HttpSettings) -> Iterator[socket.socket]:
    """Yields the listening socket, which is bound first, so that a port in use is reported in one line."""
    host, port = http.host, http.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    ) as listener:  # the protocol is named so that asyncio sets NODELAY
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"http.port (PORT) is {port}: {host}:{port} cannot be used ({error.strerror}). "
                "Stop the program that uses the port, or choose another port."
            ) from error
        yield listener


@contextmanager
def sole_use(url: str) -> Iterator[None]:
    """Keeps other coordinators away from a SQLite database during the block. PostgreSQL may have several.

    The lock is beside the database's file, and belongs to this process alone: it ends with it, however that ends, and
    child processes do not keep it. Raises ConfigurationError, naming the process that uses the database.
    """
    where = parse_url(url)
    if not isinstance(where, SqliteUrl):
        yield
        return
    path = where.path.expanduser().resolve()
    try:
        file = path.with_name(f"{path.name}-lock").open("a+")
    except OSError as error:
        raise ConfigurationError(f"The folder of the database {path} cannot be used: {error.strerror}.") from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise ConfigurationError(
                f"Another coordinator (process {file.read().strip() or 'unknown'}) uses the database {path}.",
                hint="Stop it, or give this one a home of its own (SWARM_HOME). Several coordinators need PostgreSQL.",
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def follow_test_clock(path: Path) -> None:
    """Lets a test set this process's clock. Raises ConfigurationError if the file does not contain a number."""
    try:
        offset.follow(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"test_clock (SWARM_TEST_CLOCK) is {path}, which does not contain a number of seconds: {error}."
        ) from error
    _log.warning("The clock is set by a test.", action="test_clock", ahead_seconds=offset.seconds())


def possible_connections(wanted: int) -> int:
    """Returns how many of the ``wanted`` connections can be open at once, after raising the system's limit.

    Files, pipes and our own connections use part of the system's limit.
    """
    try:
        import resource
    except ImportError:  # not on every platform
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        granted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):  # a system may allow less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < needed:
        possible = max(soft - SPARE_FILES, soft // 2)
        _log.warning(
            "The system allows fewer connections than http.most_connections; raise its limit of open files.",
            action="limit_connections", wanted=wanted, possible=possible,
        )  # fmt: skip
        return possible
    return wanted


class StopSignal(asyncio.Event):
    """An event that is set when the process has to stop. The process then ends within ``cut_seconds``, even if a part
    hangs."""

    def __init__(self, cut_seconds: float) -> None:
        super().__init__()
        self._last_resort = _ForcedExit(cut_seconds)

    def begin(self, code: int = 1) -> None:
        """Starts the time limit for the shutdown. ``code`` is the exit code if the process is ended by force."""
        self._last_resort.begin(code)

    def set(self) -> None:
        self.begin()
        super().set()


def stop_on_signals(*, cut_seconds: float = CUT_SECONDS) -> StopSignal:
    """Returns an event that the first SIGINT or SIGTERM sets. The second signal ends the process and its children at
    once.

    The process ends at the latest ``cut_seconds`` after the first signal; see `swarm.app.lifecycle`. The handlers do
    not belong to the event loop, so they work while the loop is stuck and after it is closed.
    """
    stop, loop = StopSignal(cut_seconds), asyncio.get_running_loop()
    has_heard = False

    def heard(number: int, _frame: FrameType | None) -> None:
        nonlocal has_heard
        if has_heard or stop.is_set():
            end_at_once(128 + number)
        has_heard = True
        stop.begin(128 + number)
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)
    return stop


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T | None:
    """Returns the result of the work. If ``stop`` is set first, cancels the work and returns None."""
    doing, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        stopped.cancel()
        await end(doing)


async def end(task: asyncio.Task[Any]) -> None:
    """Cancels a task and waits for its end. The task's error no longer matters, or is reported elsewhere."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def told_by_hangup(stop: asyncio.Event) -> asyncio.Event:
    """Returns an event that each SIGHUP sets to request a reload of the settings. If our terminal is gone, SIGHUP sets
    ``stop`` instead."""
    heard = asyncio.Event()
    if not hasattr(signal, "SIGHUP"):  # not on every platform
        return heard
    was_told_to_stay = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # set by nohup
    began_at_terminal = _has_terminal() and not was_told_to_stay

    def hung_up() -> None:
        (stop if began_at_terminal and not _has_terminal() else heard).set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)
    return heard


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def who_we_are(port: int) -> str:
    """Returns a unique name for this process that an operator can recognise."""
    return f"{socket.gethostname()}:{port} {new_id()}"


def address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


def fast_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def settle_memory() -> None:
    """Exempts existing objects from garbage collection. These objects live as long as the process, and scanning them
    slows the start and stalls the event loop. Almost none of them are garbage, so they are not collected first."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    sys.setswitchinterval(0.001)  # the threads of the database wait for the interpreter between two statements


STOP_SECONDS: Final = 7.5
"""The time limit for the complete orderly shutdown; `_ForcedExit` follows some time later."""

INSIST_SECONDS: Final = 0.5
"""The time that cancelled work has to kill its child processes."""

_TELL_SECONDS: Final = 0.2  # for the log line, which may itself hang

Close = Callable[[], Awaitable[object]]


class StopDeadline:
    """The common deadline of all shutdown steps. The time starts at the first use."""

    def __init__(self, seconds: float = STOP_SECONDS) -> None:
        self._seconds = seconds
        self._ends_at: float | None = None

    def left(self, *, reserve_seconds: float = 0.0) -> float:
        """Returns the remaining seconds, without the reserve for later steps."""
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        return max(0.0, self._ends_at - now - reserve_seconds)


class ShutdownStack:
    """Named functions to call at the end."""

    def __init__(self, deadline: StopDeadline) -> None:
        self._deadline = deadline
        self._closings: dict[str, Close] = {}

    def add(self, name: str, close: Close) -> None:
        """Adds a function to call at the end. Raises ValueError for a name that is already used, which is a bug."""
        if name in self._closings:
            raise ValueError(name)
        self._closings[name] = close

    async def aclose(self) -> None:
        """Calls all functions; see `close_all`."""
        await close_all(self._closings, within_seconds=self._deadline.left())


async def close_all(closings: Mapping[str, Close], *, within_seconds: float) -> None:
    """Calls all functions concurrently. Slow functions are cancelled and logged; errors are logged.

    Raises only CancelledError, in which case all calls are cancelled.
    """
    tasks = [asyncio.create_task(_closed(name, close), name=name) for name, close in closings.items()]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, timeout=within_seconds)
        if late := [task.get_name() for task in tasks if not task.done()]:
            _log.warning("A part does not end in time and is cut off.", action="stop_late", late=late)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=INSIST_SECONDS)


async def _closed(name: str, close: Close) -> None:
    try:
        await close()
    except Exception:  # noqa: BLE001 - the other functions are still called
        _log.exception("A part could not be closed.", action="stop_failed", what=name)


class _ForcedExit:
    """A timer that ends the process ``seconds`` after `begin`, whatever the process does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._reader, self._writer = os.pipe()  # not a lock: a signal handler may run at any point
        threading.Thread(target=self._wait, name="last resort", daemon=True).start()

    def begin(self, code: int) -> None:
        """Starts the time limit; only the first call counts. ``code`` is the exit code of a forced end."""
        os.write(self._writer, bytes([code]))

    def _wait(self) -> None:
        (code,) = os.read(self._reader, 1)
        time.sleep(self._seconds)
        telling = threading.Thread(target=self._tell, args=(_stack_of_main_thread(),), daemon=True)
        telling.start()
        telling.join(_TELL_SECONDS)
        end_at_once(code)

    def _tell(self, stack: str) -> None:
        _log.error(
            "The process does not end, and is ended by force.", action="cut_off", seconds=self._seconds, where=stack
        )


def end_at_once(code: int) -> None:
    """Kills all descendants of this process, then ends the process."""
    sys.setswitchinterval(0.000_1)  # a busy main thread would slow down each step of the search
    kill_descendants()
    os._exit(code)


def _stack_of_main_thread() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""
