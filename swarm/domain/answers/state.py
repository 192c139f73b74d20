"""The state of a live answer: all text so far, the queue, and the Slack message that grows.

Slack ends a stream near 10 kB (cards included) and after about five minutes. Each message therefore ends earlier,
between paragraphs if possible, and the answer continues in another message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Final

from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    Card,
    Chunk,
    Closing,
    PageBreak,
    PlanTitle,
    Queued,
    Slot,
    StreamCall,
    Text,
)
from swarm.domain.answers.events import AnswerOutcome
from swarm.domain.answers.text import SafeText
from swarm.domain.text.cutting import after_line, cut_growing, open_at_end, whole_end

_TAIL_CHARACTERS: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """An immutable, growing text in pieces: appending copies a few kilobytes at most."""

    pieces: tuple[str, ...] = ()
    tail: str = ""
    length: int = 0

    def __add__(self, text: str) -> Rope:
        if not text:
            return self
        tail, length = self.tail + text, self.length + len(text)
        if len(tail) < _TAIL_CHARACTERS:
            return Rope(pieces=self.pieces, tail=tail, length=length)
        return Rope(pieces=(*self.pieces, tail), length=length)

    def __str__(self) -> str:
        return "".join([*self.pieces, self.tail])

    def ends_with(self, ending: str) -> bool:
        """Whether the text ends with this string. Reads only the last pieces."""
        last = "".join([*self.pieces[-1:], self.tail]) if len(self.tail) < len(ending) else self.tail
        return last.endswith(ending)


STREAM_BYTES: Final = 9_000
"""The maximum size of a stream."""

POST_BYTES: Final = 3_800
"""The maximum size of a post. Slack splits texts at about 4,000 characters."""

_WANTED: Final = 2 / 3
"""Once a message has reached this share of its maximum size, it ends at the next paragraph."""

_FENCE_BYTES: Final = 64  # room for closing a code block
_CARDS_BYTES: Final = 3_000
_CARD_BYTES: Final = 100  # per card, in addition to its id and title

AGING_SECONDS: Final = 230.0
"""Once a stream has reached this age, it ends at the next paragraph."""

OLD_SECONDS: Final = 265.0
"""At this age a stream ends at any position."""


class PageMode(StrEnum):
    """How a message grows."""

    STREAM = "stream"
    POST = "post"  # posted and updated, which everybody sees; the only way where Slack does not support streams


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPage:
    """One Slack message of the answer. ``ts`` is None until Slack has accepted the message."""

    number: int
    mode: PageMode
    ts: str | None = None
    text: str = ""  # all text sent, including the line that reopens a code block
    card_bytes: int = 0
    cards: tuple[Card, ...] = ()  # their current states in this message
    opened_at: float = 0.0
    sent_at: float | None = None  # the time of the last growth; None: never
    is_full: bool = False
    closed: str = ""  # for a full message: the line that closes its code block
    is_doubted: bool = False  # Slack may have less or more than its text, so an update must follow
    unsure: str = ""  # if doubted: the end of its text that Slack may not have
    may_be_last: bool = False  # if doubted: its last call was meant to end the answer, and no result contradicts that
    is_sealed: bool = False  # its stream has ended for some reason; only an update can change it

    @property
    def limit(self) -> int:
        """The space for text, in bytes."""
        most = STREAM_BYTES if self.mode is PageMode.STREAM else POST_BYTES
        return most - self.card_bytes - _FENCE_BYTES

    def is_aging(self, now: float) -> bool:
        return self.mode is PageMode.STREAM and self.ts is not None and now - self.opened_at >= AGING_SECONDS

    def is_old(self, now: float) -> bool:
        return self.mode is PageMode.STREAM and self.ts is not None and now - self.opened_at >= OLD_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A message after filling: the chunks added, and the rest for the next message."""

    page: AnswerPage
    chunks: tuple[Chunk, ...]
    rest: tuple[Queued, ...] = ()
    reopen: str = ""  # for a full message: the line that reopens its code block in the next message


def fill(page: AnswerPage, queue: Sequence[Queued], now: float) -> Filled:
    """Adds as much of the queue to a message as fits."""
    chunks: list[Chunk] = []
    for place, chunk in enumerate(queue):
        if isinstance(chunk, Text):
            filled = _with_text(page, chunk.text, now)
            page = filled.page
            chunks += filled.chunks
            if page.is_full:
                rest = (*filled.rest, *queue[place + 1 :])
                return with_changed_cards(replace(filled, chunks=tuple(chunks), rest=rest))
        elif isinstance(chunk, PageBreak):
            closed, reopen = seal(page)
            page = replace(page, is_full=True, closed=closed)
            filled = Filled(page=page, chunks=tuple(chunks), rest=tuple(queue[place:]), reopen=reopen)
            return with_changed_cards(filled)
        elif isinstance(chunk, PlanTitle):
            chunks.append(chunk)
        else:
            page, shown = _with_card(page, chunk)
            chunks += [chunk] if shown else []
    return Filled(page=page, chunks=tuple(chunks))


def _with_card(page: AnswerPage, card: Card) -> tuple[AnswerPage, bool]:
    """Returns the message with a new or changed card, and whether the card fitted."""
    known = next((known for known in page.cards if known.id == card.id), None)
    cost = _bytes_of(card) - (_bytes_of(known) if known else 0)
    if cost > 0 and (page.card_bytes + cost > _CARDS_BYTES or len(page.text.encode()) + cost > page.limit):
        return page, False
    cards = tuple(card if shown is known else shown for shown in page.cards) if known else (*page.cards, card)
    return replace(page, cards=cards, card_bytes=page.card_bytes + cost), True


def _bytes_of(card: Card) -> int:
    return _CARD_BYTES + len(card.id.encode()) + len(card.title.encode())


def with_changed_cards(filled: Filled) -> Filled:
    """Adds changes of the message's own cards to a full message, because later messages do not show these cards."""
    page, chunks, rest = filled.page, list(filled.chunks), []
    for chunk in filled.rest:
        is_known = isinstance(chunk, Card) and any(card.id == chunk.id for card in page.cards)
        if isinstance(chunk, Card) and is_known:
            page, shown = _with_card(page, chunk)
            chunks += [chunk] if shown else []
        else:
            rest.append(chunk)
    return replace(filled, page=page, chunks=tuple(chunks), rest=tuple(rest))


def _with_text(page: AnswerPage, text: str, now: float) -> Filled:
    if page.number > 1 and not page.text:
        text = _BEGINNING.sub(r"\1", text) or text  # blank lines separated it from the message before
    is_stream, sent, whole = page.mode is PageMode.STREAM, len(page.text), page.text + text
    limit = _characters(whole, page.limit)
    wanted = sent if page.is_aging(now) else _characters(whole, int(page.limit * _WANTED))
    # A longer text would give the same cut. An update may also take text back.
    cut = cut_growing(whole[: 2 * limit], sent if is_stream else 0, wanted, limit, is_stream=is_stream)
    if cut is None:
        return Filled(page=replace(page, text=whole), chunks=(Text(text=text),) if text else ())
    return _ended(replace(page, closed=cut.closed), whole, cut.end, cut.resume, cut.opened)


def leave(page: AnswerPage, queue: Sequence[Queued]) -> Filled | None:
    """Ends a message whose answer goes on in another one, where nothing is divided; None if that is nowhere yet."""
    first = queue[0].text if queue and isinstance(queue[0], Text) else ""
    whole = page.text + first
    end = whole_end(whole[: max(_characters(whole, page.limit), len(page.text))], len(page.text))
    if end is None:
        return None
    closed, reopen = seal(replace(page, text=whole[:end]))
    filled = _ended(replace(page, closed=closed), whole, end, end, reopen)
    return with_changed_cards(replace(filled, rest=(*filled.rest, *queue[1 if first else 0 :])))


def _ended(page: AnswerPage, whole: str, end: int, resume: int, reopen: str) -> Filled:
    """Ends a message. A stream that shows more than its text until then is updated afterwards."""
    body, rest = whole[len(page.text) : end], whole[resume:]
    takes_back = page.mode is PageMode.STREAM and end < len(page.text)
    return Filled(
        page=replace(page, text=whole[:end], is_full=True, is_doubted=takes_back or page.is_doubted),
        chunks=(Text(text=body),) if body else (),
        rest=(Text(text=rest),) if rest else (),
        reopen=reopen,
    )


def seal(page: AnswerPage) -> tuple[str, str]:
    """Returns the lines that close and reopen the message's open code block or table; empty if none is open."""
    block = open_at_end(page.text)
    if block is None or len(block.opening) > page.limit // 4:
        return "", ""
    line_break = "" if page.text.endswith("\n") else "\n"
    return f"{line_break}{block.fence}" if block.fence else "", f"{block.opening}\n"


def _characters(text: str, most_bytes: int) -> int:
    """Returns how many characters of a text fit into this many bytes."""
    if len(text) * 4 <= most_bytes:
        return len(text)
    data = text.encode()
    return len(text) if len(data) <= most_bytes else len(data[: max(most_bytes, 0)].decode(errors="ignore"))


# Blank lines, and blanks that would turn an item of a list into code.
_BEGINNING = re.compile(r"\A\n*( {0,3}) *(?=(?:[-+*]|\d{1,9}[.)]) )|\A\n+()")
_JOINED_CHARACTERS = 4_096  # longer texts are not copied for appending


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often a message grows, in seconds, while Slack's limits permit."""

    append: float = 0.8
    line: float = 0.3  # used at the end of a line or a text message, or when a tool starts
    update: float = 1.5  # for posts, times the number of answers that grow so: 40 of Slack's 50 updates a minute


@dataclass(frozen=True, kw_only=True, slots=True)
class Flight:
    """The call in flight, the state after its success, and the state before it."""

    call: StreamCall
    at: float  # the time of the call
    page: AnswerPage
    queue: tuple[Queued, ...]
    reopen: str
    page_before: AnswerPage | None
    queue_before: tuple[Queued, ...]
    reopen_before: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Live:
    """The state of an answer. Times are seconds on the caller's monotonic clock."""

    pace: Pace = field(default_factory=Pace)
    agent_name: str = ""

    # The agent's text and tools.
    text: SafeText = field(default_factory=SafeText)
    full_text: Rope = field(default_factory=Rope)  # all its text, plain, without markers
    last: Rope = field(default_factory=Rope)  # only the last text message
    message_id: str | None = None  # of the open text message
    held_since: float = 0.0  # since when the end of the text has been held back because its meaning may still change
    sub_agent: str | None = None  # its text is not part of the answer
    cards: tuple[Card, ...] = ()  # all tools and steps, in their current state
    plan_title: str = ""
    outcome: AnswerOutcome | None = None  # None: the run is in progress
    closing: Closing = NOTHING_BELOW
    over_at: float = 0.0  # when the run ended

    # The queue, oldest first.
    queue: tuple[Queued, ...] = ()
    later: tuple[Queued, ...] = ()  # chunks that arrived while a call was in flight
    urgent: bool = False  # a chunk arrived that should not wait for the interval
    breaks: int = 0  # the number of page breaks that were ever queued
    passed_breaks: int = 0  # up to this number the messages of the breaks have been posted

    # The growing message.
    mode: PageMode = PageMode.STREAM
    growing_posts: int = 1  # how many answers grow as posts, with this one
    page: AnswerPage | None = None
    ended: AnswerPage | None = None  # the last message, if it ended before the end of the answer was known
    pages: int = 0  # the number of messages started
    reopen: str = ""  # the beginning of the next message, which reopens the last message's code block

    # Calls in flight and pauses.
    flight: Flight | None = None
    finds: bool = False  # a search for the message of the call in flight is running
    asked: frozenset[Slot] = frozenset()
    granted: frozenset[Slot] = frozenset()
    not_before: float = 0.0  # the earliest time of the next call
    doubts: int = 0  # consecutive calls with unknown outcomes about an existing message
    unsent: int = 0  # consecutive calls that did not reach Slack
    spread: float = 1.0  # factor for pauses, different for each answer, so that retries are spread over time
    held: bool = False  # Slack refused the app's token when it was called last
    gives_up: bool = False  # Slack accepts no more live text of this answer
    below_apart: bool = False  # the closing blocks do not fit below the last message
    is_over: bool = False

    # The status line.
    status_wanted: str = ""
    status: str = ""
    status_at: float = 0.0

    def queued(self, *chunks: Queued, urgent: bool = False) -> Live:
        """Returns the state with more content to show."""
        if self.flight:
            return replace(self, later=join(self.later, chunks), urgent=self.urgent or urgent)
        return replace(self, queue=join(self.queue, chunks), urgent=self.urgent or urgent)

    def has_sealed(self, number: int) -> bool:
        """Whether Slack has everything before this page break in final messages, or accepts no more of it."""
        first = next((chunk.number for chunk in self.queue if isinstance(chunk, PageBreak)), number)
        is_next = first >= number and not is_visible(before_break(self.queue))
        return self.is_over or self.gives_up or (self.flight is None and self.page is None and is_next)


def join(queue: tuple[Queued, ...], added: tuple[Queued, ...]) -> tuple[Queued, ...]:
    """Joins two queues: adjacent texts are merged, and a card or title replaces its earlier version."""
    for chunk in added:
        queue = _with(queue, chunk)
    return queue


def _with(queue: tuple[Queued, ...], chunk: Queued) -> tuple[Queued, ...]:
    if isinstance(chunk, Text):
        last = queue[-1] if queue else None
        if not chunk.text:
            return queue
        if isinstance(last, Text) and len(last.text) < _JOINED_CHARACTERS:
            return (*queue[:-1], Text(text=last.text + chunk.text))
        return (*queue, chunk)
    begin = len(queue) - len(before_break(queue[::-1]))  # what stands before a break stays as it is
    for place, known in enumerate(queue[begin:], begin):
        if _is_same(known, chunk):
            return (*queue[:place], chunk, *queue[place + 1 :])
    return (*queue, chunk)


def before_break(queue: tuple[Queued, ...]) -> tuple[Queued, ...]:
    """Returns the chunks before the first page break; all of them if there is none."""
    return tuple(takewhile(lambda chunk: not isinstance(chunk, PageBreak), queue))


def _is_same(known: Queued, chunk: Queued) -> bool:
    if isinstance(known, Card):
        return isinstance(chunk, Card) and known.id == chunk.id
    return isinstance(known, PlanTitle) and isinstance(chunk, PlanTitle)


def text_of(queue: tuple[Queued, ...]) -> str:
    """Returns all text in a queue."""
    return "".join(chunk.text for chunk in queue if isinstance(chunk, Text))


def is_visible(queue: tuple[Queued, ...]) -> bool:
    """Whether the queue has content that a person would see."""
    return any(isinstance(chunk, Card) or (isinstance(chunk, Text) and chunk.text.strip()) for chunk in queue)


def without_empty_code(live: Live) -> Live:
    """Drops the reopening of a code block or table that would be empty."""
    first = next((chunk for chunk in live.queue if isinstance(chunk, Text)), None)
    reopen, _, begun = live.reopen.rpartition("\n")
    if not reopen or first is None:
        return live
    is_table = "\n" in reopen  # which a blank line ends
    line, newline, rest = (first.text if is_table else first.text.lstrip("\n")).partition("\n")
    opening, is_code = after_line(begun + line, reopen)
    if opening is not None:
        return live
    queue = tuple(Text(text=newline + rest) if is_code and chunk is first else chunk for chunk in live.queue)
    return replace(live, reopen="", queue=queue)
