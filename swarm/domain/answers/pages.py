"""One Slack message of an answer while it grows: what fits into it, and when it has lived long enough.

Slack ends a stream's growth near 10 kB, cards included, and its life after about five minutes. Both are avoided: a
message ends in time, between paragraphs if it can, and the next one goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import Card, Chunk, PlanTitle, Text
from swarm.domain.text.code_blocks import open_at_end
from swarm.domain.text.cutting import cut_growing

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
