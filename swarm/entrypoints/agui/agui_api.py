"""The built-in agents over AG-UI, for web pages, terminals, and other coordinators: in AG-UI's dialect and CAIPE's.

Loaded only if there are built-in agents: the protocol's types take a while. The client's side is
`swarm.agents.remote.agui`. docs/agui-agents.md compares both dialects.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, Literal, NotRequired

from ag_ui.core import EventType, RunAgentInput
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from typing_extensions import TypedDict

from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import Failed, Origin, RunInput
from swarm.domain.errors import Conflict, TokenEnded, Unavailable
from swarm.entrypoints.agui.agui_ends import whole_answer
from swarm.entrypoints.agui.agui_events import AguiEventWriter
from swarm.entrypoints.agui.agui_requests import (
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
from swarm.entrypoints.agui.agui_stream import KEEP_ALIVE_SECONDS, STALLED_SECONDS, RunStream, end_of
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import Client, Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationKey

CHAT: Final = "/api/v1/chat"

_EVENTS: Final[dict[str, Any]] = {
    "description": "Server-sent events: AG-UI 1.0, the last of them RUN_FINISHED or RUN_ERROR.",
    "content": {
        "text/event-stream": {  # in FastAPI's own form: one event, not the whole text
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


TOKEN_ENDED: Final = Failed(message=TokenEnded().message, code=TokenEnded.code)


class WholeAnswer(TypedDict):
    """``content`` of a finished run, else the ``error`` as a sentence and its ``code``."""

    success: bool
    content: NotRequired[str]
    error: NotRequired[str]
    code: NotRequired[str]
    agent_id: str
    conversation_id: str
    run_id: str
    trace_id: str


class CancelledShape(TypedDict):
    """Whether a run was cancelled."""

    cancelled: bool


class BuiltInAgent(TypedDict):
    """An agent, and whether it could answer now."""

    name: str
    default: bool
    reachable: bool
    detail: str


class BuiltInAgents(TypedDict):
    """The default first."""

    agents: list[BuiltInAgent]


class AguiDoor:
    """The endpoints, for the operator and for the agents that each built-in agent's policy allows.

    For all others an agent does not exist. Conversations of different clients never meet.
    """

    def __init__(
        self,
        runs: AgentRuns,
        identities: Identities,
        *,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self._runs = runs
        self._identities = identities
        self._keep_alive_seconds = keep_alive_seconds
        self._stalled_seconds = stalled_seconds

    def routes(self) -> list[BaseRoute]:
        """The routes for the application, with their parts of its OpenAPI document."""
        router = APIRouter(tags=["built-in agents"])
        add = router.add_api_route
        runs = problems(400, 401, 403, 404, 409, 413, 422, 429, 503)
        streams: dict[int | str, dict[str, Any]] = {200: _EVENTS, **runs}
        for path, act, body in (
            (f"{CHAT}/stream/start", self.start, Start),
            (f"{CHAT}/stream/resume", self.resume, Resume),
            ("/agui/{agent}", self.run, RunAgentInput),
        ):
            add(path, act, methods=["POST"], response_class=Response, openapi_extra=takes(body), responses=streams)
        add(
            f"{CHAT}/stream/cancel", self.cancel, methods=["POST"], response_model=CancelledShape,
            openapi_extra=takes(AguiCancellation), responses=problems(400, 401, 403, 404, 413, 422),
        )  # fmt: skip
        add(
            f"{CHAT}/invoke", self.invoke, methods=["POST"], response_model=WholeAnswer, openapi_extra=takes(Start),
            responses=runs,
        )  # fmt: skip
        add("/agui/{agent}", self.agent, response_model=BuiltInAgent, responses=problems(401, 403, 404, 503))
        add("/api/v1/agents", self.everyone, response_model=BuiltInAgents, responses=problems(401, 403))
        return list(router.routes)

    async def start(self, request: Request, protocol: Literal["agui"] = "agui") -> Response:
        """Ask a built-in agent, and get its answer as a stream."""
        client = await self._identities.client(request.scope)
        said = await read_model(request, Start)
        key, from_where = self._key_of(client, said.conversation_id, said.agent_id)
        return await self._streamed(client, key, of_start(said, from_where), Dialect.CAIPE)

    async def resume(self, request: Request, protocol: Literal["agui"] = "agui") -> Response:
        """Answer the agent's question, with which its last run in this conversation was interrupted."""
        client = await self._identities.client(request.scope)
        said = await read_model(request, Resume)
        key, from_where = self._key_of(client, said.conversation_id, said.agent_id)
        asked = self._runs.questions(key)
        if not asked:
            raise Conflict("The agent waits for no answer in this conversation.", hint=f"Ask by {CHAT}/stream/start.")
        return await self._streamed(client, key, of_resume(said, from_where, asked), Dialect.CAIPE)

    async def cancel(self, request: Request) -> Response:
        """End a run of yours in a conversation: its stream ends with the outcome "cancelled"."""
        client = await self._identities.client(request.scope)
        said = await read_model(request, AguiCancellation)
        agent = self._runs.named(said.agent_id, client.agent) if said.agent_id else None
        return Answer({"cancelled": self._runs.cancel(client.id, said.conversation_id, agent)})

    async def invoke(self, request: Request) -> Response:
        """Ask a built-in agent, and get the whole answer within 60 seconds."""
        client = await self._identities.client(request.scope)
        said = await read_model(request, Start)
        key, from_where = self._key_of(client, said.conversation_id, said.agent_id)
        run_input = of_start(said, from_where)
        end = await end_of(await self._runs.invoke(key, run_input), request.receive)
        ids = {
            "agent_id": key.agent,
            "conversation_id": key.id,
            "run_id": run_input.agui_run_id,
            "trace_id": run_input.trace_id,
        }
        return Answer(whole_answer(end) | ids)

    async def run(self, request: Request, agent: str) -> Response:
        """Run a built-in agent by a RunAgentInput of AG-UI 1.0. The last messages of people are new."""
        client = await self._identities.client(request.scope)
        name = self._runs.named(agent, client.agent)
        said = await read_model(request, RunAgentInput)
        check_ids(said)
        check_tools(said)
        key, from_where = self._key_of(client, said.thread_id, name)
        run_input = of_agui(said, from_where, self._runs.questions(key))
        return await self._streamed(client, key, run_input, Dialect.AGUI, said.run_id)

    async def agent(self, request: Request, agent: str) -> Response:
        """Whether a built-in agent could answer now; 503 if not."""
        client = await self._identities.client(request.scope)
        shown = await self._shown(client, self._runs.named(agent, client.agent))
        if not shown["reachable"]:
            raise Unavailable(f"The agent '{shown['name']}' could not answer: {shown['detail']}.")
        return Answer(shown)

    async def everyone(self, request: Request) -> Response:
        """The built-in agents that you may call, and whether each could answer now."""
        client = await self._identities.client(request.scope)
        shown = (self._shown(client, name) for name in self._runs.callable_by(client.agent))
        return Answer({"agents": await asyncio.gather(*shown)})

    async def _streamed(
        self, client: Client, key: ConversationKey, run_input: RunInput, dialect: Dialect, run_id: str | None = None
    ) -> RunStream:
        """Begin a run and stream its events. ``run_id`` is the client's id of the run, if given."""
        run = await self._runs.begin(key, run_input)
        if client.call:
            client.call.on_end(partial(run.stop, TOKEN_ENDED, tell_rest=False))
        return RunStream(
            run,
            AguiEventWriter(
                key.id, run_id or run_input.agui_run_id, dialect, tool_details=self._runs.tells_tools(key.agent)
            ),
            keep_alive_seconds=self._keep_alive_seconds,
            stalled_seconds=self._stalled_seconds,
        )

    async def _shown(self, client: Client, name: str) -> BuiltInAgent:
        health = await self._runs.health(name)
        is_default = name == self._runs.named(None, client.agent)
        return BuiltInAgent(name=name, default=is_default, reachable=health.reachable, detail=health.detail)

    def _key_of(self, client: Client, conversation_id: str, agent: str | None) -> tuple[ConversationKey, Origin]:
        name = self._runs.named(agent, client.agent)
        return ConversationKey(client=client.id, agent=name, id=conversation_id), origin(client, conversation_id)
