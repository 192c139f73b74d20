"""The chat from its beginning to its end: its input, its agent, its display, and its log.

With a question on the command line, or without a terminal, there is one answer and no conversation. The log goes to a
file meanwhile, so that log lines do not disturb the screen.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Final, TextIO, cast

import structlog
from rich.console import Console
from rich.text import Text

from swarm.app import home
from swarm.cli.chat.conversation import COMMANDS, Conversation
from swarm.cli.chat.display import PlainText, answered, complaint, display_for
from swarm.cli.chat.keys import Interrupts, Line, interruptible, kept_back
from swarm.cli.chat.opening import Chat, ChatArguments, opened
from swarm.cli.client import NoServer
from swarm.cli.terminal import Terminal
from swarm.config import Settings, secrets
from swarm.domain.errors import ConfigurationError, Invalid, SwarmError
from swarm.domain.text.characters import for_terminal
from swarm.telemetry import log

LOG_FILE: Final = "chat.log"
LOG_BYTES: Final = 1_000_000
"""A longer file is begun anew."""

_STOPPED: Final = 130
"""The exit code after Ctrl-C."""

_log = structlog.get_logger(__name__)


async def once(chat: Chat, question: str, console: Console, interrupts: Interrupts) -> int:
    """Ask, and print the answer on standard output; errors go to standard error. Returns the exit code."""
    plain = PlainText(sys.stdout, sys.stderr if sys.stderr.isatty() else None)
    display = display_for(console, plain)
    end = await interrupts.stoppable(answered(chat.client, question, chat.session_id, display))
    if end is None:
        return _STOPPED
    problem = complaint(end, chat.agent)
    if problem:
        _note(f"swarm: {problem}")
    elif sys.stderr.isatty():
        _note(f"\nTo go on with this session: swarm chat --resume {chat.session_id}")
    if chat.compacted:  # the answer is there, and no other process would summarise the session; Ctrl-C skips this
        await interrupts.stoppable(chat.compacted())
    return 1 if problem else 0


def _note(text: str) -> None:
    sys.stderr.write(f"{for_terminal(text)}\n")


def main(settings: Settings, arguments: ChatArguments, *, verbose: bool) -> int:
    """Run a chat. Returns the exit code. Raises SwarmError for errors that people can fix."""
    os.umask(0o077)  # files written from now on hold people's messages
    question = _question(arguments.question)
    if not question and not _is_at_terminal():
        raise Invalid(
            "Nothing is asked, and this is no terminal to talk at.",
            hint='Ask one question: swarm chat "…", or: … | swarm chat',
        )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a character the terminal lacks becomes "?"
    with quiet(settings, verbose=verbose) as where:
        try:
            return asyncio.run(_talk(settings, arguments, question))
        except asyncio.CancelledError:  # by a signal
            return _STOPPED
        except BrokenPipeError:  # the reader of the answer has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (SwarmError, NoServer):
            raise
        except Exception as error:
            _log.exception("The chat failed.", action="chat_failed")
            raise SwarmError(f"Something went wrong on our side; {where} says what.") from error


async def _talk(settings: Settings, arguments: ChatArguments, question: str) -> int:
    console = Terminal()
    interrupts = Interrupts()
    is_talk = not question
    with interrupts.handled():
        async with AsyncExitStack() as stack:
            if is_talk:  # from here to the end: between two modes the terminal would turn an Enter into a new line
                stack.enter_context(kept_back(sys.stdin.fileno()))
            with _waking_up(console, is_talk=is_talk):
                chat = await stack.enter_async_context(opened(settings, arguments, checks_model=is_talk))
            if question:
                return await once(chat, question, console, interrupts)
            line = Line(settings.home.expanduser() / "chat_history", COMMANDS, sys.stdin)
            await Conversation(chat=chat, line=line, console=console, interrupts=interrupts).run()
    return 0


@contextmanager
def _waking_up(console: Console, *, is_talk: bool) -> Iterator[None]:
    """Show a waiting person that the chat is loading, and let them type ahead."""
    with ExitStack() as stack:
        if is_talk:
            stack.enter_context(interruptible(sys.stdin.fileno()))
        if console.is_terminal:
            note = Text("waking up …", "dim")
            stack.enter_context(console.status(note, refresh_per_second=4))  # loading needs the time more
        yield


def _question(argument: str) -> str:
    """The question of the arguments, with piped text, which may be its subject."""
    piped = "" if not _is_piped() else sys.stdin.buffer.read().decode(errors="replace").strip()
    return "\n\n".join(part for part in (argument, piped) if part)


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, and so meant to be read."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def quiet(settings: Settings, *, verbose: bool) -> Iterator[str]:
    """Send warnings to a file in the home folder; with ``verbose`` all lines to standard error. Yields the place."""
    if verbose:
        log.configure(settings.log.level, as_json=False, secrets=secrets(settings), stream=cast(TextIO, _Now()))
        yield "standard error"
        return
    home.prepare(settings)
    path = settings.home.expanduser() / LOG_FILE
    try:
        fresh = os.O_TRUNC if path.exists() and path.stat().st_size > LOG_BYTES else 0
        file = os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | fresh, 0o600), "a")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}.", hint="Set SWARM_HOME.") from error
    with file:
        log.configure("warning", as_json=False, secrets=secrets(settings), stream=file)
        try:
            yield str(path)
        finally:
            log.configure("warning", secrets=secrets(settings))  # later lines are not lost


class _Now(io.TextIOBase):
    """The current standard error, which is replaced while an answer is painted or a line is read."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()
