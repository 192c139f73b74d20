"""Pages of a thread's transcript."""

from __future__ import annotations

import re
from dataclasses import dataclass

from swarm.domain.errors import Invalid
from swarm.domain.model.agents import Agent
from swarm.domain.model.threads import ContextState, TranscriptMessage
from swarm.domain.model.triggers import ThreadView
from swarm.services.inbox.claimed import ThreadTranscript
from swarm.services.inbox.triggers import Triggers
from swarm.services.rules.fencing import ThreadReference, thread_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import transcript

_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadMessagesPage:
    """Some messages of a thread, oldest first."""

    thread: ThreadView
    messages: tuple[TranscriptMessage, ...]
    next_after_ts: str | None  # None: no later messages are known
    context_incomplete: bool  # the thread is not fully known, or not any more


class Conversations:
    """Threads in which an agent takes part."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def read(
        self, agent: Agent, about: ThreadReference, *, after_ts: str | None = None, limit: int = 100
    ) -> ThreadMessagesPage:
        """Returns the first messages of a thread, or those after ``after_ts``.

        Raises NotFound, and Invalid for a bad ts.
        """
        if after_ts is not None and not _TS.fullmatch(after_ts):
            raise Invalid("Not valid: after_ts.", fields={"after_ts": "a timestamp such as 1700000000.000100"})
        raw, next_after_ts = await self._database.read(_page, agent, about, after_ts or "", limit)
        place, conversation = await self._triggers.conversation(raw)
        return ThreadMessagesPage(
            thread=place,
            messages=conversation.said,
            next_after_ts=next_after_ts,
            context_incomplete=conversation.thread.context is not ContextState.COMPLETE,
        )


def _page(
    tx: Transaction, agent: Agent, about: ThreadReference, after_ts: str, limit: int
) -> tuple[ThreadTranscript, str | None]:
    thread = thread_of(tx, agent, about)
    said = transcript.page(tx, thread, after_ts, limit + 1)
    shown = tuple(said[:limit])
    more = shown[-1].ts if len(said) > limit else None
    return ThreadTranscript(thread=thread, said=shown, entries=(), previous_answer=None), more
