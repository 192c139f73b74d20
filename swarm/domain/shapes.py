"""The JSON of the contract: triggers, inbox messages, tasks, files, agents and trays.

Entry points and tools share these shapes. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.agents import Agent, AgentMessage
from swarm.domain.model.files import Shared
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import File, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView, NoticeView, ThreadView, Tray, Trigger
from swarm.domain.text.mrkdwn import preview


class FileShape(TypedDict):
    """An attachment, by name."""

    id: str
    name: str
    mimetype: str | None
    size_bytes: int | None


class SharedFileShape(TypedDict):
    """A file shared in a thread; ``ts`` is its message, null if Slack did not say which."""

    file_id: str
    name: str
    size_bytes: int
    ts: str | None


class MessageShape(TypedDict):
    """One message of a thread's transcript; ``standing`` is its author's."""

    ts: str
    author: str
    kind: str
    standing: str
    text: str
    edited: bool
    files: list[FileShape]


class UserShape(TypedDict):
    """The author of a message."""

    id: str
    name: str


class InboxMessageShape(TypedDict):
    """An inbox message: the new message, whole."""

    id: str
    text: str
    preview: str
    user: UserShape
    standing: str
    ts: str
    received_at: str
    matched_by: str
    files: list[FileShape]
    task_id: str | None


class ThreadShape(TypedDict):
    """The thread of a conversation."""

    id: str
    team: str
    channel: str
    channel_name: str
    thread_ts: str
    permalink: str


class LeaseShape(TypedDict):
    """The right to work on a trigger, until it expires."""

    token: str
    expires_at: str


class NoticeShape(TypedDict):
    """A notice: the event, its actor, the inbox message, task or agent message concerned, and a text."""

    kind: str
    inbox_message_id: str | None
    task_id: str | None
    agent_message_id: str | None
    channel: str | None
    actor: UserShape | None
    text: str | None


class DependencyShape(TypedDict):
    """A task that another task waits for, and its result."""

    id: str
    title: str
    status: str
    result: str | None
    error: str | None


class TaskShape(TypedDict):
    """A task. Agents are given by name."""

    id: str
    title: str
    description: str
    status: str
    priority: int
    agent: str | None
    agent_id: str | None
    created_by: str | None
    requester: str | None
    parent_id: str | None
    depends_on: list[str]
    dependencies: list[DependencyShape]
    thread_id: str | None
    inbox_message_id: str | None
    attempts: int
    progress: str | None
    percent: int | None
    result: str | None
    error: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None


class FoundTasks(TypedDict):
    """Tasks, the newest first."""

    tasks: list[TaskShape]


class TriggerShape(TypedDict):
    """One piece of work or news."""

    id: str
    kind: str
    created_at: str
    attempt: int
    due_at: str
    lease: LeaseShape
    prompt: str
    thread: ThreadShape | None
    thread_context: list[MessageShape]
    context_incomplete: bool
    started_by: str
    inbox_messages: list[InboxMessageShape]
    task: TaskShape | None
    notice: NoticeShape | None


TrayPreviewShape = TypedDict("TrayPreviewShape", {"inbox_message_id": str, "from": str, "channel": str, "preview": str})
"""The beginning of an unread message. Functional syntax, since ``from`` is a keyword of Python."""


TrayMessageShape = TypedDict(
    "TrayMessageShape", {"message_id": str, "from": str, "channel": str | None, "preview": str, "sent_at": str}
)
"""The beginning of an unread message of another agent; a direct one has no channel."""


class TrayShape(TypedDict):
    """The summary of an agent's inbox."""

    unread: int
    previews: list[TrayPreviewShape]
    mentions: int
    messages: list[TrayMessageShape]
    tasks: dict[str, int]
    threads_owned: int


class AgentShape(TypedDict):
    """One agent of the team."""

    id: str
    name: str
    role: str
    description: str
    capabilities: list[str]
    status: str


def trigger_shape(trigger: Trigger) -> TriggerShape:
    """Returns a trigger for ``/poll``."""
    return {
        "id": trigger.id,
        "kind": trigger.kind.value,
        "created_at": to_iso(trigger.created_at),
        "attempt": trigger.attempt,
        "due_at": to_iso(trigger.due_at),
        "lease": lease_shape(trigger.lease_token, trigger.lease_expires_at),
        "prompt": trigger.prompt,
        "thread": thread_shape(trigger.place) if trigger.place else None,
        "thread_context": message_shapes(trigger.thread_context),
        "context_incomplete": trigger.context_incomplete,
        "started_by": trigger.started_by.value,
        "inbox_messages": [inbox_message_shape(inbox_message) for inbox_message in trigger.inbox_messages],
        "task": task_shape(trigger.task) if trigger.task else None,
        "notice": _notice(trigger.notice) if trigger.notice else None,
    }


def lease_shape(token: str, expires_at: int) -> LeaseShape:
    """Returns a lease with its expiry."""
    return {"token": token, "expires_at": to_iso(expires_at)}


def inbox_message_shape(inbox_message: InboxMessageView) -> InboxMessageShape:
    """Returns an inbox message for its agent."""
    return {
        "id": inbox_message.id,
        "text": inbox_message.text,
        "preview": inbox_message.preview,
        "user": {"id": inbox_message.user_id, "name": inbox_message.user_name},
        "standing": inbox_message.standing.value,
        "ts": inbox_message.ts,
        "received_at": to_iso(inbox_message.received_at),
        "matched_by": inbox_message.matched_by.value,
        "files": _files(inbox_message.files),
        "task_id": inbox_message.task_id,
    }


def task_shape(task: TaskView) -> TaskShape:
    """Returns a task for agents and operators."""
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "status": task.status.value,
        "priority": task.priority,
        "agent": task.agent,
        "agent_id": task.agent_id,
        "created_by": task.created_by,
        "requester": task.requester,
        "parent_id": task.parent_id,
        "depends_on": [other.id for other in task.depends_on],
        "dependencies": [
            {
                "id": other.id,
                "title": other.title,
                "status": other.status.value,
                "result": other.result,
                "error": other.error,
            }
            for other in task.depends_on
        ],
        "thread_id": task.thread_id,
        "inbox_message_id": task.inbox_message_id,
        "attempts": task.attempts,
        "progress": task.progress,
        "percent": task.percent,
        "result": task.result,
        "error": task.error,
        "created_at": to_iso(task.created_at),
        "started_at": _moment(task.started_at),
        "ended_at": _moment(task.ended_at),
    }


def thread_shape(place: ThreadView) -> ThreadShape:
    """Returns the thread of a conversation."""
    return {
        "id": place.id,
        "team": place.team,
        "channel": place.channel,
        "channel_name": place.channel_name,
        "thread_ts": place.thread_ts,
        "permalink": place.permalink,
    }


def message_shapes(messages: Sequence[TranscriptMessage]) -> list[MessageShape]:
    """Returns a transcript, oldest first."""
    return [
        {
            "ts": message.ts,
            "author": message.author,
            "kind": message.kind.value,
            "standing": message.standing.value,
            "text": message.text,
            "edited": message.edited,
            "files": _files(message.files),
        }
        for message in messages
    ]


def shared_file_shape(shared: Shared) -> SharedFileShape:
    """Returns a file shared in a thread."""
    return {"file_id": shared.file_id, "name": shared.name, "size_bytes": shared.size_bytes, "ts": shared.ts}


def agent_shape(agent: Agent, *, online: bool) -> AgentShape:
    """Returns an agent for its team."""
    return {
        "id": agent.id,
        "name": agent.name,
        "role": agent.role.value,
        "description": agent.description,
        "capabilities": list(agent.capabilities),
        "status": "online" if online else "offline",
    }


def tray_shape(tray: Tray) -> TrayShape:
    """Returns a tray."""
    return {
        "unread": tray.unread,
        "previews": [
            {
                "inbox_message_id": unread.inbox_message_id,
                "from": unread.sender,
                "channel": unread.channel,
                "preview": unread.preview,
            }
            for unread in tray.previews
        ],
        "mentions": tray.mentions,
        "messages": [_tray_message(message) for message in tray.messages],
        "tasks": dict(tray.tasks),
        "threads_owned": tray.threads_owned,
    }


def _tray_message(message: AgentMessage) -> TrayMessageShape:
    return {
        "message_id": message.id,
        "from": message.sender,
        "channel": f"#{message.channel}" if message.channel else None,
        "preview": preview(message.text),
        "sent_at": to_iso(message.created_at),
    }


def _notice(notice: NoticeView) -> NoticeShape:
    actor: UserShape | None = None
    if notice.actor_id:
        actor = {"id": notice.actor_id, "name": notice.actor_name or notice.actor_id}
    return {
        "kind": notice.kind.value,
        "inbox_message_id": notice.inbox_message_id,
        "task_id": notice.task_id,
        "agent_message_id": notice.agent_message_id,
        "channel": notice.channel,
        "actor": actor,
        "text": notice.text,
    }


def _files(files: Sequence[File]) -> list[FileShape]:
    return [
        {"id": file.id, "name": file.name, "mimetype": file.mimetype, "size_bytes": file.size_bytes} for file in files
    ]


def _moment(at: int | None) -> str | None:
    return None if at is None else to_iso(at)
