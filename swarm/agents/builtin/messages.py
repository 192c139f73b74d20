"""Sessions as a model reads them. They are kept in words of our own, so that another model can go on with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from swarm.agents.toolbox.output import capped
from swarm.agents.toolbox.tool import ToolAnswer
from swarm.domain.sessions import MessageRole, SessionMessage

PARAGRAPH_CHARACTERS: Final = 4_000
SUMMARISED_CHARACTERS: Final = 200_000
"""More than this is left out of what is summarised, from its middle."""


def model_messages(messages: Iterable[SessionMessage], *, with_authors: bool = False) -> list[ModelMessage]:
    """The messages for a model: what it said together, what it was told together. ``with_authors`` names who asks."""
    told: list[ModelMessage] = []
    for message in messages:
        last = told[-1] if told else None
        if message.role in (MessageRole.ASSISTANT, MessageRole.TOOL_USE):
            said = _said(message)
            if isinstance(last, ModelResponse):
                last.parts = [*last.parts, said]
            else:
                told.append(ModelResponse(parts=[said]))
        elif isinstance(last, ModelRequest):
            last.parts = [*last.parts, _heard(message, with_authors=with_authors)]
        else:
            told.append(ModelRequest(parts=[_heard(message, with_authors=with_authors)]))
    return told


def in_words(messages: Sequence[SessionMessage]) -> str:
    """The messages as a text, one paragraph each, to be summarised; not more of it than a model can read."""
    return _cut("\n\n".join(_cut(paragraph, PARAGRAPH_CHARACTERS) for paragraph in _paragraphs(messages)))


def _cut(text: str, most_characters: int = SUMMARISED_CHARACTERS) -> str:
    return capped(ToolAnswer(text=text), most_characters).text


def _said(message: SessionMessage) -> TextPart | ToolCallPart:
    if message.role is MessageRole.TOOL_USE:
        return ToolCallPart(message.tool, dict(message.arguments), tool_call_id=message.call_id)
    return TextPart(content=message.text)


def _heard(message: SessionMessage, *, with_authors: bool) -> SystemPromptPart | UserPromptPart | ToolReturnPart:
    match message.role:
        case MessageRole.SYSTEM:
            return SystemPromptPart(content=message.text)
        case MessageRole.TOOL_RESULT:
            return ToolReturnPart(
                tool_name=message.tool,
                content=message.text,
                tool_call_id=message.call_id,
                outcome="failed" if message.failed else "success",
            )
        case _:
            named = with_authors and message.author
            return UserPromptPart(content=f"{message.author}: {message.text}" if named else message.text)


def _paragraphs(messages: Sequence[SessionMessage]) -> Iterator[str]:
    for message in messages:
        match message.role:
            case MessageRole.TOOL_USE:
                yield f"[called {message.tool} with {json.dumps(dict(message.arguments), ensure_ascii=False)}]"
            case MessageRole.TOOL_RESULT:
                yield f"[{message.tool} {'failed' if message.failed else 'answered'}: {message.text}]"
            case _:
                yield f"{message.author or message.role.value}: {message.text}"
