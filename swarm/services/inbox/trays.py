"""The tray: counts of an agent's unread messages and tasks, with previews."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.agents import Agent, AgentMessage
from swarm.domain.model.triggers import Preview, Tray
from swarm.services.inbox.claimed import ThreadTranscript
from swarm.services.inbox.triggers import Triggers, inbox_message_views
from swarm.store import agent_messages, task_queries
from swarm.store.agent_messages import Scope
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.threads import threads, transcript

PREVIEWS: Final = 20
"""The number of messages shown from Slack, and of other agents' messages; all are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Raw:
    """A tray from the database, with texts in Slack's markup."""

    unread: int
    newest: tuple[ThreadTranscript, ...]
    mentions: int
    messages: tuple[AgentMessage, ...]
    tasks: Mapping[str, int]
    threads_owned: int


class Trays:
    """Reads trays without any change: messages stay unread, and a call is no sign of life."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def of(self, agent: Agent) -> Tray:
        """Returns an agent's tray."""
        raw = await self._database.read(_read, agent.id)
        return Tray(
            unread=raw.unread,
            previews=tuple([await self._preview(conversation) for conversation in raw.newest]),
            mentions=raw.mentions,
            messages=raw.messages,
            tasks=raw.tasks,
            threads_owned=raw.threads_owned,
        )

    async def _preview(self, raw: ThreadTranscript) -> Preview:
        place, conversation = await self._triggers.conversation(raw)
        (inbox_message,) = inbox_message_views(conversation)
        return Preview(
            inbox_message_id=inbox_message.id,
            sender=inbox_message.user_name,
            channel=place.channel_name,
            preview=inbox_message.preview,
        )


def _read(tx: Transaction, agent_id: str) -> _Raw:
    unread = [_alone(tx, inbox_message) for inbox_message in inbox.unread(tx, agent_id, PREVIEWS)]
    return _Raw(
        unread=inbox.count_unread(tx, agent_id),
        newest=tuple(unread),
        mentions=agent_messages.count_unread(tx, agent_id),
        messages=tuple(agent_messages.page(tx, Scope.UNREAD, agent_id, PREVIEWS)),
        tasks=task_queries.count_by_status(tx, agent_id),
        threads_owned=threads.count_owned(tx, agent_id),
    )


def _alone(tx: Transaction, inbox_message: InboxMessage) -> ThreadTranscript:
    """Returns an inbox message with its own text and no other message of the thread, as needed for a preview."""
    thread = threads.get(tx, inbox_message.thread_id)
    assert thread is not None  # threads of inbox messages are never removed
    row = transcript.find(tx, thread.team, thread.channel, inbox_message.ts)
    said = (transcript.transcript_message(row),) if row else ()
    return ThreadTranscript(thread=thread, said=said, inbox_messages=(inbox_message,), previous_answer=None)
