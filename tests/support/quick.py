"""Tables of cases of which the gate runs the first few, and ``make proof`` all (`long`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def quick(cases: Iterable[Any], count: int = 1) -> list[ParameterSet]:
    """The cases for ``parametrize``; all but the first ``count`` are left to ``make proof``."""
    made = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[pytest.mark.long] if at >= count else []) for at, case in enumerate(made)]
