"""An AG-UI agent that asks before it deletes: its approvals are answered by a resume, and it counts what it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
    "required": ["approved"],
}


@dataclass
class Deleter:
    """Its runs, and the files that it has deleted. While ``holds`` is set, it hangs after a deletion."""

    runs: list[RunAgentInput] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    holds: asyncio.Event | None = None
    asks: int = 1  # calls that it asks for at once

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/", self._run, methods=["POST"]), Route("/", self._alive)])

    async def _alive(self, request: Request) -> Response:
        return Response("here")

    async def _run(self, request: Request) -> Response:
        run = RunAgentInput.model_validate_json(await request.body())
        self.runs.append(run)
        encoder = EventEncoder()

        async def encoded() -> AsyncIterator[str]:
            async for event in self._events(run):
                yield encoder.encode(event)

        return StreamingResponse(encoded(), media_type=encoder.get_content_type())

    async def _events(self, run: RunAgentInput) -> AsyncIterator[BaseEvent]:
        ids = {"thread_id": run.thread_id, "run_id": run.run_id}
        yield RunStartedEvent(**ids)
        if not run.resume:
            for number in range(self.asks):
                call = f"{run.run_id}-{number}"
                yield ToolCallStartEvent(tool_call_id=call, tool_call_name="delete")
                yield ToolCallArgsEvent(tool_call_id=call, delta=f'{{"path":"{number}.txt"}}')
                yield ToolCallEndEvent(tool_call_id=call)
            yield RunFinishedEvent(**ids, outcome=RunFinishedInterruptOutcome(interrupts=self._interrupts(run)))
            return
        text = ", ".join(self._does(entry) for entry in run.resume)
        if self.holds:
            await self.holds.wait()
        yield TextMessageStartEvent(message_id="1", role="assistant")
        yield TextMessageContentEvent(message_id="1", delta=f"Done: {text}.")
        yield TextMessageEndEvent(message_id="1")
        yield RunFinishedEvent(**ids)

    def _interrupts(self, run: RunAgentInput) -> list[Interrupt]:
        calls = [f"{run.run_id}-{number}" for number in range(self.asks)]
        return [
            Interrupt(id=f"i-{call}", reason="tool_call", message="Delete?", tool_call_id=call, response_schema=SCHEMA)
            for call in calls
        ]

    def _does(self, entry: Any) -> str:
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        if not payload.get("approved"):
            return f"kept, because: {payload.get('reason')}"
        path = (payload.get("editedArgs") or {}).get("path") or f"{entry.interrupt_id.rpartition('-')[2]}.txt"
        self.deleted.append(path)
        return f"{path} is gone"
