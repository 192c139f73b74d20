from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from swarm.app.extending import AgentHost, AgentSet, RouteHost, own_section
from swarm.config import load
from swarm.domain.answers.agents import Health, RunEnd, StreamingAgent, conversation_id
from swarm.domain.answers.events import AgentEvent, Finished, RunInput, TextDelta
from swarm.domain.model.agents import Reach
from swarm.services.runs.event_sources import ManagedAgent
from swarm_weather.settings import WeatherSettings


def forecast(settings: object) -> str:
    assert isinstance(settings, WeatherSettings)
    return f"It will rain in {settings.place}."


class Forecaster:
    """Answers everything with the forecast. `swarm.domain.answers.agents.AgentClient` says what each method is for."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def run(self, run_input: RunInput) -> AsyncGenerator[AgentEvent, None]:
        yield TextDelta(text=self._text)
        yield Finished()

    async def invoke(self, run_input: RunInput) -> RunEnd:
        return Finished(result=self._text)

    async def health(self) -> Health:
        return Health(reachable=True, detail="")

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def agents(host: AgentHost) -> AsyncIterator[AgentSet]:
    """Opens what the agents need, yields them, and closes it."""
    spec = StreamingAgent(name="weather", reach=Reach.BUILTIN, description="Tells the weather.")
    client = Forecaster(forecast(host.section))
    yield AgentSet(hired=[ManagedAgent(spec=spec, client=client, conversation_id=conversation_id)])


def routes(host: RouteHost) -> list[Route]:
    async def show(request: Request) -> JSONResponse:
        await host.identities.operator(request.scope)
        return JSONResponse({"forecast": forecast(host.section)})

    return [Route("/weather", show)]


def weather() -> None:
    """Print the forecast."""
    print(forecast(own_section(load(), "weather")))
