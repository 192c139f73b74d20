"""Calls that block, each in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Begin a call that blocks; the future has what comes of it.

    Not `asyncio.to_thread`, whose few threads serve everything else in the process too (looking up names, for one): a
    handful of calls that AWS leaves without an answer would hold all that up, and the process could not end before
    the last of them. These threads are as many as there are calls, and do not outlive the process.

    Whoever must not wait any longer leaves the future alone, or shields it: a thread cannot be cancelled.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="agentcore", daemon=True).start()
    return asyncio.wrap_future(outcome)
