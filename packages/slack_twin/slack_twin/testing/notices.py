"""Tells those who wait that something happened, so that they look again."""

import asyncio
from contextlib import suppress

from slack_twin.journal import Attempt, Call, Journal
from slack_twin.twin import Twin


class Notices:
    """Counts what happens in a workspace. Used in the loop of its server, but for `count`, which anybody may read."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def tell(self, _: object = None) -> None:
        """Something happened: wake up whoever waits."""
        self.count += 1
        self._more.set()
        self._more = asyncio.Event()

    async def after(self, seen: int, *, within_seconds: float) -> None:
        """Return once more than `seen` has happened, or when the time is over."""
        if self.count == seen:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), within_seconds)


class _Calls(Journal[Call]):
    def __init__(self, notices: Notices) -> None:
        super().__init__()
        self._notices = notices

    def add(self, entry: Call) -> Call:
        self._notices.tell()
        return super().add(entry)


class _Attempts(Journal[Attempt]):
    def __init__(self, notices: Notices) -> None:
        super().__init__()
        self._notices = notices

    def add(self, entry: Attempt) -> Attempt:
        self._notices.tell()
        return super().add(entry)


def watch(twin: Twin) -> Notices:
    """Notices of every change of the workspace, every call of its Web API and every attempt to deliver an event."""
    notices = Notices()
    twin.workspace.listeners.append(notices.tell)
    twin.web_api.journal = _Calls(notices)
    twin.delivery.journal = _Attempts(notices)
    return notices
