"""The askers inside the coordinator: an agent whose calls people approve, and a tool server that asks during a call.

Their model is a script: it calls the tool that the message names, and says what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

from tests.decisions.journal import ASKS, Journal, command_in, paths_of
from tests.decisions.remote import NOBODY_DECIDED, held
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Fails, Reply, Say

_WORDS: Final = {"accept": "approved", "decline": "rejected", "cancel": "cancelled"}
_RAN: Final = "I did"
_FROM_THE_BEGINNING: Final = "Start again from the beginning"
"""What the prompt of a retry says (`prompts.retry_prefix`), and a model does."""

_FENCE: Final = re.compile(r"Said before in this conversation.*?<data marker.*?</data marker[^>]*>", re.DOTALL)
"""What the model reads of the thread, before a new message or alone after a decision."""


class Word(BaseModel):
    word: str


class Nothing(BaseModel):
    pass


async def _which(path: str) -> Elicit[Word]:
    return Elicit(f"Which word for {path}?", Word)


async def _sure(path: str) -> Elicit[Nothing]:
    return Elicit(f"May I {path}?", Nothing)


def tool_server(journal: Journal) -> MCPServer:
    """Returns a server with a plain tool, ``act``, and two that ask people: ``sure`` and ``fill``."""
    server = MCPServer("tools")

    @server.tool()
    async def act(path: str) -> str:
        """Act, without a question."""
        journal.ran(path)
        return f"{_RAN} {path}."

    @server.tool()
    async def sure(path: str, answer: Annotated[ElicitationResult[Nothing], Resolve(_sure)]) -> str:
        """Act, if people confirm it."""
        journal.got(path, _WORDS[answer.action])
        if isinstance(answer, AcceptedElicitation):
            journal.ran(path)
        return answer.action

    @server.tool()
    async def fill(path: str, answer: Annotated[ElicitationResult[Word], Resolve(_which)]) -> str:
        """Ask people for a word."""
        filled = answer.data.word if isinstance(answer, AcceptedElicitation) else None
        journal.got(path, f"answered {filled}" if filled else _WORDS[answer.action])
        return answer.action

    return server


class Model:
    """The model of both agents. Those of the tool server's asker have the word ``elicit`` in their instructions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, request: Request) -> Reply:
        texts = [new for text in request.texts if (new := _FENCE.sub("", text).strip())]
        command, cell = command_in(texts[-1] if texts else "")
        is_asked_by_server = "elicit" in request.system
        is_after_decision = (
            not _FENCE.sub("", request.last_text).strip() and _FROM_THE_BEGINNING not in request.last_text
        )
        if request.is_after_tool or is_after_decision:
            return self._end(request, cell, command, is_asked_by_server)
        self._journal.heard(cell, command)
        if command == "interesting" and "cancelled" in map(_word_in(cell), request.results):
            self._journal.got(cell, "cancelled")  # the message has ended the question
        if command == "wait":
            await held(self._journal, cell)
        if command == "form":
            return Call("fill", {"path": cell})
        tool = "sure" if is_asked_by_server else "act"
        calls = [Call(tool, {"path": path}) for path in paths_of(command, cell)]
        return [Say(ASKS), *calls] if calls else Say(f"I read: {command} {cell}.")

    def _end(self, request: Request, cell: str, command: str, is_asked_by_server: bool) -> Reply:
        results = request.results[-2:] if command == "twice" else request.results[-1:]
        if not is_asked_by_server:
            for place, result in enumerate(results):
                self._journal.got(f"{cell}-2" if place else cell, _word(result, cell))
        if self._journal.takes_failure(cell):
            return Fails(400, message="out of luck")
        return Say(f"Done: {' '.join(results)}")


def _word_in(cell: str) -> Callable[[str], str]:
    return lambda result: _word(result, cell)


def _word(result: str, cell: str) -> str:
    """Returns what a built-in agent's model reads of a decision."""
    if _RAN in result:
        return "edited" if f"{cell}-edited" in result else "approved"
    for words, word in ((NOBODY_DECIDED, "expired"), ("withdrawn", "cancelled"), ("something else", "cancelled")):
        if words in result:
            return word
    return "rejected" if "rejected" in result else f"nothing of use: {result}"
