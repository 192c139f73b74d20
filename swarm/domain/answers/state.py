"""A text that grows by small pieces and may become long: adding costs no more than a few kilobytes of copying.

One Slack message of an answer while it grows: what fits into it, and when it has lived long enough.

Slack ends a stream's growth near 10 kB, cards included, and its life after about five minutes. Both are avoided: a
message ends in time, between paragraphs if it can, and the next one goes on.

Everything that is known of an answer while it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import NOTHING_BELOW, Card, Chunk, Closing, PlanTitle, Slot, StreamCall, Text
from swarm.domain.answers.events import AnswerOutcome
from swarm.domain.answers.text import SafeText
from swarm.domain.text.code_blocks import after_line, open_at_end
from swarm.domain.text.cutting import cut_growing

_TAIL_CHARACTERS: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """An immutable text in pieces."""

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
        """Whether the text ends so; only as much is looked at as needed."""
        last = "".join([*self.pieces[-1:], self.tail]) if len(self.tail) < len(ending) else self.tail
        return last.endswith(ending)


STREAM_BYTES: Final = 9_000
"""A stream gets no more than this."""

POST_BYTES: Final = 3_800
"""A message without a stream gets no more: Slack splits texts at about 4,000 characters."""

_WANTED: Final = 2 / 3
"""From this share of its size on, a message ends at the next paragraph."""

MAX_OPENING_CHARACTERS: Final = 200
"""A code block whose first line is longer is not opened again in another message."""

_FENCE_BYTES: Final = 64  # room for closing a code block
_CARDS_BYTES: Final = 3_000
_CARD_BYTES: Final = 100  # of a card, beside id and title

AGING_SECONDS: Final = 230.0
"""From this age on, a stream ends at the next paragraph."""

OLD_SECONDS: Final = 265.0
"""At this age a stream ends wherever it is."""


class PageMode(StrEnum):
    """How messages grow."""

    STREAM = "stream"
    POST = "post"  # posted and updated: the workspace has no streams


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPage:
    """A message of the answer. ``ts`` is None until Slack has it."""

    number: int
    mode: PageMode
    ts: str | None = None
    text: str = ""  # everything that was sent, what reopens a code block included
    card_bytes: int = 0
    cards: tuple[Card, ...] = ()  # as they stand in it
    opened_at: float = 0.0
    sent_at: float | None = None  # when it last grew; None: never
    is_full: bool = False
    closed: str = ""  # of a full one: what has to close its code block
    is_doubted: bool = False  # nobody knows whether Slack took the last of it
    unsure: str = ""  # of a doubted one: the end of its text that Slack may not have
    may_be_last: bool = False  # of a doubted one: its last call was to end the answer, and nothing speaks against that
    is_sealed: bool = False  # its stream has ended, however; only an update can change it

    @property
    def limit(self) -> int:
        """Bytes of text that it takes."""
        most = STREAM_BYTES if self.mode is PageMode.STREAM else POST_BYTES
        return most - self.card_bytes - _FENCE_BYTES

    def is_aging(self, now: float) -> bool:
        return self.mode is PageMode.STREAM and self.ts is not None and now - self.opened_at >= AGING_SECONDS

    def is_old(self, now: float) -> bool:
        return self.mode is PageMode.STREAM and self.ts is not None and now - self.opened_at >= OLD_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A message with more in it, what went in now, and what is left for the next one."""

    page: AnswerPage
    chunks: tuple[Chunk, ...]
    rest: tuple[Chunk, ...] = ()
    reopen: str = ""  # what opens the code block again in the next one that a full one has to close


def fill(page: AnswerPage, queue: Sequence[Chunk], now: float) -> Filled:
    """Put as much of the queue into a message as fits."""
    chunks: list[Chunk] = []
    for place, chunk in enumerate(queue):
        if isinstance(chunk, Text):
            filled = _with_text(page, chunk.text, now)
            page = filled.page
            chunks += filled.chunks
            if page.is_full:
                rest = (*filled.rest, *queue[place + 1 :])
                return with_changed_cards(replace(filled, chunks=tuple(chunks), rest=rest))
        elif isinstance(chunk, PlanTitle):
            chunks.append(chunk)
        else:
            page, shown = with_card(page, chunk)
            chunks += [chunk] if shown else []
    return Filled(page=page, chunks=tuple(chunks))


def with_card(page: AnswerPage, card: Card) -> tuple[AnswerPage, bool]:
    """The message with a card, new or changed; and whether there was room for it."""
    known = next((known for known in page.cards if known.id == card.id), None)
    cost = _bytes_of(card) - (_bytes_of(known) if known else 0)
    if cost > 0 and (page.card_bytes + cost > _CARDS_BYTES or len(page.text.encode()) + cost > page.limit):
        return page, False
    cards = tuple(card if shown is known else shown for shown in page.cards) if known else (*page.cards, card)
    return replace(page, cards=cards, card_bytes=page.card_bytes + cost), True


def _bytes_of(card: Card) -> int:
    return _CARD_BYTES + len(card.id.encode()) + len(card.title.encode())


def with_changed_cards(filled: Filled) -> Filled:
    """A message that takes no more text, with what has changed of its cards: they stand in no later one."""
    page, chunks, rest = filled.page, list(filled.chunks), []
    for chunk in filled.rest:
        is_known = isinstance(chunk, Card) and any(card.id == chunk.id for card in page.cards)
        if isinstance(chunk, Card) and is_known:
            page, shown = with_card(page, chunk)
            chunks += [chunk] if shown else []
        else:
            rest.append(chunk)
    return replace(filled, page=page, chunks=tuple(chunks), rest=tuple(rest))


def _with_text(page: AnswerPage, text: str, now: float) -> Filled:
    sent, whole = len(page.text), page.text + text
    limit = _characters(whole, page.limit)
    wanted = sent if page.is_aging(now) else _characters(whole, int(page.limit * _WANTED))
    cut = cut_growing(whole[: 2 * limit], sent, wanted, limit)  # more of it could make no difference
    if cut is None:
        return Filled(page=replace(page, text=whole), chunks=(Text(text=text),) if text else ())
    body, rest = whole[sent : cut.end], whole[cut.resume :]
    return Filled(
        page=replace(page, text=whole[: cut.end], is_full=True, closed=cut.closed),
        chunks=(Text(text=body),) if body else (),
        rest=(Text(text=rest),) if rest else (),
        reopen=cut.opened,
    )


def seal(page: AnswerPage) -> tuple[str, str]:
    """What closes the code block that a message leaves open, and what opens it again in the next; else empty."""
    block = open_at_end(page.text)
    if block is None or len(block.opening) > MAX_OPENING_CHARACTERS:
        return "", ""
    return f"\n{block.fence}", f"{block.opening}\n"


def _characters(text: str, most_bytes: int) -> int:
    """How many characters of a text take at most so many bytes."""
    if len(text) * 4 <= most_bytes:
        return len(text)
    data = text.encode()
    return len(text) if len(data) <= most_bytes else len(data[: max(most_bytes, 0)].decode(errors="ignore"))


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
