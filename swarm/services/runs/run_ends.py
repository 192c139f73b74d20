"""The end of runs: finished, or lost because their process crashed, was stopped, slept, or lost the office. One
transaction decides about the run, its lease, its work and the messages in its thread.

Who may act: the run itself; for a lost run, the elected process. What is guaranteed: the row of the run decides. A run
that has stored its end (closing) is only shown, and a run that wants to end after its loss finds that it may not. So
either the answer counts and nothing runs again, or the work is handed out again and the answer is marked as abandoned.

What happens on failure: messages without their final state stay open in their rows and are found again. Meanwhile no
run of the same agent begins in the thread, so two of its messages never grow at once.

Lock order, as everywhere: the thread, the lease, the task, the messages, the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from swarm.domain.answers import wording
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.model import triggers
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import MAX_ATTEMPTS, InboxStep
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.runs import UNFINISHED, PagePhase, RunOutcome, RunStatus, RunStep
from swarm.domain.model.tasks import MAX_ATTEMPTS as MAX_TASK_ATTEMPTS
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Author, AuthorKind, ChannelType, SlackMessage, Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules import task_ends
from swarm.services.rules.leases import claimed_members, end_if_resolved, give_back, lose
from swarm.services.rules.system_messages import post_closing, react_failed, show_answered, show_stopped
from swarm.services.rules.task_threads import answered_before
from swarm.services.runs.stream_state import is_ours_to_settle, is_polling, show_settled
from swarm.store import deliveries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import interrupts, run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

STOP_TEXT: Final = "⏳ Still working on it."
RESTARTED: Final = "the coordinator was interrupted"
RESTARTED_TEXT: Final = "⚠️ The coordinator was interrupted in the middle of this; the answer begins anew below."

_END_MARKS: Final = {
    InboxStep.RESPOND: show_answered,
    InboxStep.BURY: react_failed,
    InboxStep.DISMISS: show_stopped,  # a run dismisses a message only after a person's Stop
}
_ENTRY_STEPS: Final = {
    RunOutcome.ANSWERED: InboxStep.RESPOND,
    RunOutcome.FAILED: InboxStep.BURY,
    RunOutcome.STOPPED: InboxStep.DISMISS,
    RunOutcome.WAITING: InboxStep.ASK,
}
_COMES_AGAIN: Final = frozenset({LeaseEnd.EXPIRED, LeaseEnd.RELEASED, LeaseEnd.FAILED, LeaseEnd.REVOKED})
"""A lease with one of these ends has handed out its work again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """The circumstances of a lost run."""

    runs_again: bool  # its agent may do work twice
    counts: bool  # another run uses up one of the attempts
    was_called: bool = True  # the agent may have begun


class LeaseLossOutcome(StrEnum):
    """The state of work whose lease could not be renewed."""

    OURS = "ours"  # no other run has the work
    TAKEN = "taken"  # handed out again, or the run is over
    SETTLED = "settled"  # settled by a tool, or cancelled: not to be done again


def place_of(
    thread: Thread | triggers.ThreadView,
    conduct: OperatingPolicy,
    *,
    turn_id: str,
    requester: str | None,
    agent_name: str,
    footer: str = "",
) -> AnswerTarget:
    """Returns the place in Slack where the answer of a run appears."""
    return AnswerTarget(
        team=thread.team,
        channel=thread.channel,
        thread_ts=thread.thread_ts,
        is_direct=thread.channel_type is ChannelType.DM,
        requester=requester,
        agent_name=agent_name,
        turn_id=turn_id,
        display=conduct.policy(thread.channel).display,
        footer=footer,
    )


def outcome_of(outcome: AnswerOutcome) -> tuple[RunOutcome, str | None]:
    """Returns the outcome as stored, and the reason of a failure."""
    match outcome:
        case Answered():
            return RunOutcome.ANSWERED, None
        case RunFailed(reason=reason):
            return RunOutcome.FAILED, reason
        case RunStopped(by=by):
            return RunOutcome.STOPPED, f"stopped by <@{by}>" if by else "stopped"
        case NeedsInput():
            return RunOutcome.WAITING, None
        case _:
            assert_never(outcome)


def offer_stop(tx: Transaction, turn_id: str) -> None:
    """Posts a Stop button for a long run, unless the run is over."""
    turn, thread = _in_locked_thread(tx, turn_id)
    if turn and thread and turn.status in UNFINISHED:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=STOP_TEXT,
            once_key=_stop_key(turn_id),
            agent_id=turn.agent_id,
            stops_turn_id=turn_id,
        )


def end_run(
    tx: Transaction, turn_id: str, ending: AnswerShown, place: AnswerTarget | None, conduct: OperatingPolicy
) -> bool:
    """Ends a run; False if the run has ended before. ``place`` is None for a task without a thread."""
    found = runs.get(tx, turn_id)
    assert found is not None  # unfinished runs are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    turn = runs.get(tx, turn_id)
    if turn is None or turn.status not in UNFINISHED:
        return False
    polls = is_polling(tx, turn)
    holds = _still_holds(tx, lease, polls=polls)
    if lease and holds and is_ours_to_settle(tx, turn, ending.outcome):
        _settle_work(tx, turn, lease, thread, ending, conduct)
    _end(tx, turn, ending, in_time=holds or polls)
    if polls:
        tx.wake(runs.TURNS)  # a run that waits for the end of this answer may begin
    if thread and holds and isinstance(ending.outcome, NeedsInput):
        answered_before(tx, thread, turn.agent_id)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        _remember_pages(tx, turn, thread, place)
        close_pages(tx, turn)
        _say(tx, turn, thread, place, ending.closing, ending.leftover)
        # Last, because Slack's limit for deletions is lower than for posts.
        deliveries.take_down(tx, thread, _stop_key(turn.id))
    return True


def break_off(tx: Transaction, turn_id: str, loss: Loss, place: AnswerTarget | None, conduct: OperatingPolicy) -> None:
    """Decides the outcome of a lost run. A run that is not running any more stays unchanged.

    The messages visible to people are sealed later with `below_of`; without any, a post has the same note.
    """
    found = runs.get(tx, turn_id)
    assert found is not None  # unfinished runs are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    turn = runs.locked(tx, turn_id)  # the run may store its end at this moment
    if turn is None or turn.status is not RunStatus.RUNNING:
        return
    outcome = _outcome_of_lost(tx, turn, lease, loss)
    if outcome is None:
        runs.end(tx, turn.id, RunStep.ABANDON, RESTARTED)
        _hand_out_again(tx, turn, lease, loss, conduct)
    else:
        known, note = outcome_of(outcome)
        runs.end(tx, turn.id, known.step, note)
        if lease and _still_holds(tx, lease, polls=is_polling(tx, turn)) and is_ours_to_settle(tx, turn, outcome):
            _settle_work(tx, turn, lease, thread, AnswerShown(outcome=outcome), conduct)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        _remember_pages(tx, turn, thread, place)
        over = runs.get(tx, turn.id)
        assert over is not None
        _leave_to_be_sealed(tx, over, thread, place, says_so=outcome is not None or loss.was_called)
        deliveries.take_down(tx, thread, _stop_key(turn.id))


def keep(tx: Transaction, turn_id: str, seconds: float) -> LeaseLossOutcome:
    """Prolongs the lease of a running run, even after its expiry, until `break_off` has decided."""
    found = runs.get(tx, turn_id)
    lease = leases.by_token(tx, found.lease_token) if found else None
    turn = runs.get(tx, turn_id)
    if turn is None or turn.ended_at is not None or lease is None or lease.ended_as in _COMES_AGAIN:
        return LeaseLossOutcome.TAKEN
    return LeaseLossOutcome.OURS if leases.prolong(tx, lease.token, seconds) else LeaseLossOutcome.SETTLED


def below_of(turn: Run, *, is_partial: bool) -> Closing:
    """Returns the note below the messages of an interrupted run."""
    match turn.status:
        case RunStatus.ABANDONED:
            return Closing(note=RESTARTED_TEXT)
        case RunStatus.STOPPED:
            return Closing(note=wording.stopped(turn.stop_requested_by))
        case RunStatus.FAILED:
            return Closing(note=wording.broke_off(turn.outcome_note or RESTARTED, is_partial=is_partial), retry=True)
        case _:
            return NOTHING_BELOW


def sealed(tx: Transaction, turn_id: str, place: AnswerTarget | None, still_below: Closing) -> None:
    """Records that every message of a run is sealed, as far as Slack allows, and posts the missing rest."""
    turn, thread = _in_locked_thread(tx, turn_id)
    if turn is None or not _is_open(tx, turn):
        return
    close_pages(tx, turn)
    if thread and place:
        _say(tx, turn, thread, place, still_below)


def first_page_is_open(tx: Transaction, turn: Run) -> None:
    """Reopens the first message of a run for a further note, if its text is known."""
    first = next(iter(run_pages.of_turn(tx, turn.id)), None)
    if first and first.ts and first.text is not None:
        run_pages.page_reopened(tx, turn.id, first.page, first.ts)


def close_pages(tx: Transaction, turn: Run) -> None:
    """Closes all present messages of a run; they are not changed any more."""
    for page in run_pages.of_turn(tx, turn.id):
        run_pages.page_closed(tx, turn.id, page.page)


def _in_locked_thread(tx: Transaction, turn_id: str) -> tuple[Run | None, Thread | None]:
    """Returns a run, read after its thread was locked, and the thread."""
    found = runs.get(tx, turn_id)
    thread = threads.locked(tx, found.thread_id) if found and found.thread_id else None
    return runs.get(tx, turn_id), thread


def _stop_key(turn_id: str) -> str:
    """Returns the key under which the Stop button of a run is posted once."""
    return f"stop:{turn_id}"


def _still_holds(tx: Transaction, lease: Lease | None, *, polls: bool) -> bool:
    """Whether an unfinished run still has its work.

    A run of the coordinator keeps its work past the expiry of its lease until `break_off`, which alone ends such a
    lease.
    """
    return leases.holds(lease, tx.now) if polls else lease is not None and lease.ended_as is None


def _settle_work(
    tx: Transaction, turn: Run, lease: Lease, thread: Thread | None, ending: AnswerShown, conduct: OperatingPolicy
) -> None:
    """Settles the work of the run: answered, waiting, dead, or dismissed."""
    task = tasks.locked(tx, turn.task_id) if turn.task_id else None
    if task and task.status is TaskStatus.IN_PROGRESS:
        _settle_task(tx, task, ending, conduct)
    if thread:
        known, reason = outcome_of(ending.outcome)
        step = _ENTRY_STEPS[known]
        for entry in claimed_members(tx, lease):
            if inbox.move(tx, step, entry, reason=reason) and (show := _END_MARKS.get(step)):
                show(tx, thread, entry.ts, conduct.reactions)
        threads.answered(tx, thread.id)
    end_if_resolved(tx, lease)


def _settle_task(tx: Transaction, task: Task, ending: AnswerShown, conduct: OperatingPolicy) -> None:
    match ending.outcome:
        case RunFailed(reason=reason):
            task_ends.dead_letter(tx, task, reason, conduct, told=True)
        case RunStopped(by=by):
            task_ends.cancel(tx, task, f"by <@{by}>" if by else "by a person", conduct, person=by)
        case NeedsInput():
            tasks.move(tx, TaskStep.ASK, task)
        case _:
            task_ends.complete(tx, task, ending.text.strip() or "done", conduct)


def _end(tx: Transaction, turn: Run, ending: AnswerShown, *, in_time: bool) -> None:
    """Stores the end of a run.

    A run without its lease is abandoned unless it was stopped: its work belongs to another run.
    """
    known, note = outcome_of(ending.outcome)
    if not in_time and known is not RunOutcome.STOPPED:
        runs.end(tx, turn.id, RunStep.ABANDON, "its lease was lost")
        return
    runs.end(tx, turn.id, known.step, note)
    if isinstance(ending.outcome, NeedsInput) and not interrupts.of_turn(tx, turn.id):
        interrupts.add(tx, turn.id, ending.outcome.asked)


def _outcome_of_lost(tx: Transaction, turn: Run, lease: Lease | None, loss: Loss) -> AnswerOutcome | None:
    """Returns the outcome of a lost run; None if its work is to be done again."""
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
    """Returns the number of attempts if none is left for any of the work."""
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
    """Also opens the first message for the note: people begin to read there, and it may have been closed long ago."""
    pages = run_pages.of_turn(tx, turn.id)
    below = below_of(turn, is_partial=bool(pages)) if says_so else NOTHING_BELOW
    if below != NOTHING_BELOW:
        first_page_is_open(tx, turn)
    if not _is_open(tx, turn):
        _say(tx, turn, thread, place, below)


def _is_open(tx: Transaction, turn: Run) -> bool:
    return any(page.phase is not PagePhase.CLOSED for page in run_pages.of_turn(tx, turn.id))


def _remember_pages(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget) -> None:
    """Adds the messages of a run to the transcript, as far as their text is known."""
    author = Author(id=turn.agent_id, kind=AuthorKind.AGENT, name=place.agent_name)
    for page in run_pages.of_turn(tx, turn.id):
        if page.ts and page.text:
            message = SlackMessage(
                channel=thread.channel, ts=page.ts, thread_ts=thread.thread_ts, author=author, text=page.text
            )
            transcript.store_own_post(tx, thread.team, message)


def _say(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget, below: Closing, text: str = "") -> None:
    """Posts text that no message of the run shows. A post of an abandoned run answers no inbox message."""
    if not text.strip() and below == NOTHING_BELOW:
        return
    is_answer = turn.status is not RunStatus.ABANDONED and turn.entry_ids
    post_closing(
        tx,
        thread,
        text,
        below,
        place,
        is_safe=True,
        agent_id=turn.agent_id,
        inbox_message_id=turn.entry_ids[0] if is_answer else None,
        task_id=turn.task_id,
    )
