"""How a polling agent begins an answer, and whether it may say more of it: fencing, as for everything that runs do.

An answer is a turn under the run's lease. Its id is known to its run alone, so a call that names no lease acts under
the turn's; a call that names one must name that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.agents.conversation import conversation_id
from swarm.clock import new_id, slack_ts_to_us
from swarm.domain.answers.pieces import Closed, Opened
from swarm.domain.errors import Conflict, LeaseLost, NotFound, SwarmError, Withdrawn
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.model.runs import RunOutcome, RunStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import AuthorKind
from swarm.services.rules.fencing import NAME_LEASE, authorize_message, authorize_task
from swarm.services.rules.leases import claimed_members
from swarm.services.rules.reply import Caller
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import transcript

_AGENTS_OWN_ENDS: Final = frozenset({LeaseEnd.RESOLVED, LeaseEnd.FINISHED})
_OVER: Final = "Your work is settled, so nothing more can be streamed."
_OVER_HINT: Final = "Say what is left with slack-reply; or poll with hold=true, if you want to answer more than once."


class StillShown(Conflict):
    """The answer of an earlier run is still being brought to its end in Slack; try again in a few seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What an answer is about: one of the two."""

    inbox_message_id: str | None
    task_id: str | None

    @property
    def about(self) -> str:
        """The id of the message or the task."""
        return self.inbox_message_id or self.task_id or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a run has leased, locked and checked."""

    lease: Lease
    thread: Thread
    entry_ids: tuple[str, ...] = ()
    requester: str | None = None


def fenced(tx: Transaction, caller: Caller, wanted: Wanted) -> Claim:
    """What the run has leased; raises what `authorize_message` and `authorize_task` raise, and Conflict where nothing
    can be shown."""
    return _task(tx, caller, wanted.task_id) if wanted.task_id is not None else _messages(tx, caller, wanted.about)


def begin(tx: Transaction, wanted: Wanted, claim: Claim) -> Run:
    """A new turn under the run's lease; raises what `Streams.open` says, and StillShown."""
    lease, thread = claim.lease, claim.thread
    if lease.kind is LeaseKind.NOTICE or not leases.holds(lease, tx.now):
        raise Conflict(_OVER, hint=_OVER_HINT)
    if transcript.is_deleted(tx, thread.team, thread.channel, thread.thread_ts):
        raise Withdrawn("The thread's first message was deleted in Slack, so nothing can be shown there.")
    if run_pages.is_unsealed_in_thread(tx, thread.id, lease.agent_id):
        raise StillShown
    turn = runs.start(
        tx,
        agent_id=lease.agent_id,
        thread_id=thread.id,
        lease_token=lease.token,
        trigger_id=lease.trigger_id,
        attempt=lease.attempt,
        conversation_id=conversation_id(thread.team, thread.channel, thread.thread_ts),
        run_id=new_id(),
        requester=claim.requester,
        task_id=wanted.task_id,
        entry_ids=claim.entry_ids,
    )
    if turn is None:
        raise _in_the_way(tx, lease)
    run_events.add(tx, turn.id, Opened())
    tx.wake(runs.TURNS)
    return turn


def own(tx: Transaction, caller: Caller, turn_id: str) -> Run:
    """The turn of an answer that the caller's run has opened; raises NotFound or LeaseLost."""
    turn = runs.get(tx, turn_id)
    if turn is None or turn.agent_id != caller.agent.id or run_events.last(tx, turn_id) is None:
        raise NotFound(f"You have no stream '{turn_id}'.", hint="Use the turn_id that action 'open' gave you.")
    if caller.lease_token not in (None, turn.lease_token):
        raise LeaseLost(hint=f"This stream is another run's. {NAME_LEASE}")
    return turn


def authorize_answer(tx: Transaction, turn: Run) -> Lease:
    """The lease of an answer of which more may be said, locked.

    Raises Conflict with the reason if the answer is over, Withdrawn if what it answers was deleted, LeaseLost.
    """
    lease = leases.get(tx, turn.lease_token, turn.agent_id)
    now = runs.get(tx, turn.id)
    assert now is not None  # turns are dropped long after their end
    _check_not_told_over(tx, now)
    is_settled = lease is not None and lease.ended_as in _AGENTS_OWN_ENDS
    if lease is None or not (is_settled or leases.holds(lease, tx.now)):
        raise LeaseLost(hint="Stop working on it; what is still to be done comes by the next poll.")
    if now.status is not RunStatus.RUNNING and not is_settled:
        why = f": {now.outcome_note}" if now.outcome_note else ""
        raise Conflict(f"This stream has ended{why}.", hint="If the work is still yours, answer with slack-reply.")
    if is_settled:
        raise Conflict(_OVER, hint=_OVER_HINT)
    return lease


def is_closed(tx: Transaction, turn_id: str) -> bool:
    """Whether the agent has said the last of an answer."""
    last = run_events.last(tx, turn_id)
    return last is not None and isinstance(last.piece, Closed)


def is_withdrawn(tx: Transaction, turn: Run) -> bool:
    """Whether everything that a turn answers was deleted in Slack."""
    entries = [inbox.get(tx, entry_id) for entry_id in turn.entry_ids]
    return bool(entries) and all(entry is not None and entry.status is InboxStatus.WITHDRAWN for entry in entries)


def _messages(tx: Transaction, caller: Caller, entry_id: str) -> Claim:
    got = authorize_message(tx, caller.agent, entry_id, caller.lease_token)
    if got.entry.status is InboxStatus.DELEGATED:
        raise Conflict("You have delegated this message.", hint="Say what is left with slack-reply.")
    members = [got.entry, *(entry for entry in claimed_members(tx, got.lease) if entry.id != got.entry.id)]
    return Claim(
        lease=got.lease,
        thread=got.thread,
        entry_ids=tuple(entry.id for entry in members),
        requester=_requester(tx, members),
    )


def _task(tx: Transaction, caller: Caller, task_id: str) -> Claim:
    got = authorize_task(tx, caller.agent, task_id, caller.lease_token)
    if got.thread is None:
        raise Conflict(
            "This task has no Slack thread, so there is nowhere to show it.",
            hint="Put what you have to say into its result, or tell an agent with send-message.",
        )
    return Claim(lease=got.lease, thread=got.thread, requester=got.task.requester)


def _requester(tx: Transaction, entries: Sequence[InboxMessage]) -> str | None:
    """The person who has spoken last; None if only bots have. Slack streams to people only."""
    rows = (transcript.find(tx, entry.team, entry.channel, entry.ts) for entry in entries)
    said = sorted((transcript.transcript_message(row) for row in rows if row), key=lambda one: slack_ts_to_us(one.ts))
    people = [one.author_id for one in said if one.kind is AuthorKind.USER and one.author_id.startswith(("U", "W"))]
    return people[-1] if people else None


def _in_the_way(tx: Transaction, lease: Lease) -> SwarmError:
    other = runs.in_hand(tx, lease.trigger_id)
    if other is None or other.lease_token != lease.token or is_closed(tx, other.id):
        return StillShown()
    return Conflict(
        f"A stream is open under this lease already: '{other.id}'.", hint="Go on with it, or close it first."
    )


def _check_not_told_over(tx: Transaction, turn: Run) -> None:
    """The agent has closed it, a person has stopped it, or what it answers is gone."""
    if is_closed(tx, turn.id):
        raise Conflict("This stream is closed.", hint="Say what is left with slack-reply.")
    if turn.stop_requested_at is not None or RunOutcome.STOPPED in (turn.outcome, turn.status):
        by = f"by <@{turn.stop_requested_by}>" if turn.stop_requested_by else "in Slack"
        raise Conflict(f"This stream was stopped {by}.", hint="Stop working on it, and say nothing more.")
    if is_withdrawn(tx, turn):
        raise Withdrawn(hint="Say nothing; finish the lease.")
