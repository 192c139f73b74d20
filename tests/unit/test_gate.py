"""What the gate and the proof run, and when they leave the twin out."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import gate, proven
from tests.support import memory

PACKAGES = ["slack_twin", "swarm_base", "swarm_lab"]
TWIN = ["tests of the twin", "types of the twin"]


@pytest.fixture
def broken() -> set[str]:
    """The names of the parts that fail."""
    return set()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, broken: set[str]) -> list[str]:
    """The names of the parts that ran, and folders that tests leave out. None of them does anything."""
    names: list[str] = []

    def run(name: str, command: list[str], folder: Path = gate.ROOT, **environment: str) -> bool:
        assert folder == (gate.TWIN if "twin" in name else gate.ROOT)
        names.append(name)
        names.extend(argument for argument in command if argument.startswith("--ignore"))
        return name not in broken

    monkeypatch.setattr(gate, "check", run)
    monkeypatch.setattr(gate, "run_tests", run)
    monkeypatch.setattr(proven, "packages", lambda root: PACKAGES)
    monkeypatch.setattr(gate, "_compiled", lambda: "tests that cannot be collected" not in broken)
    return names


def state(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(proven, "found_proven", lambda root: list(packages))


def test_what_is_not_proven_is_tested(
    ran: list[str], broken: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(monkeypatch)
    broken.add("tests of the twin")
    assert gate.gate([]) == ["tests of the twin"]
    assert {*TWIN, "tests"} < set(ran)
    assert "NOT TESTED" not in capsys.readouterr().out


def test_a_package_that_is_proven_is_left_out_loudly_and_the_core_is_tested(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(monkeypatch, "slack_twin", "swarm_lab")
    assert gate.gate([]) == []
    assert {*TWIN, "--ignore=packages/swarm_base/tests"}.isdisjoint(ran)
    assert {"tests", "--ignore=packages/swarm_lab/tests"} < set(ran)
    printed = capsys.readouterr().out
    assert [name for name in PACKAGES if f"NOT TESTED: {name}: it and what it imports are as" in printed] == [
        "slack_twin",
        "swarm_lab",
    ]


def test_tests_that_are_chosen_are_run_whether_proven_or_not(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(monkeypatch, *PACKAGES)
    assert gate.gate(["packages/swarm_lab/tests"]) == []
    assert "tests" in ran
    assert not [name for name in ran if name.startswith("--ignore")]
    assert "NOT TESTED: all that the arguments do not choose" in capsys.readouterr().out


def test_the_quick_gate_runs_checks_and_no_tests(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    state(monkeypatch)
    assert gate.gate(["--quick"]) == []
    assert sorted(ran) == sorted([*(name for name, _ in gate.CHECKS), "types of the twin"])


def test_tests_that_cannot_be_collected_are_not_run_and_have_failed(
    ran: list[str], broken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state(monkeypatch, *PACKAGES)
    broken.add("tests that cannot be collected")
    assert gate.gate([]) == ["tests"]
    assert "tests" not in ran


@pytest.mark.parametrize(("free", "flags", "expected"), [(9, 0, memory.FOLDER), (7, 0, None), (9, os.ST_NOEXEC, None)])
def test_files_are_kept_in_memory_where_there_is_room_and_programs_may_run(
    monkeypatch: pytest.MonkeyPatch, free: int, flags: int, expected: Path | None
) -> None:
    space = SimpleNamespace(f_bavail=free << 30, f_frsize=1, f_flag=flags)
    monkeypatch.setattr(os, "statvfs", lambda path: space)
    assert memory.folder() == expected


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that were noted."""
    made: list[str] = []
    monkeypatch.setattr(proven, "note", lambda root, package, tested, seconds: made.append(package))
    monkeypatch.setattr(proven, "hashes", lambda root, packages: dict.fromkeys(packages, "a"))
    return made


def test_a_proof_notes_each_package_that_is_green_and_runs_the_core_last(
    ran: list[str], broken: set[str], notes: list[str]
) -> None:
    broken.add("long tests of swarm_base")
    assert gate.proof() == ["long tests of swarm_base"]
    assert notes == ["slack_twin", "swarm_lab"]
    assert ran[-2:] == ["tests", "long tests"]


def test_one_package_can_be_proven_alone(ran: list[str], notes: list[str]) -> None:
    assert gate.main(["--proof", "--package", "swarm_lab"]) == 0
    assert notes == ["swarm_lab"]
    assert ran == ["tests of swarm_lab", "long tests of swarm_lab"]


@pytest.mark.parametrize("seen", [["a", "b"], [None, None]])
def test_what_changed_meanwhile_and_what_git_does_not_know_is_not_noted(
    ran: list[str], notes: list[str], monkeypatch: pytest.MonkeyPatch, seen: list[str | None]
) -> None:
    left = [{"swarm_lab": one} if one else {} for one in seen]
    monkeypatch.setattr(proven, "hashes", lambda root, packages: left.pop(0))
    assert gate.proof("swarm_lab") == []
    assert notes == []


@pytest.mark.parametrize("arguments", [["--proof", "--package", "nobody"], ["--proof", "tests/unit"]])
def test_a_proof_of_anything_else_is_refused(ran: list[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        gate.main(arguments)
    assert ran == []
