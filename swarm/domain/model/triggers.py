"""Triggers, which ``/poll`` hands out as work or notices, and the tray, an agent's summary of its inbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from swarm.domain.model.agents import TrayMessage, UserView
from swarm.domain.model.inbox import InboxStatus, MatchedBy, NoticeKind
from swarm.domain.model.request_views import RequestView
from swarm.domain.model.requests import HumanRequest
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import AuthorKind, ChannelType, File, Standing, TranscriptMessage
from swarm.domain.views import Hidden, JsonView, Key, Time


class TriggerKind(StrEnum):
    """The kinds of work and of notices."""

    SLACK_INBOX_MESSAGE = "slack_inbox_message"
    TASK_ASSIGNED = "task_assigned"
    MESSAGE_CHANGED = NoticeKind.MESSAGE_CHANGED.value
    MESSAGE_DELETED = NoticeKind.MESSAGE_DELETED.value
    TASK_FOLLOW_UP = NoticeKind.TASK_FOLLOW_UP.value
    TASK_OFFERED = NoticeKind.TASK_OFFERED.value
    TASK_DECLINED = NoticeKind.TASK_DECLINED.value
    TASK_FINISHED = NoticeKind.TASK_FINISHED.value
    TASK_CANCELLED = NoticeKind.TASK_CANCELLED.value
    TASK_RETURNED = NoticeKind.TASK_RETURNED.value
    AGENT_MESSAGE = NoticeKind.AGENT_MESSAGE.value
    HUMAN_INPUT = NoticeKind.HUMAN_INPUT.value


class StartedBy(StrEnum):
    """The people or bots whose messages started a piece of work."""

    MEMBERS = "members"  # nobody else; includes agents, operators and bots on the channel's list
    STRANGERS = "strangers"  # a stranger, alone or with members: tools that write require members' own words


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadView(JsonView):
    """The thread of a conversation."""

    id: str
    team: str
    channel: str
    channel_name: str  # with the leading #; for a direct message, the person's name
    channel_type: Hidden[ChannelType]
    thread_ts: str
    permalink: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageView(JsonView):
    """An inbox message with the complete new message.

    Its text is readable, without Slack's markup.
    """

    id: str
    text: str
    preview: str
    user: UserView
    standing: Standing = Standing.MEMBER  # the author's standing
    ts: str
    received_at: Time
    matched_by: MatchedBy
    files: tuple[File, ...] = ()
    task_id: str | None = None  # the task it was delegated to, or the task it follows up on
    instruction: str | None = None  # how to answer it this time, after a person asked for another answer
    kind: Hidden[AuthorKind] = AuthorKind.USER  # the author's kind
    status: Hidden[InboxStatus]
    routing_reason: Hidden[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeView(JsonView):
    """A notice: the event, its cause, the related inbox message, task or agent message, and a text."""

    kind: NoticeKind
    inbox_message_id: str | None
    task_id: str | None
    agent_message_id: str | None
    channel: str | None  # the internal channel of an agent message; None: sent directly
    actor: UserView | None
    text: str | None  # the changed message, the agent message, or the reason for declining or cancelling


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseView(JsonView):
    """The right to work on a trigger, until it expires."""

    token: str
    expires_at: Time


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerLease(LeaseView):
    """The lease of a trigger. The key is a bearer token for the program that does the work, and ends with the lease."""

    key: str = field(repr=False)  # never in the prompt


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger(JsonView):
    """One piece of work or one notice.

    It has all data needed to act on it.
    """

    id: str  # the id of the work, unchanged over all attempts
    kind: TriggerKind
    created_at: Time
    attempt: int
    due_at: Time
    lease: TriggerLease
    prompt: str
    thread: ThreadView | None
    thread_context: tuple[TranscriptMessage, ...]
    context_incomplete: bool
    started_by: StartedBy = StartedBy.MEMBERS
    inbox_messages: tuple[InboxMessageView, ...]
    task: TaskView | None = None
    notice: NoticeView | None
    requests: tuple[RequestView, ...] = ()  # decisions that the work has not received yet
    decisions: Hidden[tuple[HumanRequest, ...]] = ()  # the same, for agents that the coordinator runs
    overthink: bool = False  # nobody has asked: only an answer that the agent is sure of is shown
    humble_followup: bool = False  # somebody asks in a thread in which the agents have stayed silent
    instruction: str | None = None  # how to do the work this time, after a person asked for it again

    @property
    def lease_token(self) -> str:
        return self.lease.token


# The beginning of an unread message. The contract describes it by its keys alone.
@dataclass(frozen=True, kw_only=True, slots=True)
class TrayPreview(JsonView):
    inbox_message_id: str
    sender: Annotated[str, Key("from")]
    channel: str
    preview: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tray(JsonView):
    """The summary of an agent's inbox."""

    unread: int
    previews: tuple[TrayPreview, ...]
    mentions: int  # unread messages from other agents: direct ones, and channel messages that mention the agent
    messages: tuple[TrayMessage, ...]  # the first of the messages counted by ``mentions``
    tasks: Mapping[str, int]  # the agent's open tasks by status
    threads_owned: int
