"""The post that names an agent which has held a person's work for a minute and has shown nothing of it.

Who may act: the sweep, which compares the leases in force with the posts, and whoever ends a lease. What is guaranteed:
at most one post for each piece of work, whatever restarts, deleted when something is shown or the lease ends. What
happens on failure: the next sweep tries again.
"""

from __future__ import annotations

from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.services.rules.guarded import attempt
from swarm.store import deliveries
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.inbox.leases import Lease
from swarm.store.threads import status_lines, threads

AFTER: Final = 60 * SECOND

NO_SIGN_TEXT: Final = (
    "{agent} is on this, but has shown nothing for over a minute. You can wait, or write `!stop` here to end it."
)
_AT_ONCE: Final = 50


async def tend_signs(database: Database) -> None:
    """Posts what is missing, and deletes what is no longer true."""
    for row in await database.read(_untrue_notes, _AT_ONCE):
        await attempt(database.write(_tend, row["thread_id"], row["token"]), "sweep", part="tend_signs")


def is_nothing_due(tx: Transaction) -> bool:
    """Whether `tend_signs` would find no work."""
    return not _untrue_notes(tx, 1)


def seconds_without_sign(tx: Transaction, token: str | None) -> int | None:
    """Returns for how long a lease has been held, if nothing of its work is shown after a minute."""
    row = status_lines.of_lease(tx, token, tx.now - AFTER) if token else None
    return (tx.now - row["created_at"]) // SECOND if row and row["wants_sign"] else None


def end(tx: Transaction, lease: Lease, how: LeaseEnd) -> bool:
    """Ends a lease, and deletes the post about it. Returns False if it had already ended."""
    return bool(end_all(tx, [lease], how))


def end_all(tx: Transaction, ending: list[Lease], how: LeaseEnd) -> list[str]:
    """Ends leases as `end` does. Returns the tokens of those that had not already ended."""
    ended = leases.end_all(tx, [lease.token for lease in ending], how)
    for lease in ending:
        if lease.token in ended:
            _take_down(tx, lease)
    return ended


def _untrue_notes(tx: Transaction, limit: int) -> list[Row]:
    return status_lines.untrue_notes(tx, tx.now - AFTER, limit)


def _tend(tx: Transaction, thread_id: str, token: str) -> None:
    thread, lease = threads.locked(tx, thread_id), leases.by_token(tx, token)
    row = status_lines.of_lease(tx, token, tx.now - AFTER)
    if lease and row and row["wants_sign"]:
        text = NO_SIGN_TEXT.format(agent=row["agent_name"])
        deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=_key(lease))
    elif lease and row:
        _take_down(tx, lease)


def _take_down(tx: Transaction, lease: Lease) -> None:
    thread = threads.get(tx, lease.thread_id) if lease.thread_id else None
    if thread and lease.kind is LeaseKind.WORK and lease.created_at <= tx.now - AFTER:
        deliveries.take_down(tx, thread, _key(lease))


def _key(lease: Lease) -> str:
    return f"{status_lines.NO_SIGN_KEY}{lease.trigger_id}"
