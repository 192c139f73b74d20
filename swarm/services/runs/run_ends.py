"""Ends runs, whether they have finished or been lost.

A run is lost when its process crashes, is stopped, sleeps, or is no longer elected. One transaction decides the outcome
of the run, its lease, its work and the messages in its thread.

Who may act: the run itself; for a lost run, the elected process. What is guaranteed: the row of the run decides. A run
that has stored its end (closing) only needs to be shown, and a run that tries to end after it was lost is rejected. So
either the answer counts and nothing runs again, or the work is handed out again and the answer is marked as abandoned.

What happens on failure: messages that are not final stay open in their rows and are found again. Until then no run of
the same agent starts in the thread, so two of its messages never grow at once.

Lock order, as everywhere: the thread, the lease, the task, the messages, the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from swarm.domain.answers import wording
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, Closing
from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped, Withheld
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.model import triggers
from swarm.domain.model.budgets import BudgetScope, usage_text
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.model.runs import UNFINISHED, PagePhase, RunOutcome, RunStatus, RunStep
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Author, AuthorKind, ChannelType, SlackMessage, Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.requests.asking import ask_of_run, note_all_accepted, release_run
from swarm.services.requests.held import tell_waiting
from swarm.services.runs.settling import outcome_of, settle_work
from swarm.services.runs.stream_state import is_ours_to_settle, is_polling, is_settled_by_tools, show_settled
from swarm.services.speaking.participants import read_roster
from swarm.services.speaking.silence import break_silence, is_silent, judged
from swarm.services.speaking.system_messages import asked_ago, post_message, tell_queued
from swarm.services.work.leases import claimed_members, give_back, lose, most_losses, wait_for_agent
from swarm.store import deliveries, requests, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import model_usage
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads, transcript

STOP_TEXT: Final = "⏳ Still working on it."
RESTARTED: Final = "I was interrupted"
AFTER_DECISION: Final = (
    "I was interrupted after the decision, so the agent may have begun; Retry sends the same decision again"
)
RESTARTED_TEXT: Final = "⚠️ I was interrupted while answering; the answer starts again below."

_COMES_AGAIN: Final = frozenset({LeaseEnd.EXPIRED, LeaseEnd.RELEASED, LeaseEnd.FAILED, LeaseEnd.REVOKED})
"""A lease with one of these ends has returned its work to the queue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """The circumstances of a lost run."""

    runs_again: bool  # its agent may repeat work
    counts: bool  # otherwise the work is given back
    was_called: bool = True  # the agent may have started
    by_itself: bool = False  # the run has failed by itself, which counts as an attempt; else the coordinator's death


class LeaseLossOutcome(StrEnum):
    """The state of work whose lease could not be renewed."""

    OURS = "ours"  # no other run has the work
    TAKEN = "taken"  # handed out again, or the run has ended
    SETTLED = "settled"  # settled by a tool, or cancelled: must not be repeated


def place_of(
    thread: Thread | triggers.ThreadView,
    operating_policy: OperatingPolicy,
    *,
    run_id: str,
    requester: str | None,
    agent_name: str,
    footer: str = "",
) -> AnswerTarget:
    """Returns where in Slack the answer of a run appears."""
    policy = operating_policy.policy(thread.channel)
    return AnswerTarget(
        team=thread.team,
        channel=thread.channel,
        thread_ts=thread.thread_ts,
        is_direct=thread.channel_type is ChannelType.DM,
        requester=requester,
        agent_name=agent_name,
        run_id=run_id,
        display=policy.display,
        growth=policy.stream,
        footer=footer,
    )


def offer_stop(tx: Transaction, run_id: str) -> None:
    """Posts a Stop button for a long run, unless the run has ended."""
    run, thread = _in_locked_thread(tx, run_id)
    if run and thread and run.status in UNFINISHED:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=STOP_TEXT,
            idempotency_key=_stop_key(run_id),
            agent_id=run.agent_id,
            stops_run_id=run_id,
        )


def end_run(
    tx: Transaction, run_id: str, ending: AnswerShown, place: AnswerTarget | None, operating_policy: OperatingPolicy
) -> AnswerOutcome | None:
    """Ends a run. Returns the recorded outcome, which differs from that of ``ending`` if nothing may be shown; None if
    the run had already ended, or its work is given back. ``place`` is None for a task without a thread.
    """
    found = runs.get(tx, run_id)
    assert found is not None  # unfinished runs are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    run = runs.get(tx, run_id)
    if run is None or run.status not in UNFINISHED:
        return None
    polls = is_polling(tx, run)
    holds = leases.holds(lease)
    silent = is_silent(tx, run, thread)
    about_notice = lease is not None and lease.kind is LeaseKind.NOTICE
    if about_notice:
        ending = replace(ending, closing=replace(ending.closing, retry=False))  # the work itself is done
        ending = ending if silent else judged(ending)  # withheld if there is nothing to add to what people have seen
    if ending.withheld and not (silent or about_notice) and holds and not polls:
        give_back(tx, [run.lease_token])  # somebody has asked meanwhile, and gets an answer in any case
        runs.end(tx, run.id, RunStep.ABANDON, "somebody has asked meanwhile")
        return None
    ending = judged(ending) if silent else ending
    if silent and thread and holds and not polls and isinstance(ending.outcome, Answered):
        thread, silent = break_silence(tx, thread, run.agent_id, run.trigger_id), False
    if lease and holds and is_ours_to_settle(tx, run, ending.outcome):
        settle_work(tx, run, lease, thread, ending, operating_policy, silent=silent)
    silent = silent or isinstance(ending.outcome, Withheld)
    _end(tx, run, ending, in_time=holds or polls)
    if polls:
        tx.wake(runs.RUNS)  # a run that waits for this answer to end may start
    if holds and isinstance(ending.outcome, NeedsInput):
        ask_of_run(tx, run, ending.outcome.asked, operating_policy)
        release_run(tx, run)  # people may have decided on questions that were shown before the end
        tell_waiting(tx, run)
    note_all_accepted(tx, run.task_id or run.trigger_id, operating_policy)
    if thread and place and not silent:
        show_settled(tx, run, thread, operating_policy)
        _remember_pages(tx, run, thread, place)
        close_pages(tx, run)
        _say(tx, run, thread, place, with_facts(tx, run.id, ending.closing, operating_policy), ending.leftover)
        # The Stop button is removed last, because Slack's limit for deletions is lower than for posts.
        deliveries.take_down(tx, thread, _stop_key(run.id))
    return ending.outcome


def with_facts(tx: Transaction, run_id: str, closing: Closing, operating_policy: OperatingPolicy) -> Closing:
    """Returns what is shown below an answer, with the age of the question, and the run's usage if it is to be shown."""
    if closing.footer and (run := runs.get(tx, run_id)):
        closing = replace(closing, asked=asked_ago(tx, run.inbox_message_ids, run.task_id))
    if not closing.footer or not operating_policy.budgets.show_usage:
        return closing
    return replace(closing, usage=usage_text(*model_usage.used(tx, BudgetScope.RUN, run_id)))


def keep_for_later(tx: Transaction, run_id: str, reason: str, operating_policy: OperatingPolicy) -> bool:
    """Gives back the work of a run that did not reach its agent, and tells the thread once until it is answered.

    Returns whether the work waits. A notice does not, and nothing after people's decisions were sent to the agent.
    """
    found = runs.get(tx, run_id)
    assert found is not None  # unfinished runs are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    run = runs.locked(tx, run_id)
    if run is None or run.status is not RunStatus.RUNNING or run.stop_requested_at is not None:
        return False
    if lease is None or lease.kind is LeaseKind.NOTICE or not leases.holds(lease) or is_polling(tx, run):
        return False
    if requests.is_any_sent(tx, run.task_id or run.trigger_id):
        return False
    runs.end(tx, run.id, RunStep.ABANDON, reason)
    wait_for_agent(tx, lease, reason)
    roster = read_roster(tx, operating_policy)
    agent = roster.by_id(run.agent_id)
    if thread and agent:
        tell_queued(tx, thread, roster, [replace(agent, online=False)])
    return True


def break_off(
    tx: Transaction, run_id: str, loss: Loss, place: AnswerTarget | None, operating_policy: OperatingPolicy
) -> None:
    """Decides the outcome of a lost run. A run that is no longer running stays unchanged.

    The visible messages are sealed later with the note from `below_of`; if there are none, the note is posted.
    """
    found = runs.get(tx, run_id)
    assert found is not None  # unfinished runs are never removed
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = leases.by_token(tx, found.lease_token)
    run = runs.locked(tx, run_id)  # the run may be storing its end concurrently
    if run is None or run.status is not RunStatus.RUNNING:
        return
    outcome, silent = _outcome_of_lost(tx, run, lease, loss), is_silent(tx, run, thread)
    if outcome is None:
        runs.end(tx, run.id, RunStep.ABANDON, RESTARTED)
        _hand_out_again(tx, run, loss, operating_policy)
    else:
        known, note = outcome_of(outcome)
        runs.end(tx, run.id, known.step, note)
        if lease and leases.holds(lease) and is_ours_to_settle(tx, run, outcome):
            settle_work(tx, run, lease, thread, AnswerShown(outcome=outcome), operating_policy, silent=silent)
    note_all_accepted(tx, run.task_id or run.trigger_id, operating_policy)
    is_unseen = outcome is None and lease is not None and lease.kind is LeaseKind.NOTICE
    if thread and place and not (silent or is_unseen):
        show_settled(tx, run, thread, operating_policy)
        _remember_pages(tx, run, thread, place)
        over = runs.get(tx, run.id)
        assert over is not None
        _leave_to_be_sealed(tx, over, thread, place, says_so=outcome is not None or loss.was_called)
        deliveries.take_down(tx, thread, _stop_key(run.id))


def keep(tx: Transaction, run_id: str, seconds: float) -> LeaseLossOutcome:
    """Renews the lease of an active run, until `break_off` has decided."""
    found = runs.get(tx, run_id)
    lease = leases.by_token(tx, found.lease_token) if found else None
    run = runs.get(tx, run_id)
    if run is None or run.ended_at is not None or lease is None or lease.ended_as in _COMES_AGAIN:
        return LeaseLossOutcome.TAKEN
    if not leases.holds(lease):
        return LeaseLossOutcome.SETTLED
    leases.renew(tx, [lease.token], seconds)
    return LeaseLossOutcome.OURS


def below_of(run: Run, *, is_partial: bool) -> Closing:
    """Returns the note below the messages of an interrupted run."""
    match run.status:
        case RunStatus.ABANDONED:
            return Closing(note=RESTARTED_TEXT)
        case RunStatus.STOPPED:
            return Closing(note=wording.stopped(run.stop_requested_by))
        case RunStatus.FAILED:
            note = wording.broke_off(run.outcome_note or RESTARTED, is_partial=is_partial)
            return Closing(note=note, retry=bool(run.task_id or run.inbox_message_ids))
        case _:
            return NOTHING_BELOW


def sealed(tx: Transaction, run_id: str, place: AnswerTarget | None, still_below: Closing) -> None:
    """Records that every message of a run is sealed, as far as Slack allows, and posts any missing text."""
    run, thread = _in_locked_thread(tx, run_id)
    if run is None or not _is_open(tx, run):
        return
    close_pages(tx, run)
    if thread and place:
        _say(tx, run, thread, place, still_below)


def first_page_is_open(tx: Transaction, run: Run) -> None:
    """Reopens the first message of a run to add a note, if its text is known."""
    first = next(iter(run_pages.of_run(tx, run.id)), None)
    if first and first.ts and first.text is not None:
        run_pages.page_reopened(tx, run.id, first.page, first.ts)


def close_pages(tx: Transaction, run: Run) -> None:
    """Closes all messages of a run; they are not changed again."""
    for page in run_pages.of_run(tx, run.id):
        run_pages.page_closed(tx, run.id, page.page)


def _in_locked_thread(tx: Transaction, run_id: str) -> tuple[Run | None, Thread | None]:
    """Locks the thread of a run, then reads the run. Returns both."""
    found = runs.get(tx, run_id)
    thread = threads.locked(tx, found.thread_id) if found and found.thread_id else None
    return runs.get(tx, run_id), thread


def _stop_key(run_id: str) -> str:
    """Returns the key that ensures a run's Stop button is posted only once."""
    return f"stop:{run_id}"


def _end(tx: Transaction, run: Run, ending: AnswerShown, *, in_time: bool) -> None:
    """Stores the end of a run.

    A run without its lease is abandoned unless it was stopped, because its work belongs to another run.
    """
    known, note = outcome_of(ending.outcome)
    if not in_time and known is not RunOutcome.STOPPED:
        runs.end(tx, run.id, RunStep.ABANDON, "its lease was lost")
        return
    runs.end(tx, run.id, known.step, note)


def _outcome_of_lost(tx: Transaction, run: Run, lease: Lease | None, loss: Loss) -> AnswerOutcome | None:
    """Returns the outcome of a lost run; None if its work will be done again."""
    if run.stop_requested_at is not None:
        return RunStopped(by=run.stop_requested_by)
    how = lease.ended_as if lease else None
    if how is LeaseEnd.CANCELLED:
        return RunStopped(by=None)
    polls = is_polling(tx, run)
    if how in (LeaseEnd.RESOLVED, LeaseEnd.FINISHED):
        return Answered() if polls else RunFailed(reason=RESTARTED)
    if lease and (is_settled_by_tools(tx, lease) if polls else _is_handed_over(tx, lease)):
        return Answered()
    if how in _COMES_AGAIN or polls:
        return None
    if loss.was_called and requests.is_any_sent(tx, run.task_id or run.trigger_id):
        return RunFailed(reason=AFTER_DECISION)  # what people approved must not happen twice unless they ask for it
    if lease is None or not loss.runs_again:
        return RunFailed(reason=RESTARTED)
    last = _last_loss(tx, run, lease, loss) if loss.counts else None
    return RunFailed(reason=f"{RESTARTED}, {last} times") if last else None


def _is_handed_over(tx: Transaction, lease: Lease) -> bool:
    """Whether a run has delegated its messages before it was lost, so nothing of its work is left to be done again."""
    members = inbox.members(tx, lease.token)
    return any(one.status is InboxStatus.DELEGATED for one in members) and not claimed_members(tx, lease)


def _last_loss(tx: Transaction, run: Run, lease: Lease, loss: Loss) -> int | None:
    """Returns how often the work of the run was lost, if none of it may be attempted again."""
    task = tasks.locked(tx, run.task_id) if run.task_id else None
    work = [task] if task else claimed_members(tx, lease)
    most = [most_losses(one, interrupted=not loss.by_itself) for one in work]
    return most[0] if most and all(most) else None


def _hand_out_again(tx: Transaction, run: Run, loss: Loss, operating_policy: OperatingPolicy) -> None:
    if loss.counts:
        lose(tx, run.lease_token, LeaseEnd.EXPIRED, RESTARTED, operating_policy, interrupted=not loss.by_itself)
    else:
        give_back(tx, [run.lease_token])


def _leave_to_be_sealed(tx: Transaction, run: Run, thread: Thread, place: AnswerTarget, *, says_so: bool) -> None:
    """Marks the messages of a run to be sealed. The first message is also reopened for the note, because people start
    reading there.
    """
    pages = run_pages.of_run(tx, run.id)
    below = below_of(run, is_partial=bool(pages)) if says_so else NOTHING_BELOW
    if below != NOTHING_BELOW:
        first_page_is_open(tx, run)
    if not _is_open(tx, run):
        _say(tx, run, thread, place, below)


def _is_open(tx: Transaction, run: Run) -> bool:
    return any(page.phase is not PagePhase.CLOSED for page in run_pages.of_run(tx, run.id))


def _remember_pages(tx: Transaction, run: Run, thread: Thread, place: AnswerTarget) -> None:
    """Adds the messages of a run to the transcript if their text is known."""
    author = Author(id=run.agent_id, kind=AuthorKind.AGENT, name=place.agent_name)
    for page in run_pages.of_run(tx, run.id):
        if page.ts and page.text:
            message = SlackMessage(
                channel=thread.channel, ts=page.ts, thread_ts=thread.thread_ts, author=author, text=page.text
            )
            transcript.store_own_post(tx, thread.team, message)


def _is_told_of_stop(tx: Transaction, run: Run) -> bool:
    """Whether a post of whoever stopped the run tells the thread of it, so that a note alone would tell it again."""
    over, task = runs.get(tx, run.id), tasks.get(tx, run.task_id) if run.task_id else None
    if over is None or over.status is not RunStatus.STOPPED or run_pages.of_run(tx, run.id):
        return False
    return over.stop_requested_by is None or (task is not None and task.status is TaskStatus.CANCELLED)


def _say(tx: Transaction, run: Run, thread: Thread, place: AnswerTarget, below: Closing, text: str = "") -> None:
    """Posts text that no message of the run shows. The post of an abandoned run answers no inbox message."""
    if not text.strip() and (below == NOTHING_BELOW or _is_told_of_stop(tx, run)):
        return
    is_answer = run.status is not RunStatus.ABANDONED and run.inbox_message_ids
    post_message(
        tx,
        thread,
        text,
        closing=below,
        place=place,
        is_safe=True,
        agent_id=run.agent_id,
        inbox_message_id=run.inbox_message_ids[0] if is_answer else None,
        task_id=run.task_id,
    )
