"""One question, one answer: for pipes, scripts, and people in a hurry."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

from swarm.cli.chat.answering import answered, complaint, turn_of
from swarm.cli.chat.interrupts import Interrupts
from swarm.cli.chat.opening import Chat
from swarm.cli.chat.plain import PlainText
from swarm.cli.chat.screen import Screen
from swarm.domain.answers.agents import RunEnd
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
