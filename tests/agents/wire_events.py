"""Events as agents send them, and what they are translated to."""

from __future__ import annotations

import json
from typing import Any

from swarm.agents.remote.translation.translator import Translator
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import (
    AgentEvent,
)

Fields = dict[str, Any]

RUN = {"threadId": "c1", "runId": "r1"}
FINISHED: Fields = {"type": "RUN_FINISHED", **RUN}


def translated(*events: Fields | str, dialect: Dialect = Dialect.AGUI) -> list[AgentEvent]:
    """What a stream of these means, its end left out."""
    translator = Translator("r1", dialect)
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return [told for text in texts for told in translator.feed(text)]


def content(delta: str = "x", id: str = "m1", **more: Any) -> Fields:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta, **more}


def chunk(**fields: Any) -> Fields:
    return {"type": "TEXT_MESSAGE_CHUNK", **fields}


def tool(id: str = "t1", name: str = "search") -> Fields:
    return {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name}


def arguments(delta: str, id: str = "t1") -> Fields:
    return {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta}


def tool_end(id: str = "t1") -> Fields:
    return {"type": "TOOL_CALL_END", "toolCallId": id}


def result(text: object = "17", id: str = "t1", **more: Any) -> Fields:
    return {"type": "TOOL_CALL_RESULT", "toolCallId": id, "messageId": "m9", "content": text, **more}


def custom(name: str, value: object) -> Fields:
    return {"type": "CUSTOM", "name": name, "value": value}


def snapshot(state: object) -> Fields:
    return {"type": "STATE_SNAPSHOT", "snapshot": state}


def delta(*operations: Fields) -> Fields:
    return {"type": "STATE_DELTA", "delta": list(operations)}


def interrupt(*interrupts: Fields) -> Fields:
    return {**FINISHED, "outcome": {"type": "interrupt", "interrupts": list(interrupts)}}
