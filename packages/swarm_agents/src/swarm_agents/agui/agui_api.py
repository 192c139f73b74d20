"""Serves the built-in agents over AG-UI to web pages, terminals and other coordinators, in the dialects of AG-UI and
CAIPE.

A run is either streamed as events or answered once at its end. The request that starts a run is its only listener. If
the client disconnects, or stops reading for too long, the run is abandoned and ends.

This module is loaded only if there are built-in agents, because loading the protocol's types takes a while. The
client's side is `swarm.agents.remote.agui`. docs/agui-agents.md compares both dialects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, NotRequired

import structlog
from ag_ui.core import EventType, RunAgentInput
from fastapi import APIRouter
from fastapi.sse import KEEPALIVE_COMMENT
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import TypedDict

from swarm.domain.answers.agents import Dialect, RunEnd
from swarm.domain.answers.events import Failed, Origin, RunInput
from swarm.domain.errors import TokenEnded, Unavailable
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import Client, Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.services.builtin.agent_runs import AgentRun, AgentRuns
from swarm.services.builtin.conversation_locks import ConversationKey
from swarm_agents.agui.agui_events import AguiEventWriter, encoded, whole_answer
from swarm_agents.agui.agui_requests import (
    AguiCancellation,
    Resume,
    Start,
    check_ids,
    check_tools,
    of_agui,
    of_resume,
    of_start,
    origin,
)

_KEEP_ALIVE_SECONDS: Final = 15.0
"""After this period of silence a comment is sent, so that proxies keep the connection open."""

_STALLED_SECONDS: Final = 60.0
"""A client that reads nothing for this long is disconnected."""

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_CHAT: Final = "/api/v1/chat"

_EVENTS: Final[dict[str, Any]] = {
    "description": "Server-sent events of AG-UI 1.0; the last event is RUN_FINISHED or RUN_ERROR.",
    "content": {
        "text/event-stream": {  # the format that FastAPI uses itself: one event, not the complete text
            "itemSchema": {
                "type": "object",
                "properties": {
                    "data": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": {
                            "type": "object",
                            "properties": {"type": {"type": "string", "enum": [kind.value for kind in EventType]}},
                            "required": ["type"],
                            "externalDocs": {"url": "https://docs.ag-ui.com/concepts/events"},
                        },
                    }
                },
                "required": ["data"],
            }
        }
    },
}


_TOKEN_ENDED: Final = Failed(message=TokenEnded().message, code=TokenEnded.code)

_log = structlog.get_logger(__name__)


class WholeAnswer(TypedDict):
    """The ``content`` of a finished run, or else the ``error`` as a sentence, with its ``code``."""

    success: bool
    content: NotRequired[str]
    error: NotRequired[str]
    code: NotRequired[str]
    agent_id: str
    conversation_id: str
    run_id: str
    trace_id: str


class CancelledShape(TypedDict):
    """The response to a cancellation: whether a run was cancelled."""

    cancelled: bool


class BuiltInAgent(TypedDict):
    """An agent, and whether it can answer now."""

    name: str
    default: bool
    reachable: bool
    detail: str


class BuiltInAgents(TypedDict):
    """The built-in agents, the default agent first."""

    agents: list[BuiltInAgent]


class _RunStream(StreamingResponse):
    """The events of a run, one by one. A client that does not read slows the agent down, so no events accumulate."""

    media_type = "text/event-stream"

    def __init__(
        self,
        run: AgentRun,
        writer: AguiEventWriter,
        *,
        keep_alive_seconds: float = _KEEP_ALIVE_SECONDS,
        stalled_seconds: float = _STALLED_SECONDS,
    ) -> None:
        self._run = run
        self._stalled_seconds = stalled_seconds
        self._pieces = _pieces(run, writer, keep_alive_seconds)
        super().__init__(self._pieces, headers=_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._run.leave()

    async def stream_response(self, send: Send) -> None:
        """Sends events until the run ends. Cancelled when the client disconnects."""

        async def patiently(message: Message) -> None:
            async with asyncio.timeout(self._stalled_seconds):
                await send(message)

        try:
            async with aclosing(self._pieces):
                await super().stream_response(patiently)
        except TimeoutError:  # the server closes the connection, since the answer is incomplete
            _log.warning("A client does not read its answer.", action="agent_run_stalled", run_id=self._run.id)


async def _pieces(run: AgentRun, writer: AguiEventWriter, keep_alive_seconds: float) -> AsyncGenerator[bytes, None]:
    yield encoded(writer.started())
    while True:
        try:
            async with asyncio.timeout(keep_alive_seconds):
                event = await run.next()
        except TimeoutError:
            yield KEEPALIVE_COMMENT
            continue
        for written in writer.write(event):
            yield encoded(written)
        if isinstance(event, RunEnd):
            return


async def _end_of(run: AgentRun, receive: Receive) -> RunEnd:
    """Returns the end of a run. The run is abandoned if the client disconnects meanwhile."""
    watch = asyncio.create_task(_leave_when_gone(run, receive))
    try:
        while not isinstance(event := await run.next(), RunEnd):
            pass
        return event
    finally:
        watch.cancel()
        run.leave()


async def _leave_when_gone(run: AgentRun, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    run.leave()


class AguiEntryPoint:
    """The AG-UI endpoints, for the operator and for the agents that each built-in agent's policy allows.

    To all other callers an agent appears not to exist. Conversations of different clients are separate.
    """

    def __init__(
        self,
        runs: AgentRuns,
        identities: Identities,
        *,
        keep_alive_seconds: float = _KEEP_ALIVE_SECONDS,
        stalled_seconds: float = _STALLED_SECONDS,
    ) -> None:
        self._runs = runs
        self._identities = identities
        self._keep_alive_seconds = keep_alive_seconds
        self._stalled_seconds = stalled_seconds

    def routes(self) -> list[BaseRoute]:
        """Returns the routes for the application, with their parts of its OpenAPI document."""
        router = APIRouter(tags=["built-in agents"])
        add = router.add_api_route
        runs = problems(400, 401, 403, 404, 409, 413, 422, 429, 503)
        streams: dict[int | str, dict[str, Any]] = {200: _EVENTS, **runs}
        for path, act, model in (
            (f"{_CHAT}/stream/start", self.start, Start),
            (f"{_CHAT}/stream/resume", self.resume, Resume),
            ("/agui/{agent}", self.run, RunAgentInput),
        ):
            add(path, act, methods=["POST"], response_class=Response, openapi_extra=takes(model), responses=streams)
        add(
            f"{_CHAT}/stream/cancel", self.cancel, methods=["POST"], response_model=CancelledShape,
            openapi_extra=takes(AguiCancellation), responses=problems(400, 401, 403, 404, 413, 422),
        )  # fmt: skip
        add(
            f"{_CHAT}/invoke", self.invoke, methods=["POST"], response_model=WholeAnswer, openapi_extra=takes(Start),
            responses=runs,
        )  # fmt: skip
        add("/agui/{agent}", self.agent, response_model=BuiltInAgent, responses=problems(401, 403, 404, 503))
        add("/api/v1/agents", self.everyone, response_model=BuiltInAgents, responses=problems(401, 403))
        return list(router.routes)

    async def start(self, request: Request, protocol: Literal["agui"] = "agui") -> Response:
        """Ask a built-in agent and get its answer as a stream."""
        client = await self._identities.client(request.scope)
        body = await read_model(request, Start)
        conversation, source = self._conversation(client, body.conversation_id, body.agent_id)
        return await self._streamed(client, conversation, of_start(body, source), Dialect.CAIPE)

    async def resume(self, request: Request, protocol: Literal["agui"] = "agui") -> Response:
        """Answer the question that interrupted the agent's last run in this conversation."""
        client = await self._identities.client(request.scope)
        body = await read_model(request, Resume)
        conversation, source = self._conversation(client, body.conversation_id, body.agent_id)
        asked = await self._runs.questions(conversation, source)
        return await self._streamed(client, conversation, of_resume(body, source, asked), Dialect.CAIPE)

    async def cancel(self, request: Request) -> Response:
        """End one of your runs in a conversation. The run's stream ends with the outcome "cancelled"."""
        client = await self._identities.client(request.scope)
        body = await read_model(request, AguiCancellation)
        agent = self._runs.named(body.agent_id, client.agent) if body.agent_id else None
        return Answer({"cancelled": self._runs.cancel(client.id, body.conversation_id, agent)})

    async def invoke(self, request: Request) -> Response:
        """Ask a built-in agent and get the complete answer within 60 seconds."""
        client = await self._identities.client(request.scope)
        body = await read_model(request, Start)
        conversation, source = self._conversation(client, body.conversation_id, body.agent_id)
        run_input = of_start(body, source)
        end = await _end_of(await self._runs.invoke(conversation, run_input), request.receive)
        ids = {
            "agent_id": conversation.agent,
            "conversation_id": conversation.id,
            "run_id": run_input.agui_run_id,
            "trace_id": run_input.trace_id,
        }
        return Answer(whole_answer(end) | ids)

    async def run(self, request: Request, agent: str) -> Response:
        """Run a built-in agent with a RunAgentInput of AG-UI 1.0. People's last messages count as new."""
        client = await self._identities.client(request.scope)
        name = self._runs.named(agent, client.agent)
        body = await read_model(request, RunAgentInput)
        check_ids(body)
        check_tools(body)
        conversation, source = self._conversation(client, body.thread_id, name)
        asked = await self._runs.questions(conversation, source) if body.resume else ()
        run_input = of_agui(body, source, asked)
        return await self._streamed(client, conversation, run_input, Dialect.AGUI, body.run_id)

    async def agent(self, request: Request, agent: str) -> Response:
        """Check whether a built-in agent can answer now. The status is 503 if not."""
        client = await self._identities.client(request.scope)
        shown = await self._shown(client, self._runs.named(agent, client.agent))
        if not shown["reachable"]:
            raise Unavailable(f"The agent '{shown['name']}' could not answer: {shown['detail']}.")
        return Answer(shown)

    async def everyone(self, request: Request) -> Response:
        """List the built-in agents that you may call, and whether each of them can answer now."""
        client = await self._identities.client(request.scope)
        shown = (self._shown(client, name) for name in self._runs.callable_by(client.agent))
        return Answer({"agents": await asyncio.gather(*shown)})

    async def _streamed(
        self,
        client: Client,
        conversation: ConversationKey,
        run_input: RunInput,
        dialect: Dialect,
        run_id: str | None = None,
    ) -> _RunStream:
        """Starts a run and streams its events. ``run_id`` is the client's id for the run, if given."""
        run = await self._runs.begin(conversation, run_input)
        if client.call:
            client.call.on_end(partial(run.stop, _TOKEN_ENDED, tell_rest=False))
        return _RunStream(
            run,
            AguiEventWriter(
                conversation.id,
                run_id or run_input.agui_run_id,
                dialect,
                tool_details=self._runs.tells_tools(conversation.agent),
            ),
            keep_alive_seconds=self._keep_alive_seconds,
            stalled_seconds=self._stalled_seconds,
        )

    async def _shown(self, client: Client, name: str) -> BuiltInAgent:
        health = await self._runs.health(name)
        is_default = name == self._runs.named(None, client.agent)
        return BuiltInAgent(name=name, default=is_default, reachable=health.reachable, detail=health.detail)

    def _conversation(self, client: Client, conversation_id: str, agent: str | None) -> tuple[ConversationKey, Origin]:
        name = self._runs.named(agent, client.agent)
        return ConversationKey(client=client.id, agent=name, id=conversation_id), origin(client, conversation_id)
