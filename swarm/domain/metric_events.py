"""Facts: what a transaction has changed, told after its commit to whoever watches.

A query function notes them with ``tx.note`` while it changes the database. They are told once, and only if the commit
succeeded: a transaction that was rolled back, and one that was run again, tells nothing twice. Nothing depends on
them: the database alone says what is so.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.model.deliveries import DeliveryKind, DeliveryStep
from swarm.domain.model.leases import LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """Something took a step that its timeline records, for example ``inbox.respond``."""

    change: str
    subject: str  # the id of what has changed
    thread_id: str | None
    agent_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerClaimed:
    """An agent got work or news under a lease."""

    kind: str  # the trigger's
    trigger_id: str
    agent_id: str
    attempt: int
    waited_us: int  # since it was stored
    also: tuple[str, ...] = ()  # messages that came with it, or from which it was delegated


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseEnded:
    """A lease came to its end."""

    how: LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRefused:
    """Somebody wanted to go on under a lease that no longer holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryStepped:
    """An intended effect in Slack came one step further, or did not."""

    kind: DeliveryKind
    step: DeliveryStep
    age_us: int  # since it was wanted


@dataclass(frozen=True, kw_only=True, slots=True)
class ReactionsExpired:
    """So many reactions could not leave in time, and were given up together."""

    count: int


MetricEvent = Changed | TriggerClaimed | LeaseEnded | LeaseRefused | DeliveryStepped | ReactionsExpired
