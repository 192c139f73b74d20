"""Faults on demand, which a test plans for a number of calls or events."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """The kinds of faults. `delay` applies to calls and to events."""

    # Faults of events on their way to an app.
    DROP_ACK = "drop_ack"  # sends the event and ignores its acknowledgement
    DUPLICATE = "duplicate"  # sends the event twice with the same event_id
    REORDER = "reorder"  # sends the event after the app's next event
    CLOSE_SOCKET = "close_socket"  # closes the connection chosen for the event instead of sending it
    SILENT_SOCKET = "silent_socket"  # keeps the connection open but sends no more events
    # Faults of Web API calls.
    CUT_AFTER_ACCEPT = "cut_after_accept"  # performs the call, then resets the connection without a response
    HTTP_429 = "http_429"  # refuses the call with Retry-After and does not perform it
    HTTP_500 = "http_500"  # does not perform the call
    ERROR = "error"  # answers with the given error code and does not perform the call
    EXPIRE_STREAM = "expire_stream"  # expires the stream of the call just before the call
    # Faults of calls and events.
    DELAY = "delay"  # delays the response or the event by `seconds` of the twin's clock


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
# The methods whose streams can expire just before the call.
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
# Without a method or event, these affect the open connections immediately.
SOCKET_KINDS = frozenset({FaultKind.CLOSE_SOCKET, FaultKind.SILENT_SOCKET})


@dataclass(kw_only=True)
class Fault:
    """A planned fault; `left` is the remaining number of times."""

    id: int
    kind: FaultKind
    method: str | None = None  # of the Web API; None matches any method
    event: str | None = None  # its type or subtype; None matches any event
    app: str | None = None  # the app's id; None matches any app
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
    """The planned faults, oldest first. Each call or event triggers at most one."""

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
        """Plans a fault for the next `times` calls or events that match."""
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
