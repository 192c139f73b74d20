"""What becomes of a run that is lost, since its process has crashed, was stopped, slept, or has lost the office.

Who may act: whoever is elected. What is guaranteed: one transaction decides on the turn, its lease, its work and what
its thread is told. The row of the turn is where it is decided: a run that has told its end before (it is closing) is
left to be shown, and one that wants to tell it afterwards finds that it may not. So either the answer counts and
nothing runs again, or the work is handed out again and the answer says that it was abandoned.

What happens on failure: the messages that do not say so yet stay open in their rows, and are found again. No run of the
same agent begins in that thread meanwhile, so that never two of its messages grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.domain.answers import words
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.outcomes import Answered, AnswerOutcome, RunFailed, RunStopped
from swarm.domain.model.inbox import MAX_ATTEMPTS
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.runs import PagePhase, RunStatus, RunStep
from swarm.domain.model.tasks import MAX_ATTEMPTS as MAX_TASK_ATTEMPTS
from swarm.domain.model.threads import Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules.leases import claimed_members, give_back, lose
from swarm.services.rules.system_messages import post_closing
from swarm.services.runs.run_ends import Ending, close_pages, remember_pages, settle_work, still_holds, stop_key
from swarm.services.runs.run_record import outcome_of
from swarm.services.runs.stream_ends import is_ours_to_settle, is_polling, show_settled
from swarm.store import deliveries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

RESTARTED: Final = "the coordinator was interrupted"
RESTARTED_TEXT: Final = "⚠️ The coordinator was interrupted in the middle of this; the answer begins anew below."

_COMES_AGAIN: Final = frozenset({LeaseEnd.EXPIRED, LeaseEnd.RELEASED, LeaseEnd.FAILED, LeaseEnd.REVOKED})
"""A lease that has ended so has handed its work out again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """How a run was lost."""

    runs_again: bool  # its agent may do things twice
    counts: bool  # to run it again takes up one of its attempts
    was_called: bool = True  # the agent may have begun


def break_off(tx: Transaction, turn_id: str, loss: Loss, place: AnswerTarget | None, conduct: OperatingPolicy) -> None:
    """Decide what becomes of a turn whose run is lost. One that does not run any more is left as it is.

    The messages that people see already are left to be sealed (`below_of` says with what); where there is none, a post
    says the same.
    """
    found = runs.get(tx, turn_id)
    assert found is not None  # turns that are not over are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    turn = runs.locked(tx, turn_id)  # the run may tell its end at this very moment
    if turn is None or turn.status is not RunStatus.RUNNING:
        return
    outcome = _outcome(tx, turn, lease, loss)
    if outcome is None:
        runs.end(tx, turn.id, RunStep.ABANDON, RESTARTED)
        _hand_out_again(tx, turn, lease, loss, conduct)
    else:
        known, note = outcome_of(outcome)
        runs.end(tx, turn.id, known.step, note)
        if lease and still_holds(tx, turn, lease) and is_ours_to_settle(tx, turn, outcome):
            settle_work(tx, turn, lease, thread, Ending(outcome=outcome), conduct)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        remember_pages(tx, turn, thread, place)
        over = runs.get(tx, turn.id)
        assert over is not None
        _leave_to_be_sealed(tx, over, thread, place, says_so=outcome is not None or loss.was_called)
        deliveries.take_down(tx, thread, stop_key(turn.id))


class LeaseLossOutcome(StrEnum):
    """What a run that could not renew its lease finds."""

    OURS = "ours"  # nobody has taken the work
    TAKEN = "taken"  # it is handed out again, or its turn is over
    SETTLED = "settled"  # by a tool, or cancelled: nobody does it again


def keep(tx: Transaction, turn_id: str, seconds: float) -> LeaseLossOutcome:
    """Prolong the lease of a turn that runs, also one whose time is over: as long as `break_off` has not decided."""
    found = runs.get(tx, turn_id)
    lease = leases.by_token(tx, found.lease_token) if found else None
    turn = runs.get(tx, turn_id)
    if turn is None or turn.ended_at is not None or lease is None or lease.ended_as in _COMES_AGAIN:
        return LeaseLossOutcome.TAKEN
    return LeaseLossOutcome.OURS if leases.prolong(tx, lease.token, seconds) else LeaseLossOutcome.SETTLED


def below_of(turn: Run, *, is_partial: bool) -> Closing:
    """What the messages of a turn that was broken off say."""
    match turn.status:
        case RunStatus.ABANDONED:
            return Closing(note=RESTARTED_TEXT)
        case RunStatus.STOPPED:
            return Closing(note=words.stopped(turn.stop_requested_by))
        case RunStatus.FAILED:
            return Closing(note=words.broke_off(turn.outcome_note or RESTARTED, is_partial=is_partial), retry=True)
        case _:
            return NOTHING_BELOW


def sealed(tx: Transaction, turn_id: str, place: AnswerTarget | None, still_below: Closing) -> None:
    """Every message of a turn is sealed, as far as Slack lets us; what could not be said in them is posted."""
    found = runs.get(tx, turn_id)
    thread = threads.locked(tx, found.thread_id) if found and found.thread_id else None
    turn = runs.get(tx, turn_id)
    if turn is None or not _is_open(tx, turn):
        return
    close_pages(tx, turn)
    if thread and place:
        _say(tx, turn, thread, still_below, place)


def _outcome(tx: Transaction, turn: Run, lease: Lease | None, loss: Loss) -> AnswerOutcome | None:
    """How the turn ends; None if its work is done anew."""
    if turn.stop_requested_at is not None:
        return RunStopped(by=turn.stop_requested_by)
    how = lease.ended_as if lease else None
    if how is LeaseEnd.CANCELLED:
        return RunStopped(by=None)
    polls = is_polling(tx, turn)
    if how in (LeaseEnd.RESOLVED, LeaseEnd.FINISHED):
        return Answered() if polls else RunFailed(reason=RESTARTED)
    if how in _COMES_AGAIN or polls:
        return None
    if lease is None or not loss.runs_again:
        return RunFailed(reason=RESTARTED)
    last = _last_attempt(tx, turn, lease) if loss.counts else None
    return RunFailed(reason=f"{RESTARTED}, {last} times") if last else None


def _last_attempt(tx: Transaction, turn: Run, lease: Lease) -> int | None:
    """So many attempts there were, if there is none left for any of the work."""
    task = tasks.locked(tx, turn.task_id) if turn.task_id else None
    if task:
        return MAX_TASK_ATTEMPTS if task.attempts + 1 >= MAX_TASK_ATTEMPTS else None
    entries = claimed_members(tx, lease)
    return MAX_ATTEMPTS if entries and all(entry.attempts + 1 >= MAX_ATTEMPTS for entry in entries) else None


def _hand_out_again(tx: Transaction, turn: Run, lease: Lease | None, loss: Loss, conduct: OperatingPolicy) -> None:
    if loss.counts or not leases.holds(lease, tx.now):
        lose(tx, turn.lease_token, LeaseEnd.EXPIRED, RESTARTED, conduct)
    else:
        give_back(tx, [turn.lease_token])


def _leave_to_be_sealed(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget, *, says_so: bool) -> None:
    """The first message says it as well: people begin to read there, and it may have been closed long ago."""
    pages = run_pages.of_turn(tx, turn.id)
    below = below_of(turn, is_partial=bool(pages)) if says_so else NOTHING_BELOW
    if below != NOTHING_BELOW:
        first_page_is_open(tx, turn)
    if not _is_open(tx, turn):
        _say(tx, turn, thread, below, place)


def first_page_is_open(tx: Transaction, turn: Run) -> None:
    """The first message is to say something more, if its text is known: else it is open, or was sealed before."""
    first = next(iter(run_pages.of_turn(tx, turn.id)), None)
    if first and first.ts and first.text is not None:
        run_pages.page_reopened(tx, turn.id, first.page, first.ts)


def _is_open(tx: Transaction, turn: Run) -> bool:
    return any(page.phase is not PagePhase.CLOSED for page in run_pages.of_turn(tx, turn.id))


def _say(tx: Transaction, turn: Run, thread: Thread, below: Closing, place: AnswerTarget) -> None:
    if below == NOTHING_BELOW:
        return
    is_answer = turn.status is not RunStatus.ABANDONED and turn.entry_ids
    post_closing(
        tx,
        thread,
        "",
        below,
        place,
        is_safe=True,
        agent_id=turn.agent_id,
        inbox_message_id=turn.entry_ids[0] if is_answer else None,
        task_id=turn.task_id,
    )
