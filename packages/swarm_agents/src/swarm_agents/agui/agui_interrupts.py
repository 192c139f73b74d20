"""Writes the questions of a built-in agent as interrupts, in the dialects of AG-UI 1.0 and CAIPE.

AG-UI has one interrupt for each question, with a JSON Schema of the answer. CAIPE's clients read a ``payload``: the
fields of a form, or all tool calls that wait for approval. https://docs.ag-ui.com/concepts/interrupts
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson
from ag_ui.core import Interrupt

from swarm.domain.answers.events import Asked
from swarm.domain.answers.questions import APPROVED, EDITED_ARGUMENTS, REASON, tool_of_call
from swarm.domain.model.requests import FormField, HumanDecision, ToolRequest
from swarm_base.schema_forms import fields_of, schema_of
from swarm_base.secrets import without_secrets

_TOOL_APPROVAL: Final = "tool_approval"
"""The reason of CAIPE's interrupts that ask for permission to call tools."""

_CAIPE_DECISIONS: Final = (HumanDecision.APPROVE, HumanDecision.EDIT, HumanDecision.REJECT)


def interrupts_of(asked: Sequence[Asked], calls: Collection[str], *, is_caipe: bool) -> list[Interrupt]:
    """Returns the interrupts of a run. ``calls`` are the ids of the tool calls sent to the client.

    For CAIPE, all tool calls that wait are one interrupt, because its clients send one answer.
    """
    approvals = [one for one in asked if is_caipe and _is_approval(one)]
    others = [_interrupt(one, calls) for one in asked if one not in approvals]
    return [*others, *([_of_caipe(approvals, calls)] if approvals else [])]


def waiting_call(asked: Asked) -> tuple[str, str, str] | None:
    """Returns the id, the name and the arguments, as JSON without secrets, of the call that waits; None without one."""
    call = tool_of_call(asked.raw)
    if call is None or not isinstance(call.get("id"), str):
        return None
    given = call.get("arguments")
    text = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
    return call["id"], str(call.get("name") or (asked.tool.name if asked.tool else "")), without_secrets(text)


def _is_approval(asked: Asked) -> bool:
    return asked.tool is not None and bool(asked.decisions)


def _interrupt(asked: Asked, calls: Collection[str]) -> Interrupt:
    """Returns a question in AG-UI 1.0's form, and under ``payload`` with the fields that CAIPE's clients read."""
    payload: dict[str, object] = {"prompt": asked.prompt}
    if asked.tool:
        payload["tool_name"] = asked.tool.name
    if asked.fields:
        payload["fields"] = [_field(field) for field in asked.fields]
    return Interrupt(
        id=asked.id,
        reason=asked.reason,
        message=asked.prompt,
        tool_call_id=_call_id(asked, calls),
        response_schema=_schema(asked),
        payload=payload,
    )


def _of_caipe(asked: Sequence[Asked], calls: Collection[str]) -> Interrupt:
    first = asked[0]
    schema = _schema(first)
    prompt = "\n\n".join(dict.fromkeys(one.prompt for one in asked))
    described = [_described(one) for one in asked]
    payload: dict[str, object] = {
        "prompt": prompt,
        **described[0],
        "tool_approvals": described,
        "fields": [_field(field) for field in fields_of(schema or {})],
    }
    return Interrupt(
        id=first.id,
        reason=_TOOL_APPROVAL,
        message=prompt,
        tool_call_id=_call_id(first, calls) if len(asked) == 1 else None,
        response_schema=schema,
        payload=payload,
    )


def _described(asked: Asked) -> dict[str, object]:
    call = waiting_call(asked)
    try:
        arguments = orjson.loads(call[2]) if call else {}
    except orjson.JSONDecodeError:  # a secret was cut out of the JSON
        arguments = {}
    return {
        "tool_call_id": asked.id,
        "tool_name": asked.tool.name if asked.tool else "",
        "tool_args": arguments,
        "allowed_decisions": [decision.value for decision in _CAIPE_DECISIONS if decision in asked.decisions],
    }


def _call_id(asked: Asked, calls: Collection[str]) -> str | None:
    call = waiting_call(asked)
    return call[0] if call and call[0] in calls else None


def _field(field: FormField) -> dict[str, object]:
    described: dict[str, object] = {
        "field_name": field.name,
        "field_label": field.label,
        "field_type": field.type.value,
        "required": field.required,
        "field_description": field.description,
        "field_values": [option.value for option in field.options],
        "default_value": None if field.secret else field.default,
        "placeholder": field.placeholder,
        "min": field.min,
        "max": field.max,
        "pattern": field.pattern,
        "secret": field.secret or None,
    }
    if any(option.label for option in field.options):
        described["options"] = [{"value": option.value, "label": option.label} for option in field.options]
    return {name: value for name, value in described.items() if value not in ("", [], None)}


def _schema(asked: Asked) -> dict[str, Any] | None:
    """Returns the JSON Schema of the answer; None if any words are an answer."""
    if asked.tool and asked.decisions:
        return _schema_of_approval(asked.tool, can_edit=HumanDecision.EDIT in asked.decisions)
    return schema_of(asked.fields) if asked.fields else None


def _schema_of_approval(tool: ToolRequest, *, can_edit: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        APPROVED: {"type": "boolean", "description": "Whether the tool may be called."},
        REASON: {"type": "string", "description": "Why not, for the agent."},
    }
    if can_edit:
        about = {"title": "Arguments", "description": "Arguments to use instead, when the tool is called."}
        properties[EDITED_ARGUMENTS] = {"type": "object", **tool.schema, **about}
    return {"type": "object", "properties": properties, "required": [APPROVED]}
