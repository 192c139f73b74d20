"""Runs one program, reads what it prints, and ends all that it started: itself a small process, run as a script.

Started by `swarm.agents.tools.programs`, without the package around it (``python -I -S warden.py``), so that it is up
at once. It is the *subreaper* of everything below it (prctl(2)): a process whose parent has gone becomes its child,
whether it started a session of its own, forked twice or emptied its environment. So nothing below it is left exactly
when it has no children left.

It begins when a byte comes through the control socket, and ends everything when that socket is closed, which it also
is when the coordinator dies. What is printed beyond ``most_bytes`` is read and dropped here, so that it costs the
coordinator neither memory nor time. The result goes to a file: one line ``<status> <left> <stdout bytes> <stderr bytes>
<cut>``, then the two outputs. ``status`` is an exit code, negative for a signal; ``none`` if it was ended before, or
``error-<errno>`` if it could not be started; ``left`` counts processes that could not be ended.
"""

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_READ_BYTES = 1 << 18
_KILL_SECONDS = 5.0  # a process that waits for a dead disk or network mount cannot be ended at all
_LOOK_SECONDS = 0.02  # between two rounds of killing


class Kept:
    """The beginning and the end of what was printed; what lies between is counted and dropped."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head_bytes = most_bytes - self._half
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: memoryview) -> None:
        """Keep of ``data`` what belongs to the ends."""
        self._total += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._half or len(data) :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: len(self._tail) - self._half]

    def whole(self) -> tuple[bytes, bool]:
        """What is kept, with a line where something is missing; and whether something is."""
        tail = bytes(self._tail[len(self._tail) - min(self._half, len(self._tail)) :])
        missing = self._total - len(self._head) - len(tail)
        if not missing:
            return bytes(self._head) + tail, False
        return bytes(self._head) + b"\n[... %d bytes left out ...]\n" % missing + tail, True


class Warden:
    """One program and all that descends from it. ``status`` as in the result."""

    def __init__(self, control: int, most_bytes: int, *, apart: bool) -> None:
        self.status = "none"
        self._program = 0
        self._stop = False
        self._ended = False
        self._poll = select.poll()
        self._wakeup = _children_wake()
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(control, select.POLLIN)
        self._kept = [Kept(most_bytes) for _ in range(2 if apart else 1)]
        self._readers: dict[int, Kept] = {}
        self._buffer = bytearray(_READ_BYTES)

    def run(self, argv: list[str], grace_seconds: float) -> int:
        """Run it to its end, or until it is to stop; the number of processes that could not be ended."""
        try:
            self._start(argv)
        except OSError as error:
            self.status = f"error-{error.errno}"
            return 0
        while not (self._stop or self._ended):
            self._turn(None)
        left = self._end_all(grace_seconds)
        self._drain()
        return left

    def outputs(self) -> list[tuple[bytes, bool]]:
        """What it printed: on standard output, and on standard error where that is kept apart."""
        return [kept.whole() for kept in self._kept]

    def _start(self, argv: list[str]) -> None:
        ends = [os.pipe() for _ in self._kept]
        for (reader, _), kept in zip(ends, self._kept, strict=True):
            os.set_blocking(reader, False)
            self._readers[reader] = kept
            self._poll.register(reader, select.POLLIN)
        outputs = [(os.POSIX_SPAWN_DUP2, ends[0][1], 1), (os.POSIX_SPAWN_DUP2, ends[-1][1], 2)]
        try:
            self._program = os.posix_spawnp(
                *(argv[0], argv, os.environ),
                file_actions=outputs,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
        finally:
            for _, writer in ends:
                os.close(writer)

    def _turn(self, wait_seconds: float | None) -> None:
        """Wait until something happens, at most so long, and see to it."""
        for found, _ in self._poll.poll(None if wait_seconds is None else wait_seconds * 1000):
            if found in self._readers:
                self._read(found)
            elif found == self._wakeup:
                os.read(found, 4096)
            else:
                self._stop = True
                self._poll.unregister(found)
        self._reap()

    def _read(self, reader: int) -> bool:
        """Read what there is; whether there may be more."""
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

    def _drain(self) -> None:
        """What still lies in the pipes. Bounded, because a process that could not be ended may go on printing."""
        for reader in list(self._readers):
            for _ in range(16):
                if not self._read(reader):
                    break

    def _reap(self) -> bool:
        """Collect the dead; whether anybody is alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            if pid == self._program:
                self._ended = True
                self.status = str(os.waitstatus_to_exitcode(status))

    def _end_all(self, grace_seconds: float) -> int:
        """Ask everything to end, then kill what remains, also what is started meanwhile."""
        for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_SECONDS)):
            until = time.monotonic() + seconds
            if self._reap():
                _signal_all(number)
            while self._reap() and (rest := until - time.monotonic()) > 0:
                if number == signal.SIGKILL:
                    _signal_all(number)
                    rest = min(rest, _LOOK_SECONDS)
                self._turn(rest)
        return len(_below()) if self._reap() else 0


def _children_wake() -> int:
    """A file descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _signal_all(number: int) -> None:
    for pid in _below():
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that was stopped hears nothing else than SIGKILL
        except (ProcessLookupError, PermissionError):
            pass  # it ended by itself, or changed its user, which only the system's owner can answer


def _below() -> list[int]:
    """The ids of all processes that descend from this one, the nearest first. The dead do not count."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            state, parent = _state_and_parent(name)
            if state not in "ZX":
                children.setdefault(parent, []).append(int(name))
    found = children.get(os.getpid(), [])[:]
    for pid in found:  # which grows meanwhile
        found += children.get(pid, [])
    return found


def _state_and_parent(pid: str) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return "X", 0
    return fields[0].decode(), int(fields[1])


def main(arguments: list[str]) -> None:
    """Run a program as the module says: ``control result grace_seconds most_bytes apart program argument...``."""
    control, result, most_bytes = int(arguments[0]), int(arguments[1]), int(arguments[3])
    os.set_inheritable(control, False)
    os.set_inheritable(result, False)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    if not os.read(control, 1):
        return
    warden = Warden(control, most_bytes, apart=arguments[4] == "1")
    left = warden.run(arguments[5:], float(arguments[2]))
    (out, out_cut), (err, err_cut) = (*warden.outputs(), (b"", False))[:2]
    with open(result, "wb") as file:
        file.write(b"%s %d %d %d %d\n" % (warden.status.encode(), left, len(out), len(err), out_cut or err_cut))
        file.write(out + err)


if __name__ == "__main__":
    main(sys.argv[1:])
