"""A model that says what a test has it say, and keeps what it was told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel


@dataclass(frozen=True)
class Calls:
    """A call of a tool. Arguments that are text go out as they are."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class Raises:
    """The model fails here."""

    error: Exception


@dataclass(frozen=True)
class Holds:
    """The model goes on when this is done."""

    until: Callable[[], Awaitable[object]]


Said = str | Calls | Raises | Holds
Reply = Said | Sequence[Said]


@dataclass(frozen=True)
class Told:
    """One request."""

    messages: list[ModelMessage]
    info: AgentInfo
    is_streamed: bool

    @property
    def instructions(self) -> str:
        return self.info.instructions or ""

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in self.info.function_tools]

    @property
    def said(self) -> list[str]:
        """What people said, oldest first."""
        return [
            str(part.content) for message in self.messages for part in message.parts if isinstance(part, UserPromptPart)
        ]

    @property
    def results(self) -> list[str]:
        """What tools answered, oldest first."""
        return [
            str(part.content) for message in self.messages for part in message.parts if isinstance(part, ToolReturnPart)
        ]

    @property
    def shape(self) -> list[str]:
        """Who said what, message by message: "user: hello"."""
        return [_shape(message) for message in self.messages]


class Scripted:
    """The replies to one request after another, or a function that finds each."""

    def __init__(self, *replies: Reply, decide: Callable[[Told], Reply | Awaitable[Reply]] | None = None) -> None:
        self._replies = iter(replies)
        self._decide = decide
        self.told: list[Told] = []
        self.model = FunctionModel(self._whole, stream_function=self._streamed, model_name="scripted")

    @property
    def requests(self) -> int:
        return len(self.told)

    async def _reply(self, messages: list[ModelMessage], info: AgentInfo, *, is_streamed: bool) -> Sequence[Said]:
        told = Told(list(messages), info, is_streamed)
        self.told.append(told)
        if self._decide:
            found = self._decide(told)
            reply = await found if isawaitable(found) else found
        else:
            reply = next(self._replies)
        return [reply] if isinstance(reply, str | Calls | Raises | Holds) else reply

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        parts: list[ModelResponsePart] = []
        for said in await self._reply(messages, info, is_streamed=False):
            match said:
                case Raises(error=error):
                    raise error
                case Holds(until=until):
                    await until()
                case Calls(tool=tool, arguments=arguments, id=id):
                    given = arguments if isinstance(arguments, str) else dict(arguments)
                    parts.append(ToolCallPart(tool, given, tool_call_id=id) if id else ToolCallPart(tool, given))
                case str():
                    parts.append(TextPart(said))
        return ModelResponse(parts=parts)

    async def _streamed(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for number, said in enumerate(await self._reply(messages, info, is_streamed=True)):
            match said:
                case Raises(error=error):
                    raise error
                case Holds(until=until):
                    await until()
                case Calls(tool=tool, arguments=arguments, id=id):
                    given = arguments if isinstance(arguments, str) else json.dumps(dict(arguments))
                    call = DeltaToolCall(tool, given, tool_call_id=id or f"call-{len(self.told)}-{number}")
                    yield {number: call}
                case str():
                    yield said


def _shape(message: ModelMessage) -> str:
    who = "user" if isinstance(message, ModelRequest) else "model"
    parts = []
    for part in message.parts:
        match part:
            case ToolCallPart(tool_name=name):
                parts.append(f"call {name}")
            case ToolReturnPart(tool_name=name):
                parts.append(f"result {name}")
            case _:
                parts.append(str(getattr(part, "content", part)))
    return f"{who}: {' | '.join(parts)}"
