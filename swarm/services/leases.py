"""Leases in use: renew, release, finish, and what becomes of the work when one is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swarm.domain.agents import Agent
from swarm.domain.conduct import Reactions
from swarm.domain.errors import Invalid, Unresolved
from swarm.domain.inbox import MAX_ATTEMPTS, EntryStatus, EntryStep
from swarm.domain.leases import LeaseEnd, LeaseKind, Outcome
from swarm.domain.notices import NOTICE_ATTEMPTS, NoticeStep
from swarm.domain.threads import Thread
from swarm.services.speak import show_answered, show_failed
from swarm.store import heads, history, holds, inbox, leases, notices, threads
from swarm.store.inbox import Entry
from swarm.store.leases import Lease
from swarm.store.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """What became of each token: ended now, or lost before."""

    ended: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewed:
    """The new expiries by token, and the tokens that no longer hold."""

    expiries: tuple[tuple[str, int], ...]
    lost: tuple[str, ...]


def renew(tx: Transaction, agent: Agent, tokens: Sequence[str]) -> Renewed:
    """Prolong leases by their full time. They are locked in a fixed order, so that two callers cannot deadlock."""
    renewed = {token: leases.renew(tx, token, agent.id) for token in sorted(set(tokens))}
    expiries = [(token, renewed[token]) for token in dict.fromkeys(tokens)]
    return Renewed(
        expiries=tuple((token, expires_at) for token, expires_at in expiries if expires_at is not None),
        lost=tuple(token for token, expires_at in expiries if expires_at is None),
    )


def release(tx: Transaction, agent: Agent, tokens: Sequence[str], delay_seconds: float) -> Ended:
    """Give work back: due again at once or after a delay, and no attempt is counted."""
    held = _held(tx, agent, tokens)
    for lease in held.values():
        _give_back(tx, lease, delay_seconds)
    return _ended(tokens, held)


def give_back(tx: Transaction, tokens: Sequence[str]) -> None:
    """Undo claims whose answer reached nobody. The tokens are unknown outside, so nobody else can have used them."""
    for token in tokens:
        lease = leases.by_token(tx, token)
        if lease and leases.holds(lease, tx.now):
            _give_back(tx, lease, 0)
            for entry in inbox.members(tx, token):
                inbox.uncount_claim(tx, entry.id)


def finish(
    tx: Transaction, agent: Agent, tokens: Sequence[str], outcome: Outcome, reason: str, reactions: Reactions
) -> Ended:
    """End work. Raises Unresolved if it is called done and messages have no answer; then nothing is changed."""
    if outcome is Outcome.DISMISSED and not reason.strip():
        raise Invalid(
            "Say why these messages need no answer.", fields={"reason": "a sentence, since the outcome is dismissed"}
        )
    held = _held(tx, agent, tokens)
    if outcome is Outcome.DONE:
        _check_resolved(tx, held.values())
    for lease in held.values():
        _finish(tx, lease, outcome, reason, reactions)
    return _ended(tokens, held)


def lose(tx: Transaction, lease: Lease, how: LeaseEnd, reason: str, reactions: Reactions) -> None:
    """End a lease whose run failed or fell silent: its work is due again with one attempt more, or dead."""
    if not leases.end(tx, lease.token, how):
        return
    if lease.kind is LeaseKind.NOTICE:
        _lose_notice(tx, lease, reason)
        return
    for entry in _to_return(tx, lease):
        if entry.attempts + 1 >= MAX_ATTEMPTS:
            bury(tx, entry, f"{reason}, {MAX_ATTEMPTS} times", reactions)
        else:
            inbox.move(tx, EntryStep.LOSE, entry, reason=reason)
    _unlock(tx, lease)


def bury(tx: Transaction, entry: Entry, reason: str, reactions: Reactions) -> None:
    """Dead-letter a message and tell its thread why."""
    if inbox.move(tx, EntryStep.BURY, entry, reason=reason):
        show_failed(tx, _thread(tx, entry), entry.ts, reason, reactions)


def end_if_resolved(tx: Transaction, lease: Lease) -> None:
    """A tool that resolves the last message of a trigger ends its lease, unless the poll asked to hold it."""
    if not lease.hold and lease.ended_as is None and not claimed_members(tx, lease):
        leases.end(tx, lease.token, LeaseEnd.RESOLVED)
        _unlock(tx, lease)


def claimed_members(tx: Transaction, lease: Lease) -> list[Entry]:
    """The messages of a lease that still wait for an answer."""
    return _claimed(lease, inbox.members(tx, lease.token))


def _to_return(tx: Transaction, lease: Lease) -> list[Entry]:
    """The same, locked all at once: first the messages and then the head, as everybody does who changes them."""
    return _claimed(lease, inbox.members_locked(tx, lease.token))


def _claimed(lease: Lease, entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.status is EntryStatus.CLAIMED and entry.lease_token == lease.token]


def _finish(tx: Transaction, lease: Lease, outcome: Outcome, reason: str, reactions: Reactions) -> None:
    if outcome is Outcome.FAILED:
        lose(tx, lease, LeaseEnd.FAILED, reason.strip() or "the agent reported a failure", reactions)
        return
    if lease.kind is LeaseKind.NOTICE:
        notices.move(tx, NoticeStep.FINISH, lease.trigger_id)
    for entry in claimed_members(tx, lease):  # none unless dismissed
        inbox.move(tx, EntryStep.DISMISS, entry, reason=reason)
        show_answered(tx, _thread(tx, entry), entry.ts, reactions)
    leases.end(tx, lease.token, LeaseEnd.FINISHED)
    _unlock(tx, lease)


def _give_back(tx: Transaction, lease: Lease, delay_seconds: float) -> None:
    leases.end(tx, lease.token, LeaseEnd.RELEASED)
    if lease.kind is LeaseKind.NOTICE:
        notices.move(tx, NoticeStep.RELEASE, lease.trigger_id)
        tx.wake(lease.agent_id)
        return
    for entry in _to_return(tx, lease):
        inbox.move(tx, EntryStep.RELEASE, entry)
        if delay_seconds > 0:
            holds.delay(tx, entry, delay_seconds)
    _unlock(tx, lease)


def _lose_notice(tx: Transaction, lease: Lease, reason: str) -> None:
    if lease.attempt >= NOTICE_ATTEMPTS:
        notices.move(tx, NoticeStep.DROP, lease.trigger_id)
        history.record(
            tx, "notice.drop", lease.trigger_id, thread_id=lease.thread_id, agent_id=lease.agent_id, reason=reason
        )
    elif notices.move(tx, NoticeStep.LOSE, lease.trigger_id):
        tx.wake(lease.agent_id)


def _check_resolved(tx: Transaction, held: Iterable[Lease]) -> None:
    open_ids = [entry.id for lease in held for entry in claimed_members(tx, lease)]
    if open_ids:
        raise Unresolved(
            f"These inbox messages have no answer yet: {', '.join(open_ids)}.",
            hint="Answer with slack-reply, or finish with outcome 'dismissed' and a reason, or with 'failed'.",
        )


def _held(tx: Transaction, agent: Agent, tokens: Sequence[str]) -> dict[str, Lease]:
    """The leases among ``tokens`` that are in force, locked, in a fixed order so that two callers cannot deadlock."""
    found = {token: leases.get(tx, token, agent.id) for token in sorted(set(tokens))}
    return {token: lease for token, lease in found.items() if lease and leases.holds(lease, tx.now)}


def _thread(tx: Transaction, entry: Entry) -> Thread:
    """The thread of an entry, not locked: whoever answers locks the thread first and then the lease, we the lease."""
    thread = threads.get(tx, entry.thread_id)
    assert thread is not None  # threads that entries refer to are never removed
    return thread


def _unlock(tx: Transaction, lease: Lease) -> None:
    """The thread is free: if more is due in it, its agent should know."""
    if lease.thread_id:
        heads.announce(tx, lease.agent_id, lease.thread_id)


def _ended(tokens: Sequence[str], held: dict[str, Lease]) -> Ended:
    return Ended(
        ended=tuple(token for token in dict.fromkeys(tokens) if token in held),
        lost=tuple(token for token in dict.fromkeys(tokens) if token not in held),
    )
