"""Replies of agents: the status and the post change in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from typing_extensions import TypedDict

from swarm.clock import slack_ts_to_us
from swarm.domain.errors import Conflict, Invalid, RateLimited, TooLarge, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import AuthorKind, Thread, is_user
from swarm.domain.operating_policy import Reactions
from swarm.domain.text.characters import strip_invisible
from swarm.domain.text.slack_text import mentioned_ids
from swarm.services.rules.fencing import AuthorizedMessage, authorize_message, authorize_task, may_reply_about
from swarm.services.rules.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.rules.leases import claimed_members, end_if_resolved
from swarm.services.rules.silence import WHY_WITHHELD, all_silent, place_for, stay_silent
from swarm.services.rules.system_messages import post_answer, post_message, show_answered
from swarm.services.rules.task_threads import answered_before
from swarm.store import idempotency_keys, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import runs
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

MAX_REPLY_CHARACTERS: Final = 200_000
"""About fifty Slack messages, which take nearly a minute to send."""

MOST_REPLIES: Final = 20
"""The maximum number of replies of one run to one inbox message or task. More come from an agent that does not stop."""


class Replied(TypedDict):
    """The posts for Slack, in order, and the new status of the inbox message or task."""

    delivery_ids: list[str]
    status: str


class Dismissed(TypedDict):
    """The inbox message's new status."""

    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyText:
    """The text of a reply and its options."""

    text: str
    only: bool = False
    broadcast: bool = False
    wait: bool = False


class Replies:
    """Replies of leads and workers to people."""

    def __init__(self, database: Database, reactions: Reactions) -> None:
        self._database = database
        self._reactions = reactions

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

    async def dismiss(self, caller: Caller, inbox_message_id: str, reason: str) -> Dismissed:
        """Marks an inbox message as needing no answer: it gets ✅ and no reply."""
        if not reason.strip():
            raise Invalid("Say why it needs no answer.", fields={"reason": "a sentence for the timeline"})
        return await self._database.write(self._dismiss, caller, inbox_message_id, reason)

    def _reply(self, tx: Transaction, caller: Caller, inbox_message_id: str, words: ReplyText) -> Replied:
        said = {"inbox_message_id": inbox_message_id, **asdict(words)}
        call = _call(tx, caller, "slack-reply", inbox_message_id, said)

        def act() -> Replied:
            hold = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
            _count(tx, hold.lease.token, inbox_message_id)
            return {"delivery_ids": self._answer(tx, caller, hold, words), "status": _status(tx, inbox_message_id)}

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
                show_answered(tx, thread, inbox_message.ts, self._reactions)
        threads.answered(tx, thread.id)
        if words.wait:
            answered_before(tx, thread, agent_id)
        end_if_resolved(tx, hold.lease)
        return sent

    def _reply_to_task(self, tx: Transaction, caller: Caller, task_id: str, words: ReplyText) -> Replied:
        task = tasks.get(tx, task_id)
        call = task_call(caller, "slack-reply", task_id, task, asdict(words))

        def act() -> Replied:
            return {"delivery_ids": self._speak(tx, caller, task_id, words), "status": _task_status(tx, task_id)}

        return idempotent(tx, call, act)

    def _speak(self, tx: Transaction, caller: Caller, task_id: str, words: ReplyText) -> list[str]:
        task = tasks.get(tx, task_id)
        if task and may_reply_about(tx, caller.agent, task, caller.lease_token):
            _count(tx, caller.lease_token or caller.agent.id, task_id)
            is_answer = not words.wait and task.status is TaskStatus.COMPLETED
            answers = Answers(requester=task.requester) if is_answer else None
            return speak(tx, _with_thread(tx, task), words, caller.agent, task, self._reactions, answers)
        hold = authorize_task(tx, caller.agent, task_id, caller.lease_token)
        _count(tx, hold.lease.token, task_id)
        sent = speak(tx, _with_thread(tx, hold.task), words, caller.agent, hold.task, self._reactions)
        if words.wait and tasks.move(tx, TaskStep.ASK, hold.task):
            if hold.thread:
                answered_before(tx, hold.thread, caller.agent.id)
            end_if_resolved(tx, hold.lease)
        return sent

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
                show_answered(tx, hold.thread, hold.inbox_message.ts, self._reactions)
            end_if_resolved(tx, hold.lease)
            return {"status": InboxStatus.DISMISSED.value}

        return idempotent(tx, call, act)


def _count(tx: Transaction, lease_token: str, about: str) -> None:
    """Counts a reply. Raises RateLimited if the run has sent `MOST_REPLIES` about the same message or task."""
    if not any(idempotency_keys.record(tx, f"reply:{lease_token}:{about}:{n}") for n in range(MOST_REPLIES)):
        raise RateLimited(
            f"You have replied {MOST_REPLIES} times to this message or task, which is the most for one run.",
            retry_after_seconds=3600,
            hint="Do not reply again. End your work, or put the rest into a file (slack-upload-file).",
        )


def with_others(tx: Transaction, hold: AuthorizedMessage) -> list[InboxMessage]:
    """Returns the inbox message and the other unanswered messages of its lease."""
    return [
        hold.inbox_message,
        *(
            inbox_message
            for inbox_message in claimed_members(tx, hold.lease)
            if inbox_message.id != hold.inbox_message.id
        ),
    ]


def task_call(caller: Caller, tool: str, task_id: str, task: Task | None, said: Mapping[str, object]) -> IdempotentCall:
    """Returns the call, under the given lease or by default the lease of the task."""
    return IdempotentCall.of(caller, tool, task_id, said, task.lease_token if task else None)


def _call(
    tx: Transaction, caller: Caller, tool: str, inbox_message_id: str, said: Mapping[str, object]
) -> IdempotentCall:
    """Returns the call, under the given lease or by default the lease of the message."""
    inbox_message = inbox.get(tx, inbox_message_id)
    return IdempotentCall.of(caller, tool, inbox_message_id, said, inbox_message.lease_token if inbox_message else None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Marks a text as a final answer, which has a footer and 👍 and 👎."""

    requester: str | None  # the user id of the person who asked; None: a bot asked
    run_id: str = ""  # the run to which opinions belong; empty: the last post itself


def _answers(tx: Transaction, hold: AuthorizedMessage) -> Answers:
    """Returns the marks of an answer to a message. Opinions belong to the lease's run, if that works on the message."""
    run = runs.newest_of_lease(tx, hold.thread.id, hold.lease.token)
    is_of_run = run is not None and hold.inbox_message.id in run.inbox_message_ids
    return Answers(requester=last_person(tx, [hold.inbox_message]), run_id=run.id if run and is_of_run else "")


def post(
    tx: Transaction,
    thread: Thread,
    words: ReplyText,
    *,
    agent: Agent,
    answers: Answers | None = None,
    inbox_message_id: str | None = None,
    task_id: str | None = None,
) -> list[str]:
    """Queues an agent's text.

    Raises Invalid if no part of the text can be shown, and Withdrawn if the thread was deleted.
    """
    if transcript.is_deleted(tx, thread.team, thread.channel, thread.thread_ts):
        raise Withdrawn(
            "The thread's first message was deleted in Slack, so nothing can be posted there.",
            hint="Do not reply; a task may still be ended without a reply.",
        )
    queue = (
        partial(post_answer, agent_name=agent.name, requester=answers.requester, run_id=answers.run_id)
        if answers
        else post_message
    )
    sent = queue(
        tx,
        thread,
        words.text,
        agent_id=agent.id,
        inbox_message_id=inbox_message_id,
        task_id=task_id,
        broadcast=words.broadcast,
        mentionable=_people(tx, thread, words.text),
    )
    if not sent:
        raise Invalid(
            "The message contains nothing that can be shown.", fields={"message": "what to say in the thread"}
        )
    return sent


def speak(
    tx: Transaction,
    thread: Thread,
    words: ReplyText,
    agent: Agent,
    task: Task,
    reactions: Reactions,
    answers: Answers | None = None,
) -> list[str]:
    """Queues the text of a task's run, unless it is withheld. Raises the errors of `post`.

    A text that ends the silence of the thread is the answer to the messages that the task has replaced.
    """
    shown_in, end = place_for(tx, thread, words.text, is_silent=False, agent_id=agent.id, subject=task.id)
    if end:
        return []
    sent = post(tx, shown_in, words, agent=agent, answers=answers, task_id=task.id)
    if thread.is_silent and task.status is TaskStatus.COMPLETED:
        for inbox_message in inbox.of_task(tx, task.id, InboxStatus.DELEGATED):
            show_answered(tx, shown_in, inbox_message.ts, reactions)
    return sent


def last_person(tx: Transaction, inbox_messages: Sequence[InboxMessage]) -> str | None:
    """Returns the last author who is a person; None if all authors are bots. Slack streams only to people."""
    people = people_of(tx, inbox_messages)
    return people[-1] if people else None


def people_of(tx: Transaction, inbox_messages: Iterable[InboxMessage]) -> list[str]:
    """Returns the author of each message by a person, in the order in which they were written."""
    rows = (
        transcript.find(tx, inbox_message.team, inbox_message.channel, inbox_message.ts)
        for inbox_message in inbox_messages
    )
    said = sorted((transcript.transcript_message(row) for row in rows if row), key=lambda one: slack_ts_to_us(one.ts))
    return [one.author_id for one in said if one.kind is AuthorKind.USER and is_user(one.author_id)]


def check_text(message: str) -> str:
    """Returns the message unchanged. Raises Invalid for an empty message and TooLarge for a long one."""
    if not strip_invisible(message).strip():
        raise Invalid("The message is empty.", fields={"message": "what to say in the thread"})
    if len(message) > MAX_REPLY_CHARACTERS:
        raise TooLarge(
            f"The message has {len(message)} characters; the limit for one answer is {MAX_REPLY_CHARACTERS}.",
            hint="Summarise it; it would fill dozens of messages that nobody reads.",
        )
    return message


def _people(tx: Transaction, thread: Thread, message: str) -> frozenset[str]:
    """Returns the people whom an answer may mention: authors in the thread and people mentioned in it."""
    if not mentioned_ids(message):
        return frozenset()
    said = transcript.of_thread(tx, thread)
    mentioned: set[str] = set()
    return frozenset(mentioned.union(*([message.author_id, *mentioned_ids(message.text)] for message in said)))


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
