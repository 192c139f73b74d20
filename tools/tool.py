"""What a tool is, and what it gets with each call.

A tool is one module with a ``TOOL``: its name, the arguments it takes, the result it gives, and the function that makes
one of the other by a call of one service. The function's docstring is what the model reads about it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

import tools
from swarm.domain.agents import Agent
from swarm.services.reply import Caller
from swarm.services.use_cases import Services


class Arguments(BaseModel):
    """What a tool is called with: these fields of these types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class WritingArguments(Arguments):
    """What every tool takes that changes something."""

    lease_token: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="The lease token from your prompt. Always pass it: it proves that the work is still yours.",
        ),
    ] = None
    request_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="Optional. A call repeated with the same id returns the first result and does nothing.",
        ),
    ] = None


TaskId = Annotated[str, Field(description="The task's id.")]
Priority = Annotated[
    int, Field(ge=0, le=100, description="0 to 100; higher comes earlier, 50 is the rank of a message from Slack.")
]
DependsOn = Annotated[
    tuple[str, ...],
    Field(
        strict=False, max_length=20, description="Ids of tasks that must be completed before this one is handed out."
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Who calls, under which lease if the connection names one, and the use cases at hand."""

    agent: Agent
    lease_token: str | None
    services: Services

    def caller(self, arguments: WritingArguments) -> Caller:
        """The run that writes; the argument goes before the connection's header."""
        token = self.lease_token if arguments.lease_token is None else arguments.lease_token
        return Caller(agent=self.agent, lease_token=token, request_id=arguments.request_id)


A = TypeVar("A", bound=Arguments)
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool(Generic[A, R]):
    """One MCP tool. ``result`` is the type of what ``run`` returns, a `TypedDict`."""

    name: str
    arguments: type[A]
    result: type[R]
    run: Callable[[Call, A], Awaitable[R]]

    @property
    def description(self) -> str:
        """What the model reads about it."""
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return issubclass(self.arguments, WritingArguments)


def discover() -> dict[str, Tool[Any, Any]]:
    """All tools of this folder by name: every module that has a ``TOOL``."""
    modules = [importlib.import_module(f"tools.{found.name}") for found in pkgutil.iter_modules(tools.__path__)]
    found = [module.TOOL for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}
