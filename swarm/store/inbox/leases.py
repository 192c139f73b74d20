"""Leases. Every statement that ends or renews a lease matches its token, and only works while the lease is active."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, or_, select, update

from swarm.clock import SECOND
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.watchers import LeaseEnded, LeaseRefused
from swarm.store.bridge.statements import AT_MOST_N, Statement, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.work import lease_members, leases

_active = leases.c.ended_at.is_(None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """One row of `leases`."""

    token: str
    kind: LeaseKind
    agent_id: str
    thread_id: str | None
    trigger_id: str
    attempt: int
    hold: bool
    expires_at: int
    ended_as: LeaseEnd | None
    task_id: str | None = None  # the task under the lease; otherwise the lease covers messages or a notice


_lease = row_mapper(Lease)

# For work, the conflict is with the partial unique index: another run of this agent is active in this thread.
_GRANT = Statement(lambda insert: insert(leases).on_conflict_do_nothing())
_JOIN = Statement(insert(lease_members))
_TAKE_BACK = Statement(delete(leases).where(leases.c.token == bindparam("token")))
_GET = Statement(
    select(leases)
    .where(leases.c.token == bindparam("token"), leases.c.agent_id == bindparam("agent_id"))
    .with_for_update(key_share=True)
)
_BY_TOKEN = Statement(select(leases).where(leases.c.token == bindparam("token")).with_for_update(key_share=True))
_PEEK = Statement(select(leases).where(leases.c.token == bindparam("token")))
_RENEW = Statement(
    update(leases)
    .where(
        leases.c.token == bindparam("held_token"),
        leases.c.agent_id == bindparam("holder_id"),
        _active,
        leases.c.expires_at > bindparam("now"),
    )
    .values(expires_at=bindparam("new_expires_at"))
)
_PROLONG = Statement(
    update(leases)
    .where(leases.c.token == bindparam("held_token"), _active)
    .values(expires_at=bindparam("new_expires_at"))
)
_END = Statement(
    update(leases)
    .where(leases.c.token == bindparam("held_token"), _active)
    .values(ended_at=bindparam("now"), ended_as=bindparam("how"))
)
_EXPIRED = Statement(
    select(leases)
    .where(
        _active,
        leases.c.expires_at <= bindparam("now"),
        leases.c.expires_at >= bindparam("last_expires_at"),
        or_(leases.c.expires_at > bindparam("last_expires_at"), leases.c.token > bindparam("last_token")),
    )
    .order_by(leases.c.expires_at, leases.c.token)
    .limit(AT_MOST_N)
)
_OF_AGENT = Statement(select(leases).where(leases.c.agent_id == bindparam("agent_id"), _active))
_FORGET = Statement(
    delete(leases).where(
        leases.c.token.in_(
            select(leases.c.token)
            .where(leases.c.ended_at < bindparam("before"))
            .order_by(leases.c.ended_at)
            .limit(AT_MOST_N)
        )
    )
)


def grant(
    tx: Transaction,
    token: str,
    kind: LeaseKind,
    agent_id: str,
    thread_id: str | None,
    trigger_id: str,
    attempt: int,
    *,
    seconds: float,
    hold: bool = False,
    task_id: str | None = None,
) -> Lease | None:
    """Grants a lease. Returns None if another run of this agent holds the thread."""
    expires_at = tx.now + int(seconds * SECOND)
    granted = _GRANT.run(
        tx,
        token=token,
        kind=kind,
        agent_id=agent_id,
        thread_id=thread_id,
        trigger_id=trigger_id,
        attempt=attempt,
        hold=hold,
        created_at=tx.now,
        expires_at=expires_at,
        ended_at=None,
        ended_as=None,
        task_id=task_id,
    )
    if not granted:
        return None
    return Lease(
        token=token,
        kind=kind,
        agent_id=agent_id,
        thread_id=thread_id,
        trigger_id=trigger_id,
        attempt=attempt,
        hold=hold,
        expires_at=expires_at,
        ended_as=None,
        task_id=task_id,
    )


def join(tx: Transaction, token: str, inbox_message_ids: list[str]) -> None:
    """Adds messages to a lease."""
    _JOIN.many(tx, [{"token": token, "inbox_message_id": message_id} for message_id in inbox_message_ids])


def take_back(tx: Transaction, token: str) -> None:
    """Deletes a lease that covers nothing."""
    _TAKE_BACK.run(tx, token=token)


def get(tx: Transaction, token: str, agent_id: str) -> Lease | None:
    """Returns an agent's lease, active or ended, locked until the transaction ends; None for another agent's token."""
    row = _GET.first(tx, token=token, agent_id=agent_id)
    return _lease(row) if row else None


def by_token(tx: Transaction, token: str) -> Lease | None:
    """Returns any agent's lease, locked; for use by the coordinator itself."""
    row = _BY_TOKEN.first(tx, token=token)
    return _lease(row) if row else None


def peek(tx: Transaction, token: str) -> Lease | None:
    """Returns any agent's lease without locking it, because its thread must be locked first."""
    row = _PEEK.first(tx, token=token)
    return _lease(row) if row else None


def holds(lease: Lease | None, now: int) -> bool:
    """Returns whether a lease is in force."""
    return lease is not None and lease.ended_as is None and lease.expires_at > now


def renew(tx: Transaction, token: str, agent_id: str, seconds: float) -> int | None:
    """Extends a lease to ``seconds`` from now. Returns its new expiry; None if it is no longer in force."""
    expires_at = tx.now + int(seconds * SECOND)
    renewed = _RENEW.run(tx, held_token=token, holder_id=agent_id, now=tx.now, new_expires_at=expires_at)
    if not renewed:
        tx.note(LeaseRefused())
    return expires_at if renewed else None


def prolong(tx: Transaction, token: str, seconds: float) -> bool:
    """Extends a lease to ``seconds`` from now, even after its expiry. Returns False if it has ended.

    Only for work that no other run can take before the lease has ended.
    """
    return bool(_PROLONG.run(tx, held_token=token, new_expires_at=tx.now + int(seconds * SECOND)))


def end(tx: Transaction, token: str, how: LeaseEnd) -> bool:
    """Ends a lease. Returns False if it had already ended."""
    ended = bool(_END.run(tx, held_token=token, now=tx.now, how=how))
    if ended:
        tx.note(LeaseEnded(how=how))
    return ended


def expired(tx: Transaction, after: Lease | None, limit: int) -> list[Lease]:
    """Returns expired leases that follow ``after``, oldest first, without locking them."""
    last_expires_at, last_token = (after.expires_at, after.token) if after else (0, "")
    rows = _EXPIRED.all(tx, now=tx.now, last_expires_at=last_expires_at, last_token=last_token, n=limit)
    return [_lease(row) for row in rows]


def of_agent(tx: Transaction, agent_id: str) -> list[Lease]:
    """Returns all active leases of an agent without locking them."""
    return [_lease(row) for row in _OF_AGENT.all(tx, agent_id=agent_id)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` leases that ended before ``before``, with their members. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
