"""Requirements and tests name each other: none without a test, and no test for what nobody asked for."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.every import every

pytestmark = pytest.mark.xdist_group("requirements")  # every module is read once

TESTS = Path(__file__).parent
PACKAGES = TESTS.parent / "packages"
REQUIREMENTS = tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))
STATUSES = {"done", "partial", "absent"}
BEGUN = {requirement for requirement, entry in REQUIREMENTS.items() if entry["status"] != "absent"}


def ids_in(code: str) -> Iterator[str]:
    """The ids in every ``pytest.mark.req`` of a module."""
    for marker, arguments in re.findall(r"([\w.]+)\.req\(([^)]*)\)", code):
        assert marker == "pytest.mark"
        yield from ast.literal_eval(f"[{arguments}]")  # ids are literal


@cache
def proven() -> dict[str, set[str]]:
    """Ids, and the files in which tests prove them."""
    found: dict[str, set[str]] = {}
    for path in sorted([*TESTS.rglob("test_*.py"), *PACKAGES.glob("*/tests/**/test_*.py")]):
        for requirement in ids_in(path.read_text(encoding="utf-8")):
            found.setdefault(requirement, set()).add(path.relative_to(TESTS.parent).as_posix())
    return found


def test_every_requirement_has_a_test() -> None:
    assert sorted(BEGUN - proven().keys()) == []


def test_every_test_proves_a_requirement_that_was_begun() -> None:
    unknown = {requirement: files for requirement, files in proven().items() if requirement not in BEGUN}
    assert unknown == {}


@every("requirement", REQUIREMENTS)
def test_a_requirement_says_what_it_is_and_what_is_missing(requirement: str) -> None:
    entry = REQUIREMENTS[requirement]
    assert entry["is"].endswith(".")
    assert entry["status"] in STATUSES
    assert (entry["status"] == "partial") == bool(entry.get("missing"))
    assert entry.keys() <= {"is", "status", "missing"}
