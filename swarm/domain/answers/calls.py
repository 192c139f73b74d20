"""What a live answer wants of Slack: a closed set of calls, and what each of them shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from swarm.domain.answers.events import StepStatus


class TaskDisplay(StrEnum):
    """How tools and plans are shown; Slack's ``task_display_mode``."""

    PLAN = "plan"  # all of them in one block
    TIMELINE = "timeline"  # each where it came up in the text


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """More text of a message: Markdown, safe for Slack."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A tool or a step of a plan, as it is now; the same id again changes it in place."""

    id: str  # at most 200 characters
    title: str  # at most 250 characters, plain text, nothing in it pings
    status: StepStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanTitle:
    """What the block of all cards is called."""

    title: str


Chunk = Text | Card | PlanTitle


@dataclass(frozen=True, kw_only=True, slots=True)
class Closing:
    """What stands below the last message of an answer, apart from its text."""

    note: str = ""  # a sentence, safe Markdown; empty: none
    retry: bool = False  # a button that runs the turn again
    feedback: bool = False  # 👍 and 👎
    footer: bool = False  # agent, requester, how to go on


NOTHING_BELOW = Closing()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStream:
    """``chat.startStream``: begin message number ``page`` of the answer, with its first chunks."""

    page: int
    chunks: tuple[Chunk, ...]
    opened: str = ""  # how the text begins that only opens a code block again


@dataclass(frozen=True, kw_only=True, slots=True)
class AppendStream:
    """``chat.appendStream``."""

    page: int
    ts: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CloseStream:
    """``chat.stopStream``, with the last chunks. ``text`` is the message's whole text, for whoever has to mend it."""

    page: int
    ts: str
    chunks: tuple[Chunk, ...]
    closing: Closing
    text: str
    is_last: bool
    closed: str = ""  # how the text ends that only closes a code block


@dataclass(frozen=True, kw_only=True, slots=True)
class PostPage:
    """``chat.postMessage``: begin a message where Slack has no streams."""

    page: int
    text: str
    cards: tuple[Card, ...]
    closing: Closing
    is_last: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdatePage:
    """``chat.update``: show the message as it is now, whole. It is the same when it is repeated."""

    page: int
    ts: str
    text: str
    cards: tuple[Card, ...]
    closing: Closing
    is_last: bool


StreamCall = OpenStream | AppendStream | CloseStream | PostPage | UpdatePage


class Slot(StrEnum):
    """A place among the few calls that Slack allows; its value is the method."""

    OPEN = "chat.startStream"
    APPEND = "chat.appendStream"
    CLOSE = "chat.stopStream"
    POST = "chat.postMessage"
    UPDATE = "chat.update"


# What else is wanted.


@dataclass(frozen=True, kw_only=True, slots=True)
class AcquireSlot:
    """Wait for a place among the few calls that Slack allows, and then say so."""

    slot: Slot


@dataclass(frozen=True, kw_only=True, slots=True)
class Find:
    """Look for message number ``page``: nobody knows whether Slack began it."""

    page: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Close the connection to the agent: nothing that it says is wanted any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SetStatus:
    """Show what the agent does, or with an empty text nothing; ``works`` is whether it still works."""

    text: str
    works: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """Everything is shown that can be shown live.

    ``leftover`` is safe text that could not be, and ``closing`` what still has to stand below it: for posts that wait.
    """

    leftover: str
    closing: Closing


Command = OpenStream | AppendStream | CloseStream | PostPage | UpdatePage | AcquireSlot | Find | Hang | SetStatus | Over


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerTarget:
    """Where an answer appears, and for whom."""

    team: str
    channel: str
    thread_ts: str
    is_direct: bool
    requester: str | None  # the user id of who asked (U… or W…); None: a bot did
    agent_name: str
    turn_id: str  # the value of the buttons
    display: TaskDisplay = TaskDisplay.PLAN
    footer: str = ""  # the operator's own words, mrkdwn, appended to the footer
