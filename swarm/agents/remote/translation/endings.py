"""Translates the end of a run: a result, an error, or the questions of an interrupt.

In AG-UI 1.0 an interrupt has a message and a JSON Schema of the answer. CAIPE sends a ``payload`` with a prompt and a
list of fields. https://docs.ag-ui.com/concepts/interrupts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import orjson
from ag_ui.core import (
    AssistantMessage,
    Event,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageChunkEvent,
    TextMessageContentEvent,
)

from swarm.agents.remote.translation.tools import StreamedCall, Tools
from swarm.agents.remote.translation.wire import JsonObject, clean, first, id_of, is_object, line_of, text_of
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import AnswerKind, Asked, AskedField, Cancelled, Failed, Finished, Interrupted
from swarm.telemetry.redaction import Redactor

_INTERRUPTS: Final = 20
_ERROR_CHARACTERS: Final = 500

_READ_CHARACTERS: Final = 8 * _ERROR_CHARACTERS
"""The number of characters of an error that are read."""

_REDACTOR: Final = Redactor()
_FIELDS: Final = 50
_OPTIONS: Final = 200
_PROMPT_CHARACTERS: Final = 10_000
_RAW_BYTES: Final = 256 * 1024

TOOL_CALL: Final = "toolCall"
"""The key of the waiting tool call in `Asked.raw`: ``{"id", "name", "arguments"}``. A resume has to repeat this
call.
"""

_KINDS: Final = {
    **{kind.value: kind for kind in AnswerKind},
    **dict.fromkeys(("integer", "int", "float"), AnswerKind.NUMBER),
    **dict.fromkeys(("checkbox", "bool", "toggle"), AnswerKind.BOOLEAN),
    **dict.fromkeys(("dropdown", "radio", "choice", "enum"), AnswerKind.SELECT),
    **dict.fromkeys(("multi_select", "checkboxes", "array", "list"), AnswerKind.MULTISELECT),
    **dict.fromkeys(("multiline", "long_text", "longtext"), AnswerKind.TEXTAREA),
    "uri": AnswerKind.URL,
}


class Endings:
    """A reader for the end of a run. It keeps the final text of the last message snapshot before the end."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._final: str | None = None

    def read(self, event: Event) -> RunEnd | None:
        """Returns the end of the run if the event ends it; otherwise None."""
        match event:
            case MessagesSnapshotEvent():
                self._final = _last_words(event)
            case TextMessageContentEvent(delta=delta) | TextMessageChunkEvent(delta=delta) if delta:
                self._final = None  # the agent is writing again, so the snapshot was not final
            case RunErrorEvent(message=message, code=code):
                return failed(message, code or "")
            case RunFinishedEvent():
                return self._finished(event)
        return None

    def _finished(self, event: RunFinishedEvent) -> RunEnd:
        match event.outcome:
            case RunFinishedInterruptOutcome(interrupts=interrupts):
                return Interrupted(asked=tuple(_asked(one, self._tools.get) for one in interrupts[:_INTERRUPTS]))
            case RunFinishedCancelledOutcome():
                return Cancelled()
        return Finished(result=text_in(event.result) or self._final)


def failed(message: object, code: str = "") -> Failed:
    """Returns an agent's error as one short user-facing line without secrets."""
    text = _REDACTOR.text(message[:_READ_CHARACTERS]) if isinstance(message, str) else ""
    return Failed(message=line_of(text, _ERROR_CHARACTERS) or "no reason was given", code=id_of(code))


def text_in(value: object) -> str | None:
    """Returns the text of a result; None if it contains no text."""
    if is_object(value):
        value = first(value, "content", "text", "answer", "output")
    return clean(value) if isinstance(value, str) and value else None


def _last_words(snapshot: MessagesSnapshotEvent) -> str | None:
    """Returns the last message of a snapshot if the agent wrote it and it calls no tool: a possible answer."""
    last = snapshot.messages[-1] if snapshot.messages else None
    if isinstance(last, AssistantMessage) and not last.tool_calls and last.content:
        return clean(last.content)
    return None


def _asked(interrupt: Interrupt, call_of: Callable[[object], StreamedCall | None]) -> Asked:
    """Returns the questions of one interrupt. ``call_of`` finds the tool call that waits for the answer."""
    extra = interrupt.model_extra or {}
    payload = first(extra, "payload", "value", "data")
    payload = payload if is_object(payload) else {}
    call = call_of(interrupt.tool_call_id)
    return Asked(
        id=id_of(interrupt.id),
        prompt=_prompt(interrupt, payload, extra),
        reason=line_of(interrupt.reason),
        fields=tuple(_fields(payload, interrupt.response_schema or {}))[:_FIELDS],
        tool_name=call.name if call else line_of(first(payload, "tool_name", "toolName")),
        raw=_raw(interrupt, call),
    )


def _prompt(interrupt: Interrupt, payload: JsonObject, extra: JsonObject) -> str:
    prompt = first(payload, "prompt", "message", "question") or interrupt.message or first(extra, "prompt")
    return text_of(prompt, _PROMPT_CHARACTERS)


def _raw(interrupt: Interrupt, call: StreamedCall | None) -> Mapping[str, object]:
    """Returns the interrupt as sent, with the waiting call, within the size limit."""
    sent: dict[str, object] = interrupt.model_dump(mode="json", by_alias=True)
    waits = {TOOL_CALL: {"id": call.id, "name": call.name, "arguments": call.argument_text()}} if call else {}
    return next((raw for raw in (sent | waits, sent) if _is_storable(raw)), {})


def _is_storable(raw: object) -> bool:
    try:
        return len(orjson.dumps(raw)) <= _RAW_BYTES
    except (orjson.JSONEncodeError, RecursionError):  # too deeply nested
        return False


def _fields(payload: JsonObject, schema: JsonObject) -> Iterator[AskedField]:
    listed = first(payload, "fields", "input_fields", "inputFields")
    if isinstance(listed, list):
        yield from (_listed(field) for field in listed if is_object(field) and _name(field))
        return
    properties = schema.get("properties")
    required = schema.get("required")
    if is_object(properties):
        for name, property in properties.items():
            if is_object(property) and id_of(name):
                yield _of_schema(name, property, required=isinstance(required, list) and name in required)


def _name(field: JsonObject) -> str:
    return id_of(first(field, "field_name", "name", "id", "key"))


def _listed(field: JsonObject) -> AskedField:
    options = _options(first(field, "options", "field_values", "values", "choices"))
    kind = line_of(first(field, "field_type", "type", "kind")).lower()
    return AskedField(
        name=_name(field),
        label=line_of(first(field, "field_label", "label", "title")),
        kind=_KINDS.get(kind, AnswerKind.SELECT if options else AnswerKind.TEXT),
        required=first(field, "required") is True,
        description=text_of(first(field, "field_description", "description", "help"), _PROMPT_CHARACTERS),
        options=options,
        default=_default(first(field, "default_value", "default", "value")),
    )


def _of_schema(name: str, property: JsonObject, *, required: bool) -> AskedField:
    items = property.get("items")
    options = _options(first(property, "enum") or (first(items, "enum") if is_object(items) else None))
    return AskedField(
        name=id_of(name),
        label=line_of(property.get("title")),
        kind=_schema_kind(property, has_options=bool(options)),
        required=required,
        description=text_of(property.get("description"), _PROMPT_CHARACTERS),
        options=options,
        default=_default(property.get("default")),
    )


def _schema_kind(property: JsonObject, *, has_options: bool) -> AnswerKind:
    match property.get("type"):
        case "array" if has_options:
            return AnswerKind.MULTISELECT
        case "boolean":
            return AnswerKind.BOOLEAN
        case "number" | "integer":
            return AnswerKind.NUMBER
        case "object" | "array":
            return AnswerKind.TEXTAREA
    if has_options:
        return AnswerKind.SELECT
    return _KINDS.get(line_of(property.get("format")).lower(), AnswerKind.TEXT)


def _options(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        return ()
    words = (first(value, "value", "label") if is_object(value) else value for value in values[:_OPTIONS])
    return tuple(dict.fromkeys(str(word) for word in words if isinstance(word, str | int | float)))


def _default(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return text_of(str(value), _PROMPT_CHARACTERS) if isinstance(value, str | int | float) else ""
