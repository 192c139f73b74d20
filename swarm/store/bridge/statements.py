"""SQLAlchemy Core statements, compiled once per engine and executed as strings on the driver's connection.

Values are plain: ``int``, ``str``, ``bool``, ``float`` and ``None``, bound by name. SQLAlchemy types convert nothing,
so a boolean read from SQLite is 0 or 1. ``IN`` takes a list of fixed values, never a list as a parameter. A statement
about many rows joins the rows that the caller gives (`given`), which are one JSON text to the driver.

The guards of state machines (`may`, `arrive`) come from the transition tables of the domain.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints

import orjson
from sqlalchemy import (
    Column,
    ColumnElement,
    Executable,
    Insert,
    Integer,
    Select,
    Subquery,
    Table,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg as postgresql_psycopg
from sqlalchemy.engine.interfaces import Dialect as SqlDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import TypeEngine

from swarm.domain.model.states import Transition
from swarm.store.bridge.transaction import Cursor, Dialect, Transaction

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = Mapping[str, Any]

InsertFactory = Callable[..., postgresql.Insert]
"""The dialect's own ``insert``. SQLite's has the same ``on_conflict_…`` methods, so one type covers both."""


_Source = Executable | Callable[[InsertFactory], Executable]


class Statement:
    """A statement for both engines.

    ``source`` is a Core statement, for ``ON CONFLICT`` a function that takes the dialect's own ``insert`` and returns a
    statement, or one statement for each engine. A parameter named ``given`` takes the rows of `given` as dictionaries.
    """

    def __init__(self, source: _Source | Mapping[Dialect, Executable]) -> None:
        self._source = source
        self._compiled: dict[Dialect, _Compiled] = {}

    def all(self, tx: Transaction, /, **params: object) -> list[Row]:
        """Runs the statement. Returns all rows as dictionaries by column name."""
        compiled = self._for(tx.dialect)
        if compiled.locks:
            tx.check_may_lock()
        cursor, rows = tx.fetch(compiled.sql, compiled.bind(params))
        return compiled.name(cursor, rows)

    def first(self, tx: Transaction, /, **params: object) -> Row | None:
        """Runs the statement. Returns the first row, or None."""
        rows = self.all(tx, **params)
        return rows[0] if rows else None

    def run(self, tx: Transaction, /, **params: object) -> int:
        """Runs the statement. Returns the number of changed rows."""
        compiled = self._for(tx.dialect)
        if compiled.returns_rows:  # SQLite counts these rows only as they are fetched
            return len(tx.fetch(compiled.sql, compiled.bind(params))[1])
        return tx.execute(compiled.sql, compiled.bind(params))

    def many(self, tx: Transaction, /, rows: Sequence[Mapping[str, object]]) -> None:
        """Runs the statement once for each of ``rows``, which may be empty."""
        compiled = self._for(tx.dialect)
        if rows:
            tx.execute_many(compiled.sql, [compiled.bind(row) for row in rows])

    def sql(self, dialect: Dialect) -> str:
        """Returns the text for the driver, for tests and ``EXPLAIN``."""
        return self._for(dialect).sql

    def _for(self, dialect: Dialect) -> _Compiled:
        compiled = self._compiled.get(dialect)
        if compiled is None:
            source = self._source[dialect] if isinstance(self._source, Mapping) else self._source
            compiled = self._compiled[dialect] = _Compiled(source, dialect)
        return compiled


def every_column(table: Table, *omitted: str, **values: object) -> dict[str, object]:
    """Returns the values of an INSERT: the given values, and a parameter named after each remaining column that is not
    ``omitted``.
    """
    return {column.name: bindparam(column.name) for column in table.columns if column.name not in omitted} | values


PATTERN: Final = bindparam("pattern", type_=Text)


def selected(
    table: Table, has_reason: ColumnElement[bool], **same: ColumnElement[Any]
) -> tuple[ColumnElement[bool], ...]:
    """Returns the conditions of a `Selection`, with its ``params``. ``has_reason`` compares with `PATTERN`; the agent
    and the channel of a row are ``same``.
    """

    def is_same(name: str, column: ColumnElement[Any]) -> ColumnElement[bool]:
        wanted = bindparam(name, type_=Text)
        return or_(wanted.is_(None), column == wanted)

    return (
        table.c.status == bindparam("status"),
        *(is_same(name, column) for name, column in same.items()),
        or_(PATTERN.is_(None), has_reason),
        table.c.created_at >= bindparam("since"),
    )


def row_mapper(kind: type[Entity], *omitted: str, **special: Callable[[Row], object]) -> Callable[[Row], Entity]:
    """Returns a function that builds a dataclass from a row, using the columns named after its fields.

    Strings of a `StrEnum` field and integers of a bool field are converted. ``special`` computes a field from the row;
    ``omitted`` fields keep their default. Other columns of the row are ignored.
    """
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind) if field.name not in (*omitted, *special)]
    converters = {name: converter for name in names if (converter := _converter(hints[name]))}
    plain = [name for name in names if name not in converters]

    def of_row(row: Row) -> Entity:
        values = {name: row[name] for name in plain}
        for name, convert in converters.items():
            value = row[name]
            values[name] = None if value is None else convert(value)
        for name, compute in special.items():
            values[name] = compute(row)
        return kind(**values)

    return of_row


def _converter(hint: Any) -> Callable[[Any], object] | None:
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if kinds == [bool]:
        return bool
    if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], StrEnum):
        return {member.value: member for member in kinds[0]}.__getitem__  # several times as fast as calling the enum
    return None


class _Compiled:
    """One statement for one engine: its text, its literal values and its parameter names."""

    def __init__(self, source: _Source, dialect: Dialect) -> None:
        statement = source if isinstance(source, Executable) else source(_insert(dialect))
        compiler = _compile(statement, dialect)
        self.sql = str(compiler)
        self.returns_rows = bool(compiler.effective_returning)
        self.locks = isinstance(statement, Select) and statement._for_update_arg is not None
        required = {name for bind, name in compiler.bind_names.items() if bind.required}
        self._names = frozenset(compiler.params)
        self._literals = {name: value for name, value in compiler.params.items() if name not in required}
        self._columns: tuple[str, ...] = ()

    def bind(self, params: Mapping[str, object]) -> Mapping[str, object]:
        """Returns the caller's values together with the literal values. An unknown name raises TypeError."""
        if not params.keys() <= self._names:
            unknown = ", ".join(sorted(params.keys() - self._names))
            raise TypeError(f"The statement has no parameter {unknown}; it has {', '.join(sorted(self._names))}.")
        if _GIVEN in params:
            params = {**params, _GIVEN: orjson.dumps(params[_GIVEN]).decode()}
        return {**self._literals, **params} if self._literals else params

    def name(self, cursor: Cursor, rows: list[Any]) -> list[Row]:
        if not rows:
            return []
        if not self._columns:
            self._columns = tuple(column[0] for column in cursor.description or ())
        columns = self._columns
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _insert(dialect: Dialect) -> InsertFactory:
    return postgresql.insert if dialect == "postgresql" else typing.cast(InsertFactory, sqlite.insert)


def _compile(statement: Executable, dialect: Dialect) -> SQLCompiler:
    if isinstance(statement, Insert):
        statement = statement.inline()  # otherwise PostgreSQL would return the new primary key each time
    # Rendering "post-compile" parameters now turns `IN` over a fixed list into ordinary parameters.
    compiled = typing.cast(ClauseElement, statement).compile(
        dialect=_sql_dialect(dialect), compile_kwargs={"render_postcompile": True}
    )
    return typing.cast(SQLCompiler, compiled)


def _sql_dialect(dialect: Dialect) -> SqlDialect:
    if dialect == "postgresql":
        return typing.cast(SqlDialect, postgresql_psycopg.dialect())  # type: ignore[no-untyped-call]
    return sqlite.dialect(paramstyle="named")


_GIVEN: Final = "given"


class _JsonRows(GenericFunction[Any]):
    """The rows of a JSON array, by the function of each engine."""

    inherit_cache = True


@compiles(_JsonRows, "sqlite")
def _sqlite_rows(rows: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(rows.clauses, **options)})"


@compiles(_JsonRows, "postgresql")
def _postgresql_rows(rows: _JsonRows, compiler: SQLCompiler, **options: Any) -> str:
    # PostgreSQL expects 100 rows of this function, and a tenth for each LIMIT that it does not know. If it expects one
    # row, it begins with the given rows and looks the others up; for more, it may read whole tables or indexes instead.
    array = f"CAST({compiler.process(rows.clauses, **options)} AS JSONB)"
    limit = f"LIMIT jsonb_array_length({array})"
    return f"(SELECT value FROM (SELECT value FROM jsonb_array_elements({array}) {limit}) AS few {limit})"  # noqa: S608 - no values


def given(**columns: type[TypeEngine[Any]]) -> Subquery:
    """Returns a table of the rows that a caller passes as the parameter ``given``: dictionaries with these columns."""
    row = _JsonRows(bindparam(_GIVEN, type_=Text)).table_valued("value", name="given_row").c.value
    return select(
        *(cast(row.op("->>")(literal_column(f"'{name}'")), kind).label(name) for name, kind in columns.items())
    ).subquery(_GIVEN)


def insert_given(insert: postgresql.Insert, rows: Subquery, **values: ColumnElement[Any]) -> postgresql.Insert:
    """Returns an INSERT of the ``given`` rows, each with the same ``values`` in other columns."""
    names = [*(column.name for column in rows.c), *values]
    # Without WHERE, SQLite would read ON CONFLICT as part of a join.
    return insert.from_select(names, select(*rows.c, *values.values()).where(true()))


def first_of_each(
    rows: Subquery, table: Table, condition: ColumnElement[bool], *order: Column[Any], lock: bool = True
) -> dict[Dialect, Select[Any]]:
    """Returns a query for the first ``n`` rows of ``table`` that meet ``condition`` for each of the ``given`` rows.

    ``condition`` relates ``table`` to the given rows. The result has the columns of the table, ordered for each given
    row. With ``lock``, the rows are locked on PostgreSQL, and rows locked by others are skipped.
    """
    wanted = select(table).where(condition).order_by(*order).limit(AT_MOST_N)
    locked = wanted.with_for_update(of=table, key_share=True, skip_locked=True) if lock else wanted
    lateral = locked.correlate(rows).lateral("found")
    # SQLite has no LATERAL. The row ids of a correlated subquery are looked up for each given row just the same.
    found = table.alias("found")
    ids: Select[Any] = wanted.with_only_columns(literal_column(f"{table.name}.rowid")).correlate(rows)
    return {
        "postgresql": select(*lateral.c).select_from(rows.join(lateral, true())),
        "sqlite": select(*found.c)
        .select_from(rows.join(found, literal_column("found.rowid").in_(ids)))
        .order_by(*(found.c[column.name] for column in order)),
    }


Entity = TypeVar("Entity", bound="DataclassInstance")
State = TypeVar("State", bound=StrEnum)

# This is deliberately an expression: SQLite inspects a bare LIMIT parameter and therefore prepares the statement again
# at each binding, which takes several times as long as running it.
AT_MOST_N: Final = bindparam("n", type_=Integer) + literal_column("0", Integer)


def may(column: Column[str], transition: Transition[State]) -> ColumnElement[bool]:
    """Returns the condition that a row, which is found by its key, is in a source state of the transition.

    No partial index applies to it: by statistics of an empty table, one that lists a state would seem to be empty.
    """
    return func.coalesce(column, "").in_([literally(source) for source in sorted(transition.sources)])


def exists_by_key(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns the condition that there is a row, which is looked up for each row of the outer query.

    For EXISTS, PostgreSQL may read all such rows first, if it expects few of them or many outer rows.
    """
    one = literal_column("1", Integer)
    return select(one).where(*conditions).limit(one).scalar_subquery().is_not(None)


def literally(value: str) -> ColumnElement[str]:
    """Returns a constant as SQL text, because a prepared statement can use a partial index only with constants."""
    return literal_column(f"'{value}'")


def arrive(transition: Transition[State]) -> Mapping[str, str]:
    """Returns the assignment that sets the transition's target state."""
    return {"status": transition.target.value}
