"""Locks on conversations with built-in agents. Each lock is held by one run.

A row exists while a run holds the lock. Without renewal the lock expires by the database's clock.
"""

from __future__ import annotations

from sqlalchemy import Executable, bindparam, delete, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import conversation_locks

LOCKS = "conversation_locks"
"""The topic that wakes runs waiting for a conversation."""

_t = conversation_locks.c


def _take(insert: postgresql.Insert) -> Executable:
    """If two runs compete, the second waits for the first one's row and then finds the lock held."""
    taken = {name: insert.excluded[name] for name in ("agui_run_id", "expires_at")}
    return insert.on_conflict_do_update(
        index_elements=["client", "agent", "conversation"], set_=taken, where=_t.expires_at <= bindparam("now")
    )


_TAKE = Statement(lambda insert: _take(insert(conversation_locks)))
_ours = (
    (_t.client == bindparam("of_client"))
    & (_t.agent == bindparam("of_agent"))
    & (_t.conversation == bindparam("of_conversation"))
    & (_t.agui_run_id == bindparam("of_run"))
)
_RENEW = Statement(
    update(conversation_locks)
    .where(_ours, _t.expires_at > bindparam("now"))
    .values(expires_at=bindparam("new_expires_at"))
)
_LEAVE = Statement(delete(conversation_locks).where(_ours))
_FORGET = delete_oldest(conversation_locks, _t.expires_at, _t.expires_at < bindparam("before"))


def acquire(tx: Transaction, client: str, agent: str, conversation: str, agui_run_id: str, seconds: float) -> bool:
    """Locks a conversation for a run. Returns False while another run holds the lock."""
    taken = _TAKE.run(
        tx,
        client=client,
        agent=agent,
        conversation=conversation,
        agui_run_id=agui_run_id,
        now=tx.now,
        expires_at=_in(tx, seconds),
    )
    return bool(taken)


def renew(tx: Transaction, client: str, agent: str, conversation: str, agui_run_id: str, seconds: float) -> bool:
    """Extends the lock to ``seconds`` from now. Returns False if the run no longer holds it."""
    renewed = _RENEW.run(
        tx,
        of_client=client,
        of_agent=agent,
        of_conversation=conversation,
        of_run=agui_run_id,
        now=tx.now,
        new_expires_at=_in(tx, seconds),
    )
    return bool(renewed)


def release(tx: Transaction, client: str, agent: str, conversation: str, agui_run_id: str) -> bool:
    """Releases the lock and wakes the waiting runs. Returns whether the run held it."""
    left = bool(_LEAVE.run(tx, of_client=client, of_agent=agent, of_conversation=conversation, of_run=agui_run_id))
    if left:
        tx.wake(LOCKS)
    return left


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` rows that expired before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _in(tx: Transaction, seconds: float) -> int:
    return tx.now + int(seconds * SECOND)
