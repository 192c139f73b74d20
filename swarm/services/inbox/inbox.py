"""Reads the inbox: an inbox message by id, an agent's tray, and the pages of a thread. Operators can also list and
redrive messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final

from swarm.domain.errors import Conflict, Invalid, NotFound
from swarm.domain.model.agents import Agent, tray_message
from swarm.domain.model.inbox import InboxMessageFacts, InboxMessageRow, InboxStatus, InboxStep
from swarm.domain.model.threads import ContextState, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView, ThreadView, Tray, TrayPreview
from swarm.domain.policy.operating import OperatingPolicy, Reactions
from swarm.domain.selections import Batch, Selection
from swarm.domain.views import JsonView, Key, facts_of
from swarm.services.ground import lease_keys
from swarm.services.ground.batches import MOST, act_on_all
from swarm.services.inbox.triggers import ThreadTranscript, Triggers, inbox_message_views, read_conversation
from swarm.services.speaking.system_messages import retire_retry_of_message, show_anew
from swarm.services.tasks.task_view import TaskView, view
from swarm.services.work.fencing import ThreadReference, thread_of
from swarm.store import agent_messages, agents, task_queries, tasks
from swarm.store.agent_messages import Scope
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.threads import threads, transcript


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageDetails(InboxMessageView):
    """The inbox message with its thread, its routing reason, and your team's last answer in that thread."""

    status: InboxStatus
    thread: ThreadView
    thread_context: tuple[TranscriptMessage, ...]
    context_incomplete: bool
    previous_reply: str | None
    routing_reason: Annotated[str, Key(after="previous_reply")]
    task: TaskView | None  # the task it was delegated to, or the task it follows up on


class Inbox:
    """Access to inbox messages for agents and operators."""

    def __init__(self, database: Database, triggers: Triggers, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._triggers = triggers
        self._operating_policy = operating_policy

    async def read(self, agent: Agent, inbox_message_id: str) -> InboxMessageDetails:
        """Returns an agent's own inbox message, without a lease. Raises NotFound for an unknown message or another
        agent's message.
        """
        raw, task = await self._database.read(self._read, agent.id, inbox_message_id)
        place, conversation = await self._triggers.conversation(raw)
        return InboxMessageDetails(
            **facts_of(InboxMessageView, inbox_message_views(conversation)[0]),
            thread=place,
            thread_context=conversation.said,
            context_incomplete=conversation.thread.context is not ContextState.COMPLETE,
            previous_reply=conversation.previous_answer,
            task=task,
        )

    @staticmethod
    def _read(tx: Transaction, agent_id: str, inbox_message_id: str) -> tuple[ThreadTranscript, TaskView | None]:
        inbox_message = inbox.get(tx, inbox_message_id)
        if inbox_message is None or inbox_message.agent_id != agent_id:
            raise NotFound(
                f"You have no inbox message '{inbox_message_id}'.", hint="Use an id from your own poll or tray."
            )
        conversation = read_conversation(tx, [inbox_message])
        assert conversation is not None  # an inbox message always has a thread
        task = tasks.get(tx, inbox_message.task_id) if inbox_message.task_id else None
        return conversation, view(tx, task) if task else None

    async def latest(self, status: InboxStatus | None, limit: int) -> list[InboxMessageRow]:
        """Returns the newest inbox messages, for an operator."""
        return await self._database.read(self._latest, status, limit)

    @staticmethod
    def _latest(tx: Transaction, status: InboxStatus | None, limit: int) -> list[InboxMessageRow]:
        return _rows(tx, inbox.latest(tx, status, limit))

    async def redrive(self, inbox_message_id: str) -> InboxMessageRow:
        """Hands out a dead message again, with its attempts reset. Raises NotFound, or Conflict if it is not dead."""
        return await self._database.write(_redrive, inbox_message_id, self._operating_policy.reactions)

    async def redrive_all(self, selection: Selection, *, dry_run: bool) -> Batch:
        """Hands out all dead messages again that match, or only counts them."""
        found = await self._database.read(inbox.matching, selection, MOST)
        return await act_on_all(
            self._database, found, partial(_redrive, reactions=self._operating_policy.reactions), dry_run=dry_run
        )


def _rows(tx: Transaction, found: Iterable[InboxMessage]) -> list[InboxMessageRow]:
    names = {agent.id: agent.name for agent in agents.everyone(tx)}
    return [InboxMessageRow(**facts_of(InboxMessageFacts, one), agent=names.get(one.agent_id or "")) for one in found]


def _redrive(tx: Transaction, inbox_message_id: str, reactions: Reactions) -> InboxMessageRow:
    found = inbox.get(tx, inbox_message_id)
    thread = threads.locked(tx, found.thread_id) if found else None
    inbox_message = inbox.locked(tx, inbox_message_id)
    if inbox_message is None or thread is None:
        raise NotFound(f"There is no inbox message '{inbox_message_id}'.")
    if not inbox.move(tx, InboxStep.REDRIVE, inbox_message, reason="redriven by an operator"):
        raise Conflict(f"This inbox message is {inbox_message.status}; only dead ones can be redriven.")
    show_anew(tx, thread, inbox_message, reactions)
    retire_retry_of_message(tx, thread, inbox_message)
    changed = inbox.get(tx, inbox_message_id)
    assert changed is not None
    return _rows(tx, [changed])[0]


PREVIEWS: Final = 20
"""The maximum number of Slack messages shown, and of agent messages shown. The counts include all messages."""


class Trays:
    """Read-only access to trays: messages stay unread, and a call does not mark the agent as online."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def of(self, agent: Agent, bound_to: str | None = None) -> Tray:
        """Returns an agent's tray; for the key of a lease, with the previews of its thread only. Raises LeaseLost."""
        tray, newest = await self._database.read(self._of, agent.id, bound_to)
        return replace(tray, previews=tuple([await self._preview(conversation) for conversation in newest]))

    @staticmethod
    def _of(tx: Transaction, agent_id: str, bound_to: str | None) -> tuple[Tray, list[ThreadTranscript]]:
        """Returns the tray without previews, and the messages for the previews in Slack's markup."""
        unread = inbox.unread(tx, agent_id, PREVIEWS)
        if bound_to:
            thread_id = lease_keys.reached_thread(tx, bound_to)
            unread = [inbox_message for inbox_message in unread if inbox_message.thread_id == thread_id]
        tray = Tray(
            unread=inbox.count_unread(tx, agent_id),
            previews=(),
            mentions=agent_messages.count_unread(tx, agent_id),
            messages=tuple(map(tray_message, agent_messages.page(tx, Scope.UNREAD, agent_id, PREVIEWS))),
            tasks=task_queries.count_by_status(tx, agent_id),
            threads_owned=threads.count_owned(tx, agent_id),
        )
        return tray, [_alone(tx, inbox_message) for inbox_message in unread]

    async def _preview(self, raw: ThreadTranscript) -> TrayPreview:
        place, conversation = await self._triggers.conversation(raw)
        (inbox_message,) = inbox_message_views(conversation)
        return TrayPreview(
            inbox_message_id=inbox_message.id,
            sender=inbox_message.user.name,
            channel=place.channel_name,
            preview=inbox_message.preview,
        )


def _alone(tx: Transaction, inbox_message: InboxMessage) -> ThreadTranscript:
    """Returns an inbox message with its own text and no other message of the thread, as needed for a preview."""
    thread = threads.get(tx, inbox_message.thread_id)
    assert thread is not None  # threads of inbox messages are never removed
    row = transcript.find(tx, thread.team, thread.channel, inbox_message.ts)
    said = (transcript.transcript_message(row),) if row else ()
    return ThreadTranscript(thread=thread, said=said, inbox_messages=(inbox_message,), previous_answer=None)


_TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadMessagesPage(JsonView):
    """Messages, oldest first. ``next_after_ts`` leads to the next page, and is null on the last page."""

    thread: ThreadView
    messages: tuple[TranscriptMessage, ...]
    next_after_ts: str | None
    context_incomplete: bool  # the thread is not fully known, or no longer fully known


class Conversations:
    """Threads in which an agent participates."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def read(
        self, agent: Agent, about: ThreadReference, *, after_ts: str | None = None, limit: int = 100
    ) -> ThreadMessagesPage:
        """Returns the first messages of a thread, or the messages after ``after_ts``.

        Raises NotFound, and Invalid for a malformed ts.
        """
        if after_ts is not None and not _TS.fullmatch(after_ts):
            raise Invalid("Not valid: after_ts.", fields={"after_ts": "a timestamp such as 1700000000.000100"})
        raw, next_after_ts = await self._database.read(self._read, agent, about, after_ts or "", limit)
        place, conversation = await self._triggers.conversation(raw)
        return ThreadMessagesPage(
            thread=place,
            messages=conversation.said,
            next_after_ts=next_after_ts,
            context_incomplete=conversation.thread.context is not ContextState.COMPLETE,
        )

    @staticmethod
    def _read(
        tx: Transaction, agent: Agent, about: ThreadReference, after_ts: str, limit: int
    ) -> tuple[ThreadTranscript, str | None]:
        thread = thread_of(tx, agent, about)
        said = transcript.page(tx, thread, after_ts, limit + 1)
        shown = tuple(said[:limit])
        more = shown[-1].ts if len(said) > limit else None
        return ThreadTranscript(thread=thread, said=shown, inbox_messages=(), previous_answer=None), more
