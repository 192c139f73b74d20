"""What becomes of an open question of a run, and of what waits for it, when people write, edit, stop, or drop it.

While the question is open, messages to its agent wait in the thread (`swarm.store.inbox.queues`). Who may act: the
transaction that routes a message or handles a press, with the thread locked. A dropped question is delivered as
withdrawn, and what waited runs after that; only a built-in agent's question ends with the next message of a requester.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from swarm.domain.model.agents import Reach
from swarm.domain.model.requests import Asker, HumanRequest, ResumeStep
from swarm.domain.model.runs import RunStep
from swarm.domain.model.threads import AuthorKind, SlackMessage, Thread
from swarm.domain.policy.decision_rules import GroupMembers, deciders_text, why_not
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.button_actions import ButtonPressed
from swarm.domain.requests.shown import notified_title
from swarm.domain.requests.texts import outcome_text
from swarm.domain.text.slack_text import safe
from swarm.services.requests.asking import (
    cancel,
    dismiss,
    leading_to,
    lock_work,
    refresh_cards,
    release,
    strangers_of,
)
from swarm.services.speaking.system_messages import post_ephemeral
from swarm.services.work.fencing import STOPPED_BY
from swarm.store import agents, requests, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads, transcript

HELD_TEXT: Final = "✋ {agent} reads your message once “{title}” is decided. {deciders} may decide."
DROPPED_TEXT: Final = "Dropped. I'll tell {agent} first; then it will read the messages that waited."
NOT_YOURS_TEXT: Final = "Only the people who asked, and those who may decide, can drop this."
GONE_TEXT: Final = "There is no such question here. It may have been deleted."


def hold(
    tx: Transaction,
    thread: Thread,
    message: SlackMessage,
    agent_ids: Collection[str],
    members: GroupMembers,
    operating_policy: OperatingPolicy,
) -> None:
    """Handles a person's message to agents whose questions are open in its thread: it ends a question of a built-in
    agent, if its author has asked, and otherwise waits, which its author is told once per question.
    """
    for request in requests.open_in_thread(tx, thread.id):
        if not request.holds or request.agent_id not in agent_ids:
            continue
        agent = agents.by_id(tx, request.agent_id)
        is_own = message.author.id in request.requesters
        if is_own and agent and agent.reach is Reach.BUILTIN and not request.task_id:
            supersede(tx, thread, request.agent_id, operating_policy)
        elif current := requests.get(tx, request.id):
            _tell(tx, thread, message, current, members)


def tell_waiting(tx: Transaction, run: Run) -> None:
    """Tells the authors of messages that are waiting already what they wait for now, since a run has asked people."""
    for request in requests.of_run(tx, run.id):
        thread = threads.get(tx, request.thread_id) if request.thread_id and request.is_open else None
        for unread in inbox.waiting_for(tx, request.agent_id, thread.id) if thread else ():
            author = transcript.author_of(tx, unread.team, unread.channel, unread.ts)
            if thread and author and author.kind is AuthorKind.USER:
                message = SlackMessage(
                    channel=unread.channel, ts=unread.ts, thread_ts=thread.thread_ts, author=author, text=""
                )
                members = {group: frozenset([author.id]) for group in request.policy.groups}  # a press tells
                _tell(tx, thread, message, request, members.get)


def _tell(tx: Transaction, thread: Thread, message: SlackMessage, request: HumanRequest, members: GroupMembers) -> None:
    if request.is_open:
        deciders = deciders_text(request.policy, request.requesters)
        deciders = deciders[:1].upper() + deciders[1:]
        text = HELD_TEXT.format(agent=request.agent, title=safe(notified_title(request)), deciders=deciders)
        key = f"held:{request.id}:{message.author.id}"
        drops = request.id if _may_drop(tx, request, message.author.id, members) else None
        post_ephemeral(tx, thread, message, text, key, drops_request_id=drops)


def _may_drop(tx: Transaction, request: HumanRequest, person: str, members: GroupMembers) -> bool:
    """Whether a person is a requester, whatever the policy, or may decide."""
    is_member = not strangers_of(tx, request.thread_id, [person])
    is_decider = why_not(request.policy, request.requesters, person, members, is_member=is_member) is None
    return is_decider or person in request.requesters


def supersede(tx: Transaction, thread: Thread, agent_id: str, operating_policy: OperatingPolicy) -> None:
    """Withdraws what a built-in agent asks in a thread, because it answers a newer message instead: a model's
    conversation has one end. The thread is locked.
    """
    found = [request for request in _open_of(tx, thread.id, agent_id) if not request.task_id]
    for request in found:
        cancel(tx, request, "people wrote something else")
    dismiss(tx, thread, found, "a newer message is answered instead", operating_policy.reactions.answered)


def stop_waiting(
    tx: Transaction, thread: Thread, person: str, operating_policy: OperatingPolicy, *, own_only: bool = False
) -> int:
    """Withdraws what people are asked in a thread, and stops the work that waits for it. The thread is locked.

    Returns the number of requests. Tasks are cancelled by the caller. ``own_only`` leaves other people's work alone.
    """
    found = requests.open_in_thread(tx, thread.id, with_joined=True)
    if own_only:
        found = [request for request in found if person in request.requesters]
    reason = STOPPED_BY.format(person=person)
    waiting = {request.run_id for request in found if request.run_id and request.asker is Asker.DURABLE}
    for run_id in sorted(waiting):  # the run of a live asker is still running, and its own Stop ends it
        runs.end(tx, run_id, RunStep.STOP, reason)
    for request in found:
        cancel(tx, request, reason, person)
    dismiss(tx, thread, found, reason, operating_policy.reactions.stopped)
    return len(found)


def drop(tx: Transaction, press: ButtonPressed, _operating_policy: OperatingPolicy, *, members: GroupMembers) -> str:
    """Drops the open questions of an agent in a thread, at the wish of a requester or of somebody who may decide.
    Returns what to tell the person.
    """
    request = lock_work(tx, press.value)
    thread = threads.get(tx, request.thread_id) if request else None
    if request is None or thread is None or thread.channel != press.channel:
        return GONE_TEXT
    if not _may_drop(tx, request, press.user_id, members):
        return NOT_YOURS_TEXT
    if not request.is_open:
        return f"This is decided already: {outcome_text(request)}."
    found = _open_of(tx, thread.id, request.agent_id)
    for one in found:
        cancel(tx, one, f"dropped by <@{press.user_id}>", press.user_id)
    for one in found:
        release(tx, one, "its question was dropped")
    return DROPPED_TEXT.format(agent=request.agent)


def lock_asking(tx: Transaction, thread: Thread) -> None:
    """Locks a thread that has open questions, and their tasks, before its messages."""
    found = requests.open_in_thread(tx, thread.id)
    if found:
        threads.locked(tx, thread.id)
    for task_id in sorted({request.task_id for request in found if request.task_id}):
        tasks.locked(tx, task_id)


def withdraw_changed(tx: Transaction, thread: Thread, changed: Collection[InboxMessage], reason: str) -> bool:
    """Withdraws the durable questions of work that a changed message has led to, so that what is left runs; the cards
    of live questions say what has changed: ``reason`` is `EDITED` or `DELETED`. Returns whether it has withdrawn any.
    `lock_asking` comes before, and the messages are locked.
    """
    is_any, ids = False, {inbox_message.id for inbox_message in changed}
    for request in requests.open_in_thread(tx, thread.id) if ids else ():
        if not ids & {request.work_id, *request.inbox_message_ids, *leading_to(tx, request.task_id)}:
            continue
        if request.asker is Asker.LIVE:
            if requests.remark(tx, request, f"{reason[:1].upper()}{reason[1:]} after the question."):
                refresh_cards(tx, request.id)
            continue
        cancel(tx, request, reason)
        agent = agents.by_id(tx, request.agent_id)
        if (
            agent and agent.reach is Reach.BUILTIN and not request.task_id
        ):  # its next run begins with the new text, as after a newer message
            requests.resume(tx, ResumeStep.SEND, request)
            requests.resume(tx, ResumeStep.ACCEPT, request)
        release(tx, request, reason)
        is_any = True
    return is_any


def _open_of(tx: Transaction, thread_id: str, agent_id: str) -> list[HumanRequest]:
    found = requests.open_in_thread(tx, thread_id)
    return [request for request in found if request.agent_id == agent_id and request.holds]
