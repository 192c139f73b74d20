"""The one gate: format, lint, strict types, floors, then every test. ``make test`` and CI run the same.

``python -m tests.gate --quick`` stops before the tests; further arguments go to pytest. The proofs that take minutes
each (``long``) are left to ``make proof``, so that the gate stays short enough to be run before every commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS = (
    ("format", ["ruff", "format", "--check", "."]),
    ("lint", ["ruff", "check", "."]),
    ("types", ["mypy"]),
    ("floors", ["lint-imports"]),
)


TESTS = ["pytest", "-q", "-n", "3", "--dist", "loadgroup", "-m", "not long"]


def run(name: str, command: list[str]) -> bool:
    """Run one step and say how it went."""
    print(f"── {name}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, env=_environment(), check=False).returncode
    print(f"── {name}: {'ok' if code == 0 else 'FAILED'} ({time.monotonic() - begun:.0f} s)\n", flush=True)
    return code == 0


def _environment() -> dict[str, str]:
    """Ours, but for what forbids to keep compiled code: the tests start dozens of processes of the same code."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main(arguments: list[str]) -> int:
    """Run every check, so that one run shows everything that is wrong; the tests come last."""
    passed = [run(name, command) for name, command in CHECKS]
    if "--quick" not in arguments:
        passed.append(run("tests", [*TESTS, *arguments]))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
