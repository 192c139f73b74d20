"""The one gate: format, lint, strict types, floors, then every test. ``make test`` and CI run the same.

``python -m tests.gate --quick`` stops before the tests; further arguments go to pytest. The proofs that take minutes
each (``long``) are left to ``make proof``, so that the gate stays short enough to be run before every commit.

Tests wait for processes now and then, and a check can use what is idle then: the checks run beside the tests, one after
another. What a check has to say comes in one piece when it has ended; what pytest says comes as it says it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS = (
    ("format", ["ruff", "format", "--check", "."]),
    ("lint", ["ruff", "check", "."]),
    ("floors", ["lint-imports"]),
    ("types", ["mypy"]),  # the longest comes last: what the others have to say is known within seconds
)


REPORT = "tests/artifacts/gate.xml"  # for `python -m tests.house --gate`, which adds up its seconds by part

# Groups come before single tests, the largest first: pytest-xdist sees to that.
TESTS = ["pytest", "-q", "-n", "3", "--dist", "loadgroup", "-m", "not long", f"--junitxml={REPORT}"]


def check(name: str, command: list[str]) -> bool:
    """Run one check; print its output and how it went, both at once."""
    begun = time.monotonic()
    done = _finish(command, kept=True)
    print(f"\n── {name}\n{done.stdout}{_outcome(name, done, begun)}", end="", flush=True)
    return done.returncode == 0


def test(arguments: list[str]) -> bool:
    """Run the tests; what they print goes where ours goes."""
    begun = time.monotonic()
    done = _finish([*TESTS, *arguments])
    print(_outcome("tests", done, begun), end="", flush=True)
    return done.returncode == 0


def _finish(command: list[str], *, kept: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a program of our environment to its end; what it prints goes where ours goes, or is kept."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.PIPE if kept else None,
        stderr=subprocess.STDOUT if kept else None,
        text=True,
        check=False,
    )


def _outcome(name: str, done: subprocess.CompletedProcess[str], begun: float) -> str:
    return f"── {name}: {'ok' if done.returncode == 0 else 'FAILED'} ({time.monotonic() - begun:.0f} s)\n"


def _environment() -> dict[str, str]:
    """Ours, but for what forbids to keep compiled code: the tests start dozens of processes of the same code."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main(arguments: list[str]) -> int:
    """Run everything, whatever fails, so that one run shows everything that is wrong; last, what that was."""
    beside = ThreadPoolExecutor(max_workers=1)
    try:
        checks = {name: beside.submit(check, name, command) for name, command in CHECKS}
        tests_passed = "--quick" in arguments or test(arguments)
        passed = {name: checked.result() for name, checked in checks.items()} | {"tests": tests_passed}
    finally:
        beside.shutdown(cancel_futures=True)  # after Ctrl-C, which the check that runs has heard as well
    failed = [name for name, well in passed.items() if not well]
    print(f"\nFAILED: {', '.join(failed)}" if failed else "\nAll is well.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
