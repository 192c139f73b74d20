"""Converts an event from any version of AG-UI to 1.0, and reads untrusted JSON values.

Values are type-checked, limited in size, and safe to store. Most events are valid unchanged. Others are repaired if
their meaning is clear: a timestamp with a fraction, an outcome given as a word, an optional field with an older type,
or a missing id. Events that cannot be repaired are skipped. https://docs.ag-ui.com/concepts/events
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

import orjson
import structlog
from ag_ui.core import Event, EventType
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from swarm.domain.patterns import has_few_values

_ID_CHARACTERS: Final = 200
"""The maximum length of a card's id in Slack."""

_NAME_CHARACTERS: Final = 250
JsonObject = Mapping[str, object]

COMPLAINTS: Final = 10
"""The number of invalid events that are logged individually in a run, so that a broken run does not flood the log."""

_NOTHING_ASKED: Final = "It is waiting for an answer, but did not say to which question."
CUT_SHORT: Final = "Its answer is cut short: it reached the model's limit of length."
_FILTERED: Final = "Its answer is cut short: the model, or a filter, refused to go on."
_LENGTH: Final = (
    "length max_tokens max_output_tokens truncated incomplete model_context_window_exceeded max_turns "
    "max_turn_requests max_steps pause_turn"
)
_FILTERS: Final = (
    "content_filter content_filtered safety image_safety recitation refusal blocklist spii prohibited_content "
    "guardrail_intervened"
)
CUTS: Final = dict.fromkeys(_LENGTH.split(), CUT_SHORT) | dict.fromkeys(_FILTERS.split(), _FILTERED)
"""Reasons for the end of a model's answer that is not whole, with what the person is told."""

_FAILURES: Final = {
    **dict.fromkeys(("error", "failed", "failure", "timeout", "timed_out"), "It did not finish."),
    **CUTS,
}
"""Outcomes of a finished run that are no success, with what the person is told."""

_EVENT: Final[TypeAdapter[Event]] = TypeAdapter(Event)
_KNOWN: Final = frozenset(kind.value for kind in EventType)
_ROLES: Final = frozenset({"developer", "system", "assistant", "user"})

_OPTIONAL: Final[dict[str, type | tuple[()]]] = {
    "metadata": dict,
    "name": str,
    "parentMessageId": str,
    "parentRunId": str,
    "protocolVersion": str,
    "subagentRunId": str,
    "input": (),  # an echo of our own request
    "timestamp": (),  # unused, but present in every kind of event
    "usage": (),
}
"""Optional fields and their types. A field with a different type is dropped; ``()`` drops any value."""

_log = structlog.get_logger(__name__)

Fields = dict[str, Any]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Returns whether the value is a JSON object."""
    return isinstance(value, dict)


def clean(text: str) -> str:
    """Removes NUL characters, which PostgreSQL does not store."""
    return text.replace("\0", "")


def id_of(value: object) -> str:
    """Returns the value as an id of at most `_ID_CHARACTERS` characters; empty if the value is not an id."""
    return clean(str(value))[:_ID_CHARACTERS] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def line_of(value: object, limit: int = _NAME_CHARACTERS) -> str:
    """Returns the value as one line of at most ``limit`` characters; empty if the value is not a text."""
    if not isinstance(value, str):
        return ""
    line = " ".join(clean(value[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def text_of(value: object, limit: int) -> str:
    """Returns the value as text of at most ``limit`` characters; empty if the value is not a text."""
    if not isinstance(value, str):
        return ""
    text = clean(value[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first(value: JsonObject, *names: str) -> object:
    """Returns the first of these values that is set; None if none is."""
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def parsed(text: str) -> object:
    """Parses JSON; None if the text is not valid, or has too many values."""
    try:
        return orjson.loads(text) if has_few_values(text) else None
    except orjson.JSONDecodeError:
        return None


class Wire:
    """A reader of one run's events. Raises nothing."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.skipped_count = 0  # events that were not understood
        self.read_count = 0

    def read(self, data: str) -> Event | None:
        """Reads the data of one server-sent event; None for an unknown or invalid event, and for one with
        too many values.
        """
        event = (_valid(data) or self._mended(data)) if has_few_values(data) else None
        if event is None:
            self.skipped_count += 1
        else:
            self.read_count += 1
        return event

    def _mended(self, data: str) -> Event | None:
        fields = _parsed(data)
        kind = first(fields, "type") if is_object(fields) else None
        if not is_object(fields) or not isinstance(kind, str):
            self._complain("An event of an agent is not a JSON object with a type.", "")
        elif kind not in _KNOWN:
            _log.debug("An event of an unknown type is skipped.", action="agent_event_unknown", **self._ids(kind))
        else:
            return self._forced(kind, dict(fields))
        return None

    def _forced(self, kind: str, fields: Fields) -> Event | None:
        try:
            return _EVENT.validate_python(_mended(kind, fields))
        except (ValidationError, RecursionError):
            self._complain("An event of an agent is invalid.", kind)
            return None

    def _complain(self, words: str, kind: str) -> None:
        if self.skipped_count < COMPLAINTS:
            _log.warning(words, action="agent_event_skipped", **self._ids(kind))

    def _ids(self, kind: str) -> dict[str, str]:
        return {"run_id": self._run_id, "type": line_of(kind, _NAME_CHARACTERS)}


def _valid(data: str) -> Event | None:
    try:
        return _EVENT.validate_json(data)
    except (ValidationError, RecursionError):
        return None


def _parsed(data: str) -> object:
    """Parses JSON; None if invalid. Replaces unpaired surrogates, because JavaScript may split a text anywhere."""
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
        return from_json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None


def _mended(kind: str, fields: Fields) -> Fields:
    """Converts an event from an older or non-conforming agent to the fields of AG-UI 1.0. May change ``fields``."""
    for name, kind_of_value in _OPTIONAL.items():
        if not isinstance(fields.get(name), kind_of_value):
            fields.pop(name, None)
    if not (kind.startswith("TEXT_") and str(fields.get("role")) in _ROLES):
        fields.pop("role", None)
    for mend in _MENDS.get(kind, ()):
        mend(fields)
    return fields


def _default(name: str, python_name: str, value: str = "") -> Callable[[Fields], None]:
    """Repairs an unimportant required field."""

    def mend(fields: Fields) -> None:
        found = first(fields, name, python_name)
        fields.pop(python_name, None)
        fields[name] = str(found) if isinstance(found, str | int | float) else value

    return mend


def _number_id(name: str) -> Callable[[Fields], None]:
    """Repairs an id that is missing or is a number."""

    def mend(fields: Fields) -> None:
        if name in fields and not isinstance(fields[name], str):
            fields[name] = id_of(fields[name]) or None

    return mend


def _delta(fields: Fields) -> None:
    fields.setdefault("delta", first(fields, "content", "text"))


def _content(fields: Fields) -> None:
    """Converts a tool's result to text, because some agents send the JSON itself."""
    content = first(fields, "content", "result", "output")
    fields["content"] = content if isinstance(content, str) else json.dumps(content)


def _outcome(fields: Fields) -> None:
    """Converts the form used before 1.0: ``"outcome": "interrupt", "interrupt": {…}``."""
    outcome = fields.get("outcome")
    kind = first(outcome, "type") if is_object(outcome) else outcome
    if kind in ("cancelled", "canceled", "aborted"):
        fields["outcome"] = {"type": "cancelled"}
    elif kind == "interrupt" or fields.get("interrupt"):
        interrupts = _interrupts(fields, outcome)
        fields["outcome"] = {"type": "interrupt", "interrupts": interrupts}
        if not interrupts:
            fields.update(type="RUN_ERROR", message=_NOTHING_ASKED)
    elif failure := _FAILURES.get(str(kind).casefold()):
        why = first(outcome, "message", "error") if is_object(outcome) else None
        fields.update(type="RUN_ERROR", message=str(why or failure))
    else:
        fields["outcome"] = None


def _interrupts(fields: Fields, outcome: object) -> list[Fields]:
    found: object = first(outcome, "interrupts", "interrupt") if is_object(outcome) else None
    found = found or first(fields, "interrupts", "interrupt")
    several = found if isinstance(found, list) else [found]
    return [_interrupt(dict(one), fields) for one in several if is_object(one)]


def _interrupt(interrupt: Fields, fields: Fields) -> Fields:
    interrupt["id"] = str(
        first(interrupt, "id", "interruptId", "interrupt_id") or first(fields, "runId") or "interrupt"
    )
    interrupt["reason"] = str(first(interrupt, "reason") or "")
    for name, kind in (("message", str), ("toolCallId", str), ("expiresAt", str)):
        if not isinstance(interrupt.get(name), kind):
            interrupt.pop(name, None)
    for name in ("responseSchema", "metadata"):
        if not is_object(interrupt.get(name)):
            interrupt.pop(name, None)
    return interrupt


def _message(fields: Fields) -> None:
    text = first(fields, "message", "error", "detail")
    text = first(text, "message", "detail") if is_object(text) else text
    fields["message"] = text if isinstance(text, str) else ""
    code = fields.get("code")
    fields["code"] = str(code) if isinstance(code, str | int) else None


def _messages(fields: Fields) -> None:
    """Keeps the messages of people and of the agent in their simplest form if the list is invalid."""
    messages = fields.get("messages")
    fields["messages"] = [_plain(one) for one in messages if is_object(one)] if isinstance(messages, list) else []


def _plain(message: Any) -> Fields:
    content = message.get("content")
    role = "assistant" if message.get("role") == "assistant" and not message.get("toolCalls") else "user"
    return {"id": str(message.get("id")), "role": role, "content": content if isinstance(content, str) else ""}


_MESSAGE_ID: Final = _default("messageId", "message_id")
_CALL_ID: Final = _default("toolCallId", "tool_call_id")
_RUN: Final = (_default("threadId", "thread_id"), _default("runId", "run_id"))
_STEP: Final = (_default("stepName", "step_name"),)

_MENDS: Final[dict[str, tuple[Callable[[Fields], None], ...]]] = {
    "TEXT_MESSAGE_START": (_MESSAGE_ID,),
    "TEXT_MESSAGE_CONTENT": (_MESSAGE_ID, _delta),
    "TEXT_MESSAGE_END": (_MESSAGE_ID,),
    "TEXT_MESSAGE_CHUNK": (_number_id("messageId"), _delta),
    "TOOL_CALL_START": (_CALL_ID, _default("toolCallName", "tool_call_name", "tool")),
    "TOOL_CALL_ARGS": (_CALL_ID, _delta),
    "TOOL_CALL_CHUNK": (_number_id("toolCallId"),),
    "TOOL_CALL_END": (_CALL_ID,),
    "TOOL_CALL_RESULT": (_CALL_ID, _MESSAGE_ID, _content),
    "MESSAGES_SNAPSHOT": (_messages,),
    "CUSTOM": (lambda fields: fields.setdefault("value", None),),
    "RUN_STARTED": _RUN,
    "RUN_FINISHED": (*_RUN, _outcome),
    "RUN_ERROR": (_message,),
    "STEP_STARTED": _STEP,
    "STEP_FINISHED": _STEP,
}
