"""What the gate and the proof run, and when they leave the twin out."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import gate, proven
from tests.support import memory

TWIN = ["tests of the twin", "types of the twin"]


@pytest.fixture
def broken() -> set[str]:
    """The names of the parts that fail."""
    return {"tests of the twin"}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, broken: set[str]) -> list[str]:
    """The names of the parts that ran. None of them does anything."""
    names: list[str] = []

    def run(name: str, command: list[str], folder: Path = gate.ROOT, **environment: str) -> bool:
        assert folder == (gate.TWIN if "twin" in name else gate.ROOT)
        names.append(name)
        return name not in broken

    monkeypatch.setattr(gate, "check", run)
    monkeypatch.setattr(gate, "run_tests", run)
    monkeypatch.setattr(gate, "_compiled", lambda: "tests that cannot be collected" not in broken)
    return names


def state(monkeypatch: pytest.MonkeyPatch, *, is_proven: bool) -> None:
    monkeypatch.setattr(proven, "is_proven", lambda root: is_proven)


def test_a_twin_that_is_not_proven_is_tested_and_a_proven_one_is_left_out_loudly(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state(monkeypatch, is_proven=False)
    assert gate.gate([]) == ["tests of the twin"]
    assert set(TWIN) < set(ran)
    assert "NOT TESTED" not in capsys.readouterr().out
    ran.clear()
    state(monkeypatch, is_proven=True)
    assert gate.gate([]) == []
    assert set(TWIN).isdisjoint(ran)
    assert "tests" in ran
    assert "NOT TESTED: THE TWIN" in capsys.readouterr().out


def test_the_quick_gate_runs_checks_and_no_tests(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    state(monkeypatch, is_proven=False)
    assert gate.gate(["--quick"]) == []
    assert sorted(ran) == sorted([*(name for name, _ in gate.CHECKS), "types of the twin"])


def test_tests_that_cannot_be_collected_are_not_run_and_have_failed(
    ran: list[str], broken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state(monkeypatch, is_proven=True)
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


@pytest.mark.parametrize(("hashes", "green", "noted"), [("aa", True, "a"), ("ab", True, ""), ("aa", False, "")])
def test_a_proof_is_noted_when_it_is_green_and_nothing_changed_meanwhile(
    ran: list[str], broken: set[str], monkeypatch: pytest.MonkeyPatch, hashes: str, green: bool, noted: str
) -> None:
    notes, left = [""], list(hashes)
    monkeypatch.setattr(proven, "tree", lambda root: left.pop(0))
    monkeypatch.setattr(proven, "note", lambda root, tested, seconds: notes.append(tested))
    if green:
        broken.clear()
    assert gate.proof(twin_only=False) == ([] if green else ["tests of the twin"])
    assert notes[-1] == noted
    assert ran[-1] == "long tests"
