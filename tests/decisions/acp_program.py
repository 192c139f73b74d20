"""An ACP agent that does what the cells of the matrix want. ``python acp_program.py - JOURNAL_FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from packages.swarm_runner.tests.doors import acp_agent
from tests.decisions.journal import ASKS, Journal, command_in, paths_of
from tests.decisions.remote import held

WORDS = {"yes": "approved", "no": "rejected"}


class Program(acp_agent.Agent):
    """Asks before it acts. The sessions of an agent have a process each, so that a prompt is one cell's."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def note(self, **what: Any) -> None:
        """Nobody reads it."""

    async def turn(self, session_id: str, text: str) -> dict[str, Any]:
        command, cell = command_in(text, is_first=True)
        self._journal.heard(cell, command)
        if command == "wait":
            await held(self._journal, cell)
        if command == "form":
            self.say(session_id, await self._word(session_id, cell))
            return self._end(cell)
        paths = paths_of(command, cell)
        if paths:
            self.say(session_id, ASKS)
        answers = await asyncio.gather(*(self._may(session_id, path) for path in paths))
        self.say(session_id, f"Done: {' '.join(answers)}" if paths else f"I read: {command} {cell}.")
        return self._end(cell, is_cancelled="cancelled" in answers)

    def _end(self, cell: str, *, is_cancelled: bool = False) -> dict[str, Any]:
        if self._journal.takes_failure(cell):
            raise acp_agent.RequestError(-32603, "out of luck")
        return {"stopReason": "cancelled" if is_cancelled else "end_turn"}

    async def _may(self, session_id: str, path: str) -> str:
        call: dict[str, Any] = {"title": f"act {path}", "kind": "execute", "rawInput": {"path": path}}
        chosen = await self.permitted(session_id, f"call-{path}", **call)
        word = WORDS.get(chosen, chosen)
        self._journal.got(path, word)
        if word == "approved":
            self._journal.ran(path)
        return word

    async def _word(self, session_id: str, cell: str) -> str:
        word_of = {"word": {"type": "string"}}
        answer = await self.question(session_id, "Which word?", properties=word_of, required=["word"])
        word = f"answered {answer['content']['word']}" if answer["action"] == "accept" else answer["action"]
        self._journal.got(cell, word)
        return word


if __name__ == "__main__":
    asyncio.run(Program(Journal(Path(sys.argv[2]))).serve())
