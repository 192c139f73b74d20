"""An AG-UI agent as a separate web service, independent of the coordinator: one address, and events.

An agent of your own would do the same with a model in place of `swarm.demo.agents.writer`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import uvicorn
from ag_ui.core import RunAgentInput
from ag_ui.encoder import EventEncoder
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from swarm.demo.agents.writer import Writer

STOP_SECONDS = 2
"""The time for runs to end when the demo is stopped."""


def application(writer: Writer) -> Starlette:
    """Returns the service: a run is posted to ``/`` as a ``RunAgentInput``, its events come as server-sent events."""
    encoder = EventEncoder()

    async def run(request: Request) -> Response:
        try:
            asked = RunAgentInput.model_validate_json(await request.body())
        except ValidationError as error:
            return PlainTextResponse(str(error), status_code=422)
        return StreamingResponse(events(asked), media_type=encoder.get_content_type())

    async def events(asked: RunAgentInput) -> AsyncIterator[str]:
        async for event in writer.run(asked):
            yield encoder.encode(event)

    async def alive(request: Request) -> Response:
        return PlainTextResponse("POST a RunAgentInput here.")

    return Starlette(routes=[Route("/", run, methods=["POST"]), Route("/", alive, methods=["GET"])])


def main() -> None:
    """Serves at the port given by WRITER_PORT; DEMO_ROOT is the folder to write about."""
    app = application(Writer(os.environ.get("DEMO_ROOT", ".")))
    port = int(os.environ["WRITER_PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_graceful_shutdown=STOP_SECONDS)


if __name__ == "__main__":
    main()
