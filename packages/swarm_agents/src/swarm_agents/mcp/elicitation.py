"""Questions of an MCP server to people, which it asks while it answers a call of a tool.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation

All runs share the connection to a server, so each question has to find the call it belongs to, whose run has a thread.
A question is never asked in the thread of another run:

- In the protocol of 2026-07-28 a question is a result of its call.
- Over streamable HTTP in the older protocol, a question arrives in the response to its call. The library passes the
  context of the request on to the handler (`_CALL`).
- A program that speaks the older protocol does not tell. Then the question belongs to the only call that it can belong
  to. If there are several, nobody is asked, and from then on the calls of this server are made one after another. A
  call that was given up may still ask, because many servers ignore a cancellation: as long as there is one, a question
  could belong to it, so the server is connected anew as soon as none of its calls is under way.

When a call ends in any way, its open questions are withdrawn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import mcp_types as types
import structlog
from mcp.client.session import ClientRequestContext

from swarm.agents.failures import OUR_FAULT
from swarm.config.mcp_servers import McpServer
from swarm.domain.errors import SwarmError, Unavailable
from swarm.domain.model.requests import MAX_TITLE_CHARACTERS, HumanDecision, HumanRequest, NewRequest, RequestStatus
from swarm.domain.model.sessions import storable
from swarm.domain.requests.texts import outcome_text
from swarm_agents.toolbox.people import (
    CALLER,
    MOST_WAIT_SECONDS,
    QUESTION_SECONDS,
    AskPeople,
    PausableTimeout,
    ToolCaller,
)
from swarm_base.processes.background import BackgroundTasks
from swarm_base.redaction import HIDDEN
from swarm_base.schema_forms import fields_of

MOST_QUESTIONS: Final = 10
"""The maximum number of questions of one call."""

REASON: Final = "swarm/reason"
"""The key in ``_meta`` of an answer that says why nobody has answered."""

_NO_LINKS: Final = "Nobody was asked to open a link, because that is not supported here."
_NOBODY: Final = "Nobody can be asked in this conversation."
_TOO_MANY: Final = f"A call may ask {MOST_QUESTIONS} questions."
_TOO_LONG: Final = f"People have been asked for {MOST_WAIT_SECONDS / 60:g} minutes, which is the limit for one run."
_TOO_LARGE: Final = "The form has too many fields, or a field with too long a name."
_UNCLEAR: Final = (
    "Nobody was asked, because it was not clear which call the question belonged to. "
    "The server's calls are now made one after another, so a new call can ask."
)
_OVER: Final = "The call that asked has ended."
_CLOSE_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


@dataclass(eq=False, kw_only=True, slots=True)
class ServerCall:
    """A call that a server is answering."""

    tool: str  # its name for people and models
    caller: ToolCaller | None
    limit: PausableTimeout
    is_answered: bool = False  # the server has answered, so it asks nothing more
    asked: int = 0
    asking: set[asyncio.Task[types.ElicitResult]] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)  # for the model: why nobody has answered


_CALL: Final[ContextVar[ServerCall | None]] = ContextVar("mcp_call", default=None)


class ServerQuestions:
    """The calls under way on one connection to a server, and their questions.

    ``renew`` is called when the server has to be connected anew. ``takes_turns``: the server does not tell which call a
    question belongs to, as was seen on an earlier connection.
    """

    def __init__(
        self,
        server: McpServer,
        ask: AskPeople | None,
        *,
        renew: Callable[[], None] = lambda: None,
        takes_turns: bool = False,
    ) -> None:
        self.ask = ask
        self.takes_turns = takes_turns
        self.is_closing = False  # a call that was given up may still ask, so this connection takes no more calls
        self._server = server
        self._renew = renew
        self._under_way: set[ServerCall] = set()
        self._given_up: set[ServerCall] = set()
        self._turn = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks = BackgroundTasks()

    def anew(self, renew: Callable[[], None]) -> ServerQuestions:
        """Returns the same for a new connection to the server."""
        return ServerQuestions(self._server, self.ask, renew=renew, takes_turns=self.takes_turns)

    @asynccontextmanager
    async def call(self, tool: str) -> AsyncGenerator[ServerCall]:
        """Begins a call, after all others if the server does not tell which call a question belongs to.

        Raises TimeoutError if it cannot begin within the server's time limit.
        """
        if not self.takes_turns:
            async with self._begun(tool) as one:
                yield one
            return
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self._server.timeout_seconds):
                await stack.enter_async_context(self._turn)
                await self._idle.wait()
            yield await stack.enter_async_context(self._begun(tool))

    @asynccontextmanager
    async def _begun(self, tool: str) -> AsyncGenerator[ServerCall]:
        one = ServerCall(tool=tool, caller=CALLER.get(), limit=PausableTimeout(self._server.timeout_seconds))
        self._under_way.add(one)
        self._idle.clear()
        token = _CALL.set(one)
        try:
            yield one
        finally:
            _CALL.reset(token)
            self._end(one)

    async def aclose(self) -> None:
        """Withdraws all questions, because the connection is closed."""
        await self._tasks.end(_CLOSE_SECONDS)

    async def hear(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answers a question of a server that speaks the older protocol."""
        one = _CALL.get() or self._only_call()
        if one is None:
            _log.warning(
                "A question of an MCP server could not be asked: it may belong to several calls, or to none.",
                action="mcp_question_unclear",
                server=self._server.name,
                calls=len(self._under_way),
                given_up=len(self._given_up),
            )
            for each in self._under_way:
                each.notes[_UNCLEAR] = None
            return _unanswered(_UNCLEAR)
        return await self.answer(one, params)

    async def answer(self, one: ServerCall, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Asks people a question of a call. Returns their answer, or why nobody was asked."""
        if one not in self._under_way:
            return _unanswered(_OVER)
        asking = self._tasks.start(self._asked(one, params), "question of an MCP server")
        one.asking.add(asking)
        try:
            await asyncio.wait({asking})
        finally:  # also when the server takes back its question
            asking.cancel()
            one.asking.discard(asking)
        return _unanswered(_OVER) if asking.cancelled() else asking.result()

    def _only_call(self) -> ServerCall | None:
        """Returns the call of a question that does not tell it, if there is only one that it can belong to."""
        self.takes_turns = True
        found = self._under_way | self._given_up
        return next(iter(self._under_way)) if len(found) == 1 and self._under_way else None

    def _end(self, one: ServerCall) -> None:
        self._under_way.discard(one)
        if not one.is_answered:
            self._given_up.add(one)
        for asking in one.asking:
            asking.cancel()
        if not self._under_way:
            self._idle.set()
            if self.takes_turns and self._given_up:
                self.is_closing = True
                self._renew()

    async def _asked(self, one: ServerCall, params: types.ElicitRequestParams) -> types.ElicitResult:
        result = await self._result(one, params)
        reason = (result.meta or {}).get(REASON)
        if isinstance(reason, str):
            one.notes[reason] = None
        return result

    async def _result(self, one: ServerCall, params: types.ElicitRequestParams) -> types.ElicitResult:
        one.asked += 1
        if isinstance(params, types.ElicitRequestURLParams):
            return _declined(_NO_LINKS)
        if one.caller is None or not one.caller.run_id or self.ask is None:
            return _declined(_NOBODY)
        seconds = min(QUESTION_SECONDS, MOST_WAIT_SECONDS - one.caller.limit.paused_seconds)
        if one.asked > MOST_QUESTIONS or seconds < 1:
            return _declined(_TOO_MANY if one.asked > MOST_QUESTIONS else _TOO_LONG)
        new = _request(self._server, one.tool, params, seconds)
        if len(new.fields) < len(params.requested_schema.get("properties") or ()):
            return _declined(_TOO_LARGE)
        try:
            with one.limit.paused(), one.caller.limit.paused():
                return _answer(await self.ask(one.caller.run_id, one.tool, new))
        except Unavailable as error:
            return _unanswered(error.message)
        except SwarmError as error:
            return _declined(error.message)
        except Exception as error:  # noqa: BLE001 - the call goes on without an answer
            _log.error("A question could not be asked.", action="mcp_question", exc_info=error, tool=one.tool)
            return _unanswered(f"Nobody was asked: {OUR_FAULT}.")


def form_only(capabilities: types.ClientCapabilities) -> types.ClientCapabilities:
    """Returns the client's capabilities with forms as the only kind of question. The library also names links."""
    if capabilities.elicitation is None:
        return capabilities
    return capabilities.model_copy(
        update={"elicitation": types.ElicitationCapability(form=types.FormElicitationCapability())}
    )


def _request(server: McpServer, tool: str, params: types.ElicitRequestFormParams, seconds: float) -> NewRequest:
    """Returns the question for people. All its texts but the title come from the server."""
    message = params.message
    for secret in server.secrets:
        message = message.replace(secret, HIDDEN)
    fields = fields_of(params.requested_schema)
    positive = HumanDecision.ANSWER if fields else HumanDecision.APPROVE  # a form without fields is a confirmation
    return NewRequest(
        key="",
        title=f"{server.name} asks"[:MAX_TITLE_CHARACTERS],
        prompt=storable(message),
        fields=fields,
        decisions=(positive, HumanDecision.REJECT),
        expires_seconds=seconds,
        raw={"server": server.name, "tool": tool},
    )


def _answer(request: HumanRequest) -> types.ElicitResult:
    match request.status:
        case RequestStatus.ANSWERED | RequestStatus.APPROVED:
            return _answer_of("accept", content=dict(request.values or {}))
        case RequestStatus.REJECTED:
            return _answer_of("decline")
        case _:
            return _unanswered(f"Nobody has answered: {outcome_text(request)}.")


def _declined(reason: str) -> types.ElicitResult:
    """Returns the answer if nobody will ever be asked this."""
    return _answer_of("decline", reason)


def _unanswered(reason: str) -> types.ElicitResult:
    """Returns the answer if nobody has decided."""
    return _answer_of("cancel", reason)


def _answer_of(
    action: Literal["accept", "decline", "cancel"], reason: str = "", content: dict[str, Any] | None = None
) -> types.ElicitResult:
    return types.ElicitResult(action=action, content=content, _meta={REASON: reason} if reason else None)


def elicitations(asked: Mapping[str, types.InputRequest]) -> Mapping[str, types.ElicitRequestParams] | None:
    """Returns the questions to people; None if the server also asks for something else."""
    found = {key: one.params for key, one in asked.items() if isinstance(one, types.ElicitRequest)}
    return found if len(found) == len(asked) else None
