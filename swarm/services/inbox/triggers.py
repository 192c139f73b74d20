"""Triggers: the work leased by a claim, read in the claim's transaction and then described for its agent.

The description adds the thread's transcript, readable text, names, and the prompt.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from swarm.domain.model.agents import Agent, UserView, token_hash
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.leases import new_key
from swarm.domain.model.requests import HumanRequest
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import (
    STRANGERS,
    AuthorKind,
    ChannelType,
    ContextState,
    Silence,
    Standing,
    Thread,
    TranscriptMessage,
)
from swarm.domain.model.triggers import (
    InboxMessageView,
    NoticeView,
    StartedBy,
    ThreadView,
    Trigger,
    TriggerKind,
    TriggerLease,
)
from swarm.domain.policy.access import Me
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.domain.prompts.input import PromptInput
from swarm.domain.prompts.prompts import render
from swarm.domain.requests.audiences import for_asker
from swarm.domain.requests.texts import decision_lines
from swarm.domain.text.slack_text import mentioned_channels, mentioned_ids, preview, readable, with_names
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
"""Sorts after every timestamp."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """The work leased by a claim: inbox messages of one thread, a task, or a notice."""

    lease: Lease
    key: str = field(default_factory=new_key, repr=False)  # of the lease, which stores its hash
    inbox_messages: tuple[InboxMessage, ...] = ()
    task: Task | None = None
    notice: Notice | None = None
    requests: tuple[HumanRequest, ...] = ()  # decisions that the work gets with this claim

    @property
    def kind(self) -> TriggerKind:
        """The kind of the trigger for the agent."""
        if self.notice:
            return TriggerKind(self.notice.kind.value)
        return TriggerKind.TASK_ASSIGNED if self.task else TriggerKind.SLACK_INBOX_MESSAGE

    @property
    def keyed(self) -> Lease:
        """The lease with the hash of its key."""
        return replace(self.lease, key_hash=token_hash(self.key))

    @property
    def created_at(self) -> int:
        return (self.notice or self.task or self.inbox_messages[0]).created_at

    @property
    def instruction(self) -> str | None:
        """How to do the work this time; for several messages, all their instructions, each once."""
        parts = (one.instruction for one in ((self.task,) if self.task else self.inbox_messages))
        return "\n\n".join(dict.fromkeys(filter(None, parts))) or None

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
        """The ids of the trigger's other messages: the later messages of a bundle, or the source of a delegated
        task.
        """
        delegated = (self.task.inbox_message_id,) if self.task and self.task.inbox_message_id else ()
        return (*(inbox_message.id for inbox_message in self.inbox_messages[1:]), *delegated)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadTranscript:
    """A thread's messages in the database up to a given message, in Slack's markup."""

    thread: Thread
    said: tuple[TranscriptMessage, ...]
    inbox_messages: tuple[InboxMessage, ...]
    previous_answer: str | None
    is_long: bool = False  # the messages were not read, because the thread is longer than the reader's limit


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimContents:
    """A claim with all its data from the database."""

    claimed: Claimed
    conversation: ThreadTranscript | None
    task: TaskView | None
    actor: str | None  # the name of the agent that caused a notice; None: a person or nobody in particular
    channel: str | None  # the internal channel of an agent's message
    started_by: StartedBy = StartedBy.MEMBERS

    @property
    def context_incomplete(self) -> bool:
        return bool(self.conversation and self.conversation.thread.context is not ContextState.COMPLETE)

    @property
    def overthink(self) -> bool:
        """Whether nobody has asked, so that only an answer that the agent is sure of is shown."""
        if self.claimed.inbox_messages:
            return all(one.silent for one in self.claimed.inbox_messages)
        return self._silence is Silence.SILENT

    @property
    def humble_followup(self) -> bool:
        """Whether somebody asks in a thread in which nobody had asked before."""
        return self._silence is Silence.ASKED and not self.overthink

    @property
    def _silence(self) -> Silence | None:
        return self.conversation.thread.silence if self.conversation else None


def read_whole(tx: Transaction, claims: Sequence[Claimed], limit: int | None = None) -> list[ClaimContents]:
    """Reads everything that agents see of claims, except the names known only to Slack.

    Threads with more than ``limit`` messages are left out; see `ThreadTranscript.is_long`.
    """
    works = [_task(tx, claimed) for claimed in claims]
    wanted = [_to_read(tx, claimed, task) for claimed, task in zip(claims, works, strict=True)]
    conversations = _read(tx, wanted, limit)
    return [
        _contents(tx, claimed, task, conversation)
        for claimed, task, conversation in zip(claims, works, conversations, strict=True)
    ]


def _contents(
    tx: Transaction, claimed: Claimed, task: Task | None, conversation: ThreadTranscript | None
) -> ClaimContents:
    notice = claimed.notice
    message = agent_messages.get(tx, notice.agent_message_id) if notice and notice.agent_message_id else None
    return ClaimContents(
        claimed=claimed,
        started_by=_started_by(claimed, task, conversation),
        conversation=conversation,
        task=view(tx, task) if task else None,
        actor=agents.names(tx).get(notice.actor) if notice and notice.actor else None,
        channel=message.channel if message else None,
    )


def _task(tx: Transaction, claimed: Claimed) -> Task | None:
    task_id = claimed.notice.task_id if claimed.notice else None
    return tasks.get(tx, task_id) if task_id else claimed.task


def _started_by(claimed: Claimed, task: Task | None, conversation: ThreadTranscript | None) -> StartedBy:
    """Returns who started the work: for messages, their authors decide, also a single stranger among members; for a
    task and notices about a task, the task's origin decides.
    """
    if task and not claimed.inbox_messages:
        return StartedBy.STRANGERS if task.by_strangers else StartedBy.MEMBERS
    stood = {message.ts: message.standing for message in conversation.said} if conversation else {}
    inbox_messages = conversation.inbox_messages if conversation else ()
    standings = {stood.get(inbox_message.ts, Standing.UNVERIFIED) for inbox_message in inbox_messages}
    return StartedBy.STRANGERS if standings & STRANGERS else StartedBy.MEMBERS


class _ToRead(NamedTuple):
    """A thread that is to be read up to a timestamp, and the inbox messages for which it is read."""

    thread_id: str
    inbox_messages: tuple[InboxMessage, ...]
    up_to: str


def read_conversation(tx: Transaction, inbox_messages: Sequence[InboxMessage]) -> ThreadTranscript | None:
    """Reads the thread of inbox messages up to the last of them."""
    (conversation,) = _read(tx, [_of_messages(inbox_messages)])
    return conversation


def _to_read(tx: Transaction, claimed: Claimed, task: Task | None) -> _ToRead | None:
    """Returns the thread of a claim: up to its messages, or in full for a task and for notices about a task."""
    if claimed.inbox_messages:
        return _of_messages(claimed.inbox_messages)
    notice = claimed.notice
    inbox_message = inbox.get(tx, notice.inbox_message_id) if notice and notice.inbox_message_id else None
    concerned = (inbox_message,) if inbox_message else ()
    if notice and task is None:
        return _of_messages(concerned)
    thread_id = claimed.lease.thread_id
    up_to = inbox_message.ts if inbox_message and notice and notice.kind is NoticeKind.TASK_FOLLOW_UP else _TO_THE_END
    return _ToRead(thread_id, concerned, up_to) if thread_id else None


def _of_messages(inbox_messages: Sequence[InboxMessage]) -> _ToRead | None:
    if not inbox_messages:
        return None
    last = max(inbox_message.ts for inbox_message in inbox_messages)
    return _ToRead(inbox_messages[0].thread_id, tuple(inbox_messages), last)


def _read(tx: Transaction, wanted: Sequence[_ToRead | None], limit: int | None = None) -> list[ThreadTranscript | None]:
    there = threads.get_all(tx, {one.thread_id for one in wanted if one})
    since = {one.thread_id: min(new.ts for new in one.inbox_messages) for one in wanted if one and one.inbox_messages}
    most = transcript.NO_LIMIT if limit is None else limit + 1
    said = transcript.of_threads(tx, there.values(), most, since=since)
    return [
        _transcript(there[one.thread_id], one, said[one.thread_id], limit) if one and one.thread_id in there else None
        for one in wanted
    ]


def _transcript(
    thread: Thread, wanted: _ToRead, said: Sequence[TranscriptMessage], limit: int | None
) -> ThreadTranscript:
    is_long = limit is not None and len(said) > limit
    return ThreadTranscript(
        thread=thread,
        said=() if is_long else tuple(message for message in said if message.ts <= wanted.up_to),
        inbox_messages=wanted.inbox_messages,
        previous_answer=transcript.last_answer(said),
        is_long=is_long,
    )


_OF_SLACK: Final = frozenset({NoticeKind.MESSAGE_CHANGED})
"""Notices whose text is in Slack's markup. The text of other notices is plain text from an agent."""


class Triggers:
    """The agent's view of claims and of messages read by id."""

    def __init__(self, directory: Directory, me: Me, operating_policy: OperatingPolicy) -> None:
        self._directory = directory
        self._me = me
        self._operating_policy = operating_policy

    async def describe(self, agent: Agent, claims: Sequence[ClaimContents]) -> list[Trigger | BaseException]:
        """Returns the triggers of new claims. The exception replaces a trigger that cannot be described."""
        described = [self._described(agent, claim) for claim in claims]
        if len(described) == 1:  # the usual case needs no task of its own
            return [await described[0]]
        return list(await asyncio.gather(*described))

    async def conversation(self, conversation: ThreadTranscript) -> tuple[ThreadView, ThreadTranscript]:
        """Returns the place of a conversation, and the conversation in readable text."""
        names = await self._names(conversation)
        said = tuple(_named(message, names) for message in conversation.said)
        inbox_messages = tuple(_rendered(one, names) for one in conversation.inbox_messages)
        answer = conversation.previous_answer
        channel_name = await self._directory.channel_name(conversation.thread.channel)
        place = self._place(conversation.thread, channel_name)
        previous = readable(answer, names) if answer else None
        return place, replace(conversation, said=said, inbox_messages=inbox_messages, previous_answer=previous)

    async def _described(self, agent: Agent, claim: ClaimContents) -> Trigger | Exception:
        try:
            return await self._trigger(agent, claim)
        except Exception as error:  # noqa: BLE001 - counted as a failed attempt of this trigger alone
            return error

    async def _trigger(self, agent: Agent, whole: ClaimContents) -> Trigger:
        claim = whole.claimed
        place, conversation = await self.conversation(whole.conversation) if whole.conversation else (None, None)
        views = inbox_message_views(conversation) if conversation else ()
        notice = await self._notice(claim.notice, whole) if claim.notice else None
        prompt = PromptInput(
            role=agent.role,
            agent_name=agent.name,
            kind=claim.kind.value,
            lease_token=claim.lease.token,
            attempt=claim.lease.attempt,
            channel_name=place.channel_name if place else "",
            permalink=place.permalink if place else None,
            new_messages=views,
            history=conversation.said if conversation else (),
            history_characters=self._operating_policy.history_characters,
            context_incomplete=whole.context_incomplete,
            by_strangers=whole.started_by is StartedBy.STRANGERS,
            overthink=whole.overthink,
            humble_followup=whole.humble_followup,
            previous_reply=conversation.previous_answer if conversation else None,
            notice_text=notice.text if notice else None,
            notice_author=notice.actor.name if notice and notice.actor else None,
            notice_channel=notice.channel if notice else None,
            task=whole.task,
            requester_name=await self._requester_name(whole.task),
            offers_humans=bool(place and self._operating_policy.policy(place.channel).escalation),
            instruction=claim.task.instruction if claim.task else None,
            decisions=tuple("\n".join(decision_lines(request)) for request in claim.requests),
        )
        return Trigger(
            id=claim.lease.trigger_id,
            kind=claim.kind,
            created_at=claim.created_at,
            due_at=claim.created_at,
            attempt=claim.lease.attempt,
            lease=TriggerLease(token=claim.lease.token, expires_at=claim.lease.expires_at, key=claim.key),
            prompt=render(prompt, secrets.token_hex(8)),
            thread=place,
            thread_context=conversation.said if conversation else (),
            context_incomplete=whole.context_incomplete,
            inbox_messages=views,
            notice=notice,
            task=whole.task,
            started_by=whole.started_by,
            requests=tuple(for_asker(request) for request in claim.requests),
            decisions=claim.requests,
            overthink=whole.overthink,
            humble_followup=whole.humble_followup,
            instruction=claim.instruction,
        )

    async def _notice(self, notice: Notice, whole: ClaimContents) -> NoticeView:
        person = notice.actor if notice.actor and whole.actor is None else None
        names = await self._look_up({person: AuthorKind.USER} if person else {}, notice.text or "")
        return NoticeView(
            kind=notice.kind,
            inbox_message_id=notice.inbox_message_id,
            task_id=notice.task_id,
            agent_message_id=notice.agent_message_id,
            channel=whole.channel,
            actor=UserView(id=notice.actor, name=whole.actor or names[notice.actor]) if notice.actor else None,
            text=readable(notice.text, names) if notice.text and notice.kind in _OF_SLACK else notice.text,
        )

    async def _requester_name(self, task: TaskView | None) -> str | None:
        if task is None or not task.requester:
            return None
        return (await self._resolve({task.requester: AuthorKind.USER}))[task.requester]

    async def _names(self, conversation: ThreadTranscript) -> Mapping[str, str]:
        """Returns the names of all authors, mentioned people and channels. Agents' messages already contain their
        names.
        """
        wanted = {
            message.author_id: message.kind
            for message in conversation.said
            if message.kind is not AuthorKind.AGENT and message.author == message.author_id
        }
        texts = [inbox_message.message or "" for inbox_message in conversation.inbox_messages]
        return await self._look_up(wanted, "\n".join([*texts, *(message.text for message in conversation.said)]))

    async def _look_up(self, wanted: Mapping[str, AuthorKind], text: str) -> Mapping[str, str]:
        """Returns these names, and those of the people and channels that a text mentions."""
        names = await self._resolve({**dict.fromkeys(mentioned_ids(text), AuthorKind.USER), **wanted})
        channels = list(mentioned_channels(text))
        found = await asyncio.gather(*map(self._directory.channel_name, channels))
        return {**names, **dict(zip(channels, found, strict=True))}

    async def _resolve(self, wanted: Mapping[str, AuthorKind]) -> Mapping[str, str]:
        known = self._directory.known_names(wanted)
        unknown = {who: kind for who, kind in wanted.items() if who not in known}
        if not unknown:
            return known
        names = await asyncio.gather(*(self._directory.author_name(who, kind) for who, kind in unknown.items()))
        return {**known, **dict(zip(unknown, names, strict=True))}

    def _place(self, thread: Thread, channel_name: str) -> ThreadView:
        return ThreadView(
            id=thread.id,
            team=thread.team,
            channel=thread.channel,
            channel_name=channel_name if thread.channel_type is ChannelType.DM else f"#{channel_name}",
            channel_type=thread.channel_type,
            thread_ts=thread.thread_ts,
            permalink=self._me.link(thread.channel, thread.thread_ts),
        )


def inbox_message_views(conversation: ThreadTranscript) -> tuple[InboxMessageView, ...]:
    """Returns the inbox messages of a readable conversation, each with its complete text for the agent.

    A deleted message has no text. An alert's text is its template, and its preview the alert itself.
    """
    messages = {message.ts: message for message in conversation.said}
    return tuple(_view(inbox_message, messages.get(inbox_message.ts)) for inbox_message in conversation.inbox_messages)


def _view(inbox_message: InboxMessage, message: TranscriptMessage | None) -> InboxMessageView:
    text = message.text if message else ""
    return InboxMessageView(
        id=inbox_message.id,
        text=text if inbox_message.message is None else inbox_message.message,
        preview=preview(text),
        user=UserView(id=message.author_id, name=message.author) if message else UserView(id="", name=""),
        kind=message.kind if message else AuthorKind.USER,
        ts=inbox_message.ts,
        received_at=inbox_message.created_at,
        matched_by=inbox_message.matched_by,
        routing_reason=inbox_message.reason,
        status=inbox_message.status,
        files=message.files if message else (),
        standing=message.standing if message else Standing.UNVERIFIED,
        task_id=inbox_message.task_id,
        instruction=inbox_message.instruction,
    )


def _rendered(inbox_message: InboxMessage, names: Mapping[str, str]) -> InboxMessage:
    message = inbox_message.message
    return inbox_message if message is None else replace(inbox_message, message=with_names(message, names))


def _named(message: TranscriptMessage, names: Mapping[str, str]) -> TranscriptMessage:
    return replace(message, author=names.get(message.author_id, message.author), text=readable(message.text, names))
