"""Reading: an inbox message by id, an agent's tray, and what an operator sees and sets right."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.agents import Agent
from swarm.domain.errors import Conflict, NotFound
from swarm.domain.inbox import EntryStatus, EntryStep
from swarm.domain.transcript import ContextState, Said
from swarm.domain.tray import Preview, Tray
from swarm.domain.triggers import EntryView, Place
from swarm.services.triggers import Conversation, Triggers, entry_views, read_conversation
from swarm.store import inbox, threads
from swarm.store.database import Database
from swarm.store.inbox import Entry
from swarm.store.transaction import Transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeEntry:
    """An inbox message with everything around it."""

    entry: EntryView
    place: Place
    thread_context: tuple[Said, ...]
    context_incomplete: bool
    previous_reply: str | None


class Inbox:
    """Inbox messages, to be read."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def read(self, agent: Agent, entry_id: str) -> WholeEntry:
        """An agent's own inbox message; no lease is needed. Raises NotFound, for another agent's as well."""
        raw = await self._database.read(_read, agent.id, entry_id)
        return await self._whole(raw)

    async def tray(self, agent: Agent, limit: int = 20) -> Tray:
        """Counts and previews of what waits for an agent."""
        unread, owned, conversations = await self._database.read(_tray, agent.id, limit)
        wholes = [await self._whole(raw) for raw in conversations]
        previews = tuple(
            Preview(
                inbox_message_id=whole.entry.id,
                sender=whole.entry.user_name,
                channel=whole.place.channel_name,
                preview=whole.entry.preview,
            )
            for whole in wholes
        )
        return Tray(unread=unread, previews=previews, threads_owned=owned)

    async def latest(self, status: EntryStatus | None, limit: int) -> list[Entry]:
        """The newest entries, for an operator."""
        return await self._database.read(inbox.latest, status, limit)

    async def redrive(self, entry_id: str) -> Entry:
        """Hand a dead message out again, its attempts forgotten. Raises NotFound, or Conflict if it is not dead."""
        return await self._database.write(_redrive, entry_id)

    async def _whole(self, raw: Conversation) -> WholeEntry:
        place, conversation = await self._triggers.conversation(raw)
        return WholeEntry(
            entry=entry_views(conversation)[0],
            place=place,
            thread_context=conversation.said,
            context_incomplete=conversation.thread.context is not ContextState.COMPLETE,
            previous_reply=conversation.previous_answer,
        )


def _read(tx: Transaction, agent_id: str, entry_id: str) -> Conversation:
    entry = inbox.get(tx, entry_id)
    if entry is None or entry.agent_id != agent_id:
        raise NotFound(f"You have no inbox message '{entry_id}'.", hint="Use an id from your own poll or tray.")
    conversation = read_conversation(tx, [entry])
    assert conversation is not None  # an entry always has a thread
    return conversation


def _tray(tx: Transaction, agent_id: str, limit: int) -> tuple[int, int, list[Conversation]]:
    conversations = [read_conversation(tx, [entry]) for entry in inbox.unread(tx, agent_id, limit)]
    found = [conversation for conversation in conversations if conversation]
    return inbox.count_unread(tx, agent_id), threads.count_owned(tx, agent_id), found


def _redrive(tx: Transaction, entry_id: str) -> Entry:
    entry = inbox.locked(tx, entry_id)
    if entry is None:
        raise NotFound(f"There is no inbox message '{entry_id}'.")
    if not inbox.move(tx, EntryStep.REDRIVE, entry, reason="redriven by an operator"):
        raise Conflict(f"This inbox message is {entry.status}; only dead ones can be redriven.")
    changed = inbox.get(tx, entry_id)
    assert changed is not None
    return changed
