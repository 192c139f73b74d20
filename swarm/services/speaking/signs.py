"""The post that names an agent which has held a person's work for a minute and has shown nothing of it.

Who may act: the sweep, and whoever ends a lease. What is guaranteed: one post at most for each piece of work, deleted
when something is shown or the lease ends. What happens on failure: the next sweep tries again.
"""

from __future__ import annotations

from typing import Final

from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.leases import LeaseEnd
from swarm.services.ground.guarded import attempt
from swarm.store import deliveries
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.inbox.leases import Lease
from swarm.store.threads import status_lines, threads

NO_SIGN_TEXT: Final = (
    "{agent} is on this, but has shown nothing for over a minute. You can wait, or write `!stop` here to end it."
)
_AT_ONCE: Final = 50


async def tend_signs(database: Database) -> None:
    """Posts what is missing, and deletes what is no longer true."""
    for row in await database.read(status_lines.untrue_notes, _AT_ONCE):
        await attempt(database.write(_tend, row), "sweep", part="tend_signs", thread=row["thread_id"])


def _tend(tx: Transaction, found: Row) -> None:
    thread, lease = threads.locked(tx, found["thread_id"]), leases.by_token(tx, found["token"])
    row = status_lines.of_lease(tx, found["token"])
    if lease and row and row["wants_sign"]:
        text = NO_SIGN_TEXT.format(agent=row["agent_name"])
        deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=_key(lease))
    elif lease and row:
        _take_down(tx, lease)


def end_all(tx: Transaction, ending: list[Lease], how: LeaseEnd) -> list[str]:
    """Ends leases, and deletes the posts about them. Returns the tokens of those that had not already ended."""
    ended = leases.end_all(tx, [lease.token for lease in ending], how)
    for lease in ending:
        if lease.token in ended:
            _take_down(tx, lease)
    return ended


def _take_down(tx: Transaction, lease: Lease) -> None:
    may_be_told = lease.created_at <= tx.now - status_lines.NO_SIGN_AFTER
    if thread := threads.get(tx, lease.thread_id) if may_be_told and lease.thread_id else None:
        deliveries.take_down(tx, thread, _key(lease))


def _key(lease: Lease) -> str:
    return f"{status_lines.NO_SIGN_KEY}{lease.trigger_id}"
