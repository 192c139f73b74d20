"""Triggers, which ``/poll`` hands out as work or notices, and the tray, an agent's summary of its inbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from swarm.domain.model.agents import AgentMessage
from swarm.domain.model.inbox import InboxStatus, MatchedBy, NoticeKind
from swarm.domain.model.requests import HumanRequest
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import AuthorKind, ChannelType, File, Standing, TranscriptMessage


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
class ThreadView:
    """A trigger's thread as an agent sees it."""

    id: str
    team: str
    channel: str
    channel_name: str  # with the leading #; for a direct message, the person's name
    channel_type: ChannelType
    thread_ts: str
    permalink: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InboxMessageView:
    """An inbox message as an agent sees it: the complete new message, in readable text."""

    id: str
    text: str
    preview: str
    user_id: str
    user_name: str
    ts: str
    received_at: int
    matched_by: MatchedBy
    routing_reason: str
    status: InboxStatus
    files: tuple[File, ...] = ()
    kind: AuthorKind = AuthorKind.USER  # the author's kind
    standing: Standing = Standing.MEMBER  # the author's standing
    task_id: str | None = None  # the task it was delegated to, or the task it follows up on
    instruction: str | None = None  # how to answer it this time, after a person asked for another answer


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeView:
    """A notice as an agent sees it: the event, its cause, and the related inbox message, task or agent message."""

    kind: NoticeKind
    inbox_message_id: str | None
    task_id: str | None
    agent_message_id: str | None
    channel: str | None  # the internal channel of an agent message; None: sent directly
    actor_id: str | None
    actor_name: str | None
    text: str | None  # the changed message, the agent message, or the reason for declining or cancelling


@dataclass(frozen=True, kw_only=True, slots=True)
class Trigger:
    """One piece of work or one notice under a lease, with all data needed to act on it."""

    id: str  # the id of the work, unchanged over all attempts
    kind: TriggerKind
    created_at: int
    due_at: int
    attempt: int
    lease_token: str
    lease_key: str = field(repr=False)  # for the program that does the work; never in the prompt
    lease_expires_at: int
    prompt: str
    thread: ThreadView | None
    thread_context: tuple[TranscriptMessage, ...]
    context_incomplete: bool
    inbox_messages: tuple[InboxMessageView, ...]
    notice: NoticeView | None
    task: TaskView | None = None
    started_by: StartedBy = StartedBy.MEMBERS
    requests: tuple[HumanRequest, ...] = ()  # decisions that the work has not received yet
    overthink: bool = False  # nobody has asked: only an answer that the agent is sure of is shown
    humble_followup: bool = False  # somebody asks in a thread in which the agents have stayed silent
    instruction: str | None = None  # how to do the work this time, after a person asked for it again


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """One unread message in a tray: the beginning of the new message, not of the thread."""

    inbox_message_id: str
    sender: str
    channel: str
    preview: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tray:
    """The summary of an agent's inbox."""

    unread: int
    previews: tuple[Preview, ...]
    mentions: int  # unread messages from other agents: direct ones, and channel messages that mention the agent
    messages: tuple[AgentMessage, ...]  # the first of the messages counted by ``mentions``
    tasks: Mapping[str, int]  # the agent's open tasks by status
    threads_owned: int
