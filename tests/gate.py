"""The one gate: format, lint, strict types, floors, then every test. ``make test`` and CI run the same.

``python -m tests.gate --quick`` stops before the tests; further arguments go to pytest. The proofs that take minutes
each (``long``) are left to ``make proof``, so that the gate stays short enough to be run before every commit. The tests
of a package are left out as long as it, and all of ours that it imports, is what ``make proof`` proved last
(`tests.proven`), and the gate says so; those of the core always run.

``--proof`` runs what takes long, package by package, and notes each that is green; the core comes last. With
``--package NAME`` it proves one package alone.

Tests wait for processes now and then, and a check can use what is idle then: the checks run beside the tests, one after
another. What a check has to say comes in one piece when it has ended; what pytest says comes as it says it.
"""

from __future__ import annotations

import argparse
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
TWIN = ROOT / "packages" / proven.TWIN
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
PROOF = ["pytest", "-q", "-n", "3", "--dist", "loadgroup", "--engines=both"]
NOT_LONG = ["-m", "not long"]
LONG = ["--no-loadscope-reorder", "-m", "long"]

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
    left_out = proven.packages(ROOT) if chosen else proven.found_proven(ROOT)
    with_twin = proven.TWIN not in left_out
    tests = [*TESTS, *(chosen or [f"--ignore={_tests_of(package)}" for package in left_out])]
    beside = ThreadPoolExecutor(max_workers=1)
    try:
        checks = {name: beside.submit(check, name, command) for name, command in CHECKS}
        if with_twin:
            checks["types of the twin"] = beside.submit(check, "types of the twin", TWIN_TYPES, TWIN)
        passed = {"tests": is_quick or (_compiled() and run_tests("tests", tests, ROOT, **_files()))}
        if with_twin and not is_quick:
            passed["tests of the twin"] = run_tests("tests of the twin", [*TWIN_TESTS, *NOT_LONG], TWIN)
        passed |= {name: checked.result() for name, checked in checks.items()}
    finally:
        beside.shutdown(cancel_futures=True)  # after Ctrl-C, which the check that runs has heard as well
    for package in [] if chosen else left_out:
        print(f"\n── NOT TESTED: {package}: it and what it imports are as `make proof` proved them", flush=True)
    if chosen:
        print("\n── NOT TESTED: all that the arguments do not choose, and the twin", flush=True)
    return [name for name, well in passed.items() if not well]


def proof(package: str | None = None) -> list[str]:
    """Run all tests of each package, or of one, and note those that are green; then those of the core."""
    begun, passed = time.monotonic(), dict[str, bool]()
    for one in [package] if package else proven.packages(ROOT):
        passed |= _prove(one)
    if not package:
        passed["tests"] = run_tests("tests", [*PROOF, *NOT_LONG, "tests"])
        passed["long tests"] = run_tests("long tests", [*PROOF, *LONG, "tests"])
    print(f"── proof: {time.monotonic() - begun:.0f} s", flush=True)
    return [name for name, well in passed.items() if not well]


def _prove(package: str) -> dict[str, bool]:
    """Run all tests of a package; note it if they are green, with none skipped but long ones, and nothing changed."""
    begun, before = time.monotonic(), proven.hashes(ROOT, [package])
    name, longer, folder = f"tests of {package}", f"long tests of {package}", _tests_of(package)
    if package == proven.TWIN:
        passed = {"types of the twin": check("types of the twin", TWIN_TYPES, TWIN)}
        passed[name] = run_tests(name, TWIN_TESTS, TWIN, CI="true")
    else:
        passed = {name: run_tests(name, [*PROOF, *NOT_LONG, folder], CI="true")}
        passed[longer] = run_tests(longer, [*PROOF, *LONG, folder])
    if before and all(passed.values()) and before == proven.hashes(ROOT, [package]):
        proven.note(ROOT, package, before[package], time.monotonic() - begun)
        print(f"── noted in {proven.note_of(package)}, which belongs into the commit", flush=True)
    return passed


def _tests_of(package: str) -> str:
    return f"packages/{package}/tests"


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
    """Run what was asked for; last, say what failed. Raises SystemExit for a package that does not exist."""
    if "--proof" in arguments:
        parser = argparse.ArgumentParser(prog="tests.gate", description="Prove what takes long.")
        parser.add_argument("--proof", action="store_true", required=True)
        parser.add_argument("--package", choices=proven.packages(ROOT), help="this one alone")
        failed = proof(parser.parse_args(arguments).package)
    else:
        failed = gate(arguments)
    print(f"\nFAILED: {', '.join(failed)}" if failed else "\nAll is well.", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
