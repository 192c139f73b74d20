"""A run as an answer over HTTP: an event stream during the run, or one answer at its end.

The listener of a run is the request that began it. When the client goes away, or is stuck for too long, the run is
left, and so ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import structlog
from fastapi.sse import KEEPALIVE_COMMENT
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from swarm.domain.answers.agents import RunEnd
from swarm.entrypoints.agui.agui_events import AguiEventWriter, encoded
from swarm.services.builtin.agent_runs import AgentRun

KEEP_ALIVE_SECONDS: Final = 15.0
"""After so long a silence a comment is sent, so that no proxy takes the connection for dead."""

STALLED_SECONDS: Final = 60.0
"""A client that takes nothing for so long is given up."""

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_log = structlog.get_logger(__name__)


class RunStream(StreamingResponse):
    """The events of a run, one by one. A client that does not read holds up the agent, so nothing piles up."""

    media_type = "text/event-stream"

    def __init__(
        self,
        run: AgentRun,
        writer: AguiEventWriter,
        *,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
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
        """Send until the run is over; cancelled when the client has gone."""

        async def patiently(message: Message) -> None:
            async with asyncio.timeout(self._stalled_seconds):
                await send(message)

        try:
            async with aclosing(self._pieces):
                await super().stream_response(patiently)
        except TimeoutError:  # the server cuts the connection, since the answer is not complete
            _log.warning("A client takes nothing of an answer.", action="agent_run_stalled", run_id=self._run.id)


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


async def end_of(run: AgentRun, receive: Receive) -> RunEnd:
    """The end of a run. The run is left if the client goes away meanwhile."""
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
