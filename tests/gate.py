"""The one gate: format, lint, strict types, floors, then every test. ``make test`` and CI run the same.

``python -m tests.gate --quick`` stops before the tests; further arguments go to pytest. The proofs that take minutes
each (``long``) are left to ``make proof``, so that the gate stays short enough to be run before every commit. The twin
is a package of its own: its tests and types are left out as long as its folder is the one that ``make proof`` proved
last (`tests.proven`), and the gate says so.

``--proof`` runs what takes long, the whole tests of the twin first; ``--twin`` those of the twin alone.

Tests wait for processes now and then, and a check can use what is idle then: the checks run beside the tests, one after
another. What a check has to say comes in one piece when it has ended; what pytest says comes as it says it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import proven
from tests.support import memory

ROOT = Path(__file__).parent.parent
TWIN = ROOT / proven.FOLDER
BIN = Path(sys.executable).parent

CHECKS = (
    ("format", ["ruff", "format", "--check", "."]),
    ("lint", ["ruff", "check", "."]),
    ("floors", ["lint-imports"]),
    ("budgets", ["python", "-m", "tests.house", "--hold"]),  # prints what each room may still grow
    ("types", ["mypy"]),  # the longest comes last: what the others have to say is known within seconds
)


# In a new checkout nothing is compiled. Four processes that begin together would each compile all the same.
COMPILED = "tests/unit/__pycache__"
COMPILE = ["pytest", "-q", "--collect-only", "-m", "not long"]

REPORT = "tests/artifacts/gate.xml"  # for `python -m tests.house --gate`, which adds up its seconds by part

# Groups come before single tests, the largest first: pytest-xdist sees to that.
TESTS = [
    *("pytest", "-q", "-n", "4", "--dist", "loadgroup", "-m", "not long"),
    *("--hypothesis-profile=gate", f"--junitxml={REPORT}", "-o", "tmp_path_retention_policy=failed"),
]
EVERY_TEST = ["pytest", "-q", "-n", "3", "--dist", "loadgroup", "-m", "not long", "--engines=both"]
LONG_TESTS = [
    *("pytest", "-q", "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder"),
    *("-m", "long", "--engines=both"),
]

TWIN_TYPES = ["mypy"]
TWIN_TESTS = ["pytest", "-q", "-n", "4", "--dist", "loadgroup"]


def check(name: str, command: list[str], folder: Path = ROOT) -> bool:
    """Run one check; print its output and how it went, both at once."""
    begun = time.monotonic()
    done = _finish(command, folder, kept=True)
    print(f"\n── {name}\n{done.stdout}{_outcome(name, done, begun)}", end="", flush=True)
    return done.returncode == 0


def run_tests(name: str, command: list[str], folder: Path = ROOT, **environment: str) -> bool:
    """Run tests; what they print goes where ours goes."""
    begun = time.monotonic()
    done = _finish(command, folder, environment)
    print(_outcome(name, done, begun), end="", flush=True)
    return done.returncode == 0


def gate(arguments: list[str]) -> list[str]:
    """Run everything, whatever fails, so that one run shows everything that is wrong; what that was."""
    is_quick, chosen = "--quick" in arguments, [one for one in arguments if one != "--quick"]
    with_twin = not chosen and not proven.is_proven(ROOT)
    beside = ThreadPoolExecutor(max_workers=1)
    try:
        checks = {name: beside.submit(check, name, command) for name, command in CHECKS}
        if with_twin:
            checks["types of the twin"] = beside.submit(check, "types of the twin", TWIN_TYPES, TWIN)
        passed = {"tests": is_quick or (_compiled() and run_tests("tests", [*TESTS, *chosen], ROOT, **_files()))}
        if with_twin and not is_quick:
            passed["tests of the twin"] = run_tests("tests of the twin", [*TWIN_TESTS, "-m", "not long"], TWIN)
        passed |= {name: checked.result() for name, checked in checks.items()}
    finally:
        beside.shutdown(cancel_futures=True)  # after Ctrl-C, which the check that runs has heard as well
    if not with_twin:
        why = "arguments choose other tests" if chosen else f"{proven.FOLDER} is as `make proof` proved it"
        print(f"\n── NOT TESTED: THE TWIN: {why}", flush=True)
    return [name for name, well in passed.items() if not well]


def proof(*, twin_only: bool) -> list[str]:
    """Run all tests of the twin, and note it when they are green; then all other tests, the long ones as well."""
    begun, tested = time.monotonic(), proven.tree(ROOT)
    passed = {
        "types of the twin": check("types of the twin", TWIN_TYPES, TWIN),
        "tests of the twin": run_tests(
            "tests of the twin", TWIN_TESTS, TWIN, CI="true"
        ),  # where nothing may be skipped
    }
    if tested and all(passed.values()) and tested == proven.tree(ROOT):
        proven.note(ROOT, tested, time.monotonic() - begun)
        print(f"── noted in {proven.NOTE}, which belongs into the commit", flush=True)
    if not twin_only:
        passed["tests"] = run_tests("tests", EVERY_TEST)
        passed["long tests"] = run_tests("long tests", LONG_TESTS)
    print(f"── proof: {time.monotonic() - begun:.0f} s", flush=True)
    return [name for name, well in passed.items() if not well]


def _compiled() -> bool:
    """Compile the tests and what they import, in a new checkout; whether they can be collected."""
    if (ROOT / COMPILED).exists():
        return True
    begun = time.monotonic()
    done = _finish(COMPILE, ROOT, kept=True)
    failed = done.returncode != 0
    print((done.stdout if failed else "") + _outcome("compile the tests", done, begun), end="", flush=True)
    return not failed


def _files() -> Mapping[str, str]:
    """Tells pytest to keep the files of tests in memory, where there is room."""
    folder = memory.folder()
    return {} if folder is None else {"PYTEST_DEBUG_TEMPROOT": str(folder)}


def _finish(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None, *, kept: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a program of our environment to its end; what it prints goes where ours goes, or is kept."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env={**_environment(), **(environment or {})},
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
    """Run what was asked for; last, say what failed."""
    is_proof = arguments in (["--proof"], ["--twin"])
    failed = proof(twin_only="--twin" in arguments) if is_proof else gate(arguments)
    print(f"\nFAILED: {', '.join(failed)}" if failed else "\nAll is well.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
