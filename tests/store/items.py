"""A small table of the tests' own, and query functions on it that can be held, counted and broken."""

from __future__ import annotations

import threading
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, bindparam, insert, select, update

from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction

PATIENCE_SECONDS = 20.0

items = Table(
    "items",
    MetaData(),
    Column("id", BigInteger, primary_key=True),
    Column("name", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
)

ADD = Statement(insert(items))
ADD_UNLESS_THERE = Statement(lambda insert_into: insert_into(items).on_conflict_do_nothing(index_elements=["id"]))
ADD_OR_COUNT = Statement(
    lambda insert_into: (
        insert_into(items)
        .values(id=bindparam("id"), name=bindparam("name"), count=1)
        .on_conflict_do_update(index_elements=["id"], set_={"count": items.c.count + 1})
        .returning(items.c.count)
    )
)
BY_ID = Statement(select(items).where(items.c.id == bindparam("id")))
NAMED = Statement(select(items.c.id).where(items.c.name.in_(["one", "two"])).order_by(items.c.id).limit(10))
ALL_IDS = Statement(select(items.c.id).order_by(items.c.id))
COUNT_UP = Statement(update(items).where(items.c.id == bindparam("the_id")).values(count=items.c.count + 1))


def create(tx: Transaction) -> None:
    tx.execute("CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT NOT NULL, count BIGINT NOT NULL)", {})


def add(tx: Transaction, item: int, name: str = "an item", wake: str | None = None) -> int:
    ADD.run(tx, id=item, name=name, count=0)
    if wake is not None:
        tx.wake(wake)
    return item


def ids(tx: Transaction) -> list[int]:
    return [row["id"] for row in ALL_IDS.all(tx)]


def count_of(tx: Transaction, item: int) -> int:
    row = BY_ID.first(tx, id=item)
    assert row is not None
    return int(row["count"])


def look(tx: Transaction, sql: str) -> Any:
    """The single value that ``sql`` gives."""
    _, rows = tx.fetch(sql, {})
    return rows[0][0]


class Gate:
    """Holds a query function in the middle, so that a test can look at what is the case then."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._leave = threading.Event()

    def hold(self, tx: Transaction, item: int | None = None) -> None:
        """A query function: adds ``item`` if there is one, then waits for `open`."""
        if item is not None:
            add(tx, item)
        self.entered.set()
        assert self._leave.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        self._leave.set()


async def with_items(database: Database) -> Database:
    await database.write(create)
    return database
