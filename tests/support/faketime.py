"""A clock that a test sets while real processes go by it: Debian's libfaketime, in front of the C library.

Only the time of day is another; what counts the time that passes (``CLOCK_MONOTONIC``, ``CLOCK_BOOTTIME``) goes on.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.postgres import NoPostgres, _debian_binaries, _own, _run

SEEN_SECONDS = 1
"""Within this time a step is seen."""

_SLEEP = """
# libfaketime 0.9.10 refuses the absolute times by which time.sleep() waits on a clock that is not faked.
import threading, time
time.sleep = lambda seconds: threading.Event().wait(seconds) and None
"""


class SetClock:
    """The time of day of those who are started with `environment`; ``folder`` holds what tells them."""

    def __init__(self, folder: Path) -> None:
        self._library = _library()
        self._path = folder / "offset"
        self._folder = folder
        self._seconds = 0
        (folder / "sitecustomize.py").write_text(_SLEEP)
        folder.chmod(0o755)
        self.step(0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": str(SEEN_SECONDS),  # to read the file each time costs most of a core
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # or threads of Python that wait for each other keep a core busy
            "NO_FAKE_STAT": "1",  # or Python would compile all code anew, since its files look changed
            "PYTHONPATH": str(self._folder),
        }

    def step(self, seconds: int) -> None:
        """Set the clock forth, or back, by so much."""
        self._seconds += seconds
        fresh = self._path.with_suffix(".new")
        fresh.write_text(f"{self._seconds:+d}\n")
        fresh.chmod(0o644)
        fresh.replace(self._path)


@contextlib.contextmanager
def set_clock() -> Iterator[SetClock]:
    """Without libfaketime the test is skipped, loudly, and fails where CI runs it."""
    with tempfile.TemporaryDirectory(prefix="clock", dir="/tmp") as folder:
        yield SetClock(Path(folder))


@contextlib.contextmanager
def postgres_server_by(clock: SetClock) -> Iterator[str]:
    """A PostgreSQL server that goes by this clock: the URL of its maintenance database."""
    binaries = _debian_binaries()
    if binaries is None:
        raise NoPostgres
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    # Its processes see a step at the same moment, as those of one machine do: each reads the file every time.
    environment = {**clock.environment, "FAKETIME_NO_CACHE": "1"}
    by_clock: list[str | Path] = ["env", *(f"{name}={value}" for name, value in environment.items())]
    try:
        _own(folder)
        data = folder / "data"
        _run([binaries / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "-D", data])
        options = f"-F -c listen_addresses= -c unix_socket_directories={folder}"
        control: list[str | Path] = [binaries / "pg_ctl", "-D", data, "-w"]
        _run([*by_clock, *control, "-o", options, "-l", folder / "log", "start"])
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _library() -> Path:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        reason = "NOT TESTED HERE: clocks that are set, since there is no libfaketime (Debian's package faketime)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found[0]
