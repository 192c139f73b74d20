"""Wakes waiting calls after each change, so that they check their condition again."""

import asyncio
from contextlib import suppress

from slack_twin.journal import Attempt, Call, Journal
from slack_twin.twin import Twin


class Notices:
    """Counts the changes of a workspace. Used in the event loop of its server; any thread may read `count`."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def tell(self, _: object = None) -> None:
        """Records a change and wakes all waiting calls."""
        self.count += 1
        self._more.set()
        self._more = asyncio.Event()

    async def after(self, seen: int, *, within_seconds: float) -> None:
        """Returns once the count exceeds `seen`, or after `within_seconds`."""
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
    """Returns notices of each change of the workspace, each Web API call and each delivery attempt."""
    notices = Notices()
    twin.workspace.listeners.append(notices.tell)
    twin.web_api.journal = _Calls(notices)
    twin.delivery.journal = _Attempts(notices)
    return notices
