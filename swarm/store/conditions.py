"""Conditions that statements share: the guards of state machines, taken from the domain's tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from sqlalchemy import Column, ColumnElement, Integer, bindparam, literal_column

from swarm.domain.states import Transition

State = TypeVar("State", bound=StrEnum)

# An expression on purpose: SQLite looks into a bare parameter of LIMIT, and therefore plans the statement anew whenever
# the parameter is bound, which takes several times as long as to run it.
AT_MOST_N: Final = bindparam("n", type_=Integer) + literal_column("0", Integer)


def may(column: Column[str], transition: Transition[State]) -> ColumnElement[bool]:
    """The row is in a state from which the transition is allowed: what the ``WHERE`` of its update says."""
    return column.in_([literally(source) for source in sorted(transition.sources)])


def literally(value: StrEnum) -> ColumnElement[str]:
    """A constant written into the statement itself: only so can a prepared statement use a partial index."""
    return literal_column(f"'{value}'")


def arrive(transition: Transition[State]) -> Mapping[str, str]:
    """The assignment that a transition makes."""
    return {"status": transition.target.value}
