"""The calls of Slack that show an answer, made from what waits to be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AppendStream,
    Chunk,
    CloseStream,
    Closing,
    OpenStream,
    PostPage,
    StreamCall,
    Text,
    UpdatePage,
)
from swarm.domain.answers.pages import AnswerPage, Filled, PageMode, fill, seal, with_changed_cards
from swarm.domain.answers.state import Flight, Live, is_visible, without_empty_code

Made = tuple[Live, StreamCall | None]
"""The state with the call under way; no call where it turned out that there is nothing to send."""

Make = Callable[[Live, AnswerPage | None, float], Made]


def open_stream(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Begin a message as a stream."""
    live = without_empty_code(live)
    filled = _first(live, PageMode.STREAM, now)
    call = OpenStream(page=filled.page.number, chunks=filled.chunks, opened=live.reopen)
    return _off(live, call, filled, now), call


def post(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Begin a message as a post, which is updated from then on."""
    live = without_empty_code(live)
    filled = _first(live, PageMode.POST, now)
    is_last, below = _below(live, filled)
    call = PostPage(
        page=filled.page.number, text=_shown(filled.page), cards=filled.page.cards, closing=below, is_last=is_last
    )
    return _off(live, call, filled, now), call


def append(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Add to a stream what fits."""
    page = _grown(page)
    filled = fill(page, live.queue, now)
    if not filled.chunks:  # there is no room, so the message is to be closed first
        return replace(live, page=filled.page, queue=filled.rest, reopen=filled.reopen), None
    call = AppendStream(page=page.number, ts=page.ts or "", chunks=filled.chunks)
    return _off(live, call, filled, now), call


def close(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Close a stream. At the end of the run with everything that is left, if it fits."""
    page = _grown(page)
    if page.is_doubted:
        return _close(live, Filled(page=page, chunks=(), rest=live.queue, reopen=live.reopen), now)
    if page.is_full:
        return _close(live, with_changed_cards(Filled(page=page, chunks=(), rest=live.queue, reopen=live.reopen)), now)
    if live.outcome is None:  # it is old
        closed, reopen = seal(page)
        filled = Filled(page=replace(page, closed=closed), chunks=(), rest=live.queue, reopen=reopen)
        return _close(live, with_changed_cards(filled), now)
    return _close(live, fill(page, live.queue, now), now)


def _close(live: Live, filled: Filled, now: float) -> Made:
    page, closed = filled.page, "" if filled.page.is_doubted else filled.page.closed
    is_last, below = _below(live, filled) if not page.is_doubted else (False, NOTHING_BELOW)
    ending: tuple[Chunk, ...] = (Text(text=closed),) if closed else ()
    call = CloseStream(
        page=page.number,
        ts=page.ts or "",
        chunks=(*filled.chunks, *ending),
        closing=below,
        text=page.text + closed,
        is_last=is_last,
        closed=closed,
    )
    return _off(live, call, filled, now), call


def rewrite(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Show a post with what has been added."""
    filled = fill(_grown(page), live.queue, now)
    is_last, below = _below(live, filled)
    call = _update(filled.page, _shown(filled.page), below, is_last=is_last)
    return _off(live, call, filled, now), call


def mend(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Show a stream that has ended as it should be, with what else fits: Slack may not have the last of it."""
    page = _grown(page)
    if page.is_full:
        filled = with_changed_cards(Filled(page=page, chunks=(), rest=live.queue, reopen=live.reopen))
    else:
        filled = fill(page, live.queue, now)
    if not filled.page.is_full:
        closed, reopen = seal(filled.page)
        filled = replace(filled, page=replace(filled.page, closed=closed), reopen=reopen)
    is_last, below = _below(live, filled)
    text = filled.page.text if is_last else _shown(filled.page)
    call = _update(filled.page, text, below, is_last=is_last)
    return _off(live, call, filled, now), call


def _first(live: Live, mode: PageMode, now: float) -> Filled:
    return fill(AnswerPage(number=live.pages + 1, mode=mode), (Text(text=live.reopen), *live.queue), now)


def _update(page: AnswerPage, text: str, below: Closing, *, is_last: bool) -> UpdatePage:
    return UpdatePage(page=page.number, ts=page.ts or "", text=text, cards=page.cards, closing=below, is_last=is_last)


def _below(live: Live, filled: Filled) -> tuple[bool, Closing]:
    """Whether nothing follows on this message, and what then stands below it."""
    is_last = live.outcome is not None and not is_visible(filled.rest)
    return is_last, live.closing if is_last and not live.below_apart else NOTHING_BELOW


def _shown(page: AnswerPage) -> str:
    return page.text + page.closed


def _off(live: Live, call: StreamCall, filled: Filled, now: float) -> Live:
    flight = Flight(
        call=call,
        at=now,
        page=filled.page,
        queue=filled.rest,
        reopen=filled.reopen,
        page_before=live.page,
        queue_before=live.queue,
        reopen_before=live.reopen,
    )
    return replace(live, flight=flight, urgent=False)


def _grown(page: AnswerPage | None) -> AnswerPage:
    assert page is not None  # there is one that grows
    return page
