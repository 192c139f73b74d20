"""An ACP agent that does what the cells of the matrix want. ``python acp_program.py - JOURNAL_FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

from acp import PromptResponse, run_agent
from acp.exceptions import RequestError
from acp.schema import AllowedOutcome, ElicitationFormSessionMode, ElicitationSchema, ToolCallUpdate

from tests.decisions.journal import ASKS, Journal, command_in, paths_of
from tests.decisions.remote import held
from tests.runner.doors import acp_agent

WORDS = {"yes": "approved", "no": "rejected"}


class Program(acp_agent.Agent):
    """Asks before it acts. The sessions of an agent have a process each, so that a prompt is one cell's."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def note(self, **what: Any) -> None:
        """Nobody reads it."""

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
        command, cell = command_in("\n".join(part.text for part in prompt), is_first=True)
        self._journal.heard(cell, command)
        if command == "wait":
            await held(self._journal, cell)
        if command == "form":
            await self.say(session_id, await self._word(session_id, cell))
            return self._end(cell)
        paths = paths_of(command, cell)
        if paths:
            await self.say(session_id, ASKS)
        answers = await asyncio.gather(*(self._may(session_id, path) for path in paths))
        await self.say(session_id, f"Done: {' '.join(answers)}" if paths else f"I read: {command} {cell}.")
        return self._end(cell, is_cancelled="cancelled" in answers)

    def _end(self, cell: str, *, is_cancelled: bool = False) -> PromptResponse:
        if self._journal.takes_failure(cell):
            raise RequestError(-32603, "out of luck")
        return PromptResponse(stop_reason="cancelled" if is_cancelled else "end_turn")

    async def _may(self, session_id: str, path: str) -> str:
        call = ToolCallUpdate(
            tool_call_id=f"call-{path}", title=f"act {path}", kind="execute", raw_input={"path": path}
        )
        answer = await self.client.request_permission(session_id, call, acp_agent.OPTIONS)
        is_chosen = isinstance(answer.outcome, AllowedOutcome)
        word = WORDS.get(answer.outcome.option_id, answer.outcome.option_id) if is_chosen else "cancelled"
        self._journal.got(path, word)
        if word == "approved":
            self._journal.ran(path)
        return word

    async def _word(self, session_id: str, cell: str) -> str:
        schema = ElicitationSchema.model_validate(
            {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        )
        mode = ElicitationFormSessionMode(session_id=session_id, mode="form", requested_schema=schema)
        answer = await self.client.create_elicitation("Which word?", mode)
        content = getattr(answer, "content", None) or {}
        word = f"answered {content['word']}" if answer.action == "accept" else answer.action
        self._journal.got(cell, word)
        return word


if __name__ == "__main__":
    asyncio.run(run_agent(cast("Any", Program(Journal(Path(sys.argv[2])))), use_unstable_protocol=True))
