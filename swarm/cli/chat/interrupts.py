"""Signals: Ctrl-C stops an answer; without an answer, a signal ends the chat in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupts:
    """The handling of interrupts."""

    def __init__(self) -> None:
        self._answer: asyncio.Task[Any] | None = None
        self._are_passed_over = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Handle signals for the calling task, which SIGTERM, SIGHUP and an interrupt without an answer cancel."""
        loop, chat = asyncio.get_running_loop(), asyncio.current_task()
        assert chat is not None
        ends = (signal.SIGTERM, signal.SIGHUP)
        loop.add_signal_handler(signal.SIGINT, self._interrupted, chat)
        for number in ends:
            loop.add_signal_handler(number, chat.cancel)
        try:
            yield
        finally:
            for number in (signal.SIGINT, *ends):
                loop.remove_signal_handler(number)

    @contextmanager
    def passed_over(self) -> Iterator[None]:
        """Ignore interrupts without an answer: such a Ctrl-C came a moment too late for the answer it was meant for."""
        self._are_passed_over = True
        try:
            yield
        finally:
            self._are_passed_over = False

    def _interrupted(self, chat: asyncio.Task[Any]) -> None:
        if self._answer:
            self._answer.cancel()
        elif not self._are_passed_over:
            chat.cancel()

    async def stoppable(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of the work; None if an interrupt ended the work."""
        self._answer = asyncio.create_task(work, name="answer")
        try:
            await asyncio.wait({self._answer})
            return None if self._answer.cancelled() else self._answer.result()
        finally:
            answer, self._answer = self._answer, None
            if not answer.done():  # the chat itself is ended
                answer.cancel()
                await asyncio.wait({answer})
