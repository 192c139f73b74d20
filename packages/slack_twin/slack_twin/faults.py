"""Faults on demand: what a test tells the twin to do wrong, a given number of times."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What goes wrong. `delay` is for calls and for events alike."""

    # For events on their way to an app.
    DROP_ACK = "drop_ack"  # the event is sent, its acknowledgement ignored
    DUPLICATE = "duplicate"  # the event is sent twice, with one event_id
    REORDER = "reorder"  # the event is sent after the next one of the same app
    CLOSE_SOCKET = "close_socket"  # the connection that would have got the event is closed instead
    SILENT_SOCKET = "silent_socket"  # the connection stays open and gets no events any more
    # For calls of the Web API.
    CUT_AFTER_ACCEPT = "cut_after_accept"  # the call is performed, then the connection cut without an answer
    HTTP_429 = "http_429"  # refused with Retry-After; not performed
    HTTP_500 = "http_500"  # not performed
    ERROR = "error"  # answers the given error code; not performed
    EXPIRE_STREAM = "expire_stream"  # the stream that the call is about has ended just before
    # For both.
    DELAY = "delay"  # the answer, or the event, comes `seconds` later on the twin's clock


CALL_KINDS = frozenset(
    {
        FaultKind.CUT_AFTER_ACCEPT,
        FaultKind.HTTP_429,
        FaultKind.HTTP_500,
        FaultKind.ERROR,
        FaultKind.DELAY,
        FaultKind.EXPIRE_STREAM,
    }
)
# The calls that a stream can have ended before.
STREAM_METHODS = frozenset({"chat.appendStream", "chat.stopStream"})
EVENT_KINDS = frozenset(
    {
        FaultKind.DROP_ACK,
        FaultKind.DUPLICATE,
        FaultKind.REORDER,
        FaultKind.CLOSE_SOCKET,
        FaultKind.SILENT_SOCKET,
        FaultKind.DELAY,
    }
)
# Without a method or event these act on the open connections at once.
SOCKET_KINDS = frozenset({FaultKind.CLOSE_SOCKET, FaultKind.SILENT_SOCKET})


@dataclass(kw_only=True)
class Fault:
    """A planned fault; `left` counts down to nothing."""

    id: int
    kind: FaultKind
    method: str | None = None  # of the Web API; None for any
    event: str | None = None  # its type or subtype; None for any
    app: str | None = None  # the app's id; None for any
    error: str | None = None
    seconds: float | None = None
    left: int = 1

    def concerns_call(self, method: str, app_id: str | None) -> bool:
        if self.kind is FaultKind.EXPIRE_STREAM and method not in STREAM_METHODS:
            return False
        return self.kind in CALL_KINDS and self.event is None and self.method in (None, method) and self._is(app_id)

    def concerns_event(self, names: Iterable[str | None], app_id: str) -> bool:
        wanted = self.event is None or self.event in names
        return self.kind in EVENT_KINDS and self.method is None and wanted and self._is(app_id)

    def _is(self, app_id: str | None) -> bool:
        return self.app in (None, app_id)


class Faults:
    """The planned faults, oldest first: each call or event meets at most one."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._planned: list[Fault] = []

    def plan(
        self,
        kind: FaultKind,
        *,
        method: str | None = None,
        event: str | None = None,
        app: str | None = None,
        error: str | None = None,
        seconds: float | None = None,
        times: int = 1,
    ) -> Fault:
        """Plan a fault for the next `times` calls or events that it concerns."""
        fault = Fault(
            id=next(self._ids), kind=kind, method=method, event=event, app=app, error=error, seconds=seconds, left=times
        )
        self._planned.append(fault)
        return fault

    def cancel(self, fault: Fault) -> None:
        self._planned.remove(fault)

    def clear(self) -> None:
        self._planned.clear()

    def for_call(self, method: str, app_id: str | None) -> Fault | None:
        return self._use(next((f for f in self._planned if f.concerns_call(method, app_id)), None))

    def for_event(self, names: Iterable[str | None], app_id: str) -> Fault | None:
        known = tuple(names)
        return self._use(next((f for f in self._planned if f.concerns_event(known, app_id)), None))

    def _use(self, fault: Fault | None) -> Fault | None:
        if fault is not None:
            fault.left -= 1
            if fault.left <= 0:
                self._planned.remove(fault)
        return fault
