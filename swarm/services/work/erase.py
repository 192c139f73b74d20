"""Erases text that people delete or edit in Slack from everything derived from it.

Who may act: the transaction that processes Slack's event, with the thread locked. What is guaranteed: after the commit
no row contains the text, except for other messages of people, agents' own wording, and answers of agents, which are
separate posts. Runs that are reading the message find it deleted when their session is stored
(`swarm.store.builtin.sessions.add_run`); an answer that is deleted while it is being written is erased by the retention
job after its end. What happens on failure: nothing is stored, and Slack repeats the event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from swarm.clock import SECOND
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.threads import AuthorKind, Thread
from swarm.domain.text.copies import parts_of
from swarm.domain.text.slack_text import with_names, without_leading_mention
from swarm.services.work.task_threads import concerned
from swarm.store import erasure
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import run_logs
from swarm.store.threads import threads

CLOCKS_APART: Final = 60 * SECOND
"""A text written up to this long before a message was stored may be a copy of the message."""


def withdraw(tx: Transaction, inbox_messages: Iterable[InboxMessage], reason: str) -> None:
    """Withdraws the unanswered inbox messages of a deleted message and notifies the agents working on them. The
    messages must be locked.
    """
    for inbox_message in inbox_messages:
        agent_id, task_id = concerned(tx, inbox_message)
        withdrawn = inbox.move(tx, InboxStep.WITHDRAW, inbox_message, reason=reason)
        if agent_id and (withdrawn or inbox_message.status is InboxStatus.DELEGATED):
            notices.add(
                tx,
                NoticeKind.MESSAGE_DELETED,
                agent_id,
                thread_id=inbox_message.thread_id,
                inbox_message_id=inbox_message.id,
                task_id=task_id,
            )


def erase_deleted(tx: Transaction, thread: Thread | None, was: Row, inbox_messages: Iterable[InboxMessage]) -> int:
    """Erases everything derived from the message with the stored row ``was``. Returns the number of changed rows."""
    erased = 0
    inbox_messages = inbox.reword(tx, inbox_messages, None)
    for inbox_message in inbox_messages:
        erased += erasure.reword_notices(tx, inbox_message.thread_id, inbox_message.id, "")
        erased += erasure.forget_remembered(tx, inbox_message.thread_id, inbox_message.id)
        erased += run_logs.empty(tx, inbox_message.thread_id, inbox_message.id)
    if thread and was["author_kind"] == AuthorKind.AGENT:
        erased += erasure.forget_answer(tx, thread, was["ts"])
    return erased + _erase_copies(tx, thread, was, "")


def erase_edited(
    tx: Transaction, thread: Thread | None, was: Row, text: str, inbox_messages: Iterable[InboxMessage]
) -> int:
    """Erases the old text of an edited message, whose row is ``was``. In notices and sessions, ``text`` replaces it.

    The inbox messages have their new text for the agents already.
    """
    erased = 0
    for inbox_message in inbox_messages:
        erased += erasure.reword_notices(tx, inbox_message.thread_id, inbox_message.id, text)
        erased += erasure.reword_remembered(tx, inbox_message.id, _read_by_agent(inbox_message, text))
    return erased + _erase_copies(tx, thread, was, text)


def _read_by_agent(inbox_message: InboxMessage, text: str) -> str:
    if inbox_message.message is not None:
        return with_names(inbox_message.message, {})
    return without_leading_mention(text)


def erase_late(tx: Transaction, since: int) -> int:
    """Erases agents' answers that have been deleted since then, while they were still being written or sent."""
    erased = 0
    for post in erasure.gone_posts(tx, since):
        thread = threads.find(tx, post["team"], post["channel"], post["thread_ts"])
        erased += erasure.forget_answer(tx, thread, post["ts"]) if thread else 0
    return erased


def _erase_copies(tx: Transaction, thread: Thread | None, was: Row, kept: str) -> int:
    parts = parts_of(was["text"], kept)
    return erasure.cut_copies(tx, thread, was["stored_at"] - CLOCKS_APART, parts) if thread else 0
