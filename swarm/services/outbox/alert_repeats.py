"""The message in an alert's thread that says how often the alert came again: posted once, then updated.

Who may act: the transaction that stores a repeat, and the sweep. What is guaranteed: one message per group of alerts,
updated at most once a minute, with the exact count in the end. What happens on failure: the sweep tries again.
"""

from __future__ import annotations

from typing import Final

from swarm.clock import SECOND, slack_ts_to_us
from swarm.domain.model.deliveries import DeliveryKind
from swarm.services.ground.guarded import attempt
from swarm.store import deliveries
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import alerts, threads
from swarm.store.threads.alerts import AlertGroup
from swarm_base.times import span

EVERY: Final = 60 * SECOND
"""The shortest interval between two updates of a group's message: twenty groups stay within Slack's limits."""

AT_ONCE: Final = 50


def show_repeats(tx: Transaction, team: str, channel: str, first_ts: str) -> None:
    """Posts or updates the message of a group, unless that was done within the last minute; then the sweep will."""
    group = alerts.show(tx, team, channel, first_ts, EVERY)
    thread = threads.find(tx, team, channel, first_ts) if group else None
    if group is None or thread is None:
        return
    text, key = _text(group), f"alert_repeats:{thread.id}"
    if not deliveries.change(tx, thread, key, text, stops_task_id=None, agent_id=None):
        deliveries.add(tx, DeliveryKind.POST, thread, text=text, idempotency_key=key)


async def show_due(database: Database) -> None:
    """Updates the messages that show too few repeats."""
    for group in await database.read(alerts.unshown, EVERY, AT_ONCE):
        await attempt(database.write(show_repeats, *group), "sweep", part="alert_repeats", thread_ts=group[2])


def is_nothing_due(tx: Transaction) -> bool:
    """Whether `show_due` would find no work."""
    return not alerts.unshown(tx, EVERY, 1)


def _text(group: AlertGroup) -> str:
    after = span(round((group.last_at - slack_ts_to_us(group.ts)) / SECOND))
    if group.repeats == 1:
        return f"This alert came again after {after}."
    return f"This alert came again {group.repeats} times, the last time {after} after the first."
