"""The end of a built-in agent's run, as AG-UI's last event and as a whole answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
)

from swarm.agents.remote.translation.endings import TOOL_CALL
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import (
    AnswerKind,
    Asked,
    AskedField,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
)

BROKEN: Final = "broken"
"""The code of a run that broke off; a failed run has the agent's own."""

NOTHING_ASKED: Final = Failed(message="The agent waits for an answer, but did not say to which question.")

_SCHEMAS: Final[Mapping[AnswerKind, Mapping[str, Any]]] = {
    AnswerKind.TEXT: {"type": "string"},
    AnswerKind.TEXTAREA: {"type": "string", "format": "textarea"},
    AnswerKind.NUMBER: {"type": "number"},
    AnswerKind.URL: {"type": "string", "format": "uri"},
    AnswerKind.EMAIL: {"type": "string", "format": "email"},
    AnswerKind.SELECT: {"type": "string"},
    AnswerKind.MULTISELECT: {"type": "array"},
    AnswerKind.BOOLEAN: {"type": "boolean"},
}


def last_event(end: RunEnd, thread_id: str, run_id: str, calls: Collection[str]) -> BaseEvent:
    """The event that ends a run. ``calls`` are the ids of the tool calls sent to the client."""
    match end:
        case Finished(result=result):
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, result=result)
        case Interrupted(asked=()):
            return _error(NOTHING_ASKED)
        case Interrupted(asked=asked):
            outcome = RunFinishedInterruptOutcome(interrupts=[_interrupt(one, calls) for one in asked])
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=outcome)
        case Cancelled():
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=RunFinishedCancelledOutcome())
        case Failed() | Broken():
            return _error(end)


def whole_answer(end: RunEnd) -> dict[str, object]:
    """``{"success": true, "content"}``, or ``{"success": false, "error", "code"}`` with the reason as a sentence."""
    match end:
        case Finished(result=str(text)) if text:
            return {"success": True, "content": text}
        case Finished():
            return _refused("The agent finished without an answer.", "empty")
        case Interrupted(asked=asked):
            prompts = " ".join(one.prompt for one in asked if one.prompt)
            return _refused(f"The agent has a question first: {prompts}".rstrip(": "), "interrupt")
        case Cancelled():
            return _refused("The run was cancelled.", "cancelled")
        case Failed() | Broken():
            return _refused(*_words(end))


def _refused(error: str, code: str) -> dict[str, object]:
    return {"success": False, "error": error, "code": code}


def _error(end: Failed | Broken) -> RunErrorEvent:
    message, code = _words(end)
    return RunErrorEvent(message=message, code=code or None)


def _words(end: Failed | Broken) -> tuple[str, str]:
    if isinstance(end, Failed):
        return end.message, end.code
    return f"The agent could not answer: {end.reason}.", BROKEN


def _interrupt(asked: Asked, calls: Collection[str]) -> Interrupt:
    """The question in both forms: AG-UI 1.0's, and under ``payload`` the fields that CAIPE's clients read."""
    call = asked.raw.get(TOOL_CALL)
    call_id = call.get("id") if isinstance(call, Mapping) else None
    payload: dict[str, object] = {"prompt": asked.prompt}
    if asked.tool_name:
        payload["tool_name"] = asked.tool_name
    if asked.fields:
        payload["fields"] = [_field(field) for field in asked.fields]
    return Interrupt(
        id=asked.id,
        reason=asked.reason,
        message=asked.prompt,
        tool_call_id=call_id if call_id in calls else None,
        response_schema=_schema(asked) if asked.fields else None,
        payload=payload,
    )


def _field(field: AskedField) -> dict[str, object]:
    described = {
        "field_name": field.name,
        "field_label": field.label,
        "field_type": field.kind.value,
        "required": field.required,
        "field_description": field.description,
        "field_values": list(field.options),
        "default_value": field.default,
    }
    return {name: value for name, value in described.items() if value not in ("", [])}


def _schema(asked: Asked) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in asked.fields},
        "required": [field.name for field in asked.fields if field.required],
    }


def _property(field: AskedField) -> dict[str, Any]:
    property: dict[str, Any] = dict(_SCHEMAS[field.kind])
    if field.kind is AnswerKind.MULTISELECT:
        property["items"] = {"enum": list(field.options)}
    elif field.options:
        property["enum"] = list(field.options)
    words = {"title": field.label, "description": field.description, "default": field.default}
    return property | {name: value for name, value in words.items() if value}
