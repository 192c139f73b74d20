"""A conversation at a terminal: question, growing answer, next question."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from swarm.cli.chat.answering import AnswerDisplay, PlainText, answered, complaint, run_input_of
from swarm.cli.chat.commands import QUIT, Commands, show_last
from swarm.cli.chat.interrupts import Interrupts
from swarm.cli.chat.keys import Line, interruptible
from swarm.cli.chat.opening import Chat
from swarm.cli.chat.screen import Screen
from swarm.cli.client import in_one_line
from swarm.domain.answers.agents import RunEnd
from swarm.domain.errors import SwarmError
from swarm.domain.text.characters import for_terminal


@dataclass(kw_only=True, slots=True)
class ChatLoop:
    """One person, one agent, one session at a time. The terminal keeps back input meanwhile (`kept_back`)."""

    chat: Chat
    line: Line
    console: Console
    interrupts: Interrupts
    _said: set[str] = field(default_factory=set)  # the sessions with input in this chat

    async def run(self) -> None:
        """Converse until the person leaves. Errors are shown, and the conversation goes on."""
        self._note(f"{self.chat.agent} ({self.chat.where}). /help tells what can be done here.")
        if self.chat.is_resumed:
            await show_last(self.chat, self.console)
        with self.interrupts.passed_over():
            await self._converse()
        if self.chat.session_id in self._said or self.chat.is_resumed:
            self._note(f"To go on with this session: swarm chat --resume {self.chat.session_id}")

    async def _converse(self) -> None:
        commands = Commands(chat=self.chat, console=self.console)
        while (said := await self._next()) is not None:
            if said:
                await self._respond(commands, said)

    async def _respond(self, commands: Commands, said: str) -> None:
        try:
            with interruptible(sys.stdin.fileno()):
                done = await self.interrupts.stoppable(self._do(commands, said))
        except SwarmError as error:
            self._complain(in_one_line(error))
        else:
            if not done:
                self._note("⏹ stopped\n")

    async def _do(self, commands: Commands, said: str) -> bool:
        """Run a command, or ask the agent. Always true."""
        if not await commands.run(said):
            await self._ask(said)
        return True

    async def _next(self) -> str | None:
        """The next input; None when the person leaves."""
        was_warned = False
        while True:
            try:
                said = await self.line.read()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if was_warned:
                    return None
                was_warned = True
                self._note("Ctrl-C once more leaves; so does Ctrl-D.")
            else:
                return None if said == QUIT else said

    async def _ask(self, said: str) -> None:
        self._said.add(self.chat.session_id)
        self.console.print()
        end = await self._answer(said)
        if problem := complaint(end, self.chat.agent):
            self._complain(problem)
        self.console.print()

    async def _answer(self, said: str) -> RunEnd:
        run_input = run_input_of(said, self.chat.session_id)
        if self.console.is_dumb_terminal:
            plain = PlainText(sys.stdout, sys.stdout)
            try:
                return await answered(self.chat.client, run_input, plain)
            finally:
                plain.end()
        with Screen(self.console) as screen:
            display: AnswerDisplay = screen
            return await answered(self.chat.client, run_input, display)

    def _note(self, words: str) -> None:
        self.console.print(Text(for_terminal(words), "dim"))

    def _complain(self, words: str) -> None:
        self.console.print(Text(for_terminal(words), "red"))
