"""Leases. Every statement that ends or renews a lease matches its token, and changes only an active lease.

A lease is in force until its row is ended. ``expires_at`` says when the sweep looks whether to end it; nothing else
goes by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import BigInteger, Boolean, Integer, Text, bindparam, delete, insert, or_, select, true, update

from swarm.clock import SECOND
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.watchers import LeaseEnded
from swarm.store.bridge.statements import AT_MOST_N, Statement, given, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.work import inbox_messages, lease_members, leases, notices, tasks

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
    created_at: int = 0
    prolonged: int = 0  # how often the sweep has prolonged it since its last renewal
    key_hash: str | None = field(default=None, repr=False, compare=False)
    ended_at: int | None = None


_lease = row_mapper(Lease)

_given_tokens = given(token=Text)
_given_leases = given(
    token=Text, kind=Text, agent_id=Text, thread_id=Text, trigger_id=Text, attempt=Integer, hold=Boolean,
    created_at=BigInteger, expires_at=BigInteger, task_id=Text, key_hash=Text,
)  # fmt: skip
# For work, the conflict is with the partial unique index: another run of this agent is active in this thread.
_GRANT = Statement(
    lambda insert: (
        insert(leases)
        .from_select([column.name for column in _given_leases.c], select(_given_leases).where(true()))
        .on_conflict_do_nothing()
        .returning(leases.c.token)
    )
)
_given_members = given(token=Text, inbox_message_id=Text)
_JOIN = Statement(
    insert(lease_members).from_select([column.name for column in _given_members.c], select(_given_members))
)
_TAKE_BACK = Statement(delete(leases).where(leases.c.token.in_(select(_given_tokens.c.token))))
_GET = Statement(
    select(leases)
    .join(_given_tokens, leases.c.token == _given_tokens.c.token)
    .order_by(leases.c.token)
    .with_for_update(of=leases, key_share=True)
)
_PEEK = Statement(select(leases).where(leases.c.token == bindparam("token")))
_OF_KEY = Statement(select(leases).where(leases.c.key_hash == bindparam("key_hash")))
_RENEW = Statement(
    update(leases)
    .where(leases.c.token == _given_tokens.c.token, _active)
    .values(expires_at=bindparam("new_expires_at"), prolonged=0)
)
_PROLONG = Statement(
    update(leases)
    .where(leases.c.token == bindparam("held_token"), _active)
    .values(expires_at=bindparam("new_expires_at"), prolonged=leases.c.prolonged + 1)
)
_END = Statement(
    update(leases)
    .where(leases.c.token == _given_tokens.c.token, _active)
    .values(ended_at=bindparam("now"), ended_as=bindparam("how"))
    .returning(leases.c.token)
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
_OF_THREAD = Statement(
    select(leases)
    .where(leases.c.thread_id == bindparam("thread_id"), _active, leases.c.kind == literally(LeaseKind.WORK))
    .order_by(leases.c.token)
)
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


# The step that loses the work has counted an attempt.
_INTERRUPTED = {
    table.name: Statement(
        update(table)
        .where(table.c.id == bindparam("work_id"))
        .values(attempts=table.c.attempts - 1, interruptions=table.c.interruptions + 1)
    )
    for table in (inbox_messages, tasks, notices)
}


def grant(tx: Transaction, wanted: Sequence[Lease]) -> list[Lease]:
    """Grants leases. Returns those granted: an agent has at most one run in a thread."""
    rows = [
        {
            "token": lease.token, "kind": lease.kind, "agent_id": lease.agent_id, "thread_id": lease.thread_id,
            "trigger_id": lease.trigger_id, "attempt": lease.attempt, "hold": lease.hold, "created_at": tx.now,
            "expires_at": lease.expires_at, "task_id": lease.task_id, "key_hash": lease.key_hash,
        }
        for lease in wanted
    ]  # fmt: skip
    granted = {row["token"] for row in _GRANT.all(tx, given=rows)} if rows else set()
    return [lease for lease in wanted if lease.token in granted]


def join(tx: Transaction, members: Sequence[tuple[str, str]]) -> None:
    """Adds messages to leases: pairs of a token and a message id."""
    if rows := [{"token": token, "inbox_message_id": message_id} for token, message_id in members]:
        _JOIN.run(tx, given=rows)


def take_back(tx: Transaction, tokens: Iterable[str]) -> None:
    """Deletes leases that cover nothing."""
    if rows := _tokens(tokens):
        _TAKE_BACK.run(tx, given=rows)


def locked(tx: Transaction, tokens: Iterable[str]) -> dict[str, Lease]:
    """Returns any agents' leases by token, active or ended, locked until the transaction ends.

    The locks are taken in the order of the tokens, so that two callers cannot deadlock.
    """
    rows = _tokens(tokens)
    return {row["token"]: _lease(row) for row in _GET.all(tx, given=rows)} if rows else {}


def get(tx: Transaction, token: str, agent_id: str) -> Lease | None:
    """Returns an agent's lease, active or ended, locked until the transaction ends; None for another agent's token."""
    lease = by_token(tx, token)
    return lease if lease and lease.agent_id == agent_id else None


def by_token(tx: Transaction, token: str) -> Lease | None:
    """Returns any agent's lease, locked; for use by the coordinator itself."""
    return locked(tx, [token]).get(token)


def peek(tx: Transaction, token: str) -> Lease | None:
    """Returns any agent's lease without locking it, because its thread must be locked first."""
    row = _PEEK.first(tx, token=token)
    return _lease(row) if row else None


def of_key(tx: Transaction, key_hash: str) -> Lease | None:
    """Returns the lease whose key has this hash, active or ended, without locking it."""
    row = _OF_KEY.first(tx, key_hash=key_hash)
    return _lease(row) if row else None


def holds(lease: Lease | None) -> bool:
    """Returns whether a lease is in force: until its row is ended, whatever the time is."""
    return lease is not None and lease.ended_as is None


def renew(tx: Transaction, tokens: Iterable[str], seconds: float) -> int:
    """Extends active leases, already locked, to ``seconds`` from now. Returns their new expiry."""
    expires_at = tx.now + int(seconds * SECOND)
    if rows := _tokens(tokens):
        _RENEW.run(tx, given=rows, new_expires_at=expires_at)
    return expires_at


def prolong(tx: Transaction, token: str, seconds: float) -> None:
    """Extends an active lease to ``seconds`` from now without a sign of its agent, and counts this."""
    _PROLONG.run(tx, held_token=token, new_expires_at=tx.now + int(seconds * SECOND))


def was_interrupted(tx: Transaction, table: str, work_id: str) -> None:
    """Records that the death of the coordinator has just lost work of a table, instead of an attempt."""
    _INTERRUPTED[table].run(tx, work_id=work_id)


def end(tx: Transaction, token: str, how: LeaseEnd) -> bool:
    """Ends a lease. Returns False if it had already ended."""
    return bool(end_all(tx, [token], how))


def end_all(tx: Transaction, tokens: Iterable[str], how: LeaseEnd) -> list[str]:
    """Ends leases. Returns the tokens of those that had not already ended."""
    rows = _tokens(tokens)
    ended = [row["token"] for row in _END.all(tx, given=rows, now=tx.now, how=how)] if rows else []
    for _ in ended:
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


def of_thread(tx: Transaction, thread_id: str) -> list[Lease]:
    """Returns all active leases of work in a thread, by token, without locking them."""
    return [_lease(row) for row in _OF_THREAD.all(tx, thread_id=thread_id)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` leases that ended before ``before``, with their members. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _tokens(tokens: Iterable[str]) -> list[dict[str, str]]:
    return [{"token": token} for token in dict.fromkeys(tokens)]
