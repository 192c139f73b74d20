"""The hash by which the gate knows a twin that was proven: of content, and of all of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import proven

PARTS = {
    "packages/slack_twin/pyproject.toml": "[project]\n",
    "packages/slack_twin/slack_twin/twin.py": "x = 1\n",
    "packages/slack_twin/tests/test_twin.py": "y = 1\n",
    "requirements-dev.lock": "pytest==9\n",
    ".gitignore": "__pycache__/\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in PARTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def hashed(checkout: Path) -> str:
    found = proven.tree(checkout)
    assert found is not None
    return found


@pytest.mark.parametrize("name", [name for name in PARTS if name != ".gitignore"])
def test_the_hash_changes_with_any_content_and_comes_back_with_it(checkout: Path, name: str) -> None:
    before = hashed(checkout)
    (checkout / name).write_text("z = 2\n")
    assert hashed(checkout) != before
    (checkout / name).write_text(PARTS[name])
    assert hashed(checkout) == before


def test_the_hash_changes_with_files_that_come_go_or_move(checkout: Path) -> None:
    folder = checkout / proven.FOLDER / "slack_twin"
    seen = [hashed(checkout)]
    (folder / "new.py").write_text("")
    seen.append(hashed(checkout))
    (folder / "new.py").rename(folder / "other.py")
    seen.append(hashed(checkout))
    (folder / "twin.py").unlink()
    seen.append(hashed(checkout))
    assert len(set(seen)) == 4


def test_the_hash_is_deaf_to_times_ignored_files_other_folders_and_the_note(checkout: Path) -> None:
    before = hashed(checkout)
    os.utime(checkout / proven.FOLDER / "slack_twin" / "twin.py", (1, 1))
    (checkout / proven.FOLDER / "__pycache__").mkdir()
    (checkout / proven.FOLDER / "__pycache__" / "twin.pyc").write_text("compiled")
    (checkout / "swarm.py").write_text("")
    (checkout / proven.NOTE).write_text("anything")
    assert hashed(checkout) == before


def test_what_is_staged_stays_as_it_is(checkout: Path) -> None:
    hashed(checkout)
    status = subprocess.run(["git", "-C", str(checkout), "status", "--short"], capture_output=True, text=True)
    assert {line[:2] for line in status.stdout.splitlines()} == {"??"}


def test_proven_is_what_was_noted_until_something_changes(checkout: Path) -> None:
    assert not proven.is_proven(checkout)
    proven.note(checkout, hashed(checkout), 12.3)
    assert proven.is_proven(checkout)
    (checkout / proven.FOLDER / "slack_twin" / "twin.py").write_text("x = 2\n")
    assert not proven.is_proven(checkout)


def test_without_git_nothing_is_proven(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proven.note(checkout, hashed(checkout), 12.3)
    monkeypatch.setenv("PATH", str(checkout))
    assert proven.tree(checkout) is None
    assert not proven.is_proven(checkout)
