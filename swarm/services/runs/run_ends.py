"""How turns begin and end: one transaction each for the turn, its lease, the work that it was about, and the thread.

Locks are taken in the order of everybody: the thread, the lease, the task, the messages, the turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.outcomes import AnswerOutcome, Asks, RunFailed, RunStopped
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.runs import UNFINISHED, RunOutcome, RunStep
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import Author, AuthorKind, SlackMessage
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules import task_ends
from swarm.services.rules.follow_ups import answered_before
from swarm.services.rules.leases import claimed_members, end_if_resolved
from swarm.services.rules.system_messages import post_closing, react_failed, show_answered, show_stopped
from swarm.services.runs.run_record import outcome_of
from swarm.services.runs.stream_ends import is_ours_to_settle, is_polling, show_settled
from swarm.store import deliveries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import interrupts, run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

STOP_TEXT: Final = "⏳ Still working on it."

_END_MARKS: Final = {
    InboxStep.RESPOND: show_answered,
    InboxStep.BURY: react_failed,
    InboxStep.DISMISS: show_stopped,  # a run dismisses a message only when people have stopped it
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """What is known of a run that is over."""

    outcome: AnswerOutcome
    text: str = ""  # everything that the agent said, plain
    leftover: str = ""  # safe text that is still to be posted
    closing: Closing = NOTHING_BELOW  # what is still to stand below it


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
    holds = still_holds(tx, turn, lease)
    if lease and holds and is_ours_to_settle(tx, turn, ending.outcome):
        settle_work(tx, turn, lease, thread, ending, conduct)
    _end(tx, turn, ending, in_time=holds or is_polling(tx, turn))
    if thread and holds and isinstance(ending.outcome, Asks):
        answered_before(tx, thread, turn.agent_id)
    if thread and place:
        show_settled(tx, turn, thread, conduct)
        _show_end(tx, turn, thread, ending, place)
    return True


def still_holds(tx: Transaction, turn: Run, lease: Lease | None) -> bool:
    """Whether the work of a turn that is not over is its own.

    What the coordinator runs keeps its work when the time of its lease is over, until `break_off` takes it away: for
    that alone ends such a lease for being late.
    """
    if is_polling(tx, turn):
        return leases.holds(lease, tx.now)
    return lease is not None and lease.ended_as is None


def offer_stop(tx: Transaction, turn_id: str) -> None:
    """A run takes its time: show a button that stops it, unless it is over by now."""
    turn = runs.get(tx, turn_id)
    thread = threads.locked(tx, turn.thread_id) if turn and turn.thread_id else None
    turn = runs.get(tx, turn_id)
    if turn and thread and turn.status in UNFINISHED:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=STOP_TEXT,
            once_key=stop_key(turn_id),
            agent_id=turn.agent_id,
            stops_turn_id=turn_id,
        )


def stop_key(turn_id: str) -> str:
    """The key under which the button of a turn is posted once."""
    return f"stop:{turn_id}"


def settle_work(
    tx: Transaction, turn: Run, lease: Lease, thread: Thread | None, ending: Ending, conduct: OperatingPolicy
) -> None:
    """What the turn was about is answered, waits, is set aside, or is not wanted any more."""
    task = tasks.locked(tx, turn.task_id) if turn.task_id else None
    if task and task.status is TaskStatus.IN_PROGRESS:
        _settle_task(tx, task, ending, conduct)
    if thread:
        _settle_messages(tx, lease, thread, ending, conduct)
    end_if_resolved(tx, lease)


def _settle_messages(tx: Transaction, lease: Lease, thread: Thread, ending: Ending, conduct: OperatingPolicy) -> None:
    step, reason = _entry_step(ending.outcome)
    for entry in claimed_members(tx, lease):
        if inbox.move(tx, step, entry, reason=reason) and (show := _END_MARKS.get(step)):
            show(tx, thread, entry.ts, conduct.reactions)
    threads.answered(tx, thread.id)


def _entry_step(outcome: AnswerOutcome) -> tuple[InboxStep, str | None]:
    known, note = outcome_of(outcome)
    steps = {
        RunOutcome.ANSWERED: InboxStep.RESPOND,
        RunOutcome.FAILED: InboxStep.BURY,
        RunOutcome.STOPPED: InboxStep.DISMISS,
        RunOutcome.WAITING: InboxStep.ASK,
    }
    return steps[known], note


def _settle_task(tx: Transaction, task: Task, ending: Ending, conduct: OperatingPolicy) -> None:
    match ending.outcome:
        case RunFailed(reason=reason):
            task_ends.dead_letter(tx, task, reason, conduct, told=True)
        case RunStopped(by=by):
            task_ends.cancel(tx, task, f"by <@{by}>" if by else "by a person", conduct, person=by)
        case Asks():
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
    if isinstance(ending.outcome, Asks) and not interrupts.of_turn(tx, turn.id):
        interrupts.add(tx, turn.id, ending.outcome.asked)


def _show_end(tx: Transaction, turn: Run, thread: Thread, ending: Ending, place: AnswerTarget) -> None:
    """Own messages enter the transcript, what could not be shown live is posted, and the Stop button goes."""
    remember_pages(tx, turn, thread, place)
    close_pages(tx, turn)
    if ending.leftover.strip() or ending.closing != NOTHING_BELOW:
        post_closing(
            tx,
            thread,
            ending.leftover,
            ending.closing,
            place,
            is_safe=True,
            agent_id=turn.agent_id,
            inbox_message_id=turn.entry_ids[0] if turn.entry_ids else None,
            task_id=turn.task_id,
        )
    deliveries.take_down(tx, thread, stop_key(turn.id))  # last, for Slack lets us delete less often than post


def remember_pages(tx: Transaction, turn: Run, thread: Thread, place: AnswerTarget) -> None:
    """The messages of a turn enter the transcript, as far as their text is known."""
    author = Author(id=turn.agent_id, kind=AuthorKind.AGENT, name=place.agent_name)
    for page in run_pages.of_turn(tx, turn.id):
        if page.ts and page.text:
            message = SlackMessage(
                channel=thread.channel, ts=page.ts, thread_ts=thread.thread_ts, author=author, text=page.text
            )
            transcript.store_own_post(tx, thread.team, message)


def close_pages(tx: Transaction, turn: Run) -> None:
    """Nothing is done any more to the messages that a turn has now."""
    for page in run_pages.of_turn(tx, turn.id):
        run_pages.page_closed(tx, turn.id, page.page)
