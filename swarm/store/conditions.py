"""Conditions that statements share: the guards of state machines, taken from the domain's tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from sqlalchemy import Column, ColumnElement

from swarm.domain.states import Transition

State = TypeVar("State", bound=StrEnum)


def may(column: Column[str], transition: Transition[State]) -> ColumnElement[bool]:
    """The row is in a state from which the transition is allowed: what the ``WHERE`` of its update says."""
    return column.in_(sorted(source.value for source in transition.sources))


def arrive(transition: Transition[State]) -> Mapping[str, str]:
    """The assignment that a transition makes."""
    return {"status": transition.target.value}
