"""CAIPE's chat service in its two shapes, as far as a client can tell: what it takes, what it refuses, what it sends.

``old`` is the draft before 0.4: the protocol is asked for in the query. ``present`` is the service since 0.4: the query
says nothing, the body's ``protocol`` is "custom" by default, and since 0.4.9 a resume takes ``resume_data``. Both pass
over fields that they do not know. Their model is a rule: it repeats what reached it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

AGENT = "agent-17"
CHAT = "/api/v1/chat"

Hex = Annotated[str | None, Field(pattern="^[0-9a-f]{32}$")]
"""Langfuse, where the ids of traces go, takes no others."""


class Shape(StrEnum):
    OLD = "old"
    PRESENT = "present"


class ClientContext(BaseModel):
    model_config = ConfigDict(extra="allow")

    source: str


class Start(BaseModel):
    message: str
    conversation_id: str
    agent_id: str
    trace_id: Hex = None
    client_context: ClientContext | None = None
    protocol: Literal["custom", "agui"] = "custom"  # the old one does not know it, and so passes over it


class Resume(BaseModel):
    agent_id: str
    conversation_id: str
    trace_id: Hex = None
    protocol: Literal["custom", "agui"] = "custom"


class OldResume(Resume):
    form_data: str


class PresentResume(Resume):
    resume_data: str


@dataclass
class Caipe:
    """A service with one agent, whose system prompt tells of the thread if it is one that `is_prompted`."""

    shape: Shape
    is_prompted: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)  # of all that was taken
    memory: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # messages by conversation

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(f"{CHAT}/stream/start", self._start, methods=["POST"]),
                Route(f"{CHAT}/stream/resume", self._resume, methods=["POST"]),
                Route("/healthz", self._health),
            ]
        )

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "healthy"})

    async def _start(self, request: Request) -> Response:
        return await self._taken(request, Start)

    async def _resume(self, request: Request) -> Response:
        return await self._taken(request, OldResume if self.shape is Shape.OLD else PresentResume)

    async def _taken(self, request: Request, kind: type[Start | Resume]) -> Response:
        body = await request.json()
        try:
            said = kind.model_validate(body)
        except ValidationError as error:
            return JSONResponse({"detail": error.errors(include_url=False)}, 422)
        if said.agent_id != AGENT:
            return JSONResponse({"detail": "Agent not found"}, 404)
        self.bodies.append(body)
        text = self._answer(said) if isinstance(said, Start) else json.dumps(body)
        is_agui = (request.query_params.get("protocol") if self.shape is Shape.OLD else said.protocol) == "agui"
        frames = _agui(said.conversation_id, text) if is_agui else _custom(text)
        return StreamingResponse(frames, media_type="text/event-stream")

    def _answer(self, said: Start) -> str:
        """What the model reads: the system prompt, what it remembers, the new message."""
        context = said.client_context.model_dump() if said.client_context else {}
        prompt = str(context.get("thread_context", "")) if self.is_prompted else ""
        remembered = self.memory[said.conversation_id]
        told = _lines(prompt + said.message)
        message = said.message.rpartition('">\n')[2].strip()
        answer = f"I am told [{', '.join(told)}], I remember [{', '.join(remembered)}], you say: {message}"
        remembered.append(message)
        return answer


def _lines(text: str) -> list[str]:
    """What people said, in the fence of a thread."""
    return re.findall(r"^\| (.*)$", text, re.MULTILINE)


def _agui(thread: str, text: str) -> Iterator[str]:
    """A tool is called, and has answered nothing when its call ends; then the answer."""
    call, message = {"toolCallId": "call-1"}, {"messageId": "msg-1"}
    run = {"runId": "run-1", "threadId": thread}
    yield _frame("RUN_STARTED", **run)
    yield _frame("TOOL_CALL_START", **call, toolCallName="search")
    yield _frame("TOOL_CALL_ARGS", **call, delta="{}")
    yield _frame("TOOL_CALL_END", **call)
    yield _frame("TEXT_MESSAGE_START", **message, role="assistant")
    yield _frame("TEXT_MESSAGE_CONTENT", **message, delta=text)
    yield _frame("TEXT_MESSAGE_END", **message)
    yield _frame("RUN_FINISHED", **run, outcome="success")


def _custom(text: str) -> Iterator[str]:
    yield f"event: content\ndata: {json.dumps({'text': text, 'namespace': []})}\n\n"
    yield "event: done\ndata: {}\n\n"


def _frame(kind: str, **fields: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields, 'timestamp': 1700000000.25})}\n\n"
