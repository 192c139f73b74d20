"""The reducer's output: all commands of a live answer, and the content of its Slack calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from swarm.domain.answers.events import StepStatus


class TaskDisplay(StrEnum):
    """How tools and plans are shown: Slack's ``task_display_mode``."""

    PLAN = "plan"  # all in one block
    TIMELINE = "timeline"  # each at its position in the text


class Growth(StrEnum):
    """How answers grow in Slack. A native stream grows only for the person who asked."""

    NATIVE = "native"
    EDITS = "edits"  # posts that are updated, which everybody sees
    AUTO = "auto"  # a native stream until a second person has written in the thread


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """More text of a message: Markdown, safe for Slack."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """The current state of a tool or a plan's step. A card with an existing id is updated in place."""

    id: str  # at most 200 characters
    title: str  # at most 250 characters, plain text without pings
    status: StepStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTitle:
    """The title of the block with all cards."""

    title: str


Chunk = Text | Card | PlanTitle


@dataclass(frozen=True, kw_only=True, slots=True)
class PageBreak:
    """The place of another message in the answer, usually a question's card: what follows begins below that message.

    Breaks are numbered from 1 in their order.
    """

    number: int


Queued = Chunk | PageBreak
"""What waits to be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """The blocks below the last message of an answer."""

    note: str = ""  # a sentence in safe Markdown; empty: no note
    retry: bool = False  # a button that starts the run again
    feedback: bool = False  # 👍 and 👎
    footer: bool = False  # agent, requester, and how to continue
    is_question: bool = False  # the answer ends with a question
    asked: str = ""  # how long ago that was asked which is answered, such as "2 days ago"; empty if lately
    usage: str = ""  # tokens and cost of the run, shown in the footer; empty if unknown


NOTHING_BELOW = Closing()
ANSWERED_BELOW = Closing(feedback=True, footer=True)


def below_answer(text: str) -> Closing:
    """Returns the blocks below a complete answer with this text."""
    return replace(ANSWERED_BELOW, is_question=text.rstrip('*_~`"”)\n ').endswith(("?", "？")))


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStream:
    """``chat.startStream``: begins message number ``page`` of the answer, with its first chunks."""

    page: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendStream:
    """``chat.appendStream``."""

    page: int
    ts: str
    chunks: tuple[Chunk, ...]
    before: str = field(default="", compare=False)  # the message's text so far


@dataclass(frozen=True, kw_only=True, slots=True)
class CloseStream:
    """``chat.stopStream``, with the last chunks. ``text`` is the complete text of the message, for a later repair."""

    page: int
    ts: str
    chunks: tuple[Chunk, ...]
    closing: Closing
    text: str
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PostPage:
    """``chat.postMessage``: begins a message where Slack does not support streams."""

    page: int
    text: str
    cards: tuple[Card, ...]
    closing: Closing
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdatePage:
    """``chat.update``: replaces the complete message. Idempotent."""

    page: int
    ts: str
    text: str
    cards: tuple[Card, ...]
    closing: Closing
    is_last: bool


StreamCall = OpenStream | AppendStream | CloseStream | PostPage | UpdatePage


class Slot(StrEnum):
    """A rate-limited Slack method; the value is the method's name."""

    OPEN = "chat.startStream"
    APPEND = "chat.appendStream"
    CLOSE = "chat.stopStream"
    POST = "chat.postMessage"
    UPDATE = "chat.update"


# The other commands.


@dataclass(frozen=True, kw_only=True, slots=True)
class AcquireSlot:
    """Requests a wait until Slack's rate limits allow one call of this method, followed by `SlotGranted`."""

    slot: Slot


@dataclass(frozen=True, kw_only=True, slots=True)
class Find:
    """Requests a search in Slack for message number ``page``, because the outcome of the call that begins it is
    unknown.
    """

    page: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HangUp:
    """Requests that the connection to the agent be closed, because its later events are not needed."""


class SessionState(StrEnum):
    """What Slack shows of an agent's session in a thread, with Slack's words."""

    PROCESSING = "processing"  # the agent is working
    ACTIVE = "active"
    SUSPENDED = "suspended"  # it waits for people's decision


@dataclass(frozen=True, kw_only=True, slots=True)
class SetStatus:
    """Sets the status line of a running answer; an empty text clears it."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """The end of the live display.

    ``leftover`` is safe text that was not shown live, and ``closing`` contains the blocks that are not shown yet. Both
    are sent as queued posts.
    """

    leftover: str
    closing: Closing


Command = StreamCall | AcquireSlot | Find | HangUp | SetStatus | Over


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerTarget:
    """The place and the reader of an answer."""

    team: str
    channel: str
    thread_ts: str  # `FLAT` in a flat direct message, where Slack shows no streams and no status
    is_direct: bool
    requester: str | None  # the user id of the person who asked (U… or W…); None: a bot asked
    agent_name: str
    run_id: str  # the value of the buttons; for an answer without a run, the id of its last post
    display: TaskDisplay = TaskDisplay.PLAN
    growth: Growth = Growth.AUTO
    footer: str = ""  # the operator's text in mrkdwn, appended to the footer
