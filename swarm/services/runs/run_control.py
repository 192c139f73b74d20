"""Lets people stop, retry and rate runs, and ask for a human, with `!stop`, Slack's own Stop, and the buttons below
messages.

Who may act: a person who may use the swarm in that channel, and the agents whose work it concerns. What is guaranteed:
each press counts once, and a refusal is said once a day.

Lock order: the thread, the leases, the tasks, the messages with their queue heads, the runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import structlog

from swarm.domain.answers import wording
from swarm.domain.errors import Conflict, Unavailable
from swarm.domain.model.agents import Reach
from swarm.domain.model.feedback import Reason
from swarm.domain.model.inbox import UNDER_WAY, InboxStatus, InboxStep
from swarm.domain.model.runs import RETRYABLE, UNFINISHED, RunStatus
from swarm.domain.model.tasks import ACTIVE_STATUSES
from swarm.domain.model.threads import FLAT, Author, AuthorKind, ChannelType, SlackMessage, Thread
from swarm.domain.policy.access import Denial, Me, why_press_refused
from swarm.domain.policy.escalations import EscalationAsker, EscalationDoor, asked_before_text
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import NO_GROUPS, Directory, UserGroups
from swarm.domain.requests.button_actions import (
    DROP_ACTION,
    ESCALATE_ACTION,
    FEEDBACK_ACTION,
    FEEDBACK_FORM,
    REASON_ACTION,
    RETRY_RUN_ACTION,
    STOP_OWN_ACTION,
    STOP_RUN_ACTION,
    STOP_TASK_ACTION,
    ButtonPressed,
    PressResult,
    SessionStopped,
    feedback_of,
)
from swarm.services.requests.held import drop, stop_waiting
from swarm.services.runs.feedback import (
    give_comment,
    give_opinion,
    give_reason,
)
from swarm.services.speaking import silence
from swarm.services.speaking.escalations import escalate
from swarm.services.speaking.participants import (
    LIMITED_TEXT,
    UNVERIFIED_TEXT,
    Standings,
    is_first_refusal,
    limited_since,
)
from swarm.services.speaking.system_messages import (
    RETRY_IMPOSSIBLE,
    RETRY_TAKEN,
    RETRY_TAKEN_BY,
    post_ephemeral,
    post_message,
    replace_retry,
    set_aside_in,
    show_anew,
    show_answered,
    show_stopped,
    tell_person,
)
from swarm.services.tasks.tasks import cancel_by_person, redrive_dead
from swarm.services.work import task_ends
from swarm.services.work.fencing import STOPPED_BY, lock_task
from swarm.services.work.leases import claimed_members, stop
from swarm.services.work.reply import last_person
from swarm.store import agents, deliveries, history, idempotency_keys, requests, task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import open_work, threads

STOPPED_TEXT: Final = "I am stopping it."
OVER_TEXT: Final = "This task has ended, so there is nothing to stop."
ENDED_TEXT: Final = "This has ended, so there is nothing to stop."
NOTHING_TEXT: Final = "I have nothing running or waiting here, so there is nothing to stop."
COMPLETE_TEXT: Final = "This answer is complete, so there is nothing to stop."
RETRIED_TEXT: Final = "It has already been run again."
NO_RETRY_TEXT: Final = "This cannot be run again. Ask again in the thread."
ESCALATED_TEXT: Final = "I have asked for help in this thread."
UNKNOWN_THREAD_TEXT: Final = "I do not know this thread, so I cannot ask for help here."

_NAMES_SECONDS: Final = 1.0  # a press must be acknowledged within three seconds
_EVER: Final = "~"  # after every timestamp of Slack
_STOPPED: Final = "true"  # the result in the stored receipt of a `!stop`

_log = structlog.get_logger(__name__)


class RunControl:
    """The handler of Slack's own Stop. Methods return after the commit; an error means that nothing has changed."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy, team: str, standings: Standings) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._team = team
        self._standings = standings

    async def stop_session(self, stopped: SessionStopped) -> None:
        """Stops the runs in a thread if the person is allowed to; a repeated event changes nothing.

        Raises Unavailable if Slack does not identify the person in time: Slack repeats this event, unlike a click.
        """
        at_work = await self._database.read(self._at_work, stopped) if self._operating_policy.agent_access else ()
        person = await self._standings.presser(stopped.user_id, None, stopped.channel, at_work)
        if person.standing is None:
            raise Unavailable("Slack does not say who pressed its Stop.")
        count = await self._database.write(self._stop_session, stopped, person)
        if count is None:
            raise Unavailable("Slack does not say whether who pressed its Stop may do so.")
        _log.info("Slack's Stop was pressed.", action="stop_session", channel=stopped.channel, runs=count)

    def _at_work(self, tx: Transaction, stopped: SessionStopped) -> list[str]:
        found = threads.find(tx, self._team, stopped.channel, stopped.thread_ts)
        return _names(tx, agents_at_work(tx, found.id)) if found else []

    def _stop_session(self, tx: Transaction, stopped: SessionStopped, person: Author) -> int | None:
        """Returns the number of stopped runs; None if it is not known yet whether the person may stop them."""
        found = threads.at(tx, self._team, stopped.channel, stopped.thread_ts)
        at_work = _names(tx, agents_at_work(tx, found.id)) if found and self._operating_policy.agent_access else ()
        denied = self._operating_policy.denial(person, stopped.channel, at_work)
        if denied and denied.missing:
            return None
        if not idempotency_keys.record(tx, stopped.key) or found is None:
            return 0
        if denied:
            self._tell_refused(tx, found, stopped, person, denied)
            return 0
        return stop_work(tx, threads.locked(tx, found.id), stopped.user_id, self._operating_policy)

    def _tell_refused(
        self, tx: Transaction, thread: Thread, stopped: SessionStopped, person: Author, denied: Denial
    ) -> None:
        history.record(
            tx, "press.refused", f"{stopped.channel}:{stopped.thread_ts}", thread_id=thread.id, reason=denied.reason
        )
        if is_first_refusal(tx, self._team, person.id, denied.scope(stopped.channel)):
            tell_person(tx, thread, person.id, why_press_refused(denied, person))


class Buttons:
    """The handler of the swarm's own buttons. Methods return after the commit; an error means that nothing has
    changed.
    """

    def __init__(
        self,
        database: Database,
        operating_policy: OperatingPolicy,
        standings: Standings,
        me: Me,
        directory: Directory | None = None,
        groups: UserGroups = NO_GROUPS,
    ) -> None:
        """``directory`` resolves names for paging services; without it, they get ids. ``groups`` says who may drop a
        question as a member of a group.
        """
        self._database = database
        self._operating_policy = operating_policy
        self._standings = standings
        self._team = me.team
        self._directory = directory
        dropping = partial(drop, members=groups.known_members)
        self._acts: Mapping[str, Act] = {**_ACTS, **_feedback_acts(me), DROP_ACTION: dropping}

    async def press(self, press: ButtonPressed) -> PressResult:
        """Performs the action of a button. Returns what to show to this person only, if anything."""
        act = await self._act(press)
        if act is None:
            return None
        concerned = await self._database.read(_concerned, press) if self._operating_policy.agent_access else ()
        person = await self._standings.presser(press.user_id, press.team, press.channel, concerned)
        return await self._database.write(self._once, press, person, act)

    def _once(self, tx: Transaction, press: ButtonPressed, person: Author, act: Act) -> PressResult:
        if not idempotency_keys.record(tx, press.key):
            return None
        concerned = _concerned(tx, press) if self._operating_policy.agent_access else ()
        denied = self._operating_policy.denial(person, press.channel, concerned)
        if denied:
            history.record(tx, "press.refused", f"{press.channel}:{press.message_ts}", reason=denied.reason)
            return UNVERIFIED_TEXT if denied.missing else why_press_refused(denied, person)
        if limited_since(tx, self._team, person.id, self._operating_policy) is not None:
            return LIMITED_TEXT
        return act(tx, press, self._operating_policy)

    async def _act(self, press: ButtonPressed) -> Act | None:
        if press.action_id == ESCALATE_ACTION:
            return partial(_escalate, team=self._team, asker=await self._asker(press))
        return self._acts.get(press.action_id)

    async def _asker(self, press: ButtonPressed) -> EscalationAsker:
        """Returns who asks for a human. Names are left out if Slack does not tell them in time."""
        name = channel_name = ""
        if self._directory:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NAMES_SECONDS):
                    name, channel_name = await asyncio.gather(
                        self._directory.author_name(press.user_id, AuthorKind.USER),
                        self._directory.channel_name(press.channel),
                    )
        return EscalationAsker(door=EscalationDoor.BUTTON, person=press.user_id, name=name, channel_name=channel_name)


def _concerned(tx: Transaction, press: ButtonPressed) -> list[str]:
    """Returns the name of the agent whose run, task or post a button concerns."""
    said = feedback_of(press.value) if press.action_id == FEEDBACK_ACTION else None
    subject = said.answer_id if said else press.value
    asked = requests.get(tx, subject)
    if asked and asked.policy.names_people:  # they may decide, and drop it, without being allowed to use the agent
        return []
    found = asked or runs.get(tx, subject) or tasks.get(tx, subject)
    posted = None if found else deliveries.get(tx, subject)
    return _names(tx, {found.agent_id if found else posted["agent_id"] if posted else None})


def _names(tx: Transaction, agent_ids: Collection[str | None]) -> list[str]:
    names = agents.names(tx)
    return sorted(names[agent_id] for agent_id in agent_ids if agent_id in names)


class Retried(StrEnum):
    """The result of a person's request to retry a run."""

    DONE = "done"
    BEFORE = "before"  # already handed out again
    IMPOSSIBLE = "impossible"  # not failed, or no work is left


_INSTEAD: Final = {
    Retried.DONE: RETRY_TAKEN_BY,
    Retried.BEFORE: RETRY_TAKEN,
    Retried.IMPOSSIBLE: RETRY_IMPOSSIBLE,
}
"""The text that replaces a pressed Retry button."""


def can_stop(tx: Transaction, team: str, message: SlackMessage, thread: Thread | None) -> bool:
    """Whether a ``!stop`` has something to stop: in its thread, or for a new direct message in any thread there. Also
    true for a ``!stop`` in a direct message that was already handled.
    """
    if thread:
        return open_work.can_stop_in_thread(tx, thread.id)
    if not message.is_root or message.channel_type is not ChannelType.DM:
        return False
    obeyed = idempotency_keys.result(tx, _stop_receipt(team, message)) is not None
    return obeyed or open_work.latest_to_stop(tx, team, message.channel) is not None


def stoppable_agents(tx: Transaction, team: str, message: SlackMessage, thread: Thread | None) -> frozenset[str]:
    """Returns the ids of the agents whose work a ``!stop`` would end, under the conditions of `can_stop`."""
    thread_id = thread.id if thread else open_work.latest_to_stop(tx, team, message.channel)
    if not thread_id:
        return frozenset()
    waited_for = (unread.agent_id for unread in inbox.unread_of_all(tx, thread_id))
    return agents_at_work(tx, thread_id) | frozenset(filter(None, waited_for))


def agents_at_work(tx: Transaction, thread_id: str) -> frozenset[str]:
    """Returns the ids of the agents that work in a thread, or have an open task or an open request there."""
    of_leases = {lease.agent_id for lease in leases.of_thread(tx, thread_id)}
    of_runs = {run.agent_id for run in runs.of_thread(tx, thread_id) if run.status in UNFINISHED}
    of_tasks = {task.agent_id for task in task_queries.open_in_thread(tx, thread_id) if task.agent_id}
    of_requests = {request.agent_id for request in requests.open_in_thread(tx, thread_id) if request.agent_id}
    return frozenset(of_leases | of_runs | of_tasks | of_requests)


def stop_latest(tx: Transaction, team: str, message: SlackMessage, operating_policy: OperatingPolicy) -> Thread | None:
    """Handles a ``!stop`` outside a thread in a direct message, once. Returns the thread of the stopped run."""
    key = _stop_receipt(team, message)
    if not idempotency_keys.record(tx, key):
        return None
    idempotency_keys.complete(tx, key, _STOPPED)
    thread_id = open_work.latest_to_stop(tx, team, message.channel)
    if thread_id is None:
        return None
    thread = threads.locked(tx, thread_id)
    stop_thread(tx, thread, message, operating_policy)
    return thread


def stop_thread(tx: Transaction, thread: Thread, message: SlackMessage, operating_policy: OperatingPolicy) -> None:
    """Handles a ``!stop``: stops all work in a locked thread, and what was written before and waits, and adds ✅."""
    if not open_work.can_stop_in_thread(tx, thread.id):
        post_ephemeral(tx, thread, message, NOTHING_TEXT, f"{_stop_receipt(thread.team, message)}:nothing")
    stop_work(tx, thread, message.author.id, operating_policy, waiting_before=message.ts)
    show_answered(tx, thread, message.ts, operating_policy.reactions)


def stop_own(tx: Transaction, thread_id: str, person: str, operating_policy: OperatingPolicy) -> int:
    """Stops what runs or waits in a thread for this person. Returns the number of pieces of work."""
    thread = threads.locked(tx, thread_id)
    return stop_work(tx, thread, person, operating_policy, own_only=True, waiting_before=_EVER)


def stop_work(
    tx: Transaction,
    thread: Thread,
    person: str,
    operating_policy: OperatingPolicy,
    *,
    own_only: bool = False,
    waiting_before: str = "",
) -> int:
    """Stops the work in a locked thread, in whatever way a person wants it: open tasks, runs, messages on which polling
    agents work without a run, and what waits for people's decisions. Returns the number of pieces of work. The thread
    is told once: by the end of a run, or by a post.

    A message that no agent has begun is stopped if it was written before the Slack timestamp ``waiting_before``, and
    otherwise waits on. ``own_only`` leaves other people's work alone, and work for which nobody has asked: the number
    would reveal it.
    """
    own = person if own_only else None
    open_tasks = [task for task in task_queries.open_in_thread(tx, thread.id) if own in (None, task.requester)]
    polling = _polling_leases(tx, thread, own)
    leases.locked(tx, [*polling, *(task.lease_token for task in open_tasks if task.lease_token)])
    stopped = _cancel_tasks(tx, open_tasks, person, operating_policy)
    asked = stop_waiting(tx, thread, person, operating_policy, own_only=own_only)
    ended, unbegun = _stop_messages(tx, thread, polling, person, operating_policy, own, waiting_before)
    running = [run for run in runs.of_thread(tx, thread.id) if run.ended_at is None and own in (None, run.requester)]
    shown = [run.id for run in running if own is None or not silence.is_silent(tx, run, thread)]
    is_noted = any(run.task_id is None or run_pages.of_run(tx, run.id) for run in running if run.id in shown)
    ending = sum(runs.request_stop(tx, person, run_id=run_id) for run_id in shown)
    if (stopped or ended) and not is_noted:
        post_message(tx, thread, wording.stopped(person), mentionable=frozenset({person}))
    return stopped + asked + ended + unbegun + ending


def _cancel_tasks(tx: Transaction, found: Sequence[Task], person: str, operating_policy: OperatingPolicy) -> int:
    """Cancels tasks of a locked thread, whose leases are locked. Returns the number of cancelled tasks."""
    cancelled = 0
    for task in found:
        locked = tasks.locked(tx, task.id)  # it may already have been cancelled as a subtask
        if locked:
            cancelled += task_ends.cancel(tx, locked, f"by <@{person}>", operating_policy, person=person, told=True)
    return cancelled


def _polling_leases(tx: Transaction, thread: Thread, own: str | None) -> list[str]:
    """Returns the tokens under which polling agents work on messages of a thread without a run; with ``own`` only those
    for which this person asked last.
    """
    of_runs = {run.lease_token for run in runs.of_thread(tx, thread.id) if run.ended_at is None}
    return [
        lease.token
        for lease in leases.of_thread(tx, thread.id)
        if lease.task_id is None
        and lease.token not in of_runs
        and (agent := agents.by_id(tx, lease.agent_id))
        and agent.reach is Reach.POLLING
        and (own is None or _is_for(tx, claimed_members(tx, lease), own))
    ]


def _stop_messages(
    tx: Transaction,
    thread: Thread,
    polling: Sequence[str],
    person: str,
    operating_policy: OperatingPolicy,
    own: str | None,
    waiting_before: str,
) -> tuple[int, int]:
    """Ends the work under leases, that on messages with a question of an agent, and what no agent has begun. Returns
    the number of pieces of work that had begun, and of those that had not.
    """
    reason = STOPPED_BY.format(person=person)
    waiting = inbox.unbegun_in_thread(tx, thread.id)  # locked before the first queue head
    stopped, unbegun = stop(tx, thread, polling, reason, operating_policy), 0
    asked_otherwise = {one for request in requests.open_in_thread(tx, thread.id) for one in request.inbox_message_ids}
    for message in waiting:
        waits = message.status is InboxStatus.WAITING
        has_begun = waits or message.claims > 0
        if message.id in asked_otherwise or not (own is None or _is_for(tx, [message], own)):
            continue
        if has_begun or message.ts < waiting_before:
            is_done = inbox.move(tx, InboxStep.DISMISS if waits else InboxStep.STOP, message, reason=reason)
            stopped, unbegun = stopped + (is_done and has_begun), unbegun + (is_done and not has_begun)
            if is_done and not message.silent:
                show_stopped(tx, thread, message.ts, operating_policy.reactions)
    if unbegun:
        threads.answered(tx, thread.id)
    return stopped, unbegun


def _is_for(tx: Transaction, messages: Sequence[InboxMessage], person: str) -> bool:
    return not silence.all_silent(messages) and last_person(tx, messages) == person


def retry_run(
    tx: Transaction,
    run_id: str,
    channel: str,
    person: str,
    operating_policy: OperatingPolicy,
    message_ts: str | None = None,
) -> Retried:
    """Retries a failed or stopped run at a person's request, once, if its work can still be done.

    ``message_ts`` identifies the message with the button. The button is removed, because a second press would have no
    effect.
    """
    run = _shown_in(tx, run_id, channel)
    if run is None or run.thread_id is None:
        return _retry_set_aside(tx, run_id, channel, person, operating_policy)
    thread = threads.locked(tx, run.thread_id)
    run = runs.get(tx, run_id)  # read again under the lock
    if run is None or run.status in UNFINISHED:
        return Retried.IMPOSSIBLE
    retried = _retry(tx, run, thread, person, operating_policy)
    if message_ts:
        replace_retry(tx, thread, message_ts, _INSTEAD[retried].format(person=person))
    return retried


def _retry_set_aside(
    tx: Transaction, delivery_id: str, channel: str, person: str, operating_policy: OperatingPolicy
) -> Retried:
    """Hands out a message again that was set aside, whose post with the button is taken down."""
    found = inbox.get(tx, set_aside_in(tx, delivery_id) or "")
    thread = threads.locked(tx, found.thread_id) if found and found.channel == channel else None
    inbox_message = inbox.locked(tx, found.id) if found and thread else None
    if inbox_message is None or thread is None:
        return Retried.IMPOSSIBLE
    if not inbox.move(tx, InboxStep.RETRY, inbox_message, reason=f"run again for <@{person}>", instruction=None):
        return Retried.BEFORE if inbox_message.status in UNDER_WAY else Retried.IMPOSSIBLE
    show_anew(tx, thread, inbox_message, operating_policy.reactions)
    threads.touch(tx, [thread.id])
    return Retried.DONE


def _retry(tx: Transaction, run: Run, thread: Thread, person: str, operating_policy: OperatingPolicy) -> Retried:
    if run.status not in RETRYABLE:
        return Retried.IMPOSSIBLE
    if run.retried_at is not None:
        return Retried.BEFORE
    reason = f"run again for <@{person}>"
    if run.task_id:
        retried = _redrive_task(tx, run, reason, operating_policy)
    else:
        retried = _redrive_entries(tx, run, thread, reason, operating_policy)
    if retried is Retried.DONE:
        runs.retry(tx, run, person)
        threads.touch(tx, [thread.id])
    return retried


def _shown_in(tx: Transaction, run_id: str, channel: str) -> Run | None:
    """Returns the run if it belongs to that channel. The value of a button is not trusted."""
    run = runs.get(tx, run_id)
    thread = threads.get(tx, run.thread_id) if run and run.thread_id else None
    return run if thread and thread.channel == channel else None


def _is_being_stopped(tx: Transaction, run_id: str) -> bool:
    run = runs.get(tx, run_id)
    return run is not None and run.status is RunStatus.RUNNING and run.stop_requested_at is not None


def _redrive_task(tx: Transaction, run: Run, reason: str, operating_policy: OperatingPolicy) -> Retried:
    task = lock_task(tx, run.task_id or "")
    if task and redrive_dead(
        tx, task, reason, operating_policy, instruction=_instruction(tx, [task.id], operating_policy)
    ):
        return Retried.DONE
    return Retried.BEFORE if task and task.status in ACTIVE_STATUSES else Retried.IMPOSSIBLE


def _instruction(tx: Transaction, work_ids: Sequence[str], operating_policy: OperatingPolicy) -> str | None:
    """Returns what a retried agent is told. A resume goes on, and begins nothing anew."""
    return None if requests.undelivered(tx, work_ids) else operating_policy.retry_prefix


def _redrive_entries(
    tx: Transaction, run: Run, thread: Thread, reason: str, operating_policy: OperatingPolicy
) -> Retried:
    """Redrives the messages of a run. Locks all messages before the first queue head."""
    found = [inbox.locked(tx, inbox_message_id) for inbox_message_id in sorted(run.inbox_message_ids)]
    inbox_messages = [inbox_message for inbox_message in found if inbox_message]
    instruction = _instruction(tx, run.inbox_message_ids, operating_policy)
    redriven = [
        inbox_message
        for inbox_message in inbox_messages
        if inbox.move(tx, InboxStep.RETRY, inbox_message, reason=reason, instruction=instruction)
    ]
    for inbox_message in redriven:
        show_anew(tx, thread, inbox_message, operating_policy.reactions)
    if redriven:
        return Retried.DONE
    return (
        Retried.BEFORE
        if any(inbox_message.status in UNDER_WAY for inbox_message in inbox_messages)
        else Retried.IMPOSSIBLE
    )


def _stop_receipt(team: str, message: SlackMessage) -> str:
    return f"stop:{team}:{message.channel}:{message.ts}"


def _stop_task(tx: Transaction, press: ButtonPressed, operating_policy: OperatingPolicy) -> str | None:
    if not cancel_by_person(tx, press.value, press.channel, press.user_id, operating_policy):
        return OVER_TEXT
    return STOPPED_TEXT if press.is_ephemeral else None  # a list that only this person sees does not change


def _stop_own(tx: Transaction, press: ButtonPressed, operating_policy: OperatingPolicy) -> str:
    thread = threads.get(tx, press.value)
    if thread is None or thread.channel != press.channel:
        return ENDED_TEXT
    return STOPPED_TEXT if stop_own(tx, thread.id, press.user_id, operating_policy) else ENDED_TEXT


def _stop_run(tx: Transaction, press: ButtonPressed, _operating_policy: OperatingPolicy) -> str | None:
    run = _shown_in(tx, press.value, press.channel)
    stopped = run and (runs.request_stop(tx, press.user_id, run_id=run.id) or _is_being_stopped(tx, run.id))
    return None if stopped else COMPLETE_TEXT


def _retry_run(tx: Transaction, press: ButtonPressed, operating_policy: OperatingPolicy) -> str | None:
    return _ON_RETRY[retry_run(tx, press.value, press.channel, press.user_id, operating_policy, press.message_ts)]


def _escalate(
    tx: Transaction, press: ButtonPressed, operating_policy: OperatingPolicy, *, team: str, asker: EscalationAsker
) -> str:
    found = (threads.at(tx, team, press.channel, ts) for ts in (press.thread_ts or press.message_ts, FLAT))
    thread = next(filter(None, found), None)
    if thread is None:
        return UNKNOWN_THREAD_TEXT
    try:
        escalation, is_new = escalate(tx, thread, asker, "", operating_policy)
    except Conflict as nobody:
        return nobody.message
    return ESCALATED_TEXT if is_new else asked_before_text(escalation)


Act = Callable[[Transaction, ButtonPressed, OperatingPolicy], PressResult]

_ACTS: Final[Mapping[str, Act]] = {
    STOP_TASK_ACTION: _stop_task,
    STOP_OWN_ACTION: _stop_own,
    STOP_RUN_ACTION: _stop_run,
    RETRY_RUN_ACTION: _retry_run,
}


def _feedback_acts(me: Me) -> Mapping[str, Act]:
    reason = partial(give_reason, me=me)
    return {
        FEEDBACK_ACTION: partial(give_opinion, me=me),
        **{REASON_ACTION + one: reason for one in Reason},
        FEEDBACK_FORM: partial(give_comment, me=me),
    }


_ON_RETRY: Final = {Retried.DONE: None, Retried.BEFORE: RETRIED_TEXT, Retried.IMPOSSIBLE: NO_RETRY_TEXT}
