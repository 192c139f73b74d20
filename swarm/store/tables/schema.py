"""Helpers shared by all tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sqlalchemy import BigInteger, CheckConstraint, Integer, MetaData

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

Serial = BigInteger().with_variant(Integer, "sqlite")
"""An autoincrementing number. SQLite increments only an INTEGER PRIMARY KEY."""


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """Returns the constraint that a column holds one of these values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)
