"""Fencing: whether a run may still act on an inbox message.

A run proves itself with the token of its lease. A run that names none may act only if the entry was leased once in its
whole life: otherwise a run that comes back late could act under the lease of its successor.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.agents import Agent
from swarm.domain.errors import Conflict, LeaseLost, NotFound, Withdrawn
from swarm.domain.inbox import EntryStatus
from swarm.domain.leases import LeaseEnd
from swarm.domain.threads import Thread
from swarm.store import inbox, leases, threads
from swarm.store.inbox import Entry
from swarm.store.leases import Lease
from swarm.store.transaction import Transaction

_POLL_FIRST = "Take it with GET /poll first; the answer carries the lease token."
_NAME_LEASE = "Pass the lease token of your own run as lease_token or in the header X-Swarm-Lease."


@dataclass(frozen=True, kw_only=True, slots=True)
class Grip:
    """A run's hold on an entry: everything locked, everything checked."""

    entry: Entry
    thread: Thread
    lease: Lease


def grip(tx: Transaction, agent: Agent, entry_id: str, token: str | None) -> Grip:
    """The entry, for a run that may act on it.

    Raises NotFound for an unknown entry and for another agent's alike, Withdrawn if it was deleted in Slack, LeaseLost
    if the run's lease does not hold. A lease that ended because everything under it was answered still lets its run
    add to the answer.
    """
    found = inbox.get(tx, entry_id)
    if found and found.agent_id != agent.id and _had(tx, agent, found, token):
        raise LeaseLost(hint="The message has gone to another agent: stop working on it.")
    if found is None or found.agent_id != agent.id:
        raise NotFound(f"You have no inbox message '{entry_id}'.", hint="Use an id from your own poll or tray.")
    thread = threads.locked(tx, found.thread_id)
    claimed_under = (found.lease_token or "") if token is None else token
    lease = leases.get(tx, claimed_under, agent.id)  # before the entry: finish locks in this order
    entry = inbox.locked(tx, entry_id)
    assert entry is not None  # entries are never removed
    if entry.status is EntryStatus.WITHDRAWN:
        raise Withdrawn(hint="Say nothing; finish the lease.")
    return Grip(entry=entry, thread=thread, lease=_checked(tx, entry, token, lease))


def _had(tx: Transaction, agent: Agent, entry: Entry, token: str | None) -> bool:
    """Whether the token is of a lease that the agent had on the entry."""
    lease = leases.get(tx, token or "", agent.id)
    return lease is not None and entry.id in (member.id for member in inbox.members(tx, lease.token))


def _checked(tx: Transaction, entry: Entry, token: str | None, lease: Lease | None) -> Lease:
    """The lease, if it is the entry's and lets its run act."""
    if entry.claims == 0:
        raise Conflict("This inbox message is not leased to you yet.", hint=_POLL_FIRST)
    if token is None and entry.claims > 1:
        raise LeaseLost(
            "This inbox message was handed out more than once, so your run must name its lease.", hint=_NAME_LEASE
        )
    if lease is None or lease.token != entry.lease_token or not _lets_act(lease, tx.now):
        raise LeaseLost(hint="Stop working on it; what is still to be done comes by the next poll.")
    return lease


def _lets_act(lease: Lease, now: int) -> bool:
    return leases.holds(lease, now) or lease.ended_as is LeaseEnd.RESOLVED
