"""The chat in the terminal: its input, agent, display and log.

A conversation alternates between a question and an answer that appears as it is written. A line that begins with a
slash is a command.

With a question on the command line, or without a terminal, the chat prints one answer and ends. During a chat the log
goes to a file, so that log lines do not disturb the screen.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TextIO, cast

import structlog
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from swarm.app import home
from swarm.cli import NoServer, in_one_line
from swarm.cli.terminal import Terminal
from swarm.clock import SECOND
from swarm.config import Settings, secrets
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import Asked, Decided, Interrupted
from swarm.domain.errors import ConfigurationError, Invalid, SwarmError
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.sessions import MessageRole
from swarm.store.builtin.session_lists import ListedSession
from swarm_agents.cli.chat.asking import Questions
from swarm_agents.cli.chat.display import MarkdownText, PlainText, answered, complaint, display_for, tool_line, went_on
from swarm_agents.cli.chat.keys import MARK, Interrupts, Line, interruptible, kept_back
from swarm_agents.cli.chat.opening import Chat, ChatArguments, full_id, new_session_id, opened
from swarm_base import log
from swarm_base.characters import for_terminal

_QUIT: Final = "/quit"

COMMANDS: Final[Mapping[str, str]] = {
    "/help": "show the commands",
    "/new": "begin a new session",
    "/sessions": "list the sessions",
    "/resume": "continue another session: /resume, /resume 2, /resume ID",
    "/history": "show the messages of this session",
    "/usage": "show the usage of this session",
    _QUIT: "leave, like Ctrl-D",
}

_KEYS: Final = (
    "Enter sends. Alt-Enter or Ctrl-J begins a new line; several lines can be pasted. ↑ brings back what you wrote. "
    "Ctrl-C stops an answer, or clears the line; twice, it leaves."
)

_COMMAND: Final = re.compile(r"/[a-z]+")
_QUESTION_CHARACTERS: Final = 60


@dataclass(kw_only=True, slots=True)
class _Conversation:
    """A conversation between one person and one agent, with one session at a time. Input typed during an answer is held
    back (`keys.kept_back`)."""

    chat: Chat
    line: Line
    console: Console
    interrupts: Interrupts
    _used: set[str] = field(default_factory=set)  # the sessions that received input in this chat
    _asked: tuple[Asked, ...] = ()  # what the agent's run waits for
    _listed: Sequence[ListedSession] = ()  # in the order numbered by `/sessions`

    async def run(self) -> None:
        """Converses until the person leaves. Errors are shown, and the conversation continues."""
        self._note(f"{self.chat.agent} ({self.chat.where}). /help lists the commands.")
        if self.chat.is_resumed:
            await self._show_messages(is_whole=False)
        with self.interrupts.passed_over():
            while (text := await self._next()) is not None:
                if text:
                    await self._respond(text)
        if self.chat.session_id in self._used or self.chat.is_resumed:
            self._note(f"To continue this session: swarm chat --resume {self.chat.session_id}")

    async def _next(self) -> str | None:
        """Returns the next input; None when the person leaves."""
        was_warned = False
        while True:
            try:
                text = await self.line.read()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if was_warned:
                    return None
                was_warned = True
                self._note("Press Ctrl-C again or Ctrl-D to leave.")
            else:
                return None if text == _QUIT else text

    async def _respond(self, text: str) -> None:
        """Does what the person wants, and asks them what the agent's run waits for, until it waits for nothing."""
        await self._stoppable(self._do(text))
        while asked := self._taken():
            decided = await Questions(self.line, self.console).decide(asked)
            await self._stoppable(self._go_on(decided))

    def _taken(self) -> tuple[Asked, ...]:
        asked, self._asked = self._asked, ()
        return asked

    async def _stoppable(self, work: Coroutine[None, None, bool]) -> None:
        try:
            with interruptible(sys.stdin.fileno()):
                done = await self.interrupts.stoppable(work)
        except SwarmError as error:
            self._complain(in_one_line(error))
        else:
            if not done:
                self._note("⏹ stopped\n")

    async def _do(self, text: str) -> bool:
        """Runs a command or asks the agent. Always returns True."""
        name, _, argument = text.partition(" ")
        commands: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            "/new": self._new,
            "/sessions": self._sessions,
            "/resume": self._resume,
            "/history": self._history,
            "/usage": self._usage,
        }
        if name in commands:
            await commands[name](argument.strip())
        elif _COMMAND.fullmatch(name):
            self._note(f"There is no command {name}. /help lists the commands.")
        else:
            await self._ask(text)
        return True

    async def _ask(self, text: str) -> None:
        self._used.add(self.chat.session_id)
        self.console.print()
        plain = PlainText(sys.stdout, sys.stdout)
        self._ended(await answered(self.chat.client, text, self.chat.session_id, display_for(self.console, plain)))

    async def _go_on(self, decided: tuple[Decided, ...]) -> bool:
        """Continues the agent's run. Always returns True."""
        self.console.print()
        plain = PlainText(sys.stdout, sys.stdout)
        self._ended(await went_on(self.chat.client, decided, self.chat.session_id, display_for(self.console, plain)))
        return True

    def _ended(self, end: RunEnd) -> None:
        if isinstance(end, Interrupted):
            self._asked = end.asked
        elif problem := complaint(end, self.chat.agent):
            self._complain(problem)
        self.console.print()

    async def _help(self, _: str) -> None:
        table = Table.grid(Column(no_wrap=True, style="cyan"), Column(), padding=(0, 2))
        for name, what in COMMANDS.items():
            table.add_row(name, what)
        self.console.print(table)
        self._note(_KEYS)

    async def _new(self, _: str) -> None:
        self.chat.session_id = new_session_id()
        self._note("A new session.")

    async def _sessions(self, _: str) -> None:
        self._listed = await self.chat.archive.latest(self.chat.agent)
        if not self._listed:
            self._note("There are no sessions yet.")
            return
        table = Table("", "last used", "began with", Column("id", no_wrap=True, style="dim"), box=None)
        for number, session in enumerate(self._listed, 1):
            here = " *" if session.id == self.chat.session_id else ""
            used_at = datetime.fromtimestamp(session.updated_at / SECOND).astimezone().strftime("%Y-%m-%d %H:%M")
            table.add_row(f"{number}{here}", used_at, Text(in_short(session.question)), session.id)
        self.console.print(table)
        self._note("/resume NUMBER continues a session.")

    async def _resume(self, which: str) -> None:
        session = await self._found(which)
        if session is None:
            self._note("There is no such session; /sessions lists them.")
            return
        self.chat.session_id = session.id
        await self._show_messages(is_whole=False)

    async def _found(self, which: str) -> ListedSession | None:
        archive, agent = self.chat.archive, self.chat.agent
        if which.isdecimal():
            listed = self._listed or await archive.latest(agent)
            return listed[int(which) - 1] if 0 < int(which) <= len(listed) else None
        if which:
            return await archive.named(full_id(which), agent)
        return next((each for each in await archive.latest(agent) if each.id != self.chat.session_id), None)

    async def _history(self, _: str) -> None:
        if not await self._show_messages(is_whole=True):
            self._note("There are no messages yet.")

    async def _usage(self, _: str) -> None:
        self._note(in_figures(*await self.chat.archive.usage(self.chat.agent, self.chat.session_id)))

    async def _show_messages(self, *, is_whole: bool) -> bool:
        """Shows the complete session, or only the last question and its answer. Returns whether there are messages."""
        messages = await self.chat.archive.messages(self.chat.agent, self.chat.session_id)
        questions = [at for at, message in enumerate(messages) if message.role is MessageRole.USER]
        if len(questions) > 1 and not is_whole:
            self._note(f"{len(questions) - 1} earlier questions; /history shows all.")
        for message in messages[0 if is_whole or not questions else questions[-1] :]:
            match message.role:  # a tool's use shows in its result
                case MessageRole.USER:
                    self.console.print(Text.assemble("\n", (MARK, "bold cyan"), for_terminal(message.text), "\n"))
                case MessageRole.ASSISTANT:
                    self.console.print(MarkdownText(for_terminal(message.text)))
                case MessageRole.TOOL_RESULT:
                    self.console.print(tool_line("✗" if message.failed else "✓", for_terminal(message.tool)))
        return bool(messages)

    def _note(self, text: str) -> None:
        self.console.print(Text(for_terminal(text), "dim"))

    def _complain(self, text: str) -> None:
        self.console.print(Text(for_terminal(text), "red"))


def in_figures(runs: int, used: ModelUsage) -> str:
    """Returns the usage of runs as a sentence."""
    if not runs:
        return "Nothing was used yet."
    cost = used.cost_microdollars
    dollars = "not known" if cost is None else f"{cost / 1_000_000:.4f} US dollars"
    return (
        f"Answers: {runs}. Calls of the model: {used.requests}, of tools: {used.tool_calls}. "
        f"Tokens read: {used.input_tokens}, written: {used.output_tokens}. Price: {dollars}."
    )


def in_short(question: str) -> str:
    """Returns the beginning of a question on one line."""
    line = " ".join(for_terminal(question.replace("\n", " ")).split())
    return line if len(line) <= _QUESTION_CHARACTERS else line[: _QUESTION_CHARACTERS - 1] + "…"


LOG_FILE: Final = "chat.log"
LOG_BYTES: Final = 1_000_000
"""A longer log file is replaced by a new one."""

_STOPPED: Final = 130
"""The exit code after Ctrl-C."""

_log = structlog.get_logger(__name__)


async def once(chat: Chat, question: str, console: Console, interrupts: Interrupts) -> int:
    """Asks one question and prints the answer on standard output; errors go to standard error. Returns the exit
    code."""
    plain = PlainText(sys.stdout, sys.stderr if sys.stderr.isatty() else None)
    display = display_for(console, plain)
    end = await interrupts.stoppable(answered(chat.client, question, chat.session_id, display))
    if end is None:
        return _STOPPED
    problem = complaint(end, chat.agent)
    if problem:
        _note(f"swarm: {problem}")
    elif sys.stderr.isatty():
        _note(f"\nTo continue this session: swarm chat --resume {chat.session_id}")
    if chat.compacted:  # the answer is complete, and no other process would summarise the session; Ctrl-C skips this
        await interrupts.stoppable(chat.compacted())
    return 1 if problem else 0


def _note(text: str) -> None:
    sys.stderr.write(f"{for_terminal(text)}\n")


def main(settings: Settings, arguments: ChatArguments, *, verbose: bool) -> int:
    """Runs a chat. Returns the exit code. Raises SwarmError for errors that the user can fix."""
    os.umask(0o077)  # files written from now on contain people's messages
    question = _question(arguments.question)
    if not question and not _is_at_terminal():
        raise Invalid(
            "There is no question, and standard input is not a terminal.",
            hint='Ask one question: swarm chat "…", or: … | swarm chat',
        )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # unknown characters become "?"
    with quiet(settings, verbose=verbose) as where:
        try:
            return asyncio.run(_talk(settings, arguments, question))
        except asyncio.CancelledError:  # ended by a signal
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
            if is_talk:  # held until the end: while switching modes, the terminal would turn Enter into a new line
                stack.enter_context(kept_back(sys.stdin.fileno()))
            with _waking_up(console, is_talk=is_talk):
                chat = await stack.enter_async_context(opened(settings, arguments, checks_model=is_talk))
            if question:
                return await once(chat, question, console, interrupts)
            line = Line(settings.home.expanduser() / "chat_history", COMMANDS, sys.stdin)
            await _Conversation(chat=chat, line=line, console=console, interrupts=interrupts).run()
    return 0


@contextmanager
def _waking_up(console: Console, *, is_talk: bool) -> Iterator[None]:
    """Shows that the chat is loading, and lets the person type ahead."""
    with ExitStack() as stack:
        if is_talk:
            stack.enter_context(interruptible(sys.stdin.fileno()))
        if console.is_terminal:
            note = Text("waking up …", "dim")
            stack.enter_context(console.status(note, refresh_per_second=4))  # loading has priority
        yield


def _question(argument: str) -> str:
    """Returns the question from the arguments, together with piped text, which may be its subject."""
    piped = "" if not _is_piped() else sys.stdin.buffer.read().decode(errors="replace").strip()
    return "\n\n".join(part for part in (argument, piped) if part)


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, which means that it should be read."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def quiet(settings: Settings, *, verbose: bool) -> Iterator[str]:
    """Sends warnings to a file in the home folder, or with ``verbose`` all lines to standard error. Yields the
    destination."""
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
            log.configure("warning", secrets=secrets(settings))  # so that later lines are not lost


class _Now(io.TextIOBase):
    """The current standard error, which is replaced while an answer is displayed or a line is read."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()
