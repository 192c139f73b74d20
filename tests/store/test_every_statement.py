"""Every statement of the store can be prepared on both engines, against the migrated tables.

The use cases run on SQLite, so most statements would otherwise meet PostgreSQL for the first time at somebody's.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import ModuleType

import psycopg
import pytest

import swarm.store
from conftest import ENGINES
from swarm.domain.errors import SwarmError
from swarm.store.bridge.database import Database
from swarm.store.bridge.sqlite_driver import sqlite3
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction

pytestmark = pytest.mark.req("OPS-03")

FEWEST = 500
"""The store has more than these; a search that finds fewer has gone blind."""

_BOUND = re.compile(r"%\((\w+)\)s")


class Anything(dict[str, object]):
    """A value for every name."""

    def __missing__(self, name: str) -> None:
        return None


async def test_every_statement_can_be_prepared(database: Database) -> None:
    statements = every_statement()
    assert len(statements) > FEWEST
    refused = []
    for place, statement in statements.items():
        try:
            await database.read(prepare, statement, place)
        except (psycopg.Error, sqlite3.Error, SwarmError) as error:
            refused.append(f"{place}: {error.__cause__ or error}")
    assert not refused, "\n".join(refused)


def prepare(tx: Transaction, statement: Statement, place: str) -> None:
    """Let the engine parse a statement and look up all its names; what is meant for the other engine is left out."""
    if any(place.endswith(f"[{engine}]") for engine in ENGINES if engine != tx.dialect):
        return
    text = statement.sql(tx.dialect)
    if tx.dialect == "sqlite":
        tx.fetch(f"EXPLAIN {text}", Anything())
    else:
        numbers: dict[str, int] = {}
        numbered = _BOUND.sub(lambda bound: f"${numbers.setdefault(bound[1], len(numbers) + 1)}", text)
        tx.execute(f'PREPARE "{hash(place)}" AS {numbered}', {})


def every_statement() -> dict[str, Statement]:
    """Every statement of the store, by the place where it stands."""
    return {
        place: statement
        for module in _modules()
        for name, value in vars(module).items()
        for place, statement in _statements(f"{module.__name__}.{name}", value)
    }


def _modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(swarm.store.__path__, "swarm.store."):
        yield importlib.import_module(found.name)


def _statements(place: str, value: object) -> Iterator[tuple[str, Statement]]:
    """The statements that a module's value is or contains."""
    if isinstance(value, Statement):
        yield place, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _statements(f"{place}[{key}]", each)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for number, each in enumerate(value):
            yield from _statements(f"{place}[{number}]", each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _statements(f"{place}.{field.name}", getattr(value, field.name))
