"""Conditions that statements share: the guards of state machines, taken from the domain's tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from sqlalchemy import Column, ColumnElement, Integer, Select, bindparam, literal_column

from swarm.domain.model.states import Transition
from swarm.store.tables import agent_tokens

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


def with_valid_token(rows: Select[Any], agent_id: Column[str]) -> Select[Any]:
    """The same rows for a caller whose token is valid, by its hash ``token_hash``, and none for any other.

    On PostgreSQL the token is locked together with what is found: a rotation that is under way is waited for, and a
    later one waits for this transaction. Who ends a token locks nothing that a claim waits for.
    """
    token = agent_tokens.c
    is_valid = (token.token_hash == bindparam("token_hash")) & (token.agent_id == agent_id)
    joined = rows.join(agent_tokens, is_valid & token.revoked_at.is_(None))
    return joined.suffix_with("FOR SHARE OF agent_tokens", dialect="postgresql")


def arrive(transition: Transition[State]) -> Mapping[str, str]:
    """The assignment that a transition makes."""
    return {"status": transition.target.value}
