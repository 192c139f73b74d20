"""How tests ask models: as the assistant does, with one tool."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.run import AgentRunResultEvent
from pydantic_ai.usage import RunUsage, UsageLimits

from swarm.domain.model.language_models import ModelSpec
from swarm_agents.models.building import Models
from swarm_agents.models.served import RetryPolicy
from swarm_agents.models.troubles import ModelTrouble, trouble_of


@dataclass
class Heard:
    """What came of a run."""

    pieces: list[str] = field(default_factory=list)
    answer: str = ""
    response: ModelResponse | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    trouble: ModelTrouble | None = None

    @property
    def code(self) -> str:
        return self.trouble.code if self.trouble else ""


AT_ONCE = RetryPolicy(pause_seconds=0)


def models(*specs: ModelSpec, retries: RetryPolicy = AT_ONCE) -> Models:
    """The models, without pauses."""
    return Models(specs, retries=retries)


def agent_of(asked: Models) -> Agent[None, str]:
    """An agent that can add."""
    agent: Agent[None, str] = Agent(asked.model, instructions="Be brief.")

    @agent.tool_plain
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    return agent


async def ask(asked: Models, *, text: str = "Hello?", limits: UsageLimits | None = None) -> Heard:
    """One run, piece by piece."""
    heard = Heard()
    try:
        async with agent_of(asked).run_stream_events(text, usage=heard.usage, usage_limits=limits) as events:
            async for event in events:
                match event:
                    case PartStartEvent(part=TextPart(content=piece)):
                        heard.pieces.append(piece)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                        heard.pieces.append(piece)
                    case AgentRunResultEvent(result=result):
                        heard.answer, heard.response = result.output, result.response
    except Exception as error:  # noqa: BLE001 - what the error is, is what is tested
        heard.trouble = trouble_of(error, asked.specs)
    return heard


async def ask_whole(asked: Models, *, limits: UsageLimits | None = None) -> Heard:
    """One run whose answers come whole, where the provider offers that."""
    heard = Heard()
    try:
        result = await agent_of(asked).run("Hello?", usage=heard.usage, usage_limits=limits)
        heard.answer, heard.response = result.output, result.response
    except Exception as error:  # noqa: BLE001 - see above
        heard.trouble = trouble_of(error, asked.specs)
    return heard
