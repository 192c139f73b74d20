"""A test's connection to its workspace, shared by all objects of the testing API."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slack_twin.testing.errors import NotInTime, NotTaken
from slack_twin.testing.journals import told
from slack_twin.testing.server import TwinServer
from slack_twin.testing.waiting import Steps

__tracebackhide__ = True  # hides this module in tracebacks of failing tests

# Changes of the workspace wake waiting calls. An acknowledgement changes nothing there, so it is seen after this
# interval.
_LOOK_EVERY_SECONDS = 0.05

Seen = TypeVar("Seen")


@dataclass(frozen=True, kw_only=True)
class Line:
    """The server of a workspace, and the default time limit of waits."""

    server: TwinServer
    timeout_seconds: float

    def until(self, look: Callable[[], Seen | None], what: str, timeout_seconds: float | None) -> Steps[Seen]:
        """Calls `look` after each change until it returns a true value. Raises NotInTime."""
        patience = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + patience
        notices = self.server.notices
        while True:
            count = notices.count  # read before `look`, so that no change in between is missed
            seen = look()
            left = deadline - time.monotonic()
            if seen:
                return seen
            if left <= 0:
                raise NotInTime(f"Waited {patience:g} s for {what}; last seen: {seen!r}.\n{told(self.server)}")
            yield self.server.submit(notices.after(count, within_seconds=min(left, _LOOK_EVERY_SECONDS)))

    def act(self, path: str, body: dict[str, object], what: str) -> Steps[dict[str, str]]:
        """Performs an action that an app must acknowledge. Returns the app's errors by block.

        Raises NotTaken or Refused.
        """
        outcome = yield self.server.asking("POST", path, body)
        complaints = dict(outcome.get("errors", {}))
        if not outcome["ok"] and not complaints:
            raise NotTaken(f"{what}: {outcome['error']}.\n{told(self.server)}")
        return complaints
