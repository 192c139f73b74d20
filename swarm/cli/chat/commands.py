"""Commands of the chat (lines with a slash are for the terminal, not for the agent), and its fixed texts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from swarm.cli.chat.arguments import full_id, new_session_id
from swarm.cli.chat.opening import Chat
from swarm.cli.chat.screen import Written
from swarm.clock import SECOND
from swarm.domain.model.models import ModelUsage
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.text.characters import for_terminal
from swarm.store.builtin.sessions import ListedSession

MARK: Final = "❯ "
"""Stands before people's input."""

QUIT: Final = "/quit"

COMMANDS: Final[Mapping[str, str]] = {
    "/help": "what can be done here",
    "/new": "begin a new session",
    "/sessions": "the sessions there are",
    "/resume": "go on with another one: /resume, /resume 2, /resume ID",
    "/history": "what was said in this session",
    "/usage": "what this session has used",
    QUIT: "leave; so does Ctrl-D",
}

KEYS: Final = (
    "Enter sends. Alt-Enter or Ctrl-J begins a new line; several lines can be pasted. ↑ brings back what you wrote. "
    "Ctrl-C stops an answer, or clears the line; twice, it leaves."
)


_COMMAND: Final = re.compile(r"/[a-z]+")
_QUESTION_CHARACTERS: Final = 60


@dataclass(kw_only=True, slots=True)
class Commands:
    """The commands, for one chat."""

    chat: Chat
    console: Console
    listed: Sequence[ListedSession] = ()  # in the numbering of `/sessions`

    async def run(self, said: str) -> bool:
        """Run a command. Returns whether the text was one. Raises SwarmError."""
        name, _, argument = said.partition(" ")
        if not _COMMAND.fullmatch(name):
            return False
        does: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            "/new": self._new,
            "/sessions": self._sessions,
            "/resume": self._resume,
            "/history": self._history,
            "/usage": self._usage,
        }
        if name in does:
            await does[name](argument.strip())
        else:
            self._say(f"There is no {name}. /help lists what there is.")
        return True

    async def _help(self, _: str) -> None:
        table = Table.grid(Column(no_wrap=True, style="cyan"), Column(), padding=(0, 2))
        for name, what in COMMANDS.items():
            table.add_row(name, what)
        self.console.print(table)
        self._say(KEYS)

    async def _new(self, _: str) -> None:
        self.chat.session_id = new_session_id()
        self._say("A new session.")

    async def _sessions(self, _: str) -> None:
        self.listed = await self.chat.archive.latest(self.chat.agent)
        if not self.listed:
            self._say("There are no sessions yet.")
            return
        table = Table("", "last used", "began with", Column("id", no_wrap=True, style="dim"), box=None)
        for number, session in enumerate(self.listed, 1):
            here = " *" if session.id == self.chat.session_id else ""
            table.add_row(f"{number}{here}", when(session.updated_at), Text(in_short(session.question)), session.id)
        self.console.print(table)
        self._say("/resume NUMBER goes on with one.")

    async def _resume(self, which: str) -> None:
        session = await self._found(which)
        if session is None:
            self._say("There is no such session; /sessions lists them.")
            return
        self.chat.session_id = session.id
        await show_last(self.chat, self.console)

    async def _found(self, which: str) -> ListedSession | None:
        if which.isdecimal():
            listed = self.listed or await self.chat.archive.latest(self.chat.agent)
            return listed[int(which) - 1] if 0 < int(which) <= len(listed) else None
        if not which:
            others = [
                each for each in await self.chat.archive.latest(self.chat.agent) if each.id != self.chat.session_id
            ]
            return others[0] if others else None
        named = await self.chat.archive.named(full_id(which))
        return next((each for each in named if each.agent == self.chat.agent), None)

    async def _history(self, _: str) -> None:
        said = await self.chat.archive.said(self.chat.agent, self.chat.session_id)
        if not said:
            self._say("Nothing was said yet.")
        for message in said:
            show_message(message, self.console)

    async def _usage(self, _: str) -> None:
        runs, used = await self.chat.archive.usage(self.chat.agent, self.chat.session_id)
        self._say(in_figures(runs, used))

    def _say(self, words: str) -> None:
        self.console.print(Text(for_terminal(words), "dim"))


async def show_last(chat: Chat, console: Console) -> None:
    """Show the end of a session: the last question, and its answer."""
    said = await chat.archive.said(chat.agent, chat.session_id)
    asked = [at for at, message in enumerate(said) if message.role is MessageRole.USER]
    last = asked[-1] if asked else 0
    if len(asked) > 1:
        console.print(Text(f"{len(asked) - 1} earlier questions; /history shows all.", "dim"))
    for message in said[last:]:
        show_message(message, console)


def show_message(message: SessionMessage, console: Console) -> None:
    """Show one earlier message."""
    match message.role:
        case MessageRole.USER:
            console.print(Text.assemble("\n", (MARK, "bold cyan"), for_terminal(message.text), "\n"))
        case MessageRole.ASSISTANT:
            console.print(Written(for_terminal(message.text)))
        case MessageRole.TOOL_RESULT:
            mark, style = ("✗ ", "red") if message.failed else ("✓ ", "green")
            console.print(Text.assemble((mark, style), (for_terminal(message.tool), "dim")))
        case _:
            pass  # a tool's use shows in its result


def in_figures(runs: int, used: ModelUsage) -> str:
    """The usage of runs, as a sentence."""
    if not runs:
        return "Nothing was used yet."
    cost = used.cost_microdollars
    dollars = "not known" if cost is None else f"{cost / 1_000_000:.4f} US dollars"
    return (
        f"Answers: {runs}. Calls of the model: {used.requests}, of tools: {used.tool_calls}. "
        f"Tokens read: {used.input_tokens}, written: {used.output_tokens}. Price: {dollars}."
    )


def when(moment_us: int) -> str:
    """A moment in the time of this machine."""
    return datetime.fromtimestamp(moment_us / SECOND).astimezone().strftime("%Y-%m-%d %H:%M")


def in_short(question: str) -> str:
    """The beginning of a question, in one line."""
    line = " ".join(for_terminal(question.replace("\n", " ")).split())
    return line if len(line) <= _QUESTION_CHARACTERS else line[: _QUESTION_CHARACTERS - 1] + "…"
