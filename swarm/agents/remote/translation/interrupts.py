"""Translates an interrupt into the questions that people are asked.

In AG-UI 1.0 an interrupt has a message and a JSON Schema of the answer, and may name a tool call. CAIPE sends a
``payload`` with a prompt and a list of fields, or with tool calls that wait for approval. LangGraph sends the value of
``interrupt(value)``: a text, an object with a message, or LangChain's request to approve tool calls.
https://docs.ag-ui.com/concepts/interrupts https://docs.langchain.com/oss/python/langchain/human-in-the-loop
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from ag_ui.core import Interrupt

from swarm.agents.remote.translation.answer_forms import ANSWER_FORM, AnswerForm, AnswerShape
from swarm.agents.remote.translation.listed_fields import listed_fields
from swarm.agents.remote.translation.tools import StreamedCall
from swarm.agents.remote.translation.wire import (
    JsonObject,
    first,
    id_of,
    is_object,
    line_of,
    parsed,
    text_of,
)
from swarm.domain.answers.events import Asked
from swarm.domain.answers.questions import EDITED_ARGUMENTS, TOOL_CALL, tool_request
from swarm.domain.model.requests import (
    MAX_ARGUMENT_BYTES,
    MAX_OPEN_PER_WORK,
    MAX_PROMPT_CHARACTERS,
    HumanDecision,
    ToolRequest,
)
from swarm_base.schema_forms import fields_of, json_text

_RAW_BYTES: Final = 256 * 1024
_TOO_LONG: Final = f"tool.arguments: at most {MAX_ARGUMENT_BYTES:,} bytes of JSON, because people read all of it"
_MOST_PROMPT: Final = MAX_PROMPT_CHARACTERS + 1  # a longer one is refused, not cut
_MOST_CALLS: Final = MAX_OPEN_PER_WORK + 1  # one too many is seen, and refused
NOT_AN_OBJECT: Final = "input"
"""The name for arguments that are no object."""

_TOOL_APPROVAL: Final = "tool_approval"
_D = HumanDecision

CallOf = Callable[[object], StreamedCall | None]
"""Finds the tool call of the run with an id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Approval:
    """A tool call that waits for approval, as CAIPE and LangChain describe it."""

    name: object
    arguments: object
    allowed: tuple[str, ...]
    prompt: str = ""
    schema: JsonObject | None = None  # of the arguments


def questions_of(interrupt: Interrupt, call_of: CallOf, *, by_command: bool = False) -> Iterator[Asked]:
    """Yields the questions of one interrupt: one, or one for each tool call that waits.

    ``by_command``: the agent has sent it as LangGraph did before AG-UI 1.0, and takes the answer as a command.
    """
    extra = interrupt.model_extra or {}
    value = _langgraph_value(interrupt)
    form = AnswerForm(
        interrupt_id=id_of(interrupt.id), is_langgraph=by_command or value is not None, by_command=by_command
    )
    payload = first(extra, "payload", "value", "data") if value is None else value
    details: JsonObject = payload if is_object(payload) else {}
    approvals, shape = _approvals(details, interrupt)
    if approvals:
        form = replace(form, shape=shape, count=len(approvals))
        yield from _of_approvals(approvals, form, interrupt, details, call_of)
    else:
        yield _of_form(interrupt, details, value, form, call_of(interrupt.tool_call_id))


def _langgraph_value(interrupt: Interrupt) -> object:
    """Returns the value of LangGraph's ``interrupt(value)``; None if the interrupt is not one of LangGraph."""
    origin = (interrupt.metadata or {}).get("langgraph")
    return origin.get("raw") if is_object(origin) else None


def _of_form(
    interrupt: Interrupt, payload: JsonObject, value: object, form: AnswerForm, call: StreamedCall | None
) -> Asked:
    extra = interrupt.model_extra or {}
    listed, schema = listed_fields(payload), interrupt.response_schema or {}
    fields = fields_of(schema) if listed is None else listed
    tool = _tool(call, payload, schema)
    prompt = first(payload, "prompt", "message", "question") or interrupt.message or first(extra, "prompt")
    if prompt is None and value is not None:
        prompt = value if isinstance(value, str) else json_text(value)
    shape = AnswerShape.VALUES if fields else AnswerShape.APPROVAL if tool else AnswerShape.TEXT
    return Asked(
        id=form.question_id,
        prompt=_signed(text_of(prompt, _MOST_PROMPT), payload),
        reason=line_of(interrupt.reason),
        fields=fields,
        tool=tool,
        problem=_TOO_LONG if call is not None and call.is_cut else "",
        raw=_raw(interrupt, call, replace(form, shape=shape) if form.is_langgraph else None),
    )


def _tool(call: StreamedCall | None, payload: JsonObject, schema: JsonObject) -> ToolRequest | None:
    """Returns the tool call that waits: the streamed one, or the one that the payload names."""
    name = call.sent_name or call.name if call else first(payload, "tool_name", "toolName")
    if not isinstance(name, str) or not name:
        return None
    given = parsed(call.argument_text()) if call else first(payload, "tool_args", "toolArgs", "args", "arguments")
    properties = schema.get("properties")
    edited = properties.get(EDITED_ARGUMENTS) if is_object(properties) else None
    return tool_request(name, _arguments(given), edited if is_object(edited) else None)


def _of_approvals(
    approvals: tuple[_Approval, ...], form: AnswerForm, interrupt: Interrupt, payload: JsonObject, call_of: CallOf
) -> Iterator[Asked]:
    for place, approval in enumerate(approvals):
        name = approval.name if isinstance(approval.name, str) else ""  # not cleaned: what misleads people is refused
        own = replace(form, place=place, tool=line_of(approval.name))
        arguments = _arguments(approval.arguments)
        is_answered = form.shape is not AnswerShape.TOOL_APPROVAL and not {"approve", "edit"} & set(approval.allowed)
        if is_answered:
            own = replace(own, shape=AnswerShape.RESPONSE)
        yield Asked(
            id=own.question_id,
            prompt=_signed(text_of(approval.prompt, _MOST_PROMPT), payload),
            reason=line_of(interrupt.reason),
            tool=None if is_answered else tool_request(name, arguments, approval.schema),
            decisions=(_D.ANSWER, _D.REJECT)
            if is_answered
            else _decisions(approval.allowed, can_edit=not {NOT_AN_OBJECT} & arguments.keys()),
            raw=_raw(interrupt, call_of(interrupt.tool_call_id) if form.count == 1 else None, own),
        )


def _decisions(allowed: tuple[str, ...], *, can_edit: bool) -> tuple[HumanDecision, ...]:
    """Returns what people can decide. They can always reject, and what was approved once can be allowed for longer."""
    edit = (_D.EDIT,) if can_edit and "edit" in allowed else ()
    if "approve" not in allowed:
        return (*edit, _D.REJECT)
    return (_D.APPROVE, *edit, _D.REJECT, _D.APPROVE_THREAD, _D.APPROVE_ALWAYS)


def _approvals(payload: JsonObject, interrupt: Interrupt) -> tuple[tuple[_Approval, ...], AnswerShape]:
    """Returns the tool calls that wait, and how their approval is answered."""
    requests = first(payload, "action_requests", "actionRequests")
    if isinstance(requests, list):
        configs = first(payload, "review_configs", "reviewConfigs")
        found = tuple(_action(call, place, configs) for place, call in enumerate(_calls(requests)))
        return found, AnswerShape.DECISIONS
    if payload.get("type") == _TOOL_APPROVAL and line_of(payload.get("name")):
        return (_single(payload, interrupt.response_schema or {}),), AnswerShape.DECISION
    if interrupt.reason == _TOOL_APPROVAL and first(payload, "tool_name", "toolName"):
        several = first(payload, "tool_approvals", "toolApprovals")
        return tuple(map(_of_caipe, _calls(several) or [payload])), AnswerShape.TOOL_APPROVAL
    return (), AnswerShape.VALUES


def _calls(listed: object) -> list[JsonObject]:
    """Returns all calls of a list, because approving it approves them all. What is no call is one without a name,
    about which people cannot be asked.
    """
    found = listed[:_MOST_CALLS] if isinstance(listed, list) else []
    return [call if is_object(call) else {} for call in found]


def _of_caipe(call: JsonObject) -> _Approval:
    return _Approval(
        name=first(call, "tool_name", "toolName"),
        arguments=first(call, "tool_args", "toolArgs", "args", "arguments"),
        allowed=_words(first(call, "allowed_decisions", "allowedDecisions")) or ("approve", "edit", "reject"),
    )


def _action(request: JsonObject, place: int, configs: object) -> _Approval:
    """Reads one action of LangChain's middleware, whose review may be configured by place or by the tool's name."""
    name = first(request, "name", "action")
    listed = [config for config in configs if is_object(config)] if isinstance(configs, list) else []
    named = [config for config in listed if first(config, "action_name", "actionName") in (None, name)]
    here = listed[place : place + 1]
    config: JsonObject = next(iter([one for one in here if one in named] or named or here), {})
    schema = first(config, "args_schema", "argsSchema")
    return _Approval(
        name=name,
        arguments=first(request, "args", "arguments"),
        allowed=_words(first(config, "allowed_decisions", "allowedDecisions")) or ("approve", "reject"),
        prompt=text_of(request.get("description"), _MOST_PROMPT),
        schema=schema if is_object(schema) else None,
    )


def _single(payload: JsonObject, schema: JsonObject) -> _Approval:
    """Reads a request of LangChain's middleware in the mode ``per_call``. The schema lists the allowed decisions."""
    definitions = schema.get("$defs")
    definitions = definitions if is_object(definitions) else {}
    parts = [part for part in (schema, *definitions.values()) if is_object(part)]
    kinds = [_property(part, "type").get("const") for part in parts]
    arguments = next((found for part in parts if (found := _property(part, "args"))), {})
    reference = str(arguments.get("$ref", "")).removeprefix("#/$defs/")
    known = definitions.get(reference, arguments)
    return _Approval(
        name=payload.get("name"),
        arguments=first(payload, "args"),
        allowed=_words(kinds) or ("approve", "reject"),
        prompt=text_of(payload.get("description"), _MOST_PROMPT),
        schema={**known, "$defs": definitions} if is_object(known) and known else None,
    )


def _property(schema: JsonObject, name: str) -> JsonObject:
    properties = schema.get("properties")
    found = properties.get(name) if is_object(properties) else None
    return found if is_object(found) else {}


def _words(values: object) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def _arguments(given: object) -> Mapping[str, Any]:
    """Returns the arguments of a call, as they are: what is not an object is shown as one with a single value."""
    value = parsed(given) if isinstance(given, str) else given
    if is_object(value):
        return value
    return {} if given in (None, "", []) else {NOT_AN_OBJECT: given}


def _signed(prompt: str, payload: JsonObject) -> str:
    """Adds the name of the agent that asks, which may be one of several behind a service."""
    agent = line_of(payload.get("agent"))
    signed = f"{prompt}\n\nAsked by {agent}".strip()
    return signed if agent else prompt


def _raw(interrupt: Interrupt, call: StreamedCall | None, form: AnswerForm | None) -> Mapping[str, object]:
    """Returns the interrupt as sent, with the waiting call and the form of the answer, within the size limit."""
    sent: dict[str, object] = interrupt.model_dump(mode="json", by_alias=True)
    sent.pop(ANSWER_FORM, None)
    waits = {TOOL_CALL: {"id": call.id, "name": call.name, "arguments": call.argument_text()}} if call else {}
    marked: dict[str, object] = {ANSWER_FORM: form.stored()} if form else {}
    short = {"reason": line_of(interrupt.reason), "responseSchema": interrupt.response_schema}
    choices = (sent | waits | marked, sent | marked, short | waits | marked, short | marked)
    return next((raw for raw in choices if _is_storable(raw)), marked)


def _is_storable(raw: object, limit: int = _RAW_BYTES) -> bool:
    try:
        return len(orjson.dumps(raw)) <= limit
    except (orjson.JSONEncodeError, RecursionError):  # too deeply nested
        return False
