"""The tray: what lies before an agent, counted, with the beginning of what is new."""

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
"""So many messages from Slack, and as many of other agents, are shown; all are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Raw:
    """A tray as the database has it: texts as Slack writes them."""

    unread: int
    newest: tuple[ThreadTranscript, ...]
    mentions: int
    messages: tuple[AgentMessage, ...]
    tasks: Mapping[str, int]
    threads_owned: int


class Trays:
    """Looks into trays, which changes nothing: neither is anything read by it, nor is it a sign of life."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def of(self, agent: Agent) -> Tray:
        """An agent's tray."""
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
        (entry,) = inbox_message_views(conversation)
        return Preview(
            inbox_message_id=entry.id, sender=entry.user_name, channel=place.channel_name, preview=entry.preview
        )


def _read(tx: Transaction, agent_id: str) -> _Raw:
    unread = [_alone(tx, entry) for entry in inbox.unread(tx, agent_id, PREVIEWS)]
    return _Raw(
        unread=inbox.count_unread(tx, agent_id),
        newest=tuple(unread),
        mentions=agent_messages.count_unread(tx, agent_id),
        messages=tuple(agent_messages.page(tx, Scope.UNREAD, agent_id, PREVIEWS)),
        tasks=task_queries.count_by_status(tx, agent_id),
        threads_owned=threads.count_owned(tx, agent_id),
    )


def _alone(tx: Transaction, entry: InboxMessage) -> ThreadTranscript:
    """An entry with its own message and nothing else of the thread: a preview needs no more."""
    thread = threads.get(tx, entry.thread_id)
    assert thread is not None  # threads that entries refer to are never removed
    row = transcript.find(tx, thread.team, thread.channel, entry.ts)
    said = (transcript.transcript_message(row),) if row else ()
    return ThreadTranscript(thread=thread, said=said, entries=(entry,), previous_answer=None)
