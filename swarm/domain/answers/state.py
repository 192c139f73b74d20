"""Everything that is known of an answer while it is shown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from swarm.domain.answers.calls import NOTHING_BELOW, Card, Chunk, Closing, PlanTitle, Slot, StreamCall, Text
from swarm.domain.answers.outcomes import AnswerOutcome
from swarm.domain.answers.pages import AnswerPage, PageMode
from swarm.domain.answers.rope import Rope
from swarm.domain.answers.text import SafeText
from swarm.domain.text.code_blocks import after_line

_JOINED_CHARACTERS = 4_096  # a longer text is not copied to add to it


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often a message grows, in seconds, while Slack's limits leave room."""

    append: float = 0.8
    line: float = 0.3  # sooner at the end of a line, a text message, or when a tool starts
    update: float = 1.5  # instead of both where there are no streams
    line_update: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Flight:
    """A call that is under way: what holds if Slack accepts it, and what held before."""

    call: StreamCall
    at: float  # when it was made
    page: AnswerPage
    queue: tuple[Chunk, ...]
    reopen: str
    page_before: AnswerPage | None
    queue_before: tuple[Chunk, ...]
    reopen_before: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """The state of an answer. Times are seconds on the caller's clock, which never goes back."""

    pace: Pace = field(default_factory=Pace)

    # What the agent has said.
    text: SafeText = field(default_factory=SafeText)
    said: Rope = field(default_factory=Rope)  # all its text, plain, without markers
    last: Rope = field(default_factory=Rope)  # the same of its last text message alone
    message_id: str | None = None  # of the text message that is open
    held_since: float = 0.0  # how long the end of the text waits already, which may still change its meaning
    sub_agent: str | None = None  # whose text is kept out
    cards: tuple[Card, ...] = ()  # all tools and steps, as they are now
    plan_title: str = ""
    outcome: AnswerOutcome | None = None  # None: the run goes on
    closing: Closing = NOTHING_BELOW
    over_at: float = 0.0  # when the run ended

    # What of it is still to be shown, oldest first.
    queue: tuple[Chunk, ...] = ()
    later: tuple[Chunk, ...] = ()  # what came while a call was under way
    urgent: bool = False  # something came that should not wait for the interval

    # The message that grows.
    mode: PageMode = PageMode.STREAM
    page: AnswerPage | None = None
    ended: AnswerPage | None = None  # the last message that was ended before it was known that nothing follows
    pages: int = 0  # messages that were begun
    reopen: str = ""  # how the next one begins: the code block that the last one had to close

    # What is under way.
    flight: Flight | None = None
    finds: bool = False  # Slack is being searched for the message of the call under way
    asked: frozenset[Slot] = frozenset()
    granted: frozenset[Slot] = frozenset()
    not_before: float = 0.0  # no call sooner
    doubts: int = 0  # calls in a row whose outcome nobody knows, about a message that is there
    unsent: int = 0  # calls in a row that did not reach Slack
    spread: float = 1.0  # by which pauses differ from those of other answers, so that not all come back at once
    gives_up: bool = False  # Slack takes nothing more of it live
    below_apart: bool = False  # the closing blocks do not fit below the last message
    is_over: bool = False

    # The status line.
    status_wanted: str = ""
    status: str = ""
    status_at: float = 0.0

    def queued(self, *chunks: Chunk, urgent: bool = False) -> Live:
        """The state with more to show."""
        if self.flight:
            return replace(self, later=join(self.later, chunks), urgent=self.urgent or urgent)
        return replace(self, queue=join(self.queue, chunks), urgent=self.urgent or urgent)


def join(queue: tuple[Chunk, ...], added: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    """Two queues as one: text goes on where text ends, what else is still to be shown is shown as it is now."""
    for chunk in added:
        queue = _with(queue, chunk)
    return queue


def _with(queue: tuple[Chunk, ...], chunk: Chunk) -> tuple[Chunk, ...]:
    if isinstance(chunk, Text):
        last = queue[-1] if queue else None
        if not chunk.text:
            return queue
        if isinstance(last, Text) and len(last.text) < _JOINED_CHARACTERS:
            return (*queue[:-1], Text(text=last.text + chunk.text))
        return (*queue, chunk)
    for place, known in enumerate(queue):
        if _is_same(known, chunk):
            return (*queue[:place], chunk, *queue[place + 1 :])
    return (*queue, chunk)


def _is_same(known: Chunk, chunk: Chunk) -> bool:
    if isinstance(known, Card):
        return isinstance(chunk, Card) and known.id == chunk.id
    return isinstance(known, PlanTitle) and isinstance(chunk, PlanTitle)


def text_of(queue: tuple[Chunk, ...]) -> str:
    """All text in a queue."""
    return "".join(chunk.text for chunk in queue if isinstance(chunk, Text))


def is_visible(queue: tuple[Chunk, ...]) -> bool:
    """Whether there is anything in it that a person would see."""
    return any(isinstance(chunk, Card) or (isinstance(chunk, Text) and chunk.text.strip()) for chunk in queue)


def without_empty_code(live: Live) -> Live:
    """The same state; but a code block is not opened again only to be closed at once, nor for what is not text."""
    first = next((chunk for chunk in live.queue if isinstance(chunk, Text)), None)
    if not live.reopen or first is None:
        return live
    line, newline, rest = first.text.lstrip("\n").partition("\n")
    opening, _ = after_line(line, live.reopen.rstrip("\n"))
    if opening is not None:
        return live
    queue = tuple(Text(text=newline + rest) if chunk is first else chunk for chunk in live.queue)
    return replace(live, reopen="", queue=queue)
