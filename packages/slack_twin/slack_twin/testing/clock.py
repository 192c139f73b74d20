"""The workspace's clock: a test moves it instead of sleeping."""

from slack_twin.testing.server import TwinServer


class TwinClock:
    """Redelivery, rate limits and everything else that Slack does over time follow it; the app's clock does not."""

    def __init__(self, server: TwinServer) -> None:
        self._server = server

    def now(self) -> float:
        """Seconds since 1970."""
        return self.advance(0)

    def advance(self, seconds: float) -> float:
        """Let time pass; the new time. Raises Refused for a negative number."""
        return float(self._server.ask("POST", "clock", {"advance_seconds": seconds})["now"])
