"""Statements: written once in Core, the same behaviour on both engines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest
from sqlalchemy import Executable, bindparam, insert, select
from sqlalchemy.sql.compiler import SQLCompiler

from swarm.store.bridge import statements
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement, every_column, row_mapper
from swarm.store.bridge.transaction import ConstraintViolated, Dialect, Transaction
from tests.store import items
from tests.store.items import ADD, ADD_OR_COUNT, ADD_UNLESS_THERE, BY_ID, COUNT_UP, NAMED, with_items

pytestmark = pytest.mark.req("OPS-03")


async def test_rows_come_as_dictionaries_by_column_name(database: Database) -> None:
    await with_items(database)
    await database.write(items.add, 1, "one")
    row = await database.read(lambda tx: BY_ID.first(tx, id=1))
    assert row == {"id": 1, "name": "one", "count": 0}


async def test_first_is_none_when_there_is_no_row(database: Database) -> None:
    await with_items(database)
    assert await database.read(lambda tx: BY_ID.first(tx, id=1)) is None
    assert await database.read(lambda tx: BY_ID.all(tx, id=1)) == []


async def test_run_counts_the_rows_that_changed(database: Database) -> None:
    await with_items(database)
    await database.write(items.add, 1)
    assert await database.write(lambda tx: COUNT_UP.run(tx, the_id=1)) == 1
    assert await database.write(lambda tx: COUNT_UP.run(tx, the_id=2)) == 0


async def test_run_counts_the_rows_of_a_statement_that_returns_them(database: Database) -> None:
    await with_items(database)
    assert await database.write(lambda tx: ADD_OR_COUNT.run(tx, id=1, name="one")) == 1


async def test_the_dialects_own_insert_handles_conflicts(database: Database) -> None:
    await with_items(database)

    def add_thrice(tx: Transaction) -> list[int]:
        return [ADD_UNLESS_THERE.run(tx, id=1, name="one", count=0) for _ in range(3)]

    assert await database.write(add_thrice) == [1, 0, 0]
    assert await database.write(lambda tx: ADD_OR_COUNT.first(tx, id=1, name="one")) == {"count": 1}


async def test_values_written_into_a_statement_are_bound_beside_the_callers(database: Database) -> None:
    await with_items(database)
    rows: list[dict[str, object]] = [{"id": n, "name": name, "count": 0} for n, name in enumerate(["one", "two", "no"])]
    await database.write(lambda tx: ADD.many(tx, rows))
    assert await database.read(NAMED.all) == [{"id": 0}, {"id": 1}]


async def test_many_runs_once_for_each_row_and_none_is_fine(database: Database) -> None:
    await with_items(database)
    await database.write(lambda tx: ADD.many(tx, []))
    await database.write(lambda tx: ADD.many(tx, [{"id": n, "name": "many", "count": n} for n in range(100)]))
    assert await database.read(items.ids) == list(range(100))


async def test_an_unknown_parameter_is_refused_by_name(database: Database) -> None:
    await with_items(database)
    with pytest.raises(TypeError, match="no parameter ident; it has id"):
        await database.read(lambda tx: BY_ID.all(tx, ident=1))


async def test_a_broken_constraint_is_the_same_error_on_both_engines(database: Database) -> None:
    await with_items(database)
    await database.write(items.add, 1)
    with pytest.raises(ConstraintViolated) as raised:
        await database.write(items.add, 1)
    assert raised.value.__cause__ is not None


async def test_text_with_percent_colon_and_quotes_passes_unharmed(database: Database) -> None:
    await with_items(database)
    text = "100 % :name %(name)s 'quoted' \"twice\" \\ é 🙂"
    await database.write(items.add, 1, text)
    literal = Statement(
        select(items.items.c.name).where(items.items.c.name == text, items.items.c.id == bindparam("id"))
    )
    assert await database.read(lambda tx: literal.first(tx, id=1)) == {"name": text}


async def test_a_statement_is_compiled_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await with_items(database)
    compiled: list[Dialect] = []
    compile_statement = statements._compile

    def counted(statement: Executable, dialect: Dialect) -> SQLCompiler:
        compiled.append(dialect)
        return compile_statement(statement, dialect)

    monkeypatch.setattr(statements, "_compile", counted)
    statement = Statement(select(items.items))
    for _ in range(3):
        await database.read(statement.all)
    assert compiled == [database.dialect]


def test_an_insert_does_not_ask_for_the_key_that_nobody_reads() -> None:
    one = Statement(insert(items.items).values(name="one", count=0))
    assert "RETURNING" not in one.sql("postgresql")


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ball:
    id: int
    colour: Colour | None
    is_new: bool
    name: str
    note: str = "none"


def test_a_row_becomes_a_dataclass_with_enums_and_booleans() -> None:
    ball = row_mapper(Ball, "note", name=lambda row: str(row["name"]).title())
    row = {"id": 1, "colour": "red", "is_new": 0, "name": "one", "note": "ignored", "more": 2}
    assert ball(row) == Ball(id=1, colour=Colour.RED, is_new=False, name="One")
    assert type(ball(row).colour) is Colour
    assert type(ball(row).is_new) is bool
    assert ball({**row, "colour": None}).colour is None


def test_a_row_without_a_column_of_the_dataclass_is_refused() -> None:
    with pytest.raises(KeyError, match="note"):
        row_mapper(Ball)({"id": 1, "colour": None, "is_new": 1, "name": "one"})


async def test_an_insert_of_every_column_takes_given_values_and_leaves_out_columns(database: Database) -> None:
    await with_items(database)
    add = Statement(insert(items.items).values(every_column(items.items, "name", count=3)))
    with pytest.raises(ConstraintViolated):  # the name was left out
        await database.write(lambda tx: add.run(tx, id=1))
    add = Statement(insert(items.items).values(every_column(items.items, count=3)))
    await database.write(lambda tx: add.run(tx, id=1, name="one"))
    assert await database.read(lambda tx: BY_ID.first(tx, id=1)) == {"id": 1, "name": "one", "count": 3}
