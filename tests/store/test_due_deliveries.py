"""The sender finds what is due by indexes: a look costs no more, however many reactions wait."""

from __future__ import annotations

import pytest

from swarm.domain.model.deliveries import DeliveryKind, Mark
from swarm.store import deliveries, reactions
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from tests.store.test_task_lists import plan
from tests.support.world import open_thread

pytestmark = pytest.mark.req("LOOP-16")

THREADS = 400
FEW: dict[str, object] = {"now": 2**62, "n": 20}
LOOKS: dict[str, tuple[Statement, dict[str, object], str]] = {
    "threads with posts": (deliveries._POST_LANES, FEW, "ix_deliveries_due_posts"),
    "the next post": (deliveries._FIRST_POST, {"thread_id": "t"}, "ix_deliveries_posts"),
    "reactions": (reactions._DUE, FEW | {"removes": False}, "ix_deliveries_due_reactions"),
    "removals": (reactions._DUE, FEW | {"removes": True}, "ix_deliveries_due_reactions"),
    **{
        f"marks {number}": (statement, FEW | {"removes": False}, "ix_deliveries_due_reactions")
        for number, statement in enumerate(reactions._MOST_URGENT)
    },
    "late reactions": (reactions._EXPIRE_LATE, {"now": 0}, "ix_deliveries_expiry"),
}


def fill(tx: Transaction) -> None:
    """Open reactions in many threads, and a post in one of them."""
    for number in range(THREADS):
        thread = open_thread(tx, f"{number}.000100")
        for emoji in ("eyes", "x"):
            mark = Mark.STORED if emoji == "eyes" else Mark.END
            reactions.react(tx, thread, f"{number}.000100", emoji, mark)
    deliveries.add(tx, DeliveryKind.POST, thread, text="hello")


async def test_what_is_due_is_read_from_its_own_index_in_order(database: Database) -> None:
    await database.write(fill)
    if database.dialect == "postgresql":
        await database.write(Transaction.execute, "ANALYZE deliveries", {})
    for name, (statement, params, index) in LOOKS.items():
        assert statement is reactions._EXPIRE_LATE or "'reaction'" in statement.sql(database.dialect)  # not a parameter
        how = await database.read(plan, statement, params)
        assert index in how, f"{name}: {how}"
        assert "ORDER BY" not in how, f"{name}: {how}"  # SQLite sorts
        assert "Sort" not in how, f"{name}: {how}"  # PostgreSQL sorts
