"""Texts of agents: what is posted, for whom, and which messages it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from swarm.clock import slack_ts_to_us
from swarm.domain.errors import Invalid, TooLarge, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import AuthorKind, Thread, is_user
from swarm.domain.policy.operating import Reactions
from swarm.domain.text.slack_text import mentioned_ids
from swarm.services.ground.idempotency import Caller, IdempotentCall
from swarm.services.speaking.silence import place_for
from swarm.services.speaking.system_messages import post_answer, post_message, show_answered
from swarm.services.work.fencing import AuthorizedMessage
from swarm.services.work.leases import claimed_members
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.tasks import Task
from swarm.store.threads import transcript
from swarm_base.characters import strip_invisible

MAX_REPLY_CHARACTERS: Final = 200_000


"""About fifty Slack messages, which take nearly a minute to send."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyText:
    """The text of a reply and its options."""

    text: str
    only: bool = False
    broadcast: bool = False
    wait: bool = False


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Marks a text as a final answer, which has a footer and 👍 and 👎."""

    requester: str | None  # the user id of the person who asked; None: a bot asked
    run_id: str = ""  # the run to which opinions belong; empty: the last post itself


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
