"""The work leased by a claim, with all its data from the database, read in the claim's own transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import STRANGERS, Standing, Thread, TranscriptMessage
from swarm.domain.model.triggers import StartedBy, TriggerKind
from swarm.domain.watchers import TriggerClaimed
from swarm.services.tasks.task_view import view
from swarm.store import agent_messages, agents, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.notices import Notice
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

_TO_THE_END = "~"
"""Greater than every timestamp."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """The work leased by a claim: inbox messages of one thread, a task, or a notice."""

    lease: Lease
    inbox_messages: tuple[InboxMessage, ...] = ()
    task: Task | None = None
    notice: Notice | None = None

    @property
    def kind(self) -> TriggerKind:
        """The kind of the trigger for the agent."""
        if self.notice:
            return TriggerKind(self.notice.kind.value)
        return TriggerKind.TASK_ASSIGNED if self.task else TriggerKind.SLACK_INBOX_MESSAGE

    @property
    def created_at(self) -> int:
        return (self.notice or self.task or self.inbox_messages[0]).created_at

    def told(self, now: int) -> TriggerClaimed:
        """Returns the metric event of the claim."""
        return TriggerClaimed(
            kind=self.kind,
            trigger_id=self.lease.trigger_id,
            agent_id=self.lease.agent_id,
            attempt=self.lease.attempt,
            waited_us=now - self.created_at,
            also=self._also,
        )

    @property
    def _also(self) -> tuple[str, ...]:
        """The ids of further messages of the trigger: the later ones of a bundle, or the source of a delegated task."""
        delegated = (self.task.inbox_message_id,) if self.task and self.task.inbox_message_id else ()
        return (*(inbox_message.id for inbox_message in self.inbox_messages[1:]), *delegated)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadTranscript:
    """A thread's messages in the database up to a message, in Slack's own text."""

    thread: Thread
    said: tuple[TranscriptMessage, ...]
    inbox_messages: tuple[InboxMessage, ...]
    previous_answer: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimContents:
    """A claim with all its data from the database."""

    claimed: Claimed
    conversation: ThreadTranscript | None
    task: TaskView | None
    actor: str | None  # the name of the agent that caused a notice; None: a person or no one in particular
    channel: str | None  # the internal channel of an agent's message
    started_by: StartedBy = StartedBy.MEMBERS


def read_whole(tx: Transaction, claimed: Claimed) -> ClaimContents:
    """Reads everything that the agent is to see of a claim, except the names known to Slack."""
    notice = claimed.notice
    task = claimed.task or (tasks.get(tx, notice.task_id) if notice and notice.task_id else None)
    message = agent_messages.get(tx, notice.agent_message_id) if notice and notice.agent_message_id else None
    conversation = _conversation(tx, claimed, task)
    return ClaimContents(
        claimed=claimed,
        started_by=_started_by(claimed, task, conversation),
        conversation=conversation,
        task=view(tx, task) if task else None,
        actor=agents.names(tx).get(notice.actor) if notice and notice.actor else None,
        channel=message.channel if message else None,
    )


def _started_by(claimed: Claimed, task: Task | None, conversation: ThreadTranscript | None) -> StartedBy:
    """Returns the origin: for messages by their authors; for a task, and notices about a task, by the task's origin."""
    if task and not claimed.inbox_messages:
        return StartedBy.STRANGERS if task.by_strangers else StartedBy.MEMBERS
    stood = {message.ts: message.standing for message in conversation.said} if conversation else {}
    inbox_messages = conversation.inbox_messages if conversation else ()
    standings = {stood.get(inbox_message.ts, Standing.UNVERIFIED) for inbox_message in inbox_messages}
    return StartedBy.STRANGERS if standings and standings <= STRANGERS else StartedBy.MEMBERS


def read_conversation(tx: Transaction, inbox_messages: Sequence[InboxMessage]) -> ThreadTranscript | None:
    """Reads the thread of inbox messages up to the last of them."""
    if not inbox_messages:
        return None
    last = max(inbox_messages, key=lambda inbox_message: inbox_message.ts)
    return _of_thread(tx, inbox_messages[0].thread_id, tuple(inbox_messages), last.ts)


def _conversation(tx: Transaction, claimed: Claimed, task: Task | None) -> ThreadTranscript | None:
    """Reads the thread of a claim: up to its messages, or whole for a task and for notices about a task."""
    if claimed.inbox_messages:
        return read_conversation(tx, claimed.inbox_messages)
    notice = claimed.notice
    inbox_message = inbox.get(tx, notice.inbox_message_id) if notice and notice.inbox_message_id else None
    concerned = (inbox_message,) if inbox_message else ()
    if notice and task is None:
        return read_conversation(tx, concerned)
    thread_id = claimed.lease.thread_id
    up_to = inbox_message.ts if inbox_message and notice and notice.kind is NoticeKind.TASK_FOLLOW_UP else _TO_THE_END
    return _of_thread(tx, thread_id, concerned, up_to) if thread_id else None


def _of_thread(
    tx: Transaction, thread_id: str, inbox_messages: tuple[InboxMessage, ...], up_to: str
) -> ThreadTranscript | None:
    thread = threads.get(tx, thread_id)
    if thread is None:
        return None
    said = transcript.of_thread(tx, thread.team, thread.channel, thread.thread_ts, _TO_THE_END)
    return ThreadTranscript(
        thread=thread,
        said=tuple(message for message in said if message.ts <= up_to),
        inbox_messages=inbox_messages,
        previous_answer=transcript.last_answer(said),
    )
