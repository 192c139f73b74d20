"""Replies of agents: the status and the post change in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from typing_extensions import TypedDict

from swarm.domain.errors import Conflict, Invalid, RateLimited
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.speaking.silence import WHY_WITHHELD, all_silent, place_for, stay_silent
from swarm.services.speaking.system_messages import show_answered
from swarm.services.work.fencing import AuthorizedMessage, authorize_message, authorize_task, may_reply_about
from swarm.services.work.leases import end_if_resolved
from swarm.services.work.reply import Answers, ReplyText, check_text, last_person, post, speak, task_call, with_others
from swarm.services.work.task_threads import answered_before
from swarm.store import idempotency_keys, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.runs import runs
from swarm.store.tasks import Task
from swarm.store.threads import threads

MOST_REPLIES: Final = 20


"""The maximum number of replies of one run to one inbox message or task. More come from an agent that does not stop."""


class Replied(TypedDict):
    """The posts for Slack, in order, and the new status of the inbox message or task."""

    delivery_ids: list[str]
    status: str


class Dismissed(TypedDict):
    """The inbox message's new status."""

    status: str


class Replies:
    """Replies of leads and workers to people."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def reply(
        self,
        caller: Caller,
        inbox_message_id: str,
        message: str,
        *,
        only: bool = False,
        broadcast: bool = False,
        wait: bool = False,
    ) -> Replied:
        """Answers in the thread of an inbox message. All messages of the lease count as answered, unless ``only`` is
        set.

        With ``wait`` the text is a question: the messages wait, without a lease, until a person answers in the thread.
        A repeated call returns the first result; another call with a different text posts again. Raises Invalid for an
        empty message, RateLimited after `MOST_REPLIES`, and the errors of `authorize_message`.
        """
        words = ReplyText(text=check_text(message), only=only, broadcast=broadcast, wait=wait)
        return await self._database.write(self._reply, caller, inbox_message_id, words)

    def _reply(self, tx: Transaction, caller: Caller, inbox_message_id: str, words: ReplyText) -> Replied:
        said = {"inbox_message_id": inbox_message_id, **asdict(words)}
        call = _call(tx, caller, "slack-reply", inbox_message_id, said)

        def act() -> Replied:
            hold = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
            _count(tx, hold.lease.token, inbox_message_id)
            return {"delivery_ids": self._answer(tx, caller, hold, words), "status": _status(tx, inbox_message_id)}

        return idempotent(tx, call, act)

    async def reply_to_task(
        self, caller: Caller, task_id: str, message: str, *, broadcast: bool = False, wait: bool = False
    ) -> Replied:
        """Posts in the thread of a task. Its run may post at any time, its creator after the notice of its end.

        With ``wait`` the text is a question: the task waits, without a lease, until a person answers in the thread.
        Raises Invalid for an empty message, RateLimited after `MOST_REPLIES`, Conflict for a task without a thread, and
        the errors of `authorize_task`.
        """
        words = ReplyText(text=check_text(message), broadcast=broadcast, wait=wait)
        return await self._database.write(self._reply_to_task, caller, task_id, words)

    def _reply_to_task(self, tx: Transaction, caller: Caller, task_id: str, words: ReplyText) -> Replied:
        task = tasks.get(tx, task_id)
        call = task_call(caller, "slack-reply", task_id, task, asdict(words))

        def act() -> Replied:
            return {"delivery_ids": self._speak(tx, caller, task_id, words), "status": _task_status(tx, task_id)}

        return idempotent(tx, call, act)

    async def dismiss(self, caller: Caller, inbox_message_id: str, reason: str) -> Dismissed:
        """Marks an inbox message as needing no answer: it gets ✅ and no reply."""
        if not reason.strip():
            raise Invalid("Say why it needs no answer.", fields={"reason": "a sentence for the timeline"})
        return await self._database.write(self._dismiss, caller, inbox_message_id, reason)

    def _dismiss(self, tx: Transaction, caller: Caller, inbox_message_id: str, reason: str) -> Dismissed:
        said = {"inbox_message_id": inbox_message_id, "reason": reason}
        call = _call(tx, caller, "dismiss-message", inbox_message_id, said)

        def act() -> Dismissed:
            hold = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
            if not inbox.move(tx, InboxStep.DISMISS, hold.inbox_message, reason=reason):
                raise Conflict(f"This inbox message is already {hold.inbox_message.status}, so it cannot be dismissed.")
            if hold.inbox_message.silent:
                stay_silent(
                    tx, hold.thread, SilentEnd.DEFERRED, caller.agent.id, hold.inbox_message.id, f"dismissed: {reason}"
                )
            else:
                show_answered(tx, hold.thread, hold.inbox_message.ts, self._operating_policy.reactions)
            end_if_resolved(tx, hold.lease)
            return {"status": InboxStatus.DISMISSED.value}

        return idempotent(tx, call, act)

    def _answer(self, tx: Transaction, caller: Caller, hold: AuthorizedMessage, words: ReplyText) -> list[str]:
        is_answer = not words.wait and hold.inbox_message.status is not InboxStatus.DELEGATED
        answers = _answers(tx, hold) if is_answer else None
        # A reply to a delegated message answers no other message.
        alone = words.only or hold.inbox_message.status is InboxStatus.DELEGATED
        answered = [hold.inbox_message] if alone else with_others(tx, hold)
        agent_id, subject = hold.lease.agent_id, hold.inbox_message.id
        thread, end = place_for(
            tx, hold.thread, words.text, is_silent=all_silent(answered), agent_id=agent_id, subject=subject
        )
        if end:
            for inbox_message in answered:
                inbox.move(tx, InboxStep.DISMISS, inbox_message, reason=WHY_WITHHELD[end])
            end_if_resolved(tx, hold.lease)
            return []
        sent = post(tx, thread, words, agent=caller.agent, answers=answers, inbox_message_id=subject)
        for inbox_message in answered:
            if inbox.move(tx, InboxStep.ASK if words.wait else InboxStep.RESPOND, inbox_message) and not words.wait:
                show_answered(tx, thread, inbox_message.ts, self._operating_policy.reactions)
        threads.answered(tx, thread.id)
        if words.wait:
            answered_before(tx, thread, agent_id)
        end_if_resolved(tx, hold.lease)
        return sent

    def _speak(self, tx: Transaction, caller: Caller, task_id: str, words: ReplyText) -> list[str]:
        task = tasks.get(tx, task_id)
        if task and may_reply_about(tx, caller.agent, task, caller.lease_token):
            _count(tx, caller.lease_token or caller.agent.id, task_id)
            is_answer = not words.wait and task.status is TaskStatus.COMPLETED
            answers = Answers(requester=task.requester) if is_answer else None
            return speak(
                tx, _with_thread(tx, task), words, caller.agent, task, self._operating_policy.reactions, answers
            )
        hold = authorize_task(tx, caller.agent, task_id, caller.lease_token)
        _count(tx, hold.lease.token, task_id)
        sent = speak(tx, _with_thread(tx, hold.task), words, caller.agent, hold.task, self._operating_policy.reactions)
        if words.wait and tasks.move(tx, TaskStep.ASK, hold.task):
            if hold.thread:
                answered_before(tx, hold.thread, caller.agent.id)
            end_if_resolved(tx, hold.lease)
        return sent


def _count(tx: Transaction, lease_token: str, about: str) -> None:
    """Counts a reply. Raises RateLimited if the run has sent `MOST_REPLIES` about the same message or task."""
    if not any(idempotency_keys.record(tx, f"reply:{lease_token}:{about}:{n}") for n in range(MOST_REPLIES)):
        raise RateLimited(
            f"You have replied {MOST_REPLIES} times to this message or task, which is the most for one run.",
            retry_after_seconds=3600,
            hint="Do not reply again. End your work, or put the rest into a file (slack-upload-file).",
        )


def _call(
    tx: Transaction, caller: Caller, tool: str, inbox_message_id: str, said: Mapping[str, object]
) -> IdempotentCall:
    """Returns the call, under the given lease or by default the lease of the message."""
    inbox_message = inbox.get(tx, inbox_message_id)
    return IdempotentCall.of(caller, tool, inbox_message_id, said, inbox_message.lease_token if inbox_message else None)


def _answers(tx: Transaction, hold: AuthorizedMessage) -> Answers:
    """Returns the marks of an answer to a message. Opinions belong to the lease's run, if that works on the message."""
    run = runs.newest_of_lease(tx, hold.thread.id, hold.lease.token)
    is_of_run = run is not None and hold.inbox_message.id in run.inbox_message_ids
    return Answers(requester=last_person(tx, [hold.inbox_message]), run_id=run.id if run and is_of_run else "")


def _with_thread(tx: Transaction, task: Task) -> Thread:
    if task.thread_id is None:
        raise Conflict(
            "This task has no Slack thread, so a reply cannot be posted.",
            hint="Add the text to its result, or write to an agent with send-message.",
        )
    return threads.locked(tx, task.thread_id)


def _task_status(tx: Transaction, task_id: str) -> str:
    task = tasks.get(tx, task_id)
    assert task is not None  # just read
    return task.status.value


def _status(tx: Transaction, inbox_message_id: str) -> str:
    inbox_message = inbox.get(tx, inbox_message_id)
    assert inbox_message is not None  # just locked
    return inbox_message.status.value
