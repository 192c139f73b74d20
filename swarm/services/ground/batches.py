"""Acts on all that match a selection, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from swarm.clock import new_id
from swarm.domain.errors import Conflict, NotFound
from swarm.domain.selections import Batch
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

MOST: Final = 10_000
"""One batch acts on so many at most; the next one on the rest."""


async def act_on_all(
    database: Database, found: Sequence[str], act: Callable[[Transaction, str], object], *, dry_run: bool
) -> Batch:
    """Acts on everything that was found, unless only the count is wanted. What has changed meanwhile is left out."""
    done = 0
    for one in () if dry_run else found:
        try:
            await database.write(act, one)
        except (Conflict, NotFound):
            continue
        done += 1
    return Batch(batch=new_id(), matching=len(found), done=done)
