"""State machines as data: an enum of statuses, an enum of steps, and a table of the allowed transitions.

The store builds the ``WHERE`` clauses of its updates from these tables. A test compares the tables with the diagrams in
the docstrings and with the CHECK constraints, so the three cannot diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Transition(Generic[State]):
    """A step of a state machine: from any of ``sources`` to ``target``."""

    sources: frozenset[State]
    target: State


def step(*sources: State, to: State) -> Transition[State]:
    """Returns the transition from ``sources`` to ``to``, in the form used by the tables."""
    return Transition(frozenset(sources), to)
