"""Tables of small cases as one test, for cases of less than a millisecond: pytest needs three for each test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

P = ParamSpec("P")
T = TypeVar("T")

_SHOWN = 200
"""Characters of a case's arguments that name the case."""


def every(
    names: str | Sequence[str], cases: Iterable[object], ids: Iterable[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for every case, as ``pytest.mark.parametrize`` does, but as one test that lists all failing cases.

    Cases share the test's fixtures, so this is for tests that leave nothing behind in these.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_case(case, single=len(wanted) == 1) for case in cases]
    if ids is not None:
        table = [(name, values) for name, (_, values) in zip(ids, table, strict=True)]
    assert table, "a table without a case proves nothing"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def all_of_them(*args: Any, **fixtures: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for name, values in table:
                try:
                    test(*args, **fixtures, **dict(zip(wanted, values, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below
                    error.add_note(f"case: {name}")
                    failed.append((name, error))
            if failed:
                told = f"{len(failed)} of {len(table)} cases fail: {'; '.join(name for name, _ in failed)}"
                raise BaseExceptionGroup(told, [error for _, error in failed])

        signature = inspect.signature(test)
        kept = [each for name, each in signature.parameters.items() if name not in wanted]
        all_of_them.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # pytest asks it
        return all_of_them

    return decorated


def _case(case: object, *, single: bool) -> tuple[str, Sequence[object]]:
    """A case's name and its values."""
    if isinstance(case, ParameterSet):
        return str(case.id or _name(case.values)), case.values
    values = (case,) if single else case
    assert isinstance(values, Sequence)
    return _name(values), values


def _name(values: Sequence[object]) -> str:
    return ", ".join(map(repr, values))[:_SHOWN]
