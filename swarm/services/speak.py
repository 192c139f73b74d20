"""What the swarm shows in a thread on its own account: reactions, and the few sentences of the coordinator."""

from __future__ import annotations

from typing import Final

from swarm.domain.conduct import Reactions
from swarm.domain.deliveries import DeliveryKind
from swarm.domain.mrkdwn import safe, split
from swarm.domain.threads import Thread
from swarm.store import deliveries, threads
from swarm.store.transaction import Transaction

PART_CHARACTERS: Final = 3_900
"""Longer texts are split: Slack itself splits a message at about 4,000 characters, without regard for code."""

QUEUED_TEXT: Final = (
    "Nobody is available right now. Your message is queued and will be answered as soon as an agent is back."
)
FAILED_TEXT: Final = (
    "This message could not be answered: {reason}. It is set aside; an operator can hand it out again (redrive)."
)


def say(
    tx: Transaction,
    thread: Thread,
    text: str,
    *,
    agent_id: str | None = None,
    inbox_message_id: str | None = None,
    broadcast: bool = False,
    mentionable: frozenset[str] = frozenset(),
) -> list[str]:
    """Queue a text of any length for a thread, made safe and split; the deliveries' ids, in order."""
    parts = split(safe(text, mentionable), PART_CHARACTERS)
    wanted = [
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=part,
            agent_id=agent_id,
            inbox_message_id=inbox_message_id,
            broadcast=broadcast,
        )
        for part in parts
    ]
    return [delivery_id for delivery_id in wanted if delivery_id]


def tell_queued(tx: Transaction, thread: Thread) -> None:
    """Tell a thread that nobody is there, once until it has been answered."""
    if threads.tell_queued(tx, thread.id):
        say(tx, thread, QUEUED_TEXT)


def show_stored(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """👀"""
    deliveries.react(tx, thread, ts, reactions.stored)


def show_answered(tx: Transaction, thread: Thread, ts: str, reactions: Reactions) -> None:
    """✅"""
    deliveries.react(tx, thread, ts, reactions.answered)


def show_failed(tx: Transaction, thread: Thread, ts: str, reason: str, reactions: Reactions) -> None:
    """❌, and why."""
    deliveries.react(tx, thread, ts, reactions.failed)
    say(tx, thread, FAILED_TEXT.format(reason=reason))
