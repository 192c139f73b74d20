"""Faults in as many rooms, planted one at a time: does a test see each?

``python -m tests.mutants [CHECKOUT]`` plants each fault of ``tests/mutants.yaml`` in a checkout, runs the tests that
should see it, and takes it out again. A fault is found by its line of code and not by its file, so the same list fits
checkouts before and after moves. A line that is not found exactly once is reported: the list has to follow the code.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

LIST: Final = Path(__file__).with_suffix(".yaml")
SECONDS: Final = 300


def main(arguments: list[str]) -> int:
    """Plants all. Returns 1 if a fault was not seen, or could not be planted."""
    root = Path(arguments[0] if arguments else ".").resolve()
    folders = [root / "swarm", root / "tools", *(root / "packages").glob("swarm_*/src")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    failed = 0
    for mutant in yaml.safe_load(LIST.read_text(encoding="utf-8")):
        found = [path for path in files for _ in range(path.read_text(encoding="utf-8").count(mutant["line"]))]
        seen = _seen(root, found[0], mutant) if len(found) == 1 else None
        outcome = seen or ("NOT SEEN" if len(found) == 1 else f"NOT PLANTED: its line stands {len(found)} times")
        failed += not seen
        sys.stdout.write(f"{mutant['room']}: {outcome}\n")
        sys.stdout.flush()
    return 1 if failed else 0


def _seen(root: Path, path: Path, mutant: dict[str, str]) -> str | None:
    """Returns the test that saw the fault."""
    places = (root / "tests", *(root / "packages").glob("swarm_*/tests"))
    tests = [
        str(one) for name in mutant["tests"].split() for place in places for one in sorted(place.rglob(f"{name}.py"))
    ]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant["line"], mutant["planted"]), encoding="utf-8")
    try:
        command = [str(root / ".venv/bin/python"), "-m", "pytest", "-q", "-x", "-m", "not long", *tests]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS, check=False)
    finally:
        path.write_text(text, encoding="utf-8")
    by = [line.split(" - ")[0].removeprefix("FAILED ") for line in done.stdout.splitlines() if line[:7] == "FAILED "]
    return f"seen by {by[0]}" if done.returncode == 1 and by else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
