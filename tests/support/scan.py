"""Looking for a text in everything that a database has, tables of the future included, and in its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Text, bindparam, func, select

from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.schema import metadata

_COUNTS = {
    f"{table.name}.{column.name}": Statement(
        select(func.count().label("n"))
        .select_from(table)
        .where(func.replace(column, bindparam("wanted"), "") != column)
    )
    for table in metadata.sorted_tables
    for column in table.c
    if isinstance(column.type, Text)
}


async def places_of(database: Database, *texts: str) -> dict[str, int]:
    """The columns that have one of these texts, and in how many rows."""
    return await database.read(_look, texts)


def _look(tx: Transaction, texts: tuple[str, ...]) -> dict[str, int]:
    found = {name: sum(_number(count.first(tx, wanted=text)) for text in texts) for name, count in _COUNTS.items()}
    return {name: number for name, number in found.items() if number}


def _number(row: Mapping[str, Any] | None) -> int:
    assert row is not None
    return int(row["n"])


def files_with(url: str, *texts: str) -> list[str]:
    """The files of an SQLite database that have one of these texts among their bytes."""
    path = Path(url.removeprefix("sqlite:///"))
    return [
        file.name
        for file in sorted(path.parent.glob(f"{path.name}*"))
        if any(text.encode() in file.read_bytes() for text in texts)
    ]
