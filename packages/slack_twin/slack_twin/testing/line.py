"""A test's line to its workspace, which all handles share: ask, do, and wait."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slack_twin.testing.errors import NotInTime, NotTaken
from slack_twin.testing.journals import told
from slack_twin.testing.server import TwinServer
from slack_twin.testing.waiting import Steps

__tracebackhide__ = True  # a failing test shows its own lines

# Changes wake those who wait. What changes nothing in the workspace, as an acknowledgement, is seen this much later.
_LOOK_EVERY_SECONDS = 0.05

Seen = TypeVar("Seen")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Whom to ask, and how long to wait where a test does not say."""

    server: TwinServer
    timeout_seconds: float

    def until(self, look: Callable[[], Seen | None], what: str, timeout_seconds: float | None) -> Steps[Seen]:
        """Look again after everything that happens, until what is seen is true. Raises NotInTime."""
        patience = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + patience
        notices = self.server.notices
        while True:
            count = notices.count  # before looking, so that nothing happens in between unseen
            seen = look()
            left = deadline - time.monotonic()
            if seen:
                return seen
            if left <= 0:
                raise NotInTime(f"Waited {patience:g} s for {what}; last seen: {seen!r}.\n{told(self.server)}")
            yield self.server.submit(notices.after(count, within_seconds=min(left, _LOOK_EVERY_SECONDS)))

    def act(self, path: str, body: dict[str, object], what: str) -> Steps[dict[str, str]]:
        """Do something that an app has to acknowledge; what it complains about, by block. Raises NotTaken, Refused."""
        outcome = yield self.server.asking("POST", path, body)
        complaints = dict(outcome.get("errors", {}))
        if not outcome["ok"] and not complaints:
            raise NotTaken(f"{what}: {outcome['error']}.\n{told(self.server)}")
        return complaints
