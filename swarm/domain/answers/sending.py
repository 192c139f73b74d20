"""The half of the reducer that decides which call of Slack comes next.

At most one call is under way. What it carries is chosen only when its turn has come, so the longer an answer has to
wait for its turn, the more goes into one call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from swarm.domain.answers import making
from swarm.domain.answers.calls import NOTHING_BELOW, AcquireSlot, Command, Over, SetStatus, Slot, Text
from swarm.domain.answers.making import Make
from swarm.domain.answers.pages import AGING_SECONDS, OLD_SECONDS, AnswerPage, PageMode, seal
from swarm.domain.answers.state import Live, is_visible, join, text_of, without_empty_code

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
        return _use(live, Slot.UPDATE, now, making.mend)
    return _grow(live, live.page, now)


def _begin(live: Live, now: float) -> Step:
    """Begin a message once there is something to see."""
    if live.gives_up:
        return live, ()
    if not is_visible(live.queue):
        return _finish(live, now) if live.outcome else (live, ())
    if live.mode is PageMode.POST:
        return _use(live, Slot.POST, now, making.post)
    if live.outcome and now >= live.over_at + OPEN_PATIENCE_SECONDS and Slot.OPEN not in live.granted:
        return over(live)
    return _use(live, Slot.OPEN, now, making.open_stream)


def _finish(live: Live, now: float) -> Step:
    """Nothing follows. What stands below an answer belongs below its last message, though that was ended before."""
    if live.ended is None or live.below_apart or live.closing == NOTHING_BELOW:
        return over(live)
    return _next(replace(live, page=replace(live.ended, is_sealed=True), ended=None), now)


def _grow(live: Live, page: AnswerPage, now: float) -> Step:
    """Append to a stream, or close it."""
    if not _must_close(live, page, now):
        return _use(live, Slot.APPEND, now, making.append) if _is_due(live, page, now) else (live, ())
    live, commands = _use(live, Slot.CLOSE, now, making.close)
    is_late = live.outcome is not None and now >= live.over_at + CLOSE_PATIENCE_SECONDS
    if live.flight or not is_late or page.is_full or page.is_doubted or not live.queue:
        return live, commands
    live, more = _use(live, Slot.APPEND, now, making.append)
    return live, (*commands, *more)


def _rewrite(live: Live, page: AnswerPage, now: float) -> Step:
    if live.outcome or page.is_full or _is_due(live, page, now):
        return _use(live, Slot.UPDATE, now, making.rewrite)
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
