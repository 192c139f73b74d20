"""The one gate: format, lint, strict types, floors, then every test. ``make test`` and CI run the same.

``python -m tests.gate --quick`` stops before the tests; further arguments go to pytest. The proofs that take minutes
each (``long``) are left to ``make proof``, so that the gate stays short enough to be run before every commit.
"""

from __future__ import annotations

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


def run(name: str, command: list[str]) -> bool:
    """Run one step and say how it went."""
    print(f"── {name}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False).returncode
    print(f"── {name}: {'ok' if code == 0 else 'FAILED'} ({time.monotonic() - begun:.0f} s)\n", flush=True)
    return code == 0


def main(arguments: list[str]) -> int:
    """Run every check, so that one run shows everything that is wrong; the tests come last."""
    passed = [run(name, command) for name, command in CHECKS]
    if "--quick" not in arguments:
        passed.append(run("tests", ["pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not long", *arguments]))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
