"""Faults injected on demand. Each fault affects the next `times` calls or events that match.

`method` is a method of the Web API, `event` the type or subtype of an event, and `app` a name; an omitted argument
matches everything. All methods raise Refused for an unknown method or app.
"""

from slack_twin.faults import FaultKind
from slack_twin.testing.server import TwinServer, given


class TwinFaults:
    """Injects faults, with one method for each kind of fault."""

    def __init__(self, server: TwinServer) -> None:
        self._server = server

    def http_429(
        self,
        *,
        method: str | None = None,
        app: str | None = None,
        times: int = 1,
        retry_after_seconds: float | None = None,
    ) -> None:
        """Refuses the call with `Retry-After` (1 s by default) and does not perform it."""
        self._plan(FaultKind.HTTP_429, method=method, app=app, times=times, seconds=retry_after_seconds)

    def http_500(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Fails the call and does not perform it."""
        self._plan(FaultKind.HTTP_500, method=method, app=app, times=times)

    def error(self, code: str, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Answers the call with one of Slack's error codes, such as `channel_not_found`, and does not perform it."""
        self._plan(FaultKind.ERROR, method=method, app=app, times=times, error=code)

    def cut_after_accept(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Performs the call, then resets the connection without a response."""
        self._plan(FaultKind.CUT_AFTER_ACCEPT, method=method, app=app, times=times)

    def expire_stream(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Expires all open streams immediately.

        With `method`, expires the stream of the next such call just before the call.
        """
        self._plan(FaultKind.EXPIRE_STREAM, method=method, app=app, times=times)

    def delay(
        self,
        seconds: float,
        *,
        method: str | None = None,
        event: str | None = None,
        app: str | None = None,
        times: int = 1,
    ) -> None:
        """Performs the call and delays its response, or delays the event, by the workspace's clock."""
        self._plan(FaultKind.DELAY, method=method, event=event, app=app, times=times, seconds=seconds)

    def drop_ack(self, *, event: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Sends the event and ignores its acknowledgement, so that the event is sent again after 3 s."""
        self._plan(FaultKind.DROP_ACK, event=event, app=app, times=times)

    def duplicate(self, *, event: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Sends the event twice with the same `event_id`."""
        self._plan(FaultKind.DUPLICATE, event=event, app=app, times=times)

    def reorder(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, seconds: float | None = None
    ) -> None:
        """Sends the event after the app's next event, or after `seconds` (3)."""
        self._plan(FaultKind.REORDER, event=event, app=app, times=times, seconds=seconds)

    def close_socket(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, reason: str | None = None
    ) -> None:
        """Closes the connection chosen for the event instead of sending it.

        Without `event`, closes all connections immediately.

        With a reason such as `refresh_requested`, asks the app to reconnect and closes the connection 10 s later.
        """
        self._plan(FaultKind.CLOSE_SOCKET, event=event, app=app, times=times, error=reason)

    def silent_socket(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, seconds: float | None = None
    ) -> None:
        """Keeps the app's connections open but sends nothing, for `seconds` or until `clear` is called."""
        self._plan(FaultKind.SILENT_SOCKET, event=event, app=app, times=times, seconds=seconds)

    def clear(self) -> None:
        """Removes all faults."""
        self._server.ask("DELETE", "faults")

    def _plan(self, kind: FaultKind, **about: object) -> None:
        self._server.ask("POST", "faults", given(kind=kind.value, **about))
