"""CAIPE's chat service in its two shapes, as far as a client can tell: what it takes, what it refuses, what it sends.

``old`` is the draft before 0.4: the protocol is asked for in the query. ``present`` is the service since 0.4: the query
says nothing, the body's ``protocol`` is "custom" by default, and since 0.4.9 a resume takes ``resume_data``. Both pass
over fields that they do not know. Their model is a rule: it repeats what reached it, and asks for a form or for the
approval of calls when it is told to. The old one asks only for forms.

What a resume contains decides as there: the old one takes a text that begins with "User dismissed" for a refusal, and
any other for values; the present one reads the type in ``resume_data``. The tool of a form takes only texts as values.
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
FORM = "request_user_input"
ALL = ["approve", "edit", "reject"]
FIELDS: list[dict[str, Any]] = [
    {"field_name": "repo", "field_label": "Repository", "field_type": "text", "required": True, "placeholder": "a/b"},
    {"field_name": "replicas", "field_type": "number", "default_value": "3"},
    {"field_name": "where", "field_type": "multiselect", "field_values": ["eu", "us", "ap"]},
    {"field_name": "sure", "field_type": "boolean", "default_value": "false"},
]

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
    """A service with one agent or several, whose system prompt tells of the thread if it is one that `is_prompted`."""

    shape: Shape
    is_prompted: bool = True
    agent_ids: frozenset[str] = frozenset({AGENT})
    bodies: list[dict[str, Any]] = field(default_factory=list)  # of all that was taken
    memory: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # messages by conversation
    asked: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # calls that wait, by conversation
    ran: list[dict[str, Any]] = field(default_factory=list)  # the arguments of all calls that were made

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(f"{CHAT}/stream/start", self._start, methods=["POST"]),
                Route(f"{CHAT}/stream/resume", self._resume, methods=["POST"]),
                Route(f"{CHAT}/invoke", self._invoke, methods=["POST"]),
                Route("/healthz", self._health),
            ]
        )

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "healthy"})

    async def _start(self, request: Request) -> Response:
        return await self._taken(request, Start)

    async def _invoke(self, request: Request) -> Response:
        """Answers without a stream, as bots are answered."""
        body = await request.json()
        said = Start.model_validate(body)
        if said.agent_id not in self.agent_ids:
            return JSONResponse({"detail": "Agent not found"}, 404)
        self.bodies.append(body)
        return JSONResponse({"success": True, "content": self._answer(said), "conversation_id": said.conversation_id})

    async def _resume(self, request: Request) -> Response:
        return await self._taken(request, OldResume if self.shape is Shape.OLD else PresentResume)

    async def _taken(self, request: Request, kind: type[Start | Resume]) -> Response:
        body = await request.json()
        try:
            said = kind.model_validate(body)
        except ValidationError as error:
            return JSONResponse({"detail": error.errors(include_url=False)}, 422)
        if said.agent_id not in self.agent_ids:
            return JSONResponse({"detail": "Agent not found"}, 404)
        self.bodies.append(body)
        text = self._answer(said) if isinstance(said, Start) else self._resumed(said)
        is_agui = (request.query_params.get("protocol") if self.shape is Shape.OLD else said.protocol) == "agui"
        frames = _agui(said.conversation_id, text) if is_agui else _custom(text)
        if is_agui and isinstance(said, Start) and (calls := _calls(said.message)):
            self.asked[said.conversation_id] = calls
            frames = _asking(said.conversation_id, calls)
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

    def _resumed(self, said: Resume) -> str:
        """What came of the calls that waited."""
        calls = self.asked.pop(said.conversation_id, [])
        if isinstance(said, OldResume):
            decisions = [_old_decision(said.form_data)]
        elif isinstance(said, PresentResume):
            decisions = _present_decisions(json.loads(said.resume_data), len(calls))
        assert len(decisions) == len(calls), "LangChain's middleware needs one decision for each call"
        return " | ".join(self._decided(call, decision) for call, decision in zip(calls, decisions, strict=True))

    def _decided(self, call: dict[str, Any], decision: dict[str, Any]) -> str:
        if decision["type"] == "reject":
            return str(decision.get("message", "User rejected the tool call"))
        if call["name"] == FORM:
            values = decision.get("values", {})
            wrong = [name for name, value in values.items() if not isinstance(value, str)]
            return f"ERROR: Invalid field definition: {wrong}" if wrong else json.dumps(values)
        arguments = decision.get("args", call["args"])
        self.ran.append(arguments)
        return f"deleted {arguments['path']}"


def _calls(message: str) -> list[dict[str, Any]]:
    """What the model asks for: "form", or "delete" and paths."""
    said = message.rpartition('">\n')[2].split()
    word, *paths = [part for part in said if not part.startswith("swarm#")] or [""]
    if word == "form":
        return [{"name": FORM, "args": {"prompt": "Please configure:", "fields": FIELDS}}]
    return [{"name": "delete", "args": {"path": path}} for path in paths] if word == "delete" else []


def _old_decision(form_data: str) -> dict[str, Any]:
    if form_data.startswith("User dismissed"):
        return {"type": "reject", "message": form_data}
    try:
        return {"type": "edit", "values": json.loads(form_data)}
    except json.JSONDecodeError:
        return {"type": "edit", "values": {}}


def _present_decisions(data: dict[str, Any], count: int) -> list[dict[str, Any]]:
    if data.get("type", "form_input") != "tool_approval":
        if data.get("dismissed"):
            return [{"type": "reject", "message": "User dismissed the input form without providing values."}]
        return [{"type": "edit", "values": data.get("values", {})}]
    if data.get("decisions"):
        return [_present_decision(one) for one in data["decisions"]]
    decision = _present_decision(data)
    return [decision] if decision["type"] == "edit" else [decision] * count


def _present_decision(data: dict[str, Any]) -> dict[str, Any]:
    """Whatever is neither a rejection nor an edit approves."""
    match data.get("decision", "approve"):
        case "reject":
            return {"type": "reject"}
        case "edit":
            return {"type": "edit", "args": data.get("edited_args", {})}
    return {"type": "approve"}


def _asking(thread: str, calls: list[dict[str, Any]]) -> Iterator[str]:
    """The end of a run that waits."""
    first = calls[0]
    if first["name"] == FORM:
        reason, payload = "human_input", {**first["args"], "agent": AGENT}
    else:
        described = [{"tool_name": call["name"], "tool_args": call["args"], "allowed_decisions": ALL} for call in calls]
        reason, payload = "tool_approval", {**described[0], "agent": AGENT}
        if len(calls) > 1:
            payload["tool_approvals"] = described
    asked = {"id": "140123", "reason": reason, "payload": payload}
    run = {"runId": "run-1", "threadId": thread}
    yield _frame("RUN_STARTED", **run)
    yield _frame("RUN_FINISHED", **run, outcome="interrupt", interrupt=asked)


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
