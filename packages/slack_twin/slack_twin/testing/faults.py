"""What goes wrong on demand. Each fault meets the next `times` calls or events that it concerns.

`method` is one of the Web API, `event` the type or subtype of an event, `app` a name; without them a fault concerns
any. All raise Refused for a method or app that does not exist.
"""

from slack_twin.faults import FaultKind
from slack_twin.testing.server import TwinServer, given


class TwinFaults:
    """One method for each kind of fault."""

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
        """The call is refused with `Retry-After`, 1 s unless told otherwise, and not performed."""
        self._plan(FaultKind.HTTP_429, method=method, app=app, times=times, seconds=retry_after_seconds)

    def http_500(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """The call fails and is not performed."""
        self._plan(FaultKind.HTTP_500, method=method, app=app, times=times)

    def error(self, code: str, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """The call is answered with an error code of Slack's, as `channel_not_found`, and not performed."""
        self._plan(FaultKind.ERROR, method=method, app=app, times=times, error=code)

    def cut_after_accept(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """The call is performed, then the connection is cut without an answer."""
        self._plan(FaultKind.CUT_AFTER_ACCEPT, method=method, app=app, times=times)

    def expire_stream(self, *, method: str | None = None, app: str | None = None, times: int = 1) -> None:
        """Streams that are open end now; with `method` the one that the next such call is about ends before it."""
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
        """The call is performed and answered late, or the event is sent late, by the workspace's clock."""
        self._plan(FaultKind.DELAY, method=method, event=event, app=app, times=times, seconds=seconds)

    def drop_ack(self, *, event: str | None = None, app: str | None = None, times: int = 1) -> None:
        """The event is sent and its acknowledgement lost: after 3 s it comes again."""
        self._plan(FaultKind.DROP_ACK, event=event, app=app, times=times)

    def duplicate(self, *, event: str | None = None, app: str | None = None, times: int = 1) -> None:
        """The event is sent twice, with one `event_id`."""
        self._plan(FaultKind.DUPLICATE, event=event, app=app, times=times)

    def reorder(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, seconds: float | None = None
    ) -> None:
        """The event is sent after the app's next one, or after so many seconds (3)."""
        self._plan(FaultKind.REORDER, event=event, app=app, times=times, seconds=seconds)

    def close_socket(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, reason: str | None = None
    ) -> None:
        """The connection that would get the event is closed instead; without `event` all connections are, now.

        With a reason, as `refresh_requested`, the app is asked to connect anew and the connection closed 10 s later.
        """
        self._plan(FaultKind.CLOSE_SOCKET, event=event, app=app, times=times, error=reason)

    def silent_socket(
        self, *, event: str | None = None, app: str | None = None, times: int = 1, seconds: float | None = None
    ) -> None:
        """The app's connections stay open and get nothing, for so many seconds or until `clear`."""
        self._plan(FaultKind.SILENT_SOCKET, event=event, app=app, times=times, seconds=seconds)

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._server.ask("DELETE", "faults")

    def _plan(self, kind: FaultKind, **about: object) -> None:
        self._server.ask("POST", "faults", given(kind=kind.value, **about))
