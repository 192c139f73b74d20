"""What of a thread a run is told beside its new messages: what was said later than these, and what it knows already.

A trigger shows the thread up to its last new message. But somebody may have written that while an earlier run was just
about to answer: then the answer is the later one, and a run that did not know it would give it once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from swarm.domain.model.transcript import AuthorKind, TranscriptMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.ports import Directory
from swarm.domain.text.readable import mentioned_ids, readable
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.runs import runs
from swarm.store.threads import threads, transcript

_LIMIT = 200
_TO_THE_END: Final = "~"
"""Behind every timestamp."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownMessages:
    """What an agent that remembers its conversations knows of a thread from its own earlier runs there."""

    timestamps: frozenset[str] = frozenset()  # of the messages that these runs were told
    agent_id: str | None = None  # whose runs; None: there was none

    def has(self, said: TranscriptMessage) -> bool:
        """Whether the agent knows a message: it was told, or has said it itself."""
        is_own = said.kind is AuthorKind.AGENT and said.author_id == self.agent_id
        return is_own or said.ts in self.timestamps


NOTHING_HEARD: Final = KnownMessages()


async def answered_since(database: Database, directory: Directory, trigger: Trigger) -> tuple[TranscriptMessage, ...]:
    """What agents of ours have said since the new messages of a trigger, oldest first; raises Unavailable."""
    if trigger.place is None or not trigger.inbox_messages:
        return ()
    last = max(entry.ts for entry in trigger.inbox_messages)
    said = await database.read(_said_since, trigger.place.id, last)
    ids = {user_id for message in said for user_id in mentioned_ids(message.text)}
    names = {user_id: await directory.author_name(user_id, AuthorKind.USER) for user_id in ids}
    return tuple(replace(message, text=readable(message.text, names)) for message in said)


def _said_since(tx: Transaction, thread_id: str, ts: str) -> list[TranscriptMessage]:
    thread = threads.get(tx, thread_id)
    found = transcript.page(tx, thread, ts, _LIMIT) if thread else []
    return [message for message in found if message.kind is AuthorKind.AGENT]


async def heard_before(database: Database, trigger: Trigger, agent_id: str) -> KnownMessages:
    """What an agent knows of a trigger's thread; raises Unavailable.

    That is what its last run there was told, if it went well: of one that failed nobody knows how much has arrived,
    and to be told twice does less harm than never.
    """
    return await database.read(_heard, trigger.place.id, agent_id) if trigger.place else NOTHING_HEARD


def _heard(tx: Transaction, thread_id: str, agent_id: str) -> KnownMessages:
    """A message that was read from Slack only after the run began was not told, however old it is."""
    turn, thread = runs.last_heard(tx, thread_id, agent_id), threads.get(tx, thread_id)
    if turn is None or thread is None:
        return NOTHING_HEARD
    entries = (inbox.get(tx, entry_id) for entry_id in turn.entry_ids)
    last = max((entry.ts for entry in entries if entry), default=_TO_THE_END)
    rows = transcript.rows_of_thread(tx, thread.team, thread.channel, thread.thread_ts)
    told = (ts for ts, row in rows.items() if ts <= last and row["stored_at"] <= turn.started_at)
    return KnownMessages(timestamps=frozenset(told), agent_id=agent_id)
