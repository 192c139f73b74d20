"""Conversations with built-in agents: which run has one at the moment.

A row is there while a run has the conversation; its time is over by the database's clock if nobody renews it.
"""

from __future__ import annotations

from sqlalchemy import Executable, bindparam, delete, select, tuple_, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.store.bridge.statements import AT_MOST_N, Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import talks

LOCKS = "talks"
"""The topic that tells those who wait for a conversation that one has become free."""

_t = talks.c
_KEY = (_t.client, _t.agent, _t.conversation)


def _take(insert: postgresql.Insert) -> Executable:
    """Of runs that come at once the second waits for the first's row, and then finds that its time is not over."""
    taken = {name: insert.excluded[name] for name in ("run_id", "expires_at")}
    return insert.on_conflict_do_update(
        index_elements=["client", "agent", "conversation"], set_=taken, where=_t.expires_at <= bindparam("now")
    )


_TAKE = Statement(lambda insert: _take(insert(talks)))
_ours = (
    (_t.client == bindparam("of_client"))
    & (_t.agent == bindparam("of_agent"))
    & (_t.conversation == bindparam("of_conversation"))
    & (_t.run_id == bindparam("of_run"))
)
_RENEW = Statement(
    update(talks).where(_ours, _t.expires_at > bindparam("now")).values(expires_at=bindparam("new_expires_at"))
)
_LEAVE = Statement(delete(talks).where(_ours))
_FORGET = Statement(
    delete(talks).where(
        tuple_(*_KEY).in_(
            select(*_KEY).where(_t.expires_at < bindparam("before")).order_by(_t.expires_at).limit(AT_MOST_N)
        ),
        _t.expires_at < bindparam("before"),
    )
)


def take(tx: Transaction, client: str, agent: str, conversation: str, run_id: str, seconds: float) -> bool:
    """Give a conversation to a run for so long; False while another run has it."""
    taken = _TAKE.run(
        tx,
        client=client,
        agent=agent,
        conversation=conversation,
        run_id=run_id,
        now=tx.now,
        expires_at=_in(tx, seconds),
    )
    return bool(taken)


def renew(tx: Transaction, client: str, agent: str, conversation: str, run_id: str, seconds: float) -> bool:
    """Leave it to the run for so long from now; False if it has it no more."""
    renewed = _RENEW.run(
        tx,
        of_client=client,
        of_agent=agent,
        of_conversation=conversation,
        of_run=run_id,
        now=tx.now,
        new_expires_at=_in(tx, seconds),
    )
    return bool(renewed)


def leave(tx: Transaction, client: str, agent: str, conversation: str, run_id: str) -> bool:
    """The run has no need of it any more; whether it had it. Those who wait for one are called."""
    left = bool(_LEAVE.run(tx, of_client=client, of_agent=agent, of_conversation=conversation, of_run=run_id))
    if left:
        tx.wake(LOCKS)
    return left


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Drop so many rows whose time was over before then; how many there were."""
    return _FORGET.run(tx, before=before, n=limit)


def _in(tx: Transaction, seconds: float) -> int:
    return tx.now + int(seconds * SECOND)
