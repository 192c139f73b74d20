"""The figures of the house, counted on trees that were made up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import house, house_budget
from tests.house_paths import BACKGROUND, CALLBACK, places_of_request

FLOORS = """
[importlinter:contract:floors]
type = layers
layers =
    swarm.doors
    swarm.services | tools
    swarm.store
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in {".importlinter": FLOORS, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_modules_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    files = {
        "swarm/a.py": "from swarm import b",
        "swarm/b.py": "from .c import thing",
        "swarm/c.py": "import swarm.a\nfrom swarm import e\nthing = 1",
        "swarm/e.py": "",
        "swarm/d.py": "import swarm.a",
    }
    assert house.figures(tree(tmp_path, files))["circles of imports"] == [["swarm.a", "swarm.b", "swarm.c"]]


def test_a_circle_that_exists_for_types_or_while_called_is_told_apart(tmp_path: Path) -> None:
    files = {
        "swarm/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from swarm.b import B\n",
        "swarm/b.py": "import swarm.a\nclass B: ...",
        "swarm/c.py": "import swarm.d",
        "swarm/d.py": "def late():\n    import swarm.c\n",
    }
    found = house.figures(tree(tmp_path, files))
    assert found["circles of imports"] == []
    assert found["circles of imports, with those for types"] == [["swarm.a", "swarm.b"]]
    assert found["imports inside functions that make circles"] == ["swarm.d -> swarm.c"]


def test_what_one_method_alone_hands_to_the_database_stands_directly_below_it(tmp_path: Path) -> None:
    method = "    def {}(self):\n        self._database.{}(self._{}, 1)\n"
    text = f"class Store:\n{method.format('get', 'read', 'get')}    def _get(self, tx, n): ...\n"
    text += method.format("put", "write", "put") + method.format("see", "read", "shared")
    text += "    def _put(self, tx, n): ...\n" + method.format("show", "read", "shared")
    text += "    def _shared(self, tx, n): ...\n    def drop(self):\n        self._database.write(_drop)\n"
    text += "def _drop(tx): ...\n"
    found = house.figures(tree(tmp_path, {"swarm/store/a.py": text}))
    assert found["functions that run in a transaction away from their method"] == [
        "swarm/store/a.py:_drop",
        "swarm/store/a.py:_put",
    ]


def test_an_import_from_a_floor_above_is_an_upward_arrow_wherever_it_stands(tmp_path: Path) -> None:
    files = {
        "swarm/doors/http.py": "from swarm.services import work",
        "swarm/services/work.py": "from swarm.store.rows import row\nimport tools.one",
        "swarm/store/rows.py": "def row():\n    from swarm.doors.http import serve\n",
        "tools/one.py": "",
    }
    found = house.figures(tree(tmp_path, files))
    assert found["upward arrows between floors"] == ["swarm.store.rows -> swarm.doors.http"]


def test_layers_may_lie_in_a_container(tmp_path: Path) -> None:
    contract = "[importlinter:contract:rooms]\ntype = layers\ncontainers = swarm.x\nlayers =\n    (high)\n    low\n"
    files = {".importlinter": contract, "swarm/x/high.py": "", "swarm/x/low.py": "import swarm.x.high"}
    assert house.figures(tree(tmp_path, files))["upward arrows between floors"] == ["swarm.x.low -> swarm.x.high"]


def test_a_class_name_counts_twice_only_within_the_core(tmp_path: Path) -> None:
    files = {
        "swarm/a.py": "class Run: ...\nclass _Own: ...\ndef go(): ...",
        "swarm/b.py": "class Run: ...\nclass _Own: ...\nclass Other: ...",
        "packages/swarm_lab/src/swarm_lab/bench/c.py": "class Other: ...",
        "swarm/twin/d.py": "class Other: ...",
    }
    found = house.figures(tree(tmp_path, files))
    where = {"Run": ["swarm/a.py", "swarm/b.py"]}
    assert found["class names that mean two things in the core"] == where
    assert found["public names"] == 5


def test_runs_of_lines_are_found_in_two_places_but_not_the_imports(tmp_path: Path) -> None:
    imports = "".join(f"import m{number}\n" for number in range(10))
    run = "".join(f"x{number} = {number}\n" for number in range(7))
    files = {"swarm/a.py": f"{imports}{run}a = 1\n", "swarm/b.py": f"{imports}b = 2\n\n{run}"}
    assert house.repeated_lines(house.House(root=tree(tmp_path, files)).modules) == 14


def test_tests_are_summed_by_the_folder_they_lie_in(tmp_path: Path) -> None:
    cases = {"tests.unit.test_a": 1.5, "tests.unit.deep.test_b.TestC": 2, "tests.test_docs": 4, "packages.twin.t": 8}
    text = "".join(f'<testcase classname="{name}" time="{seconds}"/>' for name, seconds in cases.items())
    (tmp_path / "report.xml").write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    seconds = house.gate_seconds(tmp_path / "report.xml")
    assert seconds == {"seconds of tests, tests": 4, "seconds of tests, twin": 8, "seconds of tests, unit": 3.5}


def test_the_table_has_a_line_for_each_figure_and_names_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path, {"swarm/a.py": "class Run: ...", "swarm/b.py": "class Run: ...", "swarm/cli.py": ""})
    assert house.main([str(root), "--quick", "--names"]) == 0
    table = capsys.readouterr().out
    assert "| class names that mean two things in the core | 1 |\n" in table
    assert "  Run: swarm/a.py, swarm/b.py\n" in table
    assert house.main([str(root), "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["modules, without the twin"] == 3


STREET = {
    "swarm/store/all.py": "a = Table('a', m)\nb = Table('b', m)\n",
    "swarm/cli/terminal.py": "t = Table('no table of the database')\n" * 100,
    "swarm/slack/ports.py": "class A(Named, Protocol[T]): ...\nclass B(enum.StrEnum): ...\n",
    "swarm/long.py": "y = 2\n" * 510,
    "tools/one.py": "x = 1\n\n",
    "packages/swarm_runner/swarm_runner/doors/acp.py": "from . import claude\n",
    "packages/swarm_runner/swarm_runner/doors/claude.py": "def late():\n    from swarm_runner.doors import acp\n",
    "packages/swarm_runner/tests/test_acp.py": "assert True\n",
    "packages/slack_twin/slack_twin/server.py": "class C(Protocol): ...\n",
    "packages/slack_twin/tests/test_twin.py": "assert True\n",
    "tests/test_all.py": "assert True\n",
    "thoughts/plans/why.md": "Because.",
}


def hold(root: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What is wrong with the budgets; nothing, if they are kept."""
    failed = house.main([str(root), *(more or ["--hold"])])
    shown = capsys.readouterr().out.rpartition("|\n")[2].strip()
    assert failed == bool(shown)
    return shown


def test_budgets_are_set_by_what_stands_in_each_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stands, _ = house.standing(tree(tmp_path, STREET))
    rooms = {name: number for (section, name), number in stands.items() if section == "lines"}
    assert rooms == {"store": 2, "cli": 100, "slack": 2, "swarm": 510, "tools": 2, "swarm_runner": 3, "slack_twin": 1}
    assert stands["nodes", "tools"] == 5  # Module, Assign, Name, Store, Constant
    counts = {name: number for (section, name), number in stands.items() if section == "counts"}
    assert counts == {"tables": 2, "Protocols": 1, "enums": 1, "lines of tests": 2}
    assert "cli (lines: 100) has no budget" in hold(tmp_path, capsys)
    assert hold(tmp_path, capsys, "--set") == hold(tmp_path, capsys) == ""
    assert house.main([str(tmp_path), "--quick"]) == 0
    assert "| cli | 100 | 102 | 2 |\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "text", "wrong"),
    [
        ("swarm/cli/b.py", "z\n" * 4, "cli (lines: 104) is 2 over its budget of 102. Its largest files: swarm/cli/t"),
        ("swarm/cli/terminal.py", "t = [[[[[[[]]]]]]]\n" * 100, "cli (nodes: 1,701) is 986 over its budget of 715"),
        ("swarm/hut/new.py", "", "hut (lines: 0) has no budget"),
        ("tools/one.py", None, "tools (lines) is gone: delete its line"),
        ("swarm/store/one_more.py", "c = Table('c')", "tables (counts: 3) is 1 over its budget of 2."),
        ("swarm/long.py", "y = 2\n" * 511, "swarm/long.py (files over 500 lines: 511) is 1 over"),
        ("swarm/long.py", "", "swarm/long.py (files over 500 lines) is gone"),
        ("swarm/f.py", "def f():\n" + "    y\n" * 60, "swarm/f.py:f (functions over 60 lines: 61) has no budget."),
        ("packages/swarm_runner/swarm_runner/doors/acp.py", "", "acp (imports inside functions that make circles) is"),
        ("swarm/services/new/__init__.py", "", "swarm.services.new needs a place in .importlinter"),
    ],
)
def test_what_exceeds_its_budget_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, text: str | None, wrong: str
) -> None:
    hold(tree(tmp_path, STREET), capsys, "--set")
    (tmp_path / path).unlink() if text is None else tree(tmp_path, {path: text})
    assert wrong in hold(tmp_path, capsys)


def test_a_number_is_raised_with_its_reason_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold(tree(tmp_path, STREET), capsys, "--set")
    commit = "git init -q && git add . && git -c user.name=a -c user.email=a@b.c commit -qm Budgets"
    subprocess.run(commit, shell=True, cwd=tmp_path, check=True)
    file, why = tmp_path / house_budget.FILE, "thoughts/plans/why.md"
    before = file.read_text()
    for line, wrong in {
        f'"cli" = 103  # reason: {why}': "",
        f'# reason: {why}\n"cli" = 103': "",
        '"cli" = 103  # reason: thoughts/plans/gone.md': "thoughts/plans/gone.md is no file",
        '"cli" = 103': "cli (lines) was raised",
    }.items():
        file.write_text(before.replace('"cli" = 102', line))
        assert wrong in (found := hold(tmp_path, capsys))
        assert bool(wrong) == bool(found)
    subprocess.run(commit, shell=True, cwd=tmp_path, check=True)
    assert "cli (lines) was raised" in hold(tmp_path, capsys)
    tree(tmp_path, {"swarm/cli/new.py": "z\n" * 9})
    assert "cli (nodes) was raised" in hold(tmp_path, capsys, "--set")
    assert hold(tmp_path, capsys, "--set", "--reason", why) == hold(tmp_path, capsys, "--set") == ""
    assert f'"cli" = 111  # reason: {why}\n' in file.read_text()


def test_a_path_has_the_whole_transaction_and_nothing_of_others() -> None:
    door, store = "swarm/entrypoints/http/api.py", "swarm/store/bridge.py"
    entered = [
        *((CALLBACK, None, False, "connected", "a"), (BACKGROUND, 9, False, "not: swept", door)),
        *((1, 5, False, "call", door), (CALLBACK, None, False, "not: of another transaction", "a")),
        *((1, 5, False, "write_together", store), (1, 5, False, "prepared while queued", "a")),
        *((CALLBACK, None, False, "in the transaction", "a"), (1, 6, True, "another task of the request", "a")),
        *((CALLBACK, None, False, "settled", "a"), (2, 7, False, "not: another request", door)),
        *((1, 5, True, "call", door), (CALLBACK, None, False, "not: of a later transaction", "a")),
        *((1, 5, False, "write_together", store), (CALLBACK, None, False, "not: nobody waits for it", "a")),
        (1, 6, True, "another task of the request", "a"),
    ]
    found = places_of_request([(root, task, went_on, (file, name)) for root, task, went_on, name, file in entered])
    assert {name for _, name in found} == {name for *_, name, _ in entered if not name.startswith("not: ")}
