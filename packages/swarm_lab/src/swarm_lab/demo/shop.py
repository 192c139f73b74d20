"""The git repository of the demo's coder: a tiny Python project whose tests need nothing but Python. One of them fails.

It lies in the demo's home, with the folders of the coder's runner and CLI, and begins anew with the demo.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import rmtree, which
from typing import Final

CODER: Final = "coder"
SOURCE: Final = "prices.py"
TESTS: Final = "test_prices.py"

_REPOSITORY: Final = "shop"
_MOST_AT_ONCE: Final = 3  # a thread whose permission nobody gives does not keep the others waiting
_FILES: Final = {
    ".gitignore": "__pycache__/\n",
    SOURCE: '''"""Prices of a small shop, in cents."""

DISCOUNT_FROM = 10


def total(price: int, pieces: int) -> int:
    """The price of some pieces: 10 percent less from ten pieces on."""
    if pieces > DISCOUNT_FROM:
        return price * pieces * 90 // 100
    return price * pieces
''',
    TESTS: """import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_one_piece_has_its_price(self) -> None:
        self.assertEqual(total(200, 1), 200)

    def test_ten_pieces_cost_less(self) -> None:
        self.assertEqual(total(200, 10), 1800)


if __name__ == "__main__":
    unittest.main()
""",
}


class NoRepository(Exception):
    """The repository cannot be made. The message is user-facing."""


def make(folder: Path) -> None:
    """Makes the repository below the coder's folder, unless it is there. Raises NoRepository."""
    if not which("git"):
        raise NoRepository("git is not installed")
    repository, unfinished = folder / _REPOSITORY, folder / f"{_REPOSITORY}.new"
    if repository.exists():
        return
    try:
        rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name, content in _FILES.items():
            (unfinished / name).write_text(content, encoding="utf-8")
        author = ("-c", "user.name=swarm demo", "-c", "user.email=demo@swarm.invalid")
        _git(unfinished, "init", "--quiet", "--template=")
        _git(unfinished, "symbolic-ref", "HEAD", "refs/heads/main")
        _git(unfinished, "add", "--all")
        _git(unfinished, *author, "commit", "--quiet", "--no-gpg-sign", "--message", "A shop, with a failing test")
        unfinished.replace(repository)
    except OSError as error:
        raise NoRepository(f"{repository} cannot be made: {error.strerror or error}") from error


def _git(folder: Path, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NoRepository(f"git {' '.join(arguments)} failed: {' '.join(ran.stderr.split())}")


def runner_arguments(folder: Path, url: str) -> list[str]:
    """Returns ``swarm run`` with the demo's coding CLI in this repository, as arguments for ``python -m``."""
    cli = shlex.join([sys.executable, "-P", "-m", "swarm_lab.demo.agents.coding_cli", str(folder / "sessions")])
    return [
        "swarm.cli.main", "run", CODER, "--provider", f"acp:{cli}", "--url", url, "--repo", str(folder / _REPOSITORY),
        "--trust-repository", "--show-diff", "--max-concurrent", str(_MOST_AT_ONCE), "--home", str(folder / "runner"),
    ]  # fmt: skip
