"""The chat from its beginning to its end: its input, its agent, and its display.

With a question on the command line, or without a terminal, there is one answer and no conversation.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Final

import structlog
from rich.console import Console
from rich.text import Text

from swarm.cli.chat.answering import PlainText, answered, complaint, turn_of
from swarm.cli.chat.arguments import ChatArguments
from swarm.cli.chat.interrupts import Interrupts
from swarm.cli.chat.keys import interruptible, kept_back
from swarm.cli.chat.opening import Chat, opened
from swarm.cli.chat.quiet_log import quiet
from swarm.cli.chat.screen import Screen
from swarm.cli.client import NoServer
from swarm.cli.terminal import Terminal
from swarm.config import Settings
from swarm.domain.answers.agents import RunEnd
from swarm.domain.errors import Invalid, SwarmError
from swarm.domain.text.characters import for_terminal

STOPPED: Final = 130
"""The exit code after Ctrl-C."""


async def once(chat: Chat, question: str, console: Console, interrupts: Interrupts) -> int:
    """Ask, and print the answer on standard output; errors go to standard error. Returns the exit code."""
    end = await interrupts.stoppable(_shown(chat, question, console))
    if end is None:
        return STOPPED
    problem = complaint(end, chat.agent)
    if problem:
        _note(f"swarm: {problem}")
    elif sys.stderr.isatty():
        _note(f"\nTo go on with this session: swarm chat --resume {chat.session_id}")
    if chat.compacted:  # the answer is there, and no other process would summarise the session; Ctrl-C skips this
        await interrupts.stoppable(chat.compacted())
    return 1 if problem else 0


def _note(words: str) -> None:
    sys.stderr.write(f"{for_terminal(words)}\n")


async def _shown(chat: Chat, question: str, console: Console) -> RunEnd:
    turn = turn_of(question, chat.session_id)
    if console.is_terminal and not console.is_dumb_terminal:
        with Screen(console) as screen:
            return await answered(chat.client, turn, screen)
    plain = PlainText(sys.stdout, sys.stderr if sys.stderr.isatty() else None)
    try:
        return await answered(chat.client, turn, plain)
    finally:
        plain.end()


_log = structlog.get_logger(__name__)


def main(settings: Settings, wish: ChatArguments, *, verbose: bool) -> int:
    """Run a chat. Returns the exit code. Raises SwarmError for errors that people can fix."""
    os.umask(0o077)  # files written from now on hold people's messages
    question = _question(wish.question)
    if not question and not _is_at_terminal():
        raise Invalid(
            "Nothing is asked, and this is no terminal to talk at.",
            hint='Ask one question: swarm chat "…", or: … | swarm chat',
        )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a character the terminal lacks becomes "?"
    with quiet(settings, verbose=verbose) as where:
        try:
            return asyncio.run(_talk(settings, wish, question))
        except asyncio.CancelledError:  # by a signal
            return STOPPED
        except BrokenPipeError:  # the reader of the answer has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (SwarmError, NoServer):
            raise
        except Exception as error:
            _log.exception("The chat failed.", action="chat_failed")
            raise SwarmError(f"Something went wrong on our side; {where} says what.") from error


async def _talk(settings: Settings, wish: ChatArguments, question: str) -> int:
    console = Terminal()
    interrupts = Interrupts()
    is_talk = not question
    with interrupts.heard():
        async with AsyncExitStack() as stack:
            if is_talk:  # from here to the end: between two modes the terminal would turn an Enter into a new line
                stack.enter_context(kept_back(sys.stdin.fileno()))
            with _waking_up(console, is_talk=is_talk):
                chat = await stack.enter_async_context(opened(settings, wish, checks_model=is_talk))
            if question:
                return await once(chat, question, console, interrupts)
            await _converse(settings, chat, console, interrupts)
    return 0


@contextmanager
def _waking_up(console: Console, *, is_talk: bool) -> Iterator[None]:
    """Show a waiting person that the chat is loading, and let them type ahead."""
    with ExitStack() as stack:
        if is_talk:
            stack.enter_context(interruptible(sys.stdin.fileno()))
        if console.is_terminal:
            words = Text("waking up …", "dim")
            stack.enter_context(console.status(words, refresh_per_second=4))  # loading needs the time more
        yield


async def _converse(settings: Settings, chat: Chat, console: Console, interrupts: Interrupts) -> None:
    from swarm.cli.chat.commands import COMMANDS
    from swarm.cli.chat.conversation import ChatLoop  # reading lines takes a while to load
    from swarm.cli.chat.keys import Line

    line = Line(settings.home.expanduser() / "chat_history", COMMANDS, sys.stdin)
    await ChatLoop(chat=chat, line=line, console=console, interrupts=interrupts).run()


def _question(words: str) -> str:
    """The question of the arguments, with piped text, which may be its subject."""
    piped = "" if not _is_piped() else sys.stdin.buffer.read().decode(errors="replace").strip()
    return "\n\n".join(part for part in (words, piped) if part)


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, and so meant to be read."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
