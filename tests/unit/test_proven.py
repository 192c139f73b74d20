"""The hash by which the gate knows a package that was proven: of the package, and of all of ours that it stands on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import proven

LAB, TWIN = "swarm_lab", "slack_twin"
PARTS = {
    ".gitignore": "__pycache__/\n",
    "conftest.py": "from tests.support.groups import order\n",
    "requirements-dev.lock": "pytest==9\n",
    "db/migrations/0001.py": "a = 1\n",
    "docs/guide.md": "Read me.\n",
    "docs/other.md": "Not me.\n",
    "packages/slack_twin/pyproject.toml": "[project]\n",
    "packages/slack_twin/slack_twin/__init__.py": "",
    "packages/slack_twin/slack_twin/twin.py": "x = 1\n",
    "packages/slack_twin/tests/test_twin.py": "from tests.support import mine\nFILE = 'mine.py'\n",
    "packages/swarm_lab/pyproject.toml": "[project]\n",
    "packages/swarm_lab/src/swarm_lab/__init__.py": "",
    "packages/swarm_lab/src/swarm_lab/run.py": "def go():\n    from swarm.store import rows\n",
    "packages/swarm_lab/src/swarm_lab/table.yaml": "a: 1\n",
    "packages/swarm_lab/tests/test_run.py": (
        "from tests.support.stage import up\nPAGE = ROOT / 'docs' / 'guide.md'\nMAKE = 'swarm.made:of'\n"
    ),
    "swarm/__init__.py": "",
    "swarm/made.py": "",
    "swarm/found/__init__.py": "import pkgutil\npkgutil.iter_modules(__path__)\n",
    "swarm/found/late.py": "",
    "swarm/store/__init__.py": "",
    "swarm/store/rows.py": "import swarm.found\n",
    "swarm/store/data/0001.sql": "select 1\n",
    "swarm/store/unused.py": "",
    "swarm/slack/__init__.py": "",
    "swarm/slack/table.yaml": "a: 1\n",
    "tests/__init__.py": "",
    "tests/budget.toml": "",
    "tests/streams/plain.jsonl": "{}\n",
    "tests/support/__init__.py": "",
    "tests/support/groups.py": "",
    "tests/support/mine.py": "",
    "tests/support/stage.py": "COMMAND = ('-m', 'swarm')\n",
    "swarm/__main__.py": "",
}
WITHOUT_TWIN = {
    "conftest.py": "the root's own",
    "db/migrations/0001.py": "the migrations",
    "docs/guide.md": "named in a text",
    "swarm/__init__.py": "a package on the way to a module",
    "swarm/__main__.py": "started as a program",
    "swarm/made.py": "named in a text",
    "swarm/found/late.py": "found while it runs",
    "swarm/store/rows.py": "imported inside a function",
    "swarm/found/__init__.py": "imported by what is imported",
    "swarm/store/data/0001.sql": "beside a module",
    "tests/streams/plain.jsonl": "beside the tests",
    "tests/support/groups.py": "imported by the root's conftest",
    "tests/support/stage.py": "imported by a test",
}
NOT_IMPORTED = ["docs/other.md", "swarm/store/unused.py", "swarm/slack/table.yaml", "tests/support/mine.py"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in PARTS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def hashed(checkout: Path) -> dict[str, str]:
    found = proven.hashes(checkout, proven.packages(checkout))
    assert list(found) == [TWIN, LAB]
    return found


def changed(checkout: Path, before: dict[str, str]) -> set[str]:
    return {package for package, now in hashed(checkout).items() if now != before[package]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("requirements-dev.lock", {TWIN, LAB}),
        *((name, {TWIN}) for name in PARTS if name.startswith("packages/slack_twin")),
        *((name, {LAB}) for name in PARTS if name.startswith("packages/swarm_lab")),
        *((name, {LAB}) for name in WITHOUT_TWIN),
        *((name, set()) for name in [*NOT_IMPORTED, "tests/budget.toml"]),
    ],
)
def test_a_change_reaches_the_packages_that_stand_on_it_and_leaves_with_it(
    checkout: Path, name: str, expected: set[str]
) -> None:
    before = hashed(checkout)
    (checkout / name).write_text(f"{PARTS[name]}# changed\n")
    assert changed(checkout, before) == expected
    (checkout / name).write_text(PARTS[name])
    assert hashed(checkout) == before


def test_the_hash_changes_with_files_that_come_go_or_move(checkout: Path) -> None:
    folder = checkout / "packages/swarm_lab/src/swarm_lab"
    seen = [hashed(checkout)[LAB]]
    (folder / "new.py").write_text("")
    seen.append(hashed(checkout)[LAB])
    (folder / "new.py").rename(folder / "other.py")
    seen.append(hashed(checkout)[LAB])
    (folder / "run.py").unlink()
    seen.append(hashed(checkout)[LAB])
    assert len(set(seen)) == 4


def test_new_files_beside_an_imported_module_count(checkout: Path) -> None:
    before = hashed(checkout)
    (checkout / "swarm/found/later.py").write_text("")
    assert changed(checkout, before) == {LAB}
    before = hashed(checkout)
    (checkout / "swarm/store/data/0002.sql").write_text("")
    assert changed(checkout, before) == {LAB}


def test_the_hash_is_deaf_to_times_ignored_files_and_the_note(checkout: Path) -> None:
    before = hashed(checkout)
    folder = checkout / "packages" / TWIN
    os.utime(folder / "slack_twin" / "twin.py", (1, 1))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "twin.pyc").write_text("compiled")
    (checkout / proven.note_of(TWIN)).write_text("anything")
    assert hashed(checkout) == before


def test_proven_is_what_was_noted_until_something_changes(checkout: Path) -> None:
    assert proven.found_proven(checkout) == []
    for package, now in hashed(checkout).items():
        proven.note(checkout, package, now, 12.3)
    assert proven.found_proven(checkout) == [TWIN, LAB]
    (checkout / "swarm/store/rows.py").write_text("x = 2\n")
    assert proven.found_proven(checkout) == [TWIN]


def test_without_git_nothing_is_proven(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proven.note(checkout, LAB, hashed(checkout)[LAB], 12.3)
    monkeypatch.setenv("PATH", str(checkout))
    assert proven.found_proven(checkout) == []
