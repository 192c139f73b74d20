"""Whether the package of the twin is, file by file, the one whose whole tests were green last.

``make proof`` notes git's hash of the folder in `NOTE`, which is tracked; as long as the hash is the same, the gate
leaves the twin's tests out. The hash is that of the working tree: changes that are not committed count, and so do new
files, while ignored files, times and the note itself do not. The locked packages, without which no test says anything,
are part of it.
"""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = "packages/slack_twin"
NOTE = f"{FOLDER}/.proven"
HASHED = (FOLDER, "requirements-dev.lock", f":(exclude){NOTE}")


def tree(root: Path) -> str | None:
    """The hash of what lies in the checkout ``root`` now; None where git does not know that."""
    with TemporaryDirectory() as scratch:
        env = os.environ | {"GIT_INDEX_FILE": f"{scratch}/index"}  # an index of our own: nobody's is touched
        try:
            _git(root, env, "add", "--", *HASHED)
            return _git(root, env, "write-tree")
        except (OSError, subprocess.CalledProcessError):
            return None


def is_proven(root: Path) -> bool:
    note = root / NOTE
    noted = note.read_text(encoding="utf-8").split() if note.exists() else []
    return bool(noted) and noted[0] == tree(root)


def note(root: Path, tested: str, seconds: float) -> None:
    """Note that the folder was found well when it had the hash ``tested``."""
    (root / NOTE).write_text(f"{tested} proved {datetime.now(UTC):%Y-%m-%d} in {seconds:.0f} s\n", encoding="utf-8")


def _git(root: Path, env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()
