"""The calls of Slack that show an answer, made from what waits to be shown.

The half of the reducer that decides which call of Slack comes next.

At most one call is under way. What it carries is chosen only when its turn has come, so the longer an answer has to
wait for its turn, the more goes into one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AcquireSlot,
    AppendStream,
    Chunk,
    CloseStream,
    Closing,
    Command,
    OpenStream,
    Over,
    PostPage,
    SetStatus,
    Slot,
    StreamCall,
    Text,
    UpdatePage,
)
from swarm.domain.answers.state import (
    AGING_SECONDS,
    OLD_SECONDS,
    AnswerPage,
    Filled,
    Flight,
    Live,
    PageMode,
    fill,
    is_visible,
    join,
    seal,
    text_of,
    with_changed_cards,
    without_empty_code,
)

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


OPEN_PATIENCE_SECONDS: Final = 2.0
"""An answer that is whole and still waits for a stream after this time is posted instead."""

CLOSE_PATIENCE_SECONDS: Final = 1.0
"""The end of an answer that waits longer for its message to be closed is appended meanwhile."""

GIVE_UP_SECONDS: Final = 90.0
"""What Slack has not taken live so long after the end of the run is left to posts that can wait."""

STATUS_SECONDS: Final = 90.0
"""A status line is renewed after this time: Slack forgets it after two minutes."""

STATUS_GAP_SECONDS: Final = 1.0

HOLD_SECONDS: Final = 0.2
"""An unfinished word is shown after this time, as far as it can no longer become a mention, a link or code."""

Step = tuple[Live, tuple[Command, ...]]


def advance(live: Live, now: float) -> Step:
    """What is to be done now, if anything."""
    live = _released(live, now)
    live, status = _status(live, now)
    if live.flight or live.is_over:
        return live, status
    live, commands = _next(live, now)
    return live, (*status, *commands)


def _released(live: Live, now: float) -> Live:
    """The end of a text is held back while it may still change its meaning, but not for long."""
    if not live.text.line or live.outcome or now < _release_at(live):
        return live
    state, settled = live.text.release()
    return replace(live, text=state).queued(Text(text=settled)) if settled else live


def _release_at(live: Live) -> float:
    is_first = not (live.pages or live.flight or live.queue)
    return live.held_since + (0.0 if is_first else HOLD_SECONDS)


def over(live: Live) -> Step:
    """The end: what is not shown is left to others."""
    live = without_empty_code(without_page(live))
    text = text_of(live.queue)
    leftover = live.reopen + text if text.strip() else ""
    done = replace(live, is_over=True, flight=None, finds=False, queue=(), status_wanted="", status="")
    return done, (SetStatus(text="", works=False), Over(leftover=leftover, closing=live.closing))


def without_page(live: Live) -> Live:
    """The message that grows stays as it is. What is left goes into another one, and what it may not have as well."""
    page = live.page
    if page is None:
        return live
    shown = replace(page, text=page.text.removesuffix(page.unsure))
    gap = "\n" if page.unsure and page.is_full else ""
    queue = join((Text(text=page.unsure + gap),) if page.unsure else (), live.queue)
    return replace(live, page=None, reopen=seal(shown)[1], queue=queue)


def wake_at(live: Live, now: float) -> float | None:
    """When to look again even if nothing happens; None: only when something does."""
    return min((moment for moment in _moments(live) if moment > now), default=None)


def _moments(live: Live) -> list[float]:
    """When something may become due."""
    moments = [live.not_before, _status_at(live)]
    if live.text.line:
        moments.append(_release_at(live))
    if live.outcome:
        moments += [live.over_at + patience for patience in (CLOSE_PATIENCE_SECONDS, OPEN_PATIENCE_SECONDS)]
        moments.append(live.over_at + GIVE_UP_SECONDS)
    if live.page:
        moments += [_due_at(live, live.page), live.page.opened_at + AGING_SECONDS, live.page.opened_at + OLD_SECONDS]
    return moments


def _next(live: Live, now: float) -> Step:
    if live.outcome and ((live.gives_up and live.page is None) or now >= live.over_at + GIVE_UP_SECONDS):
        return over(live)
    if live.page is None:
        return _begin(live, now)
    if live.page.mode is PageMode.POST:
        return _rewrite(live, live.page, now)
    if live.page.is_sealed:
        return _use(live, Slot.UPDATE, now, mend)
    return _grow(live, live.page, now)


def _begin(live: Live, now: float) -> Step:
    """Begin a message once there is something to see."""
    if live.gives_up:
        return live, ()
    if not is_visible(live.queue):
        return _finish(live, now) if live.outcome else (live, ())
    if live.mode is PageMode.POST:
        return _use(live, Slot.POST, now, post)
    if live.outcome and now >= live.over_at + OPEN_PATIENCE_SECONDS and Slot.OPEN not in live.granted:
        return over(live)
    return _use(live, Slot.OPEN, now, open_stream)


def _finish(live: Live, now: float) -> Step:
    """Nothing follows. What stands below an answer belongs below its last message, though that was ended before."""
    if live.ended is None or live.below_apart or live.closing == NOTHING_BELOW:
        return over(live)
    return _next(replace(live, page=replace(live.ended, is_sealed=True), ended=None), now)


def _grow(live: Live, page: AnswerPage, now: float) -> Step:
    """Append to a stream, or close it."""
    if not _must_close(live, page, now):
        return _use(live, Slot.APPEND, now, append) if _is_due(live, page, now) else (live, ())
    live, commands = _use(live, Slot.CLOSE, now, close)
    is_late = live.outcome is not None and now >= live.over_at + CLOSE_PATIENCE_SECONDS
    if live.flight or not is_late or page.is_full or page.is_doubted or not live.queue:
        return live, commands
    live, more = _use(live, Slot.APPEND, now, append)
    return live, (*commands, *more)


def _rewrite(live: Live, page: AnswerPage, now: float) -> Step:
    if live.outcome or page.is_full or _is_due(live, page, now):
        return _use(live, Slot.UPDATE, now, rewrite)
    return live, ()


def _must_close(live: Live, page: AnswerPage, now: float) -> bool:
    return live.outcome is not None or page.is_full or page.is_doubted or page.is_old(now)


def _is_due(live: Live, page: AnswerPage, now: float) -> bool:
    return bool(live.queue) and now >= _due_at(live, page)


def _due_at(live: Live, page: AnswerPage) -> float:
    """When what waits should be appended."""
    if page.sent_at is None or not live.queue:
        return 0.0
    if page.mode is PageMode.POST:
        return page.sent_at + (live.pace.line_update if live.urgent else live.pace.update)
    return page.sent_at + (live.pace.line if live.urgent else live.pace.append)


def _use(live: Live, slot: Slot, now: float, make: Make) -> Step:
    """Make a call if its turn has come, else ask for a turn, once."""
    if slot not in live.granted:
        if slot in live.asked:
            return live, ()
        return replace(live, asked=live.asked | {slot}), (AcquireSlot(slot=slot),)
    if now < live.not_before:
        return live, ()
    made, call = make(live, live.page, now)
    if call is None:
        return _next(made, now)
    return replace(made, granted=live.granted - {slot}), (call,)


def _status(live: Live, now: float) -> Step:
    """The status line: what the agent does until there is something of its answer to see."""
    is_wanted = bool(live.status) or live.status_wanted != live.status
    if live.is_over or not is_wanted or now < _status_at(live):
        return live, ()
    shown = replace(live, status=live.status_wanted, status_at=now)
    return shown, (SetStatus(text=live.status_wanted),)


def _status_at(live: Live) -> float:
    """When the status line is to be shown next: cleared at once, changed soon, else renewed."""
    if live.status_wanted == live.status:
        return live.status_at + STATUS_SECONDS
    return live.status_at + (STATUS_GAP_SECONDS if live.status_wanted else 0.0)
