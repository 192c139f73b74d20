"""The definition of MCP tools, and the context of a call.

A tool is a module with a ``TOOL``: its name, the types of its arguments and result, and the function that maps the
arguments to the result by calling one service. Models read the function's docstring.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

import tools
from swarm.domain.model.agents import Role
from swarm.services.ground.idempotency import Caller
from swarm.services.use_cases import Services


class Arguments(BaseModel):
    """The base class of a tool's arguments, which accept no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Mark = Annotated[str, Field(min_length=1, max_length=200), WithJsonSchema({"type": "string"})]
"""A short text. Its length limits are not included in the list of tools, where every tool would repeat them without
benefit for a model."""


class WritingArguments(Arguments):
    """The common arguments of tools that make changes."""

    lease_token: Annotated[
        Mark | None,
        Field(description="The lease token from your prompt. Always pass it, as proof that the work is still yours."),
    ] = None
    request_id: Annotated[
        Mark | None, Field(description="A call repeated with the same id does nothing and returns the first result.")
    ] = None


TaskId = Annotated[str, Field(description="From a trigger, or list-tasks.")]
Worker = Annotated[str, Field(description="The worker, by name or id; list-agents shows who is online.")]
Priority = Annotated[
    int, Field(ge=0, le=100, description="Tasks with a higher priority come first; messages from Slack have 50.")
]
DependsOn = Annotated[
    tuple[str, ...], Field(strict=False, max_length=20, description="Tasks that must be completed first, by id.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallContext(Caller):
    """The run that calls a tool, with the services. ``lease_token`` is initially the connection's lease token, if there
    is one."""

    services: Services

    def with_arguments(self, arguments: Arguments) -> CallContext:
        """Returns the context for a call with these arguments, whose lease token takes precedence over the
        connection's."""
        if not isinstance(arguments, WritingArguments):
            return self
        return replace(self, lease_token=arguments.lease_token or self.lease_token, request_id=arguments.request_id)


A = TypeVar("A", bound=Arguments)
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class McpTool(Generic[A, R]):
    """One MCP tool. ``result`` is the type of ``run``'s result, a `TypedDict`."""

    name: str
    arguments: type[A]
    result: type[R]
    run: Callable[[CallContext, A], Awaitable[R]]
    roles: tuple[Role, ...] = tuple(Role)  # roles whose lists contain the tool; the service checks each call

    @property
    def description(self) -> str:
        """The description for models."""
        return " ".join((self.run.__doc__ or "").split())

    @property
    def writes(self) -> bool:
        """Whether the tool makes changes."""
        return issubclass(self.arguments, WritingArguments)


def discover() -> dict[str, McpTool[Any, Any]]:
    """Returns all tools in this folder by name. Every module with a ``TOOL`` is a tool."""
    modules = [importlib.import_module(f"tools.{found.name}") for found in pkgutil.iter_modules(tools.__path__)]
    found = [module.TOOL for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}
