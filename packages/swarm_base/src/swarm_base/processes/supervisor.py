"""Supervises one program and all its descendants. The supervisor is a separate process that runs this file as a script.

`swarm_base.processes.child` starts this file without importing its package (``python -I -S supervisor.py CONTROL``),
for a fast start. The supervisor receives on the control socket the size of a specification (8 bytes), the specification
(`marshal`), and then requests of one byte: ``t`` ends everything with a grace period, ``k`` kills everything. The end
of the socket counts as ``k``: the owner is dead, and nothing could end a process that escaped during a grace period.

The supervisor answers in lines: ``started <pid>`` or ``error <errno>``; ``ended <exit code, negative for a signal>``,
as soon as the program ends; and finally, when no process is left, ``left <processes that could not be ended> <bytes of
output> <bytes of errors> <cut>`` with the captured output. If the last line is missing, the supervisor was killed.

The program inherits the standard streams. The supervisor reads captured streams and drops output beyond a limit, so it
costs the owner neither memory nor time. The supervisor does not copy the other streams.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` adds enums, a third of the time of a start
import ctypes
import marshal
import os
import select
import sys
import time

KILL_SECONDS = 5.0
"""The time limit for killing. A process that waits for a dead disk or network mount cannot be ended at all."""

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_READ_BYTES = 1 << 18
_LOOK_SECONDS = 0.02  # seconds between two rounds of killing
_IGNORED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT}


class Process:
    """A process, with data from ``/proc``. ``started`` is in clock ticks since the machine was booted."""

    def __init__(self, pid: int, stat: bytes) -> None:
        fields = stat.rpartition(b")")[2].split()
        self.pid = pid
        self.is_dead = fields[0] in (b"Z", b"X")
        self.parent, self.group, self.session = map(int, fields[1:4])
        self.started = int(fields[19])


def processes() -> list[Process]:
    """Returns all processes, including zombies. Returns none without ``/proc``."""
    names = filter(str.isdecimal, os.listdir("/proc")) if os.path.isdir("/proc") else ()
    return [found for name in names if (found := process(int(name)))]


def process(pid: int) -> Process | None:
    """Returns one process, or None if it no longer exists."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Process(pid, file.read())
    except OSError:
        return None


def descendants(of: set[int]) -> list[Process]:
    """Returns all living descendants of these processes, nearest first."""
    children: dict[int, list[Process]] = {}
    for one in processes():
        children.setdefault(one.parent, []).append(one)
    found = [child for parent in of for child in children.get(parent, ())]
    for one in found:  # the list grows during the loop
        found += children.get(one.pid, ())
    return [one for one in found if not one.is_dead]


def send(number: int, found: list[Process]) -> None:
    """Signals descendants of this process.

    A process group is signalled in one step, so none of its processes can fork in between. Sessions other than ours
    contain only descendants, since a process cannot join an existing session.
    """
    own = os.getsid(0)
    targets = {-one.group if one.group > 1 and one.session != own else one.pid for one in found}
    for target in targets:
        try:
            os.kill(target, number)
            os.kill(target, signal.SIGCONT)  # a stopped process reacts only to SIGKILL
        except (ProcessLookupError, PermissionError):
            pass  # already ended, or runs as another user, which only the system's administrator can handle


def kill_descendants(seconds: float = 0.5) -> None:
    """Kills all descendants of this process until none is left or time is up. Does nothing without ``/proc``.

    A process that loses its parent meanwhile becomes a child of this process, and is found in the next round.
    """
    become_subreaper()
    until = time.monotonic() + seconds
    while found := descendants({os.getpid()}):
        send(signal.SIGKILL, found)  # at least once: the search itself may take longer on a busy machine
        if time.monotonic() >= until:
            break
        time.sleep(0.001)


def become_subreaper() -> None:
    """Makes this process adopt all orphans among its descendants from now on."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def become_private() -> None:
    """Keeps other processes of this user from reading this one's memory and environment. Programs that it starts are
    as readable as usual."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, value: int) -> None:
    if _LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl({option})")


class _CapturedOutput:
    """The beginning and the end of a program's output. The bytes in between are counted and dropped."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head_bytes = most_bytes - self._half
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: memoryview) -> None:
        """Adds output, keeping only the first and the last bytes."""
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._half or len(data) :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    def whole(self) -> tuple[bytes, bool]:
        """Returns the captured output, with a line in place of missing bytes, and whether bytes are missing."""
        tail = bytes(self._tail[len(self._tail) - min(self._half, len(self._tail)) :])
        missing = self._total - len(self._head) - len(tail)
        if not missing:
            return bytes(self._head) + tail, False
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % missing + tail, True


class _Supervisor:
    """One program and all its descendants. ``captured`` is 0 for nothing, 1 for output and errors together, 2 for both
    separately."""

    def __init__(self, control: int, *, grace_seconds: float, captured: int, most_bytes: int) -> None:
        self._control = control
        self._grace_seconds = grace_seconds
        self._program = 0
        self._has_ended = False
        self._is_asked = False  # whether a graceful end was requested
        self._kills = False
        self._poll = select.poll()
        self._wakeup = _children_wake()
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(control, select.POLLIN)
        self._kept = [_CapturedOutput(most_bytes) for _ in range(captured)]
        self._readers: dict[int, _CapturedOutput] = {}
        self._buffer = bytearray(_READ_BYTES)

    def run(self, argv: list[bytes], env: dict[bytes, bytes]) -> None:
        """Runs the program until it ends or a request to end it arrives, then ends all its descendants."""
        if error := self._start(argv, env):
            self._tell(b"error %d\n" % error)
        else:
            self._tell(b"started %d\n" % self._program)
        while not (self._has_ended or self._is_asked or self._kills):
            self._turn(None)
        left = self._end_all()
        for reader in list(self._readers):
            self._drain(reader)
        (out, out_cut), (err, err_cut) = (*(kept.whole() for kept in self._kept), (b"", False), (b"", False))[:2]
        self._tell(b"left %d %d %d %d\n" % (left, len(out), len(err), out_cut or err_cut) + out + err)

    def _start(self, argv: list[bytes], env: dict[bytes, bytes]) -> int:
        """Starts the program. Returns an error number, or 0 on success."""
        ends = [os.pipe() for _ in self._kept]
        for (reader, _), kept in zip(ends, self._kept, strict=True):
            os.set_blocking(reader, False)
            self._readers[reader] = kept
            self._poll.register(reader, select.POLLIN)
        outputs = [(ends[0][1], 1), (ends[-1][1], 2)] if ends else []
        failure, report = os.pipe()
        self._program = os.fork()
        if not self._program:
            _execute(argv, env, outputs, report)
        for end in (report, *(writer for _, writer in ends)):
            os.close(end)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # only for the program, so that the other ends notice when the program closes them
            os.dup2(nothing, stream)
        return int(os.read(failure, 16) or 0)

    def _tell(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._control, view) :]
        except OSError:
            pass  # the owner is dead

    def _turn(self, wait_seconds: float | None) -> None:
        """Waits up to ``wait_seconds`` for events and handles them."""
        for found, _ in self._poll.poll(None if wait_seconds is None else wait_seconds * 1000):
            if found in self._readers:
                self._read(found)
            elif found == self._wakeup:
                os.read(found, 4096)
            else:
                self._obey()
        self._reap()

    def _obey(self) -> None:
        try:
            asked = os.read(self._control, 64)
        except OSError:
            asked = b""
        if not asked:
            self._poll.unregister(self._control)
        self._kills = self._kills or not asked or b"k" in asked
        self._is_asked = True

    def _read(self, reader: int) -> bool:
        """Reads the available output. Returns whether there may be more."""
        try:
            count = os.readv(reader, [self._buffer])
        except BlockingIOError:
            return False
        if count:
            self._readers[reader].add(memoryview(self._buffer)[:count])
        else:
            self._poll.unregister(reader)
            del self._readers[reader]
        return bool(count)

    def _drain(self, reader: int) -> None:
        """Reads the rest of the pipe. Reading is bounded, because a process that could not be ended may continue to
        write."""
        for _ in range(16):
            if not self._read(reader):
                return

    def _reap(self) -> bool:
        """Reaps dead children. Returns whether any process is alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not _LINUX and _is_group(self._program)
            if not pid:
                return True
            if pid == self._program:
                self._has_ended = True
                self._tell(b"ended %d\n" % os.waitstatus_to_exitcode(status))

    def _end_all(self) -> int:
        """Asks all processes to end, then kills the rest, including processes started meanwhile. Returns how many are
        left.

        The program is asked before its descendants, since it may have to end its own children in order.
        """
        until = time.monotonic() + self._grace_seconds
        if not (self._has_ended or self._kills):
            self._signal(signal.SIGTERM, session=self._program)
        is_rest_asked = False
        while not self._kills and self._reap() and (rest := until - time.monotonic()) > 0:
            if self._has_ended and not is_rest_asked:
                self._signal(signal.SIGTERM)
                is_rest_asked = True
            self._turn(rest)
        until = time.monotonic() + KILL_SECONDS
        while self._reap() and time.monotonic() < until:
            self._signal(signal.SIGKILL)
            self._turn(_LOOK_SECONDS)
        return len(descendants({os.getpid()})) if self._reap() else 0

    def _signal(self, number: int, session: int | None = None) -> None:
        """Signals all descendants or one session. Without ``/proc``, signals the program's group."""
        if os.path.isdir("/proc/self"):
            found = descendants({os.getpid()})
            send(number, [one for one in found if session in (None, one.session)])
        elif _is_group(self._program):
            os.killpg(self._program, number)


def _execute(argv: list[bytes], env: dict[bytes, bytes], outputs: list[tuple[int, int]], report: int) -> None:
    """Replaces this process by the program, which dies with the supervisor. Reports an error number on failure."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for writer, stream in outputs:
            os.dup2(writer, stream)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], argv, env)  # noqa: S606 -- no shell is wanted
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 1))
    finally:
        os._exit(127)


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except PermissionError:
        pass  # belongs to another user, so the group exists
    except ProcessLookupError:
        return False
    return True


def _children_wake() -> int:
    """Returns a file descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _received(control: int, size: int) -> bytes:
    """Reads ``size`` bytes, or fewer if the owner is dead."""
    data = b""
    while len(data) < size and (part := os.read(control, size - len(data))):
        data += part
    return data


def main(control: int) -> None:
    """Supervises one program, whose specification is read from the control socket."""
    os.set_inheritable(control, False)
    for number in _IGNORED:  # signals that a program may send; the owner must detect SIGKILL and SIGSTOP
        signal.signal(number, signal.SIG_IGN)
    become_private()  # the specification has the program's environment
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the owner's thread may have blocked some signals
    become_subreaper()
    # Without this signal, a supervisor stopped by its program would outlive a dead owner.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    size = int.from_bytes(_received(control, 8), "big")
    specification = _received(control, size)
    if size and len(specification) == size:
        argv, env, grace_seconds, captured, most_bytes = marshal.loads(specification)  # noqa: S302 -- our owner's data
        supervisor = _Supervisor(control, grace_seconds=grace_seconds, captured=captured, most_bytes=most_bytes)
        supervisor.run(argv, env)


if __name__ == "__main__":
    main(int(sys.argv[1]))
