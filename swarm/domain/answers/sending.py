"""Chooses the reducer's next Slack call and its content.

At most one call is in flight. Its content is chosen only when its slot is granted: the longer an answer waits, the more
text is sent in one call.
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
    PageBreak,
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
    before_break,
    fill,
    is_visible,
    join,
    leave,
    seal,
    text_of,
    with_changed_cards,
    without_empty_code,
)

Made = tuple[Live, StreamCall | None]
"""The state with its call in flight. The call is None if there was nothing to send."""

Make = Callable[[Live, AnswerPage | None, float], Made]


def _open_stream(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Starts a message as a stream."""
    live = without_empty_code(live)
    filled = _first(live, PageMode.STREAM, now)
    if not filled.chunks:  # a table that no stream takes; a post shows it as code
        return replace(live, mode=PageMode.POST), None
    call = OpenStream(page=filled.page.number, chunks=filled.chunks)
    return _off(live, call, filled, now), call


def _post(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Starts a message as a post, which later calls update."""
    live = without_empty_code(live)
    filled = _first(live, PageMode.POST, now)
    is_last, below = _below(live, filled)
    call = PostPage(
        page=filled.page.number, text=_shown(filled.page), cards=filled.page.cards, closing=below, is_last=is_last
    )
    return _off(live, call, filled, now), call


def _append(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Appends as much text as fits to a stream."""
    page = _grown(page)
    filled = fill(page, live.queue, now)
    if not filled.chunks:  # no room is left, so the message must be closed first
        return replace(live, page=filled.page, queue=filled.rest, reopen=filled.reopen), None
    call = AppendStream(page=page.number, ts=page.ts or "", chunks=filled.chunks, before=page.text)
    return _off(live, call, filled, now), call


def _close_stream(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Closes a stream, at the end of the run with all remaining text if it fits."""
    page = _grown(page)
    if page.is_doubted:
        return _close(live, Filled(page=page, chunks=(), rest=live.queue, reopen=live.reopen), now)
    if page.is_full:
        return _close(live, with_changed_cards(Filled(page=page, chunks=(), rest=live.queue, reopen=live.reopen)), now)
    if live.outcome is None and not _has_break(live):  # the stream is old, or others read along
        closed, reopen = seal(page)
        as_it_is = Filled(page=replace(page, closed=closed), chunks=(), rest=live.queue, reopen=reopen)
        return _close(live, leave(page, live.queue) or with_changed_cards(as_it_is), now)
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
    )
    return _off(live, call, filled, now), call


def _update_post(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Updates a post with its new text."""
    filled = fill(_grown(page), live.queue, now)
    is_last, below = _below(live, filled)
    call = _update(filled.page, _shown(filled.page), below, is_last=is_last)
    return _off(live, call, filled, now), call


def _mend(live: Live, page: AnswerPage | None, now: float) -> Made:
    """Rewrites an ended stream that may lack its last text, and adds as much new text as fits."""
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


def _has_break(live: Live) -> bool:
    """Whether the current message ends at a page break."""
    return any(isinstance(chunk, PageBreak) for chunk in live.queue)


def _first(live: Live, mode: PageMode, now: float) -> Filled:
    return fill(AnswerPage(number=live.pages + 1, mode=mode), (Text(text=live.reopen), *live.queue), now)


def _update(page: AnswerPage, text: str, below: Closing, *, is_last: bool) -> UpdatePage:
    return UpdatePage(page=page.number, ts=page.ts or "", text=text, cards=page.cards, closing=below, is_last=is_last)


def _below(live: Live, filled: Filled) -> tuple[bool, Closing]:
    """Returns whether the message is the answer's last one, and the blocks below it."""
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
    assert page is not None  # only called while a message grows
    return page


OPEN_PATIENCE_SECONDS: Final = 2.0
"""After this time, a complete answer that still waits for a stream is posted instead."""

AWAITED_PATIENCE_SECONDS: Final = 10.0
"""The same if a message waits for the text, which would be posted below that message."""

CLOSE_PATIENCE_SECONDS: Final = 1.0
"""After this time, the end of an answer is appended while its close still waits for a slot."""

GIVE_UP_SECONDS: Final = 90.0
"""After this time since the end of the run, unsent text is left to queued posts."""

STATUS_SECONDS: Final = 90.0
"""The interval for renewing a status line. Slack removes it after two minutes."""

STATUS_GAP_SECONDS: Final = 1.0

HOLD_SECONDS: Final = 0.2
"""After this time, an unfinished word is shown, except for a part that may become a mention, a link or code."""

Step = tuple[Live, tuple[Command, ...]]


def advance(live: Live, now: float) -> Step:
    """Returns the commands that are due now."""
    live = _released(live, now)
    live, status = _status(live, now)
    if live.flight or live.is_over:
        return live, status
    live, commands = _next(live, now)
    return live, (*status, *commands)


def _released(live: Live, now: float) -> Live:
    """Releases text held back for too long if its meaning is certain."""
    if not live.text.line or live.outcome or now < _release_at(live):
        return live
    state, settled = live.text.release()
    return replace(live, text=state).queued(Text(text=settled)) if settled else live


def _release_at(live: Live) -> float:
    is_first = not (live.pages or live.flight or live.queue)
    return live.held_since + (0.0 if is_first else HOLD_SECONDS)


def end_display(live: Live) -> Step:
    """Ends the answer; unsent text is handed over in `Over`. The status line is cleared with the end of the run."""
    live = without_empty_code(without_page(live))
    text = text_of(live.queue)
    leftover = live.reopen + text if text.strip() else ""
    done = replace(live, is_over=True, flight=None, finds=False, queue=(), status_wanted="", status="")
    return done, (Over(leftover=leftover, closing=live.closing),)


def without_page(live: Live) -> Live:
    """Closes the current Slack message unchanged, and moves all unsent or unconfirmed text to a new message."""
    page = live.page
    if page is None:
        return live
    shown = replace(page, text=page.text.removesuffix(page.unsure))
    gap = "\n" if page.unsure and page.is_full else ""
    queue = join((Text(text=page.unsure + gap),) if page.unsure else (), live.queue)
    return replace(live, page=None, reopen=seal(shown)[1], queue=queue)


def wake_at(live: Live, now: float) -> float | None:
    """Returns the time of the next step without input; None if only input can change anything."""
    return min((moment for moment in _moments(live) if moment > now), default=None)


def _moments(live: Live) -> list[float]:
    """Returns all times at which a call may become due."""
    moments = [live.not_before, _status_at(live)]
    if live.text.line:
        moments.append(_release_at(live))
    if live.outcome:
        moments += [live.over_at + patience for patience in (CLOSE_PATIENCE_SECONDS, _open_patience(live))]
        moments.append(live.over_at + GIVE_UP_SECONDS)
    if live.page:
        moments += [_due_at(live, live.page), live.page.opened_at + AGING_SECONDS, live.page.opened_at + OLD_SECONDS]
    return moments


def _next(live: Live, now: float) -> Step:
    is_late = live.outcome is not None and not live.held and now >= live.over_at + GIVE_UP_SECONDS
    if live.outcome and ((live.gives_up and live.page is None) or is_late):
        return end_display(live)
    if live.page is None:
        return _begin(live, now)
    if live.page.mode is PageMode.POST:
        return _rewrite(live, live.page, now)
    if live.page.is_sealed:
        return _use(live, Slot.UPDATE, now, _mend)
    return _grow(live, live.page, now)


def _begin(live: Live, now: float) -> Step:
    """Starts a message once the queue has visible content."""
    if live.gives_up:
        return live, ()
    if not is_visible(before_break(live.queue)) and _has_break(live):
        return _pass(live, now)
    if not is_visible(live.queue):
        return _finish(live, now) if live.outcome else (live, ())
    if live.mode is PageMode.POST:
        return _use(live, Slot.POST, now, _post)
    if live.outcome and now >= live.over_at + _open_patience(live) and Slot.OPEN not in live.granted:
        return end_display(live)
    return _use(live, Slot.OPEN, now, _open_stream)


def _pass(live: Live, now: float) -> Step:
    """Goes on after a page break, once the message there has been posted. Blank lines around it are left out."""
    place = len(before_break(live.queue))
    the_break, rest = live.queue[place], live.queue[place + 1 :]
    assert isinstance(the_break, PageBreak)  # `_has_break`
    if the_break.number > live.passed_breaks and (is_visible(rest) or not live.outcome):
        return live, ()
    titles = tuple(chunk for chunk in live.queue[:place] if not isinstance(chunk, Text))
    return _next(replace(live, queue=(*titles, *rest)), now)


def _open_patience(live: Live) -> float:
    return AWAITED_PATIENCE_SECONDS if live.breaks else OPEN_PATIENCE_SECONDS


def _finish(live: Live, now: float) -> Step:
    """Ends the answer. Missing closing blocks are added below the last message by an update."""
    if live.ended is None or live.below_apart or live.closing == NOTHING_BELOW:
        return end_display(live)
    return _next(replace(live, page=replace(live.ended, is_sealed=True), ended=None), now)


def _grow(live: Live, page: AnswerPage, now: float) -> Step:
    """Appends to a stream or closes it."""
    if not _must_close(live, page, now):
        return _use(live, Slot.APPEND, now, _append) if _is_due(live, page, now) else (live, ())
    live, commands = _use(live, Slot.CLOSE, now, _close_stream)
    is_late = live.outcome is not None and now >= live.over_at + CLOSE_PATIENCE_SECONDS
    if live.flight or not is_late or page.is_full or page.is_doubted or not live.queue:
        return live, commands
    live, more = _use(live, Slot.APPEND, now, _append)
    return live, (*commands, *more)


def _rewrite(live: Live, page: AnswerPage, now: float) -> Step:
    if live.outcome or page.is_full or _is_due(live, page, now):
        return _use(live, Slot.UPDATE, now, _update_post)
    return live, ()


def _must_close(live: Live, page: AnswerPage, now: float) -> bool:
    is_over = live.outcome is not None or page.is_full or page.is_doubted or page.is_old(now) or _has_break(live)
    return is_over or (live.mode is PageMode.POST and leave(page, live.queue) is not None)  # it goes on for everybody


def _is_due(live: Live, page: AnswerPage, now: float) -> bool:
    return bool(live.queue) and now >= _due_at(live, page)


def _due_at(live: Live, page: AnswerPage) -> float:
    """Returns the time of the next append."""
    if page.sent_at is None or not live.queue or _has_break(live):
        return 0.0
    if page.mode is PageMode.POST:
        return page.sent_at + live.pace.update * live.growing_posts
    return page.sent_at + (live.pace.line if live.urgent else live.pace.append)


def _use(live: Live, slot: Slot, now: float, make: Make) -> Step:
    """Makes a call if its slot is granted; otherwise requests the slot once."""
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
    """Updates the status line, which shows the agent's activity until its first text is visible."""
    is_wanted = bool(live.status) or live.status_wanted != live.status
    if live.is_over or not is_wanted or now < _status_at(live):
        return live, ()
    shown = replace(live, status=live.status_wanted, status_at=now)
    return shown, (SetStatus(text=live.status_wanted),)


def _status_at(live: Live) -> float:
    """Returns the time of the next status call: a clear is immediate, a change waits briefly, and a renewal waits
    longest.
    """
    if live.status_wanted == live.status:
        return live.status_at + STATUS_SECONDS
    return live.status_at + (STATUS_GAP_SECONDS if live.status_wanted else 0.0)
