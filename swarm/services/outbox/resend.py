"""Sends failed deliveries again, by an operator."""

from __future__ import annotations

from functools import partial

from swarm.domain.errors import Conflict, NotFound
from swarm.domain.model.deliveries import DeliveryKind, DeliveryRow, DeliveryStep, Mark
from swarm.domain.policy.operating import OperatingPolicy, Reactions
from swarm.domain.selections import Batch, Selection
from swarm.services.ground.batches import MOST, act_on_all
from swarm.store import deliveries, reactions
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads


class Resending:
    """Deliveries that have failed or expired, for an operator."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def resend(self, delivery_id: str) -> DeliveryRow:
        """Sends a delivery again. A post is searched for in Slack first. Raises NotFound, or Conflict if it has neither
        failed nor expired.
        """
        return await self._database.write(_resend, delivery_id, self._operating_policy.reactions)

    async def resend_all(self, selection: Selection, *, dry_run: bool) -> Batch:
        """Sends all deliveries again that match, in their order, or only counts them."""
        found = await self._database.read(deliveries.matching, selection, MOST)
        return await act_on_all(
            self._database, found, partial(_resend, marks=self._operating_policy.reactions), dry_run=dry_run
        )


def _resend(tx: Transaction, delivery_id: str, marks: Reactions) -> DeliveryRow:
    row = deliveries.get(tx, delivery_id)
    if row is None:
        raise NotFound(f"There is no delivery '{delivery_id}'.")
    if not deliveries.move(tx, DeliveryStep.REDRIVE, row):
        raise Conflict(f"This delivery is {row['status']}; only failed and expired ones can be sent again.")
    tx.wake(deliveries.topic(DeliveryKind(row["kind"]), removes=bool(row["removes"])))
    inbox_message = inbox.get(tx, row["inbox_message_id"]) if row["inbox_message_id"] else None
    thread = threads.get(tx, row["thread_id"])
    if row["kind"] == DeliveryKind.POST and inbox_message and thread and marks.failed:
        reactions.take_back(tx, thread, inbox_message.ts, marks.failed, "its answer is sent again")
        reactions.react(tx, thread, inbox_message.ts, marks.answered, Mark.END)
    again = deliveries.get(tx, delivery_id)
    assert again is not None
    return deliveries.delivery_row(again)
