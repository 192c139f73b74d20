"""Webhooks: calls of other services, stored with the change that causes them, and made afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson
from sqlalchemy import bindparam, delete, func, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.webhooks import Webhook, WebhookKind, WebhookStatus
from swarm.domain.watchers import WebhookEnded
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.effects import webhooks

WEBHOOKS: Final = "webhooks"
"""The topic that wakes the sender."""

_w = webhooks.c
_ADD = Statement(
    lambda insert: (
        insert(webhooks)
        .values(
            every_column(
                webhooks,
                status=WebhookStatus.OPEN.value,
                attempts=0,
                due_at=bindparam("now"),
                error=None,
                created_at=bindparam("now"),
                ended_at=None,
            )
        )
        .on_conflict_do_nothing()
    )
)
_DUE = Statement(select(webhooks).where(_w.due_at <= bindparam("now")).order_by(_w.due_at, _w.id).limit(AT_MOST_N))
_NEXT = Statement(select(func.min(_w.due_at).label("due_at")).where(_w.due_at.is_not(None)))
_TAKE = Statement(
    update(webhooks)
    .where(_w.id == bindparam("webhook_id"), _w.due_at <= bindparam("now"))
    .values(due_at=bindparam("until"), attempts=_w.attempts + 1)
)
_POSTPONE = Statement(
    update(webhooks)
    .where(_w.id == bindparam("webhook_id"), _w.due_at.is_not(None))
    .values(due_at=bindparam("until"), error=bindparam("reason"))
)
_END = Statement(
    update(webhooks)
    .where(_w.id == bindparam("webhook_id"), _w.due_at.is_not(None))
    .values(due_at=None, body="", ended_at=bindparam("now"), status=bindparam("outcome"), error=bindparam("reason"))
)
_DISCARD = Statement(
    delete(webhooks).where(_w.due_at.is_not(None), _w.idempotency_key.startswith(bindparam("key"), autoescape=False))
)
_OF_THREAD = Statement(select(webhooks).where(_w.thread_id == bindparam("thread_id")).order_by(_w.id).limit(AT_MOST_N))
_FORGET = delete_oldest(webhooks, _w.ended_at, _w.ended_at < bindparam("before"))

_webhook = row_mapper(Webhook)


def add(
    tx: Transaction,
    kind: WebhookKind,
    body: Mapping[str, object],
    *,
    idempotency_key: str,
    target: str = "",
    thread_id: str | None = None,
    person: str | None = None,
) -> str | None:
    """Queues a call of a service. Returns its id, or None for a known key.

    ``body`` contains no secret; the sender adds those of the settings. ``person`` is the user id of the person whose
    words the body contains.
    """
    webhook_id = new_id()
    added = _ADD.run(
        tx,
        id=webhook_id,
        kind=kind.value,
        target=target,
        body=orjson.dumps(body).decode(),
        idempotency_key=idempotency_key,
        thread_id=thread_id,
        person=person,
        now=tx.now,
    )
    if not added:
        return None
    tx.wake(WEBHOOKS)
    return webhook_id


def discard(tx: Transaction, key: str) -> int:
    """Deletes the open calls whose idempotency keys begin with ``key``, which newer calls replace. Returns their
    number.

    A call in progress may still reach its service, before the newer one.
    """
    return _DISCARD.run(tx, key=key)


def due(tx: Transaction, limit: int) -> list[Webhook]:
    """Returns the calls that are due, oldest first."""
    return [_webhook(row) for row in _DUE.all(tx, now=tx.now, n=limit)]


def seconds_to_next(tx: Transaction) -> float | None:
    """Returns the time until the next call is due; None if no call is open."""
    row = _NEXT.first(tx)
    return None if row is None or row["due_at"] is None else max(0.0, (row["due_at"] - tx.now) / SECOND)


def take(tx: Transaction, webhook_id: str, seconds: float) -> bool:
    """Takes a call for an attempt: it is due again after ``seconds``. Returns False if another process has taken it."""
    return bool(_TAKE.run(tx, webhook_id=webhook_id, now=tx.now, until=tx.now + int(seconds * SECOND)))


def postpone(tx: Transaction, webhook: Webhook, seconds: float, reason: str) -> None:
    """Makes a call due again after ``seconds``."""
    _POSTPONE.run(tx, webhook_id=webhook.id, until=tx.now + int(seconds * SECOND), reason=reason)


def end(tx: Transaction, webhook: Webhook, outcome: WebhookStatus, reason: str | None = None) -> bool:
    """Ends a call as sent or failed, and deletes its body. Returns False if it has ended before."""
    if not _END.run(tx, webhook_id=webhook.id, now=tx.now, outcome=outcome.value, reason=reason):
        return False
    history.record(tx, f"webhook.{outcome.value}", webhook.id, thread_id=webhook.thread_id, reason=reason)
    tx.note(WebhookEnded(kind=webhook.kind, outcome=outcome, age_us=tx.now - webhook.created_at))
    return True


def of_thread(tx: Transaction, thread_id: str, limit: int = 100) -> list[Webhook]:
    """Returns the calls about a thread, oldest first."""
    return [_webhook(row) for row in _OF_THREAD.all(tx, thread_id=thread_id, n=limit)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` calls that ended before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
