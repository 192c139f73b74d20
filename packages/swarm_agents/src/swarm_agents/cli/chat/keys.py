"""Keyboard input: a multi-line input with a history, the terminal's modes, and Ctrl-C and other signals.

Keys typed while no line is being read are kept out of the display and appear on the next input line. No key is lost or
changed: during the chat the terminal never translates Enter, and Ctrl-C does not discard earlier keys.
thoughts/plans/2026-11-23-chat.md lists the ways in which keys can be lost.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout

from swarm.domain.errors import ConfigurationError

MARK: Final = "❯ "
"""The prompt before the person's input."""

T = TypeVar("T")


class Line:
    """The input line, which reads a person's input at a terminal. ``commands`` maps commands to descriptions, which are
    offered after a "/".

    ``history`` is a private file, created if missing; ``terminal`` is the standard input.
    """

    def __init__(
        self, history: Path, commands: Mapping[str, str], terminal: TextIO, output: Output | None = None
    ) -> None:
        _make_private(history)
        self._session: PromptSession[str] = PromptSession(
            HTML(f"<b><ansicyan>{MARK}</ansicyan></b>"),
            prompt_continuation=" " * len(MARK),
            multiline=True,
            history=FileHistory(str(history)),
            completer=_Commands(commands),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=0,
            key_bindings=_bindings(),
            input=_TerminalInput(terminal),
            output=output,
        )

        self._answers: PromptSession[str] = PromptSession(
            multiline=True,
            reserve_space_for_menu=0,
            key_bindings=_bindings(),
            input=self._session.input,
            output=output,
        )

    async def ask(self, prompt: str, default: str = "", *, is_secret: bool = False) -> str:
        """Returns the answer to a question of the agent, which is not kept in the history.

        Raises EOFError for Ctrl-D, and KeyboardInterrupt for Ctrl-C on an empty line; otherwise Ctrl-C clears the line.
        """
        with patch_stdout(raw=True):
            answer = self._answers.prompt_async(prompt, default=default, is_password=is_secret, handle_sigint=False)
            return (await answer).strip()

    async def read(self) -> str:
        """Returns the input without surrounding whitespace.

        Raises EOFError for Ctrl-D, and KeyboardInterrupt for Ctrl-C on an empty line; otherwise Ctrl-C clears the line.
        """
        with patch_stdout(raw=True):  # other output appears above the line
            return (await self._session.prompt_async(handle_sigint=False)).strip()


class _TerminalInput(Vt100Input):
    def cooked_mode(self) -> AbstractContextManager[None]:
        """Keeps the same mode while output appears above the line; in cooked mode, Enter would become a new line."""
        return nullcontext()


class _Commands(Completer):
    def __init__(self, commands: Mapping[str, str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text
        for name, what in self._commands.items():
            if text.startswith("/") and name.startswith(text):
                yield Completion(name, start_position=-len(text), display_meta=what)


def _bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def _clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys


def _make_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.", hint="Set SWARM_HOME.") from error


@contextmanager
def kept_back(fd: int) -> Iterator[None]:
    """Hides input and keeps it, including Enter and Ctrl-C, until a line is read."""
    with _changed(fd) as mode:
        mode[0] &= ~termios.ICRNL  # Enter has the same code as while a line is being read
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def interruptible(fd: int) -> Iterator[None]:
    """Makes Ctrl-C send a signal at once. Keys typed before Ctrl-C are kept."""
    with _changed(fd) as mode:
        mode[3] |= termios.ISIG | termios.NOFLSH
        termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        yield


@contextmanager
def _changed(fd: int) -> Iterator[list[Any]]:
    """Yields the terminal's mode so that it can be changed. The mode is restored afterwards."""
    before = termios.tcgetattr(fd)
    try:
        yield [*before]
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


class Interrupts:
    """The chat's handler for interrupts."""

    def __init__(self) -> None:
        self._answer: asyncio.Task[Any] | None = None
        self._are_passed_over = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handles signals for the calling task. SIGTERM, SIGHUP and an interrupt outside an answer cancel the task."""
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
        """Ignores interrupts outside an answer: such a Ctrl-C was meant for an answer that has just ended."""
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
        """Returns the result of the work; None if an interrupt ended the work."""
        self._answer = asyncio.create_task(work, name="answer")
        try:
            await asyncio.wait({self._answer})
            return None if self._answer.cancelled() else self._answer.result()
        finally:
            answer, self._answer = self._answer, None
            if not answer.done():  # the chat itself is ending
                answer.cancel()
                await asyncio.wait({answer})
