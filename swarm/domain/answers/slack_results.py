"""The reducer's input from Slack: the effect of each call's result on the answer. No refusal loses text.

`Meaning` groups Slack's error codes for https://docs.slack.dev/reference/methods/chat.startStream, chat.appendStream,
chat.stopStream, chat.postMessage and chat.update, and some undocumented codes (streams refused to a recipient, a
message that may not be changed).
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final, assert_never

from swarm.domain.answers.agent_events import end, stop
from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AppendStream,
    CloseStream,
    Command,
    Find,
    HangUp,
    OpenStream,
    PostPage,
    UpdatePage,
)
from swarm.domain.answers.events import RunFailed, RunStopped
from swarm.domain.answers.sending import end_display, without_page
from swarm.domain.answers.state import AnswerPage, Flight, Live, PageMode, is_visible, join, seal
from swarm.domain.model.deliveries import (
    ACCESS_CODES,
    PLACE_CODES,
    TOKEN_CODES,
    Answer,
    DeliveryAccepted,
    DeliveryRefused,
    InDoubt,
    NotSent,
)


class Meaning(StrEnum):
    """The meaning of a refusal for the answer being shown."""

    EXPIRED = "expired"  # Slack has ended the stream: the message stays, and chat.update can change it
    TOO_LONG = "too_long"  # the message is full: the remaining text belongs in another one
    STOPPED = "stopped"  # a person pressed Slack's own Stop: only closing the stream is still allowed
    MESSAGE_GONE = "message_gone"  # deleted, or no longer editable: the remaining text belongs in another one
    NOT_HERE = "not_here"  # the app cannot write in this thread, at least now: queued posts wait, or tell of the loss
    NO_STREAMS = "no_streams"  # no streams here, or not for this person: posts may still work
    OTHER = "other"  # a mistake in the call, or an unknown code


_TOO_LONG: Final = frozenset({"msg_blocks_too_long", "msg_blocks_too_many", "msg_too_long"})

_MESSAGE_GONE: Final = frozenset(
    {
        "block_mismatch",  # chat.update on a former stream, sometimes
        "cant_update_message",
        "edit_window_closed",
        "message_not_found",
        "message_not_owned_by_app",
    }
)

_NOT_HERE: Final = (
    PLACE_CODES
    | ACCESS_CODES
    | {
        "access_denied",
        "accesslimited",
        "cannot_reply_to_message",
        "external_channel_migrating",
        "invalid_thread_ts",
        "is_inactive",
        "message_limit_exceeded",
        "messages_tab_disabled",
        "no_permission",
        "not_authorized",
        "restricted_action",
        "restricted_action_non_threadable_channel",
        "restricted_action_read_only_channel",
        "restricted_action_thread_locked",
        "restricted_action_thread_only_channel",
        "thread_not_found",
        "two_factor_setup_required",
    }
)

_THREAD_GONE: Final = frozenset({"cannot_reply_to_message", "invalid_thread_ts", "thread_not_found"})

_NO_SUCH_METHOD: Final = frozenset(
    {
        "deprecated_endpoint",
        "enterprise_is_restricted",
        "feature_disabled",
        "feature_not_enabled",
        "is_bot",
        "method_deprecated",
        "missing_scope",
        "not_allowed_token_type",
        "unknown_method",
    }
)
"""The workspace or the app does not support the method for any recipient."""

_NOT_FOR_THIS_ONE: Final = frozenset(
    {
        "channel_type_not_supported",
        "method_not_supported_for_channel_type",
        "missing_recipient_team_id",
        "missing_recipient_user_id",
        "team_not_found",
        "user_not_found",
        "user_not_in_channel",
        "user_not_visible",
    }
)
"""The recipient is a bot, an external guest or unknown, or this kind of conversation has no streams."""

_MEANINGS: Final = {
    "message_not_in_streaming_state": Meaning.EXPIRED,
    "stopped_by_user": Meaning.STOPPED,
    **dict.fromkeys(_TOO_LONG, Meaning.TOO_LONG),
    **dict.fromkeys(_MESSAGE_GONE, Meaning.MESSAGE_GONE),
    **dict.fromkeys(_NOT_HERE, Meaning.NOT_HERE),
    **dict.fromkeys(_NO_SUCH_METHOD | _NOT_FOR_THIS_ONE, Meaning.NO_STREAMS),
}


def meaning(error: str) -> Meaning:
    """Returns the meaning of Slack's code, as in `DeliveryRefused.error`; OTHER for an unknown code."""
    return _MEANINGS.get(error, Meaning.OTHER)


def is_for_good(error: str) -> bool:
    """Whether Slack would refuse the method in the same way for everyone, so that a retry is useless."""
    return error in _NO_SUCH_METHOD


_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 8.0  # between attempts to reach Slack
_REPEAT_SECONDS: Final = 1.0
_DOUBT_SECONDS: Final = 0.1

MOST_DOUBTS: Final = 10
"""After this many consecutive calls with unknown outcomes (over 51 seconds), the remaining text is sent as queued
posts.
"""

_RATE_LIMITED: Final = "ratelimited"  # the reason in a `NotSent` with a waiting time from Slack
_STILL_LIVE: Final = "streaming_state_conflict"  # returned by chat.update

Step = tuple[Live, tuple[Command, ...]]


def take_result(live: Live, answer: Answer, now: float) -> Step:
    """Processes the result of the call in flight."""
    flight = live.flight
    assert flight is not None  # results belong to the call in flight
    match answer:
        case DeliveryAccepted(ts=ts):
            return _accepted(replace(live, doubts=0, unsent=0, held=False), flight, ts, now)
        case NotSent(reason=reason, retry_after_seconds=seconds):
            return _unsent(_undone(live, flight), reason, seconds, now), ()
        case InDoubt():
            return _doubted(live, flight, now)
        case DeliveryRefused(error=error):
            return _refused(replace(live, doubts=0, unsent=0), flight, error, now)
        case _:
            assert_never(answer)


def take_location(live: Live, ts: str | None, now: float) -> Step:
    """Processes the result of a search: the message's timestamp, or None if Slack never received the message."""
    flight = live.flight
    assert flight is not None  # the call stays in flight during its search
    live = replace(live, finds=False)
    return _accepted(live, flight, ts, now) if ts else (_undone(live, flight), ())


def _accepted(live: Live, flight: Flight, ts: str | None, now: float) -> Step:
    page = _landed(flight, ts, now)
    live = _done(live, flight, page)
    match flight.call:
        case AppendStream():
            return live, ()
        case OpenStream():
            return replace(live, status_wanted=""), ()
        case CloseStream(is_last=is_last):
            if page.is_doubted:
                return replace(live, page=replace(page, is_sealed=True, may_be_last=False)), ()
            return _page_is_over(live, is_last=is_last)
        case PostPage(is_last=is_last) | UpdatePage(is_last=is_last):
            live = replace(live, status_wanted="")
            goes_on = page.mode is PageMode.POST and not page.is_full and not is_last
            return (live, ()) if goes_on else _page_is_over(live, is_last=is_last)
        case _:
            assert_never(flight.call)


def _landed(flight: Flight, ts: str | None, now: float) -> AnswerPage:
    if isinstance(flight.call, OpenStream | PostPage):
        return replace(flight.page, ts=ts, opened_at=flight.at, sent_at=now)
    return replace(flight.page, sent_at=now)


def _page_is_over(live: Live, *, is_last: bool) -> Step:
    live = replace(live, page=None, ended=None if is_last else live.page)
    if not is_last:
        return live, ()
    return end_display(live if live.below_apart else replace(live, closing=NOTHING_BELOW))


def _done(live: Live, flight: Flight, page: AnswerPage | None) -> Live:
    """Ends the call in flight as successful: its content is shown."""
    return replace(
        live,
        flight=None,
        page=page,
        pages=flight.page.number,
        queue=join(flight.queue, live.later),
        later=(),
        reopen=flight.reopen,
    )


def _undone(live: Live, flight: Flight) -> Live:
    """Ends the call in flight as failed: it had no effect."""
    return replace(
        live,
        flight=None,
        page=flight.page_before,
        queue=join(flight.queue_before, live.later),
        later=(),
        reopen=flight.reopen_before,
    )


def _doubted(live: Live, flight: Flight, now: float) -> Step:
    """Handles an unknown outcome: searches for a new message, or closes and rewrites a growing one."""
    match flight.call:
        case OpenStream(page=page) | PostPage(page=page):
            return replace(live, finds=True), (Find(page=page),)
        case AppendStream() | CloseStream():
            return _doubted_stream(_done(live, flight, _in_doubt(flight, now)), now), ()
        case UpdatePage():
            live = _repeated_later(_undone(live, flight), now)
            return _useless(live, flight) if live.doubts >= MOST_DOUBTS else (live, ())
        case _:
            assert_never(flight.call)


def _doubted_stream(live: Live, now: float) -> Live:
    """Closes the stream again. After too many unknown outcomes the message stays unchanged."""
    live = _repeated_later(live, now)
    return replace(without_page(live), gives_up=True) if live.doubts >= MOST_DOUBTS else live


def _repeated_later(live: Live, now: float) -> Live:
    """Repeats a call with an unknown outcome after growing pauses, because a connection that is reset fails
    immediately.
    """
    pause = _DOUBT_SECONDS * 2**live.doubts
    return replace(live, doubts=live.doubts + 1, not_before=now + pause * live.spread)


def _unsent(live: Live, reason: str, seconds: float, now: float) -> Live:
    """Waits before the next call: as long as Slack's limit requires, otherwise with growing pauses."""
    if reason in TOKEN_CODES:  # the next slot is granted once Slack accepts the token again
        return replace(live, held=True)
    if reason == _RATE_LIMITED:
        return replace(live, not_before=now + max(seconds, _PAUSE_SECONDS))
    pause = min(max(seconds, _PAUSE_SECONDS) * 2**live.unsent, _LONGEST_PAUSE_SECONDS)
    return replace(live, unsent=live.unsent + 1, not_before=now + pause * live.spread)


def _in_doubt(flight: Flight, now: float) -> AnswerPage:
    before = flight.page_before
    assert before is not None  # the call made this message grow
    unsure = before.unsure if before.is_doubted else flight.page.text[len(before.text) :]
    may_be_last = isinstance(flight.call, CloseStream) and (flight.call.is_last or before.may_be_last)
    return replace(flight.page, is_doubted=True, unsure=unsure, may_be_last=may_be_last, sent_at=now)


def _refused(live: Live, flight: Flight, error: str, now: float) -> Step:
    before = flight.page_before
    if error == _STILL_LIVE and before and (before.unsure or before.may_be_last):  # no close has taken effect
        return _close_again(_undone(live, flight), now), ()
    match meaning(error):
        case Meaning.EXPIRED:
            return _expired(live, flight, now)
        case Meaning.TOO_LONG:
            return _too_long(live, flight)
        case Meaning.STOPPED:
            return _stopped(live, flight, now)
        case Meaning.MESSAGE_GONE:
            return _message_gone(live, flight, now)
        case Meaning.NOT_HERE if error in _THREAD_GONE:
            return _thread_gone(live, flight, error, now)
        case Meaning.NOT_HERE:
            return replace(without_page(_undone(live, flight)), gives_up=True), ()
        case Meaning.NO_STREAMS | Meaning.OTHER:
            return _useless(_undone(live, flight), flight)


def _close_again(live: Live, now: float) -> Live:
    """Closes the stream once more, because only a closed stream can be updated. Slack eventually ends it
    automatically.
    """
    assert live.page is not None  # its update was refused
    return replace(live, page=replace(live.page, is_sealed=False), not_before=now + _REPEAT_SECONDS)


def _expired(live: Live, flight: Flight, now: float) -> Step:
    """Handles a stream that Slack has ended. The accepted text stays; the rest goes into another message, or into an
    update if the stream was ended while Slack refused the token.
    """
    if not isinstance(flight.call, CloseStream) and not (live.held and isinstance(flight.call, AppendStream)):
        return without_page(_undone(live, flight)), ()
    is_ours = flight.page_before is not None and flight.page_before.may_be_last
    page = replace(_in_doubt(flight, now), is_sealed=True, may_be_last=is_ours)
    return _done(live, flight, page), ()


def _too_long(live: Live, flight: Flight) -> Step:
    """Handles a message that is full earlier than calculated. A message that accepts no text is given up."""
    live, page = _undone(live, flight), flight.page_before
    carries = isinstance(flight.call, AppendStream | CloseStream) and bool(flight.call.chunks)
    if page and carries and page.is_full and page.closed:  # not even the end of its code block fits
        return _full(live, is_closed=False), ()
    if page and carries and not page.is_full and (page.text or page.cards):
        return _full(live), ()
    if isinstance(flight.call, CloseStream) and flight.call.closing != NOTHING_BELOW:
        return replace(live, below_apart=True), ()
    return _useless(live, flight)


def _stopped(live: Live, flight: Flight, now: float) -> Step:
    """Handles Slack's own Stop: only the closing blocks are still shown."""
    live = _undone(live, flight)
    if live.outcome and not isinstance(live.outcome, RunStopped):
        live = end(replace(live, outcome=None), RunStopped(by=None), now)
        commands: tuple[Command, ...] = ()
    else:
        live, commands = stop(live, None, now)
    live = replace(live, queue=())
    if isinstance(flight.call, CloseStream) and live.page:
        live = replace(live, page=replace(live.page, is_doubted=True, is_sealed=True))
    return live, commands


def _message_gone(live: Live, flight: Flight, now: float) -> Step:
    """Handles a message that was deleted while growing, which counts as a Stop. A refused update loses only its own
    content.
    """
    live = _undone(live, flight)
    if isinstance(flight.call, UpdatePage):
        return _unmended(live) if live.page and live.page.may_be_last else (without_page(live), ())
    live = replace(live, page=None, queue=(), reopen="")
    if live.outcome:
        return end_display(replace(live, closing=NOTHING_BELOW))
    live, commands = stop(live, None, now)
    return replace(live, queue=()), commands


def _thread_gone(live: Live, flight: Flight, error: str, now: float) -> Step:
    """Handles a thread that is gone for good: the answer ends silently. Unsent text makes the run a failure."""
    live = _undone(live, flight)
    hang: tuple[Command, ...] = () if live.outcome else (HangUp(),)
    if live.outcome is None or (is_visible(live.queue) and not isinstance(live.outcome, RunStopped)):
        live = end(live, RunFailed(reason=f"Slack does not allow the app to write there ({error})"), now)
    live, commands = end_display(replace(live, page=None, queue=(), closing=NOTHING_BELOW))
    return live, (*hang, *commands)


def _useless(live: Live, flight: Flight) -> Step:
    """Handles a refusal for an unknown reason: tries another kind of call, and finally queued posts."""
    match flight.call:
        case OpenStream():
            return replace(live, mode=PageMode.POST), ()
        case AppendStream():
            return replace(_full(live), gives_up=True), ()
        case CloseStream(chunks=chunks, closing=closing) if chunks or closing != NOTHING_BELOW:
            live = _full(live, is_closed=False)  # an empty close may still succeed
            return replace(live, below_apart=live.below_apart or closing != NOTHING_BELOW), ()
        case CloseStream() if live.page and live.page.is_doubted:
            return replace(live, page=replace(live.page, is_sealed=True)), ()
        case CloseStream() if live.page:  # once more, and then by an update
            return replace(live, page=replace(live.page, is_doubted=True)), ()
        case UpdatePage() if live.page and live.page.may_be_last:
            return _unmended(live)
        case CloseStream() | PostPage() | UpdatePage():
            return replace(without_page(live), gives_up=True), ()
        case _:
            assert_never(flight.call)


def _unmended(live: Live) -> Step:
    """Handles a closing call with an unknown outcome whose stream has since ended: the call has taken effect."""
    return end_display(replace(live, page=None, queue=(), closing=NOTHING_BELOW))


def _full(live: Live, *, is_closed: bool = True) -> Live:
    """Marks the current message as full. Without ``is_closed`` even the end of its code block did not fit."""
    assert live.page is not None  # the refused call concerned this message
    closed, reopen = (live.page.closed, live.reopen) if live.page.is_full else seal(live.page)
    return replace(live, page=replace(live.page, is_full=True, closed=closed if is_closed else ""), reopen=reopen)
