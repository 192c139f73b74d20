"""That a process ends exactly where it is told to: what the kill points stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kill_point import Kill, KillPoint, Kind, Moment, built_shim

pytestmark = pytest.mark.long  # as what it is for; it needs a C compiler

WRITER = """
import os, socket, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
here, there = socket.socketpair()
for _ in range(5):
    os.write(file, b"abcd")
    os.fsync(file)
    here.sendall(b"efgh")
    os.write(1, b"a log")
"""


@pytest.mark.parametrize(
    ("kind", "moment", "size"),
    [
        (Kind.WRITE, Moment.BEFORE, 8),
        (Kind.WRITE, Moment.HALF, 10),
        (Kind.WRITE, Moment.AFTER, 12),
        (Kind.SYNC, Moment.BEFORE, 12),
        (Kind.SEND, Moment.AFTER, 12),
    ],
)
def test_it_ends_at_the_third_call(tmp_path: Path, kind: Kind, moment: Moment, size: int) -> None:
    point = KillPoint(tmp_path / "control")
    env = {**os.environ, "LD_PRELOAD": str(built_shim(tmp_path)), **point.environment}
    point.arm(Kill(kind=kind, number=3, moment=moment))

    ended = subprocess.run([sys.executable, "-I", "-c", WRITER, str(tmp_path / "file")], env=env, check=False)

    assert ended.returncode == -signal.SIGKILL
    assert point.fired
    assert point.counts[kind] == 3
    assert (tmp_path / "file").stat().st_size == size


def test_nobody_ends_where_nothing_is_armed(tmp_path: Path) -> None:
    point = KillPoint(tmp_path / "control")
    env = {**os.environ, "LD_PRELOAD": str(built_shim(tmp_path)), **point.environment}

    subprocess.run([sys.executable, "-I", "-c", WRITER, str(tmp_path / "file")], env=env, check=True)

    assert point.counts == dict.fromkeys(Kind, 5)
