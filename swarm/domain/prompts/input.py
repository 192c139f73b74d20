"""The input of a prompt: values without wording, the choice of history for a long thread, and the client context.

The client context gives an agent the source, channel and requester of a message. It is never part of the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import NoticeKind
from swarm.domain.model.tasks import TaskView
from swarm.domain.model.threads import Author, ChannelType, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView
from swarm.domain.text.slack_text import readable

SOURCE: Final = "slack"

THREAD_CONTEXT: Final = "thread_context"
"""The thread's earlier messages as text, for agents that receive them in no other way."""

OWN_KEYS: Final = frozenset(
    {
        "source",
        "user",
        "channel_type",
        "channel_name",
        "channel_topic",
        "channel_purpose",
        "user_email",
        "overthink",
        "humble_followup",
        "started_by",
        THREAD_CONTEXT,
    }
)
"""The keys that the coordinator sets; a channel's own keys may not use them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelFacts:
    """Slack's description of a channel; empty fields are unknown."""

    name: str = ""  # without the leading #
    topic: str = ""  # in Slack's format, with entities and links
    purpose: str = ""


NOTHING_KNOWN: Final = ChannelFacts()


def client_context(
    *,
    channel_type: ChannelType,
    facts: ChannelFacts = NOTHING_KNOWN,
    user: Author | None = None,
    user_email: str | None = None,
    overthink: bool = False,
    humble_followup: bool = False,
    by_strangers: bool = False,
    extra: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Returns the ``client_context`` of a run, as JSON values. Keys that do not apply are absent, never null or empty.

    ``user`` is the person for whom the agent works; ``user_email`` is for channels that share it
    (`ChannelPolicy.share_email`). ``extra`` contains the channel's own keys (`ChannelPolicy.client_context`), which
    never replace the coordinator's keys, even absent ones. Only channels have a name: Slack derives the name of a group
    from its members, and a direct message has none.
    """
    is_channel = channel_type is ChannelType.CHANNEL
    own: dict[str, object] = {
        "source": SOURCE,
        "user": {"id": user.id, "name": user.name} if user else None,
        "channel_type": channel_type.value,
        "channel_name": f"#{facts.name.removeprefix('#')}" if is_channel and facts.name else None,
        "channel_topic": readable(facts.topic, {}).strip(),
        "channel_purpose": readable(facts.purpose, {}).strip(),
        "user_email": user_email,
        "overthink": overthink or None,
        "humble_followup": humble_followup or None,
        "started_by": "strangers" if by_strangers else None,
        THREAD_CONTEXT: None,  # added when the run starts
    }
    return {key: value for key, value in {**(extra or {}), **own}.items() if value not in (None, "")}


HISTORY_CHARACTERS: Final = 100_000
"""About 25,000 tokens, which fit into the context of every current model."""


def left_out(sizes: Sequence[int], most: int | None) -> range:
    """Returns the positions of messages to omit, so that the others have at most ``most`` characters.

    ``sizes`` are the messages' lengths, oldest first. The first message is always kept, whatever its length, and then
    as many of the newest messages as fit. Without ``most``, all are kept.
    """
    if most is None or sum(sizes) <= most:
        return range(0)
    room, first_told = most - sizes[0], len(sizes)
    while first_told > 1 and sizes[first_told - 1] <= room:
        first_told -= 1
        room -= sizes[first_told]
    return range(1, first_told)


RETRY_PREFIX: Final = (
    "An earlier attempt to answer this failed. Start again from the beginning, and do not rely on its results."
)
"""The default text before a message that is run again because a person pressed Retry. It names no tool."""

INBOX_TRIGGER: Final = "slack_inbox_message"
"""The kind of a trigger with new messages to answer."""

TASK_TRIGGER: Final = "task_assigned"
"""The kind of a trigger with a task."""

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
"""The kinds of triggers that require their task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptInput:
    """The content of a prompt."""

    role: Role
    agent_name: str
    kind: str  # the trigger's kind: INBOX_TRIGGER, TASK_TRIGGER or a NoticeKind
    lease_token: str
    attempt: int  # 1 for the first attempt
    channel_name: str  # empty if unknown
    permalink: str | None  # the thread's permalink; None: there is no thread
    new_messages: tuple[InboxMessageView, ...]  # in order; for a notice, the related messages
    history: tuple[TranscriptMessage, ...]  # up to and including the last new message, oldest first
    history_characters: int | None = HISTORY_CHARACTERS  # maximum length of the history; None: unlimited
    context_incomplete: bool = False
    by_strangers: bool = False  # strangers started this work, alone or with members
    overthink: bool = False  # nobody has asked: only an answer that the agent is sure of is shown
    humble_followup: bool = False  # somebody asks in a thread in which the agents have stayed silent
    previous_reply: str | None = None  # this agent's last answer in the thread
    notice_text: str | None = None  # the changed message, another agent's message, or a reason
    notice_author: str | None = None  # the agent or person who caused the notice; None: the coordinator
    notice_channel: str | None = None  # the internal channel of agent_message; None: direct
    task: TaskView | None = None
    requester_name: str | None = None  # the person who requested the task
    offers_humans: bool = False  # the channel's settings name people or services for `escalate`
    instruction: str | None = None  # for a task: how to do it this time
    decisions: tuple[str, ...] = ()  # what people have decided on the agent's requests, each as lines

    @property
    def delegated_id(self) -> str | None:
        """The inbox message that the task replaces; None once a declined offer has returned the message."""
        return self.task.inbox_message_id if self.task and self.kind in ABOUT_TASKS else None
