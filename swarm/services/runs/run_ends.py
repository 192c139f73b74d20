"""How turns end: by their run, or because their run is lost, since its process has crashed, was stopped, slept, or has
lost the office. One transaction decides on the turn, its lease, its work and what its thread is told.

Who may act: the run itself, and for a lost one the elected process. What is guaranteed: the row of the turn decides. A
run that has told its end before (it is closing) is left to be shown, and one that wants to tell it afterwards finds
that it may not. So either the answer counts and nothing runs again, or the work is handed out again and the answer says
that it was abandoned.

What happens on failure: the messages that do not say so yet stay open in their rows, and are found again. No run of the
same agent begins in that thread meanwhile, so that never two of its messages grow.

Locks are taken in the order of everybody: the thread, the lease, the task, the messages, the turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from swarm.domain.answers import wording
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped
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
    InboxStep.DISMISS: show_stopped,  # a run dismisses a message only when people have stopped it
}
_ENTRY_STEPS: Final = {
    RunOutcome.ANSWERED: InboxStep.RESPOND,
    RunOutcome.FAILED: InboxStep.BURY,
    RunOutcome.STOPPED: InboxStep.DISMISS,
    RunOutcome.WAITING: InboxStep.ASK,
}
_COMES_AGAIN: Final = frozenset({LeaseEnd.EXPIRED, LeaseEnd.RELEASED, LeaseEnd.FAILED, LeaseEnd.REVOKED})
"""A lease that has ended so has handed its work out again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The end of a run."""

    outcome: AnswerOutcome
    text: str = ""  # everything that the agent said, plain
    leftover: str = ""  # safe text that is still to be posted
    closing: Closing = NOTHING_BELOW  # still to be posted below the text


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """How a run was lost."""

    runs_again: bool  # its agent may do things twice
    counts: bool  # to run it again takes up one of its attempts
    was_called: bool = True  # the agent may have begun


class LeaseLossOutcome(StrEnum):
    """The state of work whose lease could not be renewed."""

    OURS = "ours"  # nobody has taken the work
    TAKEN = "taken"  # it is handed out again, or its turn is over
    SETTLED = "settled"  # by a tool, or cancelled: nobody does it again


def place_of(
    thread: Thread | triggers.ThreadView,
    conduct: OperatingPolicy,
    *,
    turn_id: str,
    requester: str | None,
    agent_name: str,
    footer: str = "",
) -> AnswerTarget:
    """Where the answer of a turn appears."""
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
    """The outcome as its row has it, and why it failed."""
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
    """Post a button that stops a run which takes its time, unless it is over by now."""
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
    tx: Transaction, turn_id: str, ending: Ending, place: AnswerTarget | None, conduct: OperatingPolicy
) -> bool:
    """Bring a turn to its end; False if it has ended before. ``place`` is None for a task without a thread."""
    found = runs.get(tx, turn_id)
    assert found is not None  # turns that are not over are never removed
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
        tx.wake(runs.TURNS)  # a run that waits for the end of this answer may begin its own
    if thread and holds and isinstance(ending.outcome, NeedsInput):
        answered_before(tx, thread, turn.agent_id)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        _remember_pages(tx, turn, thread, place)
        close_pages(tx, turn)
        _say(tx, turn, thread, place, ending.closing, ending.leftover)
        deliveries.take_down(tx, thread, _stop_key(turn.id))  # last: Slack lets us delete less often than post
    return True


def break_off(tx: Transaction, turn_id: str, loss: Loss, place: AnswerTarget | None, conduct: OperatingPolicy) -> None:
    """Decide what becomes of a turn whose run is lost. A turn that does not run any more is left as it is.

    The messages that people see already are left to be sealed with `below_of`; without any, a post says the same.
    """
    found = runs.get(tx, turn_id)
    assert found is not None  # turns that are not over are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    turn = runs.locked(tx, turn_id)  # the run may tell its end at this very moment
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
            _settle_work(tx, turn, lease, thread, Ending(outcome=outcome), conduct)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        _remember_pages(tx, turn, thread, place)
        over = runs.get(tx, turn.id)
        assert over is not None
        _leave_to_be_sealed(tx, over, thread, place, says_so=outcome is not None or loss.was_called)
        deliveries.take_down(tx, thread, _stop_key(turn.id))


def keep(tx: Transaction, turn_id: str, seconds: float) -> LeaseLossOutcome:
    """Prolong the lease of a turn that runs, also one whose time is over: as long as `break_off` has not decided."""
    found = runs.get(tx, turn_id)
    lease = leases.by_token(tx, found.lease_token) if found else None
    turn = runs.get(tx, turn_id)
    if turn is None or turn.ended_at is not None or lease is None or lease.ended_as in _COMES_AGAIN:
        return LeaseLossOutcome.TAKEN
    return LeaseLossOutcome.OURS if leases.prolong(tx, lease.token, seconds) else LeaseLossOutcome.SETTLED


def below_of(turn: Run, *, is_partial: bool) -> Closing:
    """The note below the messages of a turn that was broken off."""
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
    """Every message of a turn is sealed, as far as Slack lets us; what could not be said in them is posted."""
    turn, thread = _in_locked_thread(tx, turn_id)
    if turn is None or not _is_open(tx, turn):
        return
    close_pages(tx, turn)
    if thread and place:
        _say(tx, turn, thread, place, still_below)


def first_page_is_open(tx: Transaction, turn: Run) -> None:
    """The first message is to say something more, if its text is known: else it is open, or was sealed before."""
    first = next(iter(run_pages.of_turn(tx, turn.id)), None)
    if first and first.ts and first.text is not None:
        run_pages.page_reopened(tx, turn.id, first.page, first.ts)


def close_pages(tx: Transaction, turn: Run) -> None:
    """Nothing is done any more to the messages that a turn has now."""
    for page in run_pages.of_turn(tx, turn.id):
        run_pages.page_closed(tx, turn.id, page.page)


def _in_locked_thread(tx: Transaction, turn_id: str) -> tuple[Run | None, Thread | None]:
    """A turn as it is once its thread is locked."""
    found = runs.get(tx, turn_id)
    thread = threads.locked(tx, found.thread_id) if found and found.thread_id else None
    return runs.get(tx, turn_id), thread


def _stop_key(turn_id: str) -> str:
    """The key under which the button of a turn is posted once."""
    return f"stop:{turn_id}"


def _still_holds(tx: Transaction, lease: Lease | None, *, polls: bool) -> bool:
    """Whether the work of a turn that is not over is its own.

    What the coordinator runs keeps its work when the time of its lease is over, until `break_off` takes it away: for
    that alone ends such a lease for being late.
    """
    return leases.holds(lease, tx.now) if polls else lease is not None and lease.ended_as is None


def _settle_work(
    tx: Transaction, turn: Run, lease: Lease, thread: Thread | None, ending: Ending, conduct: OperatingPolicy
) -> None:
    """The work of the turn is answered, waits, is set aside, or is not wanted any more."""
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


def _settle_task(tx: Transaction, task: Task, ending: Ending, conduct: OperatingPolicy) -> None:
    match ending.outcome:
        case RunFailed(reason=reason):
            task_ends.dead_letter(tx, task, reason, conduct, told=True)
        case RunStopped(by=by):
            task_ends.cancel(tx, task, f"by <@{by}>" if by else "by a person", conduct, person=by)
        case NeedsInput():
            tasks.move(tx, TaskStep.ASK, task)
        case _:
            task_ends.complete(tx, task, ending.text.strip() or "done", conduct)


def _end(tx: Transaction, turn: Run, ending: Ending, *, in_time: bool) -> None:
    """A run whose lease was lost has answered what is somebody else's by now, unless it was to end so."""
    known, note = outcome_of(ending.outcome)
    if not in_time and known is not RunOutcome.STOPPED:
        runs.end(tx, turn.id, RunStep.ABANDON, "its lease was lost")
        return
    runs.end(tx, turn.id, known.step, note)
    if isinstance(ending.outcome, NeedsInput) and not interrupts.of_turn(tx, turn.id):
        interrupts.add(tx, turn.id, ending.outcome.asked)


def _outcome_of_lost(tx: Transaction, turn: Run, lease: Lease | None, loss: Loss) -> AnswerOutcome | None:
    """How a turn ends whose run is lost; None if its work is done anew."""
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
    """The number of attempts, if none is left for any of the work."""
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
        _say(tx, turn, thread, place, below)


def _is_open(tx: Transaction, turn: Run) -> bool:
    return any(page.phase is not PagePhase.CLOSED for page in run_pages.of_turn(tx, turn.id))


def _remember_pages(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget) -> None:
    """The messages of a turn enter the transcript, as far as their text is known."""
    author = Author(id=turn.agent_id, kind=AuthorKind.AGENT, name=place.agent_name)
    for page in run_pages.of_turn(tx, turn.id):
        if page.ts and page.text:
            message = SlackMessage(
                channel=thread.channel, ts=page.ts, thread_ts=thread.thread_ts, author=author, text=page.text
            )
            transcript.store_own_post(tx, thread.team, message)


def _say(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget, below: Closing, text: str = "") -> None:
    """Post what no message of the turn shows. What an abandoned turn says answers nothing."""
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
