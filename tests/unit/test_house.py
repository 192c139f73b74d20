"""The figures of the house, counted on trees that were made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import house

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


def test_an_import_from_a_floor_above_is_an_upward_arrow_wherever_it_stands(tmp_path: Path) -> None:
    files = {
        "swarm/doors/http.py": "from swarm.services import work",
        "swarm/services/work.py": "from swarm.store.rows import row\nimport tools.one",
        "swarm/store/rows.py": "def row():\n    from swarm.doors.http import serve\n",
        "tools/one.py": "",
    }
    found = house.figures(tree(tmp_path, files))
    assert found["upward arrows between floors"] == ["swarm.store.rows -> swarm.doors.http"]
    assert found["upward arrows between rooms of swarm/services/"] is None


def test_layers_may_lie_in_a_container(tmp_path: Path) -> None:
    contract = "[importlinter:contract:rooms]\ntype = layers\ncontainers = swarm.x\nlayers =\n    (high)\n    low\n"
    files = {".importlinter": contract, "swarm/x/high.py": "", "swarm/x/low.py": "import swarm.x.high"}
    assert house.figures(tree(tmp_path, files))["upward arrows between floors"] == ["swarm.x.low -> swarm.x.high"]


def test_rooms_are_ordered_too_and_some_are_equals(tmp_path: Path) -> None:
    files = {
        "swarm/services/tasks/work.py": "import swarm.services.files.kept\nimport swarm.services.runs.run",
        "swarm/services/files/kept.py": "import swarm.services.rules.leases",
        "swarm/services/runs/run.py": "",
        "swarm/services/rules/leases.py": "import swarm.services.use_cases",
        "swarm/services/use_cases.py": "",
    }
    found = house.figures(tree(tmp_path, files))
    arrows = ["swarm.services.tasks.work -> swarm.services.runs.run"]
    assert found["upward arrows between rooms of swarm/services/"] == arrows


def test_a_class_name_counts_twice_only_within_the_core(tmp_path: Path) -> None:
    files = {
        "swarm/a.py": "class Run: ...\nclass _Own: ...\ndef go(): ...",
        "swarm/b.py": "class Run: ...\nclass _Own: ...\nclass Other: ...",
        "swarm/bench/c.py": "class Other: ...",
        "swarm/twin/d.py": "class Other: ...",
    }
    found = house.figures(tree(tmp_path, files))
    where = {"Run": ["swarm/a.py", "swarm/b.py"]}
    assert found["class names that mean two things in the core"] == where
    assert found["public names"] == 5


@pytest.mark.parametrize("twin", ["swarm/twin/a.py", "packages/slack_twin/src/slack_twin/a.py"])
def test_the_twin_is_counted_apart_wherever_it_is_and_without_its_tests(tmp_path: Path, twin: str) -> None:
    files = {"swarm/a.py": "x = 1\n", twin: "x = 1\ny = 2\n", "packages/slack_twin/tests/test_a.py": "z = 3\n"}
    found = house.figures(tree(tmp_path, files))
    assert (found["modules, without the twin"], found["lines, without the twin"]) == (1, 1)
    assert (found["modules, with the twin"], found["lines, with the twin"]) == (2, 3)


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
    assert "| upward arrows between rooms of swarm/services/ | - |\n" in table
    assert "  Run: swarm/a.py, swarm/b.py\n" in table
    assert house.main([str(root), "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["modules loose in swarm/"] == 3
