"""The workspace's clock, which tests advance instead of sleeping."""

from slack_twin.testing.server import TwinServer


class TwinClock:
    """The clock of the workspace, for redelivery, rate limits and all other timing of Slack.

    The app's own clock is unaffected.
    """

    def __init__(self, server: TwinServer) -> None:
        self._server = server

    def now(self) -> float:
        """Returns the workspace's time in seconds since 1970."""
        return self.advance(0)

    def advance(self, seconds: float) -> float:
        """Advances the clock and returns the new time. Raises Refused for a negative number."""
        return float(self._server.ask("POST", "clock", {"advance_seconds": seconds})["now"])
