"""Converts the questions of an agent's run to requests, and the decisions of people to what the agent expects.

An approval in the form of AG-UI asks for the values ``approved``, ``reason`` and ``editedArgs``. People see buttons
instead of these fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

from swarm.domain.answers.events import Asked, Decided
from swarm.domain.errors import Invalid
from swarm.domain.model.requests import (
    BY_REQUESTER,
    MAX_OPEN_PER_WORK,
    MAX_TITLE_CHARACTERS,
    DecisionPolicy,
    FieldType,
    FormField,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestStatus,
    ToolRequest,
)
from swarm.domain.patterns import WorkLimit
from swarm.domain.policy.decision_rules import check_new
from swarm.domain.requests.shown import may_i
from swarm_base.characters import is_blank

TOOL_CALL: Final = "toolCall"
"""The key of the waiting tool call in `Asked.raw`: ``{"id", "name", "arguments"}``. A resume has to repeat this
call.
"""

APPROVED: Final = "approved"
REASON: Final = "reason"
EDITED_ARGUMENTS: Final = "editedArgs"
ANSWER: Final = "answer"
"""The name of the only value of a question without fields."""

NOBODY_DECIDED: Final = "Nobody decided in time."
REJECTED: Final = "A person has rejected this call."

_OF_APPROVAL: Final = frozenset({APPROVED, REASON, EDITED_ARGUMENTS})
_D = HumanDecision


def request_of(asked: Asked, key: str, policy: DecisionPolicy = BY_REQUESTER) -> NewRequest:
    """Returns the request for a question of a run."""
    decisions = asked.decisions or _decisions(asked)
    return NewRequest(
        key=key,
        title=_title(asked),
        prompt=asked.prompt,
        fields=form_of(asked),
        decisions=decisions,
        tool=asked.tool,
        policy=policy,
        agent_request_id=asked.id,
        raw=asked.raw,
    )


def why_unaskable(asked: Sequence[Asked]) -> str | None:
    """Returns why people cannot be asked the questions of a run; None if they can."""
    if len(asked) > MAX_OPEN_PER_WORK:
        return f"the agent asks more than {MAX_OPEN_PER_WORK} questions at once, and people are shown no more"
    if any(one != other for one, other in combinations(asked, 2) if one.id == other.id):
        return "the agent asks different questions with the same id, so that one answer would count for all of them"
    steps = WorkLimit()  # for all of them, because events are read on the event loop
    for question in asked:
        if question.problem:
            return f"the agent asks something that cannot be shown to people ({question.problem})"
        try:
            check_new(request_of(question, question.id), steps)
        except Invalid as wrong:
            problems = "; ".join(f"{name}: {expected}" for name, expected in wrong.fields.items())
            return f"the agent asks something that cannot be shown to people ({problems})"
    return None


def form_of(asked: Asked) -> tuple[FormField, ...]:
    """Returns the fields that people fill in: one text field if the question has neither fields nor a tool."""
    if is_approval(asked):
        return tuple(field for field in asked.fields if field.name not in _OF_APPROVAL)
    if asked.fields or asked.tool:
        return asked.fields
    return (FormField(name=ANSWER, label="Answer", type=FieldType.TEXTAREA, required=True),)


def is_approval(asked: Asked) -> bool:
    """Whether the agent expects the values of an approval."""
    if asked.decisions:
        return asked.tool is not None
    return any(field.name == APPROVED and field.type is FieldType.BOOLEAN for field in asked.fields)


def decided_of(request: HumanRequest) -> Decided:
    """Returns the decision on a request in the form that its agent expects."""
    answer = request.deciding
    decision = answer.decision if answer else None
    if request.status in (RequestStatus.EXPIRED, RequestStatus.CANCELLED, RequestStatus.OPEN):
        decision = None
    values: dict[str, Any] | None = dict(request.values) if request.values is not None else None
    is_positive = request.status in (RequestStatus.APPROVED, RequestStatus.ANSWERED)
    if request.status is RequestStatus.CANCELLED:
        values = None  # dropped: nobody has approved or rejected it
    elif _expects_approval(request):
        values = {APPROVED: is_positive} | (values or {})
        if is_positive and request.arguments is not None:
            values[EDITED_ARGUMENTS] = dict(request.arguments)
        if not is_positive:
            values[REASON] = why_not_approved(request)
    elif is_positive:
        values = ({APPROVED: True} if _has_field_of_approval(request.raw) else {}) | (values or {})
    return Decided(
        interrupt_id=request.agent_request_id,
        values=values,
        raw=request.raw,
        decision=decision,
        arguments=request.arguments,
        expired=request.status is RequestStatus.EXPIRED,
    )


def decision_on(
    request: NewRequest,
    decision: HumanDecision,
    values: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    rejected: str = REJECTED,
) -> Decided:
    """Returns a decision on a question that is no stored request, in the form that its agent expects; `decided_of` is
    for requests. ``rejected`` is the reason that the agent's model reads.
    """
    given: dict[str, Any] | None = None if decision is _D.REJECT else dict(values or {})
    if request.tool or _D.APPROVE in request.decisions:
        edited = {} if arguments is None else {EDITED_ARGUMENTS: dict(arguments)}
        refusal = {APPROVED: False, REASON: rejected}
        given = {APPROVED: True, **(given or {}), **edited} if decision is not _D.REJECT else refusal
    return Decided(
        interrupt_id=request.agent_request_id, values=given, raw=request.raw, decision=decision, arguments=arguments
    )


def decided_by_client(asked: Asked, payload: Mapping[str, Any] | None) -> Decided:
    """Returns the decision that a client of the AG-UI entry point sends for a question; None: dismissed."""
    if not asked.decisions:
        return Decided(interrupt_id=asked.id, values=payload, raw=asked.raw)
    arguments = (payload or {}).get(EDITED_ARGUMENTS)
    is_edited = isinstance(arguments, Mapping) and (asked.tool is None or dict(arguments) != dict(asked.tool.arguments))
    said = (payload or {}).get(APPROVED)
    decision = _D.REJECT if payload is None or said is not True else _D.EDIT if is_edited else _D.APPROVE
    return Decided(
        interrupt_id=asked.id,
        values=payload,
        raw=asked.raw,
        decision=decision,
        arguments=arguments if isinstance(arguments, Mapping) and is_edited else None,
    )


def why_not_approved(request: HumanRequest) -> str:
    """Returns why a tool may not be called, for the agent's model."""
    match request.status:
        case RequestStatus.EXPIRED:
            return NOBODY_DECIDED
        case RequestStatus.CANCELLED:
            return f"The question was withdrawn: {request.reason or 'it is no longer needed'}."
        case _:
            return REJECTED


def tool_of_call(raw: Mapping[str, object]) -> Mapping[str, Any] | None:
    """Returns the waiting tool call among what an agent sent."""
    call = raw.get(TOOL_CALL)
    return call if isinstance(call, Mapping) else None


def _has_field_of_approval(raw: Mapping[str, object]) -> bool:
    """Whether an agent asked for `APPROVED` in a list of fields, in whose place people see buttons."""
    payload = raw.get("payload")
    fields = payload.get("fields") if isinstance(payload, Mapping) else None
    named = [field for field in fields if isinstance(field, Mapping)] if isinstance(fields, list) else []
    return any(APPROVED in (field.get("field_name"), field.get("name")) for field in named)


def _expects_approval(request: HumanRequest) -> bool:
    schema = request.raw.get("responseSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and APPROVED in properties


def _decisions(asked: Asked) -> tuple[HumanDecision, ...]:
    if not is_approval(asked):
        return (_D.APPROVE, _D.REJECT) if asked.tool and not asked.fields else (_D.ANSWER, _D.REJECT)
    can_edit = asked.tool is not None and any(field.name == EDITED_ARGUMENTS for field in asked.fields)
    grants = (_D.APPROVE_THREAD, _D.APPROVE_ALWAYS) if asked.tool else ()
    return (_D.APPROVE, *((_D.EDIT,) if can_edit else ()), _D.REJECT, *grants)


def _title(asked: Asked) -> str:
    """Returns a heading. A request for a tool is named after the call, others by the first line of the question."""
    if asked.tool:
        return may_i(asked.tool)[:MAX_TITLE_CHARACTERS]
    first = next((line.strip() for line in asked.prompt.splitlines() if not is_blank(line)), asked.reason)
    return "A question" if is_blank(first) or len(first) > MAX_TITLE_CHARACTERS else first


def tool_request(name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> ToolRequest:
    """Returns the tool call of a question."""
    return ToolRequest(name=name, arguments=arguments, schema=schema or {})
