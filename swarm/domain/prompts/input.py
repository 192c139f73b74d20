"""What of a long thread is told with a prompt or a run: its first message and the newest ones, within a bound.

What a prompt is made of: values without a word of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import MatchedBy, NoticeKind
from swarm.domain.model.threads import AuthorKind, Standing

HISTORY_CHARACTERS: Final = 100_000
"""About 25,000 tokens: a part of what every model reads that is in use today."""


def left_out(sizes: Sequence[int], most: int | None) -> range:
    """The positions of messages that are left out so that the others have at most ``most`` characters.

    ``sizes`` are those of the messages, oldest first. The first one is always told, however long it is, and then as
    many of the newest as there is room for; without ``most``, all.
    """
    if most is None or sum(sizes) <= most:
        return range(0)
    room, first_told = most - sizes[0], len(sizes)
    while first_told > 1 and sizes[first_told - 1] <= room:
        first_told -= 1
        room -= sizes[first_told]
    return range(1, first_told)


INBOX_TRIGGER: Final = "slack_inbox_message"
"""The kind of a trigger that brings new messages to answer."""

TASK_TRIGGER: Final = "task_assigned"
"""The kind of a trigger that brings a task to do."""

ABOUT_TASKS: Final = frozenset(
    {
        TASK_TRIGGER,
        NoticeKind.TASK_FOLLOW_UP,
        NoticeKind.TASK_OFFERED,
        NoticeKind.TASK_DECLINED,
        NoticeKind.TASK_FINISHED,
        NoticeKind.TASK_CANCELLED,
        NoticeKind.TASK_RETURNED,
    }
)
"""The kinds of triggers that come of a task, and need it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptMessage:
    """One message of the thread's history."""

    ts: str
    author: str  # display name, or the agent's name
    author_id: str
    kind: AuthorKind
    text: str  # as a reader sees it, not in Slack's escapes
    edited: bool = False
    file_names: tuple[str, ...] = ()
    standing: Standing = Standing.MEMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMessage:
    """A message that the trigger is about."""

    inbox_message_id: str
    author: str
    author_id: str
    ts: str
    text: str  # as a reader sees it, not in Slack's escapes
    matched_by: MatchedBy
    reason: str  # why it was routed here, as a sentence
    file_names: tuple[str, ...] = ()
    kind: AuthorKind = AuthorKind.USER
    standing: Standing = Standing.MEMBER


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptDependency:
    """A task that another one builds on."""

    id: str
    title: str
    status: str
    result: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTask:
    """The task that a trigger is about."""

    id: str
    title: str
    description: str
    status: str
    priority: int  # 0 to 100
    agent_name: str | None  # who has it, or had it last
    created_by: str | None  # an agent's name; None: an operator
    requester: str | None  # display name of the person who asked
    parent_id: str | None
    depends_on: tuple[PromptDependency, ...]
    progress: str | None
    result: str | None
    error: str | None
    inbox_message_id: str | None  # the delegated message


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptInput:
    """All that a prompt says."""

    role: Role
    agent_name: str
    kind: str  # of the trigger: INBOX_TRIGGER, TASK_TRIGGER or a NoticeKind
    lease_token: str
    attempt: int  # 1 for the first
    channel_name: str  # empty if it is not known
    permalink: str | None  # of the thread; None: there is no thread
    new_messages: tuple[NewMessage, ...]  # in order; of a notice, the messages it is about
    history: tuple[PromptMessage, ...]  # up to and including the last new message, oldest first
    history_characters: int | None = HISTORY_CHARACTERS  # so much of it is shown; None: all
    context_incomplete: bool = False
    by_strangers: bool = False  # nobody else's words have brought this
    previous_reply: str | None = None  # this agent's last answer in the thread
    notice_text: str | None = None  # the message as it reads now, what another agent wrote, or a reason
    notice_author: str | None = None  # who caused the notice, an agent's or a person's name; None: the coordinator
    notice_channel: str | None = None  # of agent_message, the internal channel; None: direct
    task: PromptTask | None = None

    @property
    def delegated_id(self) -> str | None:
        """The entry that the task stands for. As work of its own, back from a declined offer, it stands for itself."""
        return self.task.inbox_message_id if self.task and self.kind in ABOUT_TASKS else None
