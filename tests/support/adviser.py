"""An agent of pydantic-ai, outside of our package, served over AG-UI as it serves itself: it repeats what it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def _model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    requests = (message for message in messages if isinstance(message, ModelRequest))
    told = [str(part.content) for one in requests for part in one.parts if isinstance(part, UserPromptPart)]
    yield f"I am told [{', '.join(told[:-1])}], I remember [], you say: {told[-1]}"


def adviser() -> Starlette:
    """The agent as an application."""
    agent = Agent(FunctionModel(stream_function=_model))

    async def runs(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/", runs, methods=["POST"])])
