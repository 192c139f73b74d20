"""Builds what a resumed run of a remote agent is told about people's decisions, in the form that the agent takes.

Whatever is not a clear approval is sent as a refusal: nobody decided in time, the question was withdrawn, or the agent
cannot be told what people changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from ag_ui.core import ResumeEntry

from swarm.agents.remote.translation.answer_forms import AnswerForm, AnswerShape, answer_form
from swarm.agents.remote.translation.wire import parsed
from swarm.domain.answers.events import Asked, Decided, Interrupted
from swarm.domain.answers.questions import ANSWER, APPROVED, EDITED_ARGUMENTS, NOBODY_DECIDED, REASON, REJECTED
from swarm.domain.model.requests import APPROVALS, HumanDecision
from swarm_base.characters import data_for_model

DISMISSED: Final = "User dismissed the input form without providing values."
"""CAIPE's ``form_data`` when a person declines to answer. Services before 0.4.9 take any text for a refusal that begins
with its first two words, and any other for an approval.
"""

_EXPIRED_FORM: Final = "User dismissed nothing and entered no values: nobody decided in time."
_REJECTED_CALL: Final = "User dismissed this call: it is not allowed."
_NOT_EDITABLE: Final = "User dismissed this call: it is allowed only with other arguments, which you cannot be given."
_ALL_OR_NONE: Final = "The agent asks about {count} calls at once: they are made only if all of them are approved."
_TOOL_APPROVAL: Final = "tool_approval"
_EXPIRED: Final = {REASON: "expired"}
_CANCELLED: Final = "__agui_cancelled__"
"""The key by which a LangGraph agent detects that a question was dismissed, as in ``ag-ui-langgraph``."""

_D = HumanDecision


def resume_entries(decided: Iterable[Decided]) -> list[ResumeEntry]:
    """Returns the entries of AG-UI 1.0, one for each interrupt; none for agents that take a `command` instead."""
    groups = _by_interrupt(decided)
    if _needs_command(groups):
        return []
    return [_entry(id, parts) for id, parts in groups.items()]


def command(decided: Iterable[Decided]) -> dict[str, object] | None:
    """Returns LangGraph's command that resumes a run; None for agents that take the entries of AG-UI 1.0.

    ``ag-ui-langgraph`` takes an entry for one interrupt, but cannot assign several to their interrupts. As a command,
    several answers are assigned by the ids of their interrupts. Older versions take only commands.
    """
    groups = _by_interrupt(decided)
    if not _needs_command(groups):
        return None
    answers = {id: _langgraph_answer(id, parts) for id, parts in groups.items()}
    (value, *others) = answers.values()
    return {"resume": answers if others else _command_value(value)}


def form_data(decided: Iterable[Decided]) -> str:
    """Returns CAIPE's ``form_data``: the values of all forms as one JSON text, or a sentence if there are none.

    Services that take it never ask for the approval of a tool call. A call is allowed by a form without values.
    """
    decided = tuple(decided)
    if any(_is_approval(one) for one in decided):
        return _approval_form(decided)
    answers = [one.values for one in decided if one.values is not None]
    if not answers:
        return _EXPIRED_FORM if any(one.expired for one in decided) else DISMISSED
    return json_of(_texts(answers))


def askable_by_form(asked: Interrupted) -> Interrupted:
    """Returns the questions with the decisions that `form_data` can tell the service: no other arguments of a call.

    One text answers all calls of an interrupt. So people read that a call is made only if the others are allowed, too.
    """
    count = sum(one.raw.get(REASON) == _TOOL_APPROVAL for one in asked.asked)
    return Interrupted(asked=tuple(_by_form(one, count) for one in asked.asked))


def _by_form(asked: Asked, count: int) -> Asked:
    is_shared = count > 1 and asked.raw.get(REASON) == _TOOL_APPROVAL
    prompt = f"{asked.prompt}\n\n{_ALL_OR_NONE.format(count=count)}".strip() if is_shared else asked.prompt
    return replace(asked, prompt=prompt, decisions=tuple(one for one in asked.decisions if one is not _D.EDIT))


def resume_data(decided: Iterable[Decided]) -> str:
    """Returns CAIPE's ``resume_data``, since 0.4.9: the answers as JSON text with their type.

    A service passes no reason on to its agent. The reason of what expired is sent for those that may.
    """
    decided = tuple(decided)
    approvals = [one for one in decided if _is_approval(one)]
    if approvals:
        return json_of({"type": _TOOL_APPROVAL, **_caipe_decisions(approvals)})
    answers = [one.values for one in decided if one.values is not None]
    if answers:
        return json_of({"type": "form_input", "values": _texts(answers)})
    why = {REASON: NOBODY_DECIDED} if any(one.expired for one in decided) else {}
    return json_of({"type": "form_input", "dismissed": True, **why})


def _by_interrupt(decided: Iterable[Decided]) -> dict[str, list[tuple[AnswerForm | None, Decided]]]:
    """Returns the decisions by interrupt."""
    groups: dict[str, list[tuple[AnswerForm | None, Decided]]] = {}
    for one in decided:
        form = answer_form(one.raw)
        groups.setdefault(form.interrupt_id if form else one.interrupt_id, []).append((form, one))
    return groups


def _needs_command(groups: Mapping[str, list[tuple[AnswerForm | None, Decided]]]) -> bool:
    forms = [form for parts in groups.values() for form, _ in parts]
    if not forms or not all(form and form.is_langgraph for form in forms):
        return False
    return len(groups) > 1 or any(form and form.by_command for form in forms)


def _entry(id: str, parts: list[tuple[AnswerForm | None, Decided]]) -> ResumeEntry:
    form, decided = parts[0]
    metadata = dict(_EXPIRED) if any(one.expired for _, one in parts) else None
    if form and (decided.values is not None or form.shape not in (AnswerShape.VALUES, AnswerShape.TEXT)):
        payload = _langgraph_answer(id, parts)
        return ResumeEntry(interrupt_id=id, status="resolved", payload=payload, metadata=metadata)
    if decided.values is None:
        return ResumeEntry(interrupt_id=id, status="cancelled", payload=metadata, metadata=metadata)
    return ResumeEntry(interrupt_id=id, status="resolved", payload=dict(decided.values), metadata=metadata)


def _langgraph_answer(id: str, parts: list[tuple[AnswerForm | None, Decided]]) -> object:
    """Returns what ``interrupt()`` returns in the agent's graph."""
    form, decided = parts[0]
    match form.shape if form else AnswerShape.VALUES:
        case AnswerShape.DECISION:
            return _decision(form, decided)
        case AnswerShape.DECISIONS | AnswerShape.RESPONSE:
            given = {form.place: _decision(form, one) for form, one in parts if form}
            count = form.count if form else len(parts)
            return {"decisions": [given.get(place, _rejected(NOBODY_DECIDED)) for place in range(count)]}
        case AnswerShape.APPROVAL:
            return _approval(decided)
    if decided.values is None:
        return {_CANCELLED: True, "interrupt_id": id, **(_EXPIRED if decided.expired else {REASON: "dismissed"})}
    text = decided.values.get(ANSWER)
    is_text = form is not None and form.shape is AnswerShape.TEXT and isinstance(text, str)
    return text if is_text else dict(decided.values)


def _decision(form: AnswerForm | None, decided: Decided) -> dict[str, object]:
    """Returns one decision for LangChain's middleware."""
    if form and form.shape is AnswerShape.RESPONSE:
        text = (decided.values or {}).get(ANSWER)
        is_answered = decided.decision is _D.ANSWER and isinstance(text, str)
        return {"type": "respond", "message": text} if is_answered else _rejected(_why_rejected(decided))
    if not _is_approved(decided):
        return _rejected(_why_rejected(decided))
    if decided.arguments is None:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": form.tool if form else "", "args": dict(decided.arguments)}}


def _rejected(why: str) -> dict[str, object]:
    return {"type": "reject", "message": why}


def _approval(decided: Decided) -> dict[str, object]:
    if not _is_approved(decided):
        return {APPROVED: False, REASON: _why_rejected(decided)}
    edited = {} if decided.arguments is None else {EDITED_ARGUMENTS: dict(decided.arguments)}
    return {APPROVED: True, **edited}


def _command_value(value: object) -> object:
    """Returns a value that ``ag-ui-langgraph`` takes as it is meant.

    It parses a text that is JSON, and before 0.0.26 it ignores values that are false in Python.
    """
    if isinstance(value, str) and parsed(value) is not None:
        return json_of(value)
    return value or json_of(value)


def _caipe_decisions(decided: list[Decided]) -> dict[str, object]:
    """Returns one decision, or for several calls all of them in their order: a service applies one to all calls."""
    forms = [(answer_form(one.raw), one) for one in decided]
    count = max((form.count for form, _ in forms if form), default=1)
    if count == 1:
        return _caipe_decision(decided[0])
    given = {form.place: _named(form, _caipe_decision(one)) for form, one in forms if form}
    return {"decisions": [given.get(place, {"decision": "reject"}) for place in range(count)]}


def _named(form: AnswerForm, decision: dict[str, object]) -> dict[str, object]:
    return decision | {"tool_name": form.tool} if decision["decision"] == "edit" else decision


def _caipe_decision(decided: Decided) -> dict[str, object]:
    if not _is_approved(decided):
        return {"decision": "reject", **({REASON: NOBODY_DECIDED} if decided.expired else {})}
    if decided.arguments is None:
        return {"decision": "approve"}
    return {"decision": "edit", "edited_args": dict(decided.arguments)}


def _approval_form(decided: tuple[Decided, ...]) -> str:
    """Returns the approval for a service that only knows forms: it approves all calls unchanged or rejects all."""
    if any(one.expired for one in decided):
        return _EXPIRED_FORM
    if not all(_is_approved(one) for one in decided):
        return _REJECTED_CALL
    return _NOT_EDITABLE if any(one.arguments is not None for one in decided) else "{}"


def _is_approval(decided: Decided) -> bool:
    return decided.raw.get(REASON) == _TOOL_APPROVAL


def _is_approved(decided: Decided) -> bool:
    return decided.decision in APPROVALS and decided.values is not None and not decided.expired


def _why_rejected(decided: Decided) -> str:
    if decided.decision is None:
        return NOBODY_DECIDED if decided.expired else "The question was withdrawn."
    return REJECTED


def _texts(answers: list[Mapping[str, object]]) -> dict[str, object]:
    """Returns the values as texts. CAIPE's form tool takes nothing else, and several choices separated by commas."""
    return {name: _text(value) for values in answers for name, value in values.items()}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value)
    return value if isinstance(value, str) else json_of(value)


def json_of(value: object) -> str:
    """Returns a value as JSON without characters that the agent's model cannot read."""
    return orjson.dumps(data_for_model(value), default=_plain).decode()


def _plain(value: object) -> Any:
    """Converts mappings other than dict."""
    return dict(value) if isinstance(value, Mapping) else str(value)
