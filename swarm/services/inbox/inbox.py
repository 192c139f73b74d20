"""Reading an inbox message by id, and listing and redriving for operators."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.errors import Conflict, NotFound
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.threads import ContextState, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView, ThreadView
from swarm.domain.operating_policy import Reactions
from swarm.services.inbox.claimed import ThreadTranscript, read_conversation
from swarm.services.inbox.triggers import Triggers, inbox_message_views
from swarm.services.rules.system_messages import retire_retry_of_message, show_anew
from swarm.services.tasks.task_view import TaskView, view
from swarm.store import tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.threads import threads


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageDetails:
    """An inbox message with its context."""

    entry: InboxMessageView
    thread: ThreadView
    thread_context: tuple[TranscriptMessage, ...]
    context_incomplete: bool
    previous_reply: str | None
    task: TaskView | None  # the task of its delegation, or the task of a follow-up


class Inbox:
    """Reading of inbox messages."""

    def __init__(self, database: Database, triggers: Triggers, reactions: Reactions) -> None:
        self._database = database
        self._triggers = triggers
        self._reactions = reactions

    async def read(self, agent: Agent, entry_id: str) -> InboxMessageDetails:
        """Returns an agent's own inbox message, without a lease. Raises NotFound, also for another agent's message."""
        raw, task = await self._database.read(_read, agent.id, entry_id)
        place, conversation = await self._triggers.conversation(raw)
        return InboxMessageDetails(
            entry=inbox_message_views(conversation)[0],
            thread=place,
            thread_context=conversation.said,
            context_incomplete=conversation.thread.context is not ContextState.COMPLETE,
            previous_reply=conversation.previous_answer,
            task=task,
        )

    async def latest(self, status: InboxStatus | None, limit: int) -> list[InboxMessage]:
        """Returns the newest inbox messages, for an operator."""
        return await self._database.read(inbox.latest, status, limit)

    async def redrive(self, entry_id: str) -> InboxMessage:
        """Hands out a dead message again, with its attempts reset. Raises NotFound, or Conflict if it is not dead."""
        return await self._database.write(_redrive, entry_id, self._reactions)


def _read(tx: Transaction, agent_id: str, entry_id: str) -> tuple[ThreadTranscript, TaskView | None]:
    entry = inbox.get(tx, entry_id)
    if entry is None or entry.agent_id != agent_id:
        raise NotFound(f"You have no inbox message '{entry_id}'.", hint="Use an id from your own poll or tray.")
    conversation = read_conversation(tx, [entry])
    assert conversation is not None  # an inbox message always has a thread
    task = tasks.get(tx, entry.task_id) if entry.task_id else None
    return conversation, view(tx, task) if task else None


def _redrive(tx: Transaction, entry_id: str, reactions: Reactions) -> InboxMessage:
    found = inbox.get(tx, entry_id)
    thread = threads.locked(tx, found.thread_id) if found else None
    entry = inbox.locked(tx, entry_id)
    if entry is None or thread is None:
        raise NotFound(f"There is no inbox message '{entry_id}'.")
    if not inbox.move(tx, InboxStep.REDRIVE, entry, reason="redriven by an operator"):
        raise Conflict(f"This inbox message is {entry.status}; only dead ones can be redriven.")
    show_anew(tx, thread, entry, reactions)
    retire_retry_of_message(tx, thread, entry)
    changed = inbox.get(tx, entry_id)
    assert changed is not None
    return changed
