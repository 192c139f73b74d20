"""The sentences about requests: for notifications, for error messages, and for the prompts of agents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from swarm.clock import SECOND, ago, to_iso
from swarm.domain.model.grants import Grant
from swarm.domain.model.requests import OPERATOR, HumanDecision, HumanRequest, RequestStatus, ResumeStatus
from swarm.domain.requests.shown import notified_title, without_secrets
from swarm.domain.text.slack_text import safe

_ALSO: Final = {
    HumanDecision.APPROVE_THREAD: ", who allowed it in this thread",
    HumanDecision.APPROVE_ALWAYS: ", who always allowed it",
}
_MAX_NAMED: Final = 20
_BY: Final = re.compile(r"(stopped|dropped) by <@([UW][A-Z0-9]+)>")


def card_text(request: HumanRequest) -> str:
    """Returns the text of a request for notifications and for the thread's transcript, safe for Slack.

    People who have decided are mentions, which Slack and the prompts of agents show as names.
    """
    named = notified_title(request)
    title = f"✋ {safe(named)}"
    if request.is_open:
        return title
    outcome, by = _outcome(request), withdrawn_by(request)
    people = frozenset([*(answer.person for answer in request.answers), *(by[1:] if by else ())])
    end = "" if named.endswith((".", "?", "!", "…")) else "."
    return f"{title}{end} {safe(outcome[:1].upper() + outcome[1:], people)}"


def granted_text(request: HumanRequest, grant: Grant) -> str:
    """Returns what people read where a grant has approved a call without asking."""
    whose = "my operator's" if grant.given_by == OPERATOR else f"<@{grant.given_by}>'s"
    return f"✋ Allowed by {whose} grant: {safe(request.tool.name if request.tool else grant.tool)}"


def withdrawn_by(request: HumanRequest) -> tuple[str, str] | None:
    """Returns what a person did to withdraw a request ("stopped"), and the person's id; None if nobody did."""
    found = _BY.fullmatch(request.reason or "") if request.status is RequestStatus.CANCELLED else None
    return (found[1], found[2]) if found else None


def outcome_text(request: HumanRequest) -> str:
    """Returns how and when a request ended, as a sentence without a full stop. People are given by their ids."""
    decided = request.ended_at if request.answers and not request.is_open else None
    at = datetime.fromtimestamp(decided // SECOND, UTC) if decided else None
    return f"{_outcome(request)}{f' at {at:%Y-%m-%d %H:%M} UTC' if at else ''}"


def _outcome(request: HumanRequest) -> str:
    match request.status:
        case RequestStatus.OPEN:
            return "nobody has decided yet"
        case RequestStatus.EXPIRED:
            return "nobody decided in time"
        case RequestStatus.CANCELLED:
            return f"withdrawn: {request.reason or 'it is no longer needed'}"
    return decided_text(request, person_text)


def decided_text(request: HumanRequest, person: Callable[[str], str]) -> str:
    """Returns who approved, answered or rejected a request, who decided otherwise, and how old it was, if it was."""
    is_rejected = request.status is RequestStatus.REJECTED
    counts = [one for one in request.answers if (one.decision is HumanDecision.REJECT) == is_rejected]
    others = [person(one.person) for one in request.answers if one not in counts]
    names = [person(one.person) + _ALSO.get(one.decision, "") for one in counts]
    verb = "approved" if request.arguments is None else "approved with changed arguments"
    text = f"{request.status if request.status is not RequestStatus.APPROVED else verb} by {listed(names, _MAX_NAMED)}"
    otherwise = "approved" if is_rejected else "rejected"
    asked = f" (asked {age})" if (age := _age(request)) else ""
    return f"{text} ({listed(others, _MAX_NAMED)} {otherwise}){asked}" if others else f"{text}{asked}"


def _age(request: HumanRequest) -> str:
    """Returns how long before its end a request was asked; empty if lately."""
    return ago(request.created_at, request.ended_at or request.created_at)


def listed(parts: Sequence[str], limit: int = 10) -> str:
    """Returns "a, b and c"; beyond the limit, the number of the others; "nobody" for no parts."""
    shown = [*parts] if len(parts) <= limit else [*parts[:limit], f"{len(parts) - limit} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]])) or "nobody"


def person_text(person: str) -> str:
    """Returns a person as a mention, or the operator in words."""
    return "the operator" if person == OPERATOR else f"<@{person}>"


def seen_by(agent_id: str, request: HumanRequest) -> HumanRequest:
    """Returns a request as an agent gets it with its work: only the asker gets the values of secret fields."""
    if agent_id == request.agent_id or not request.secrets:
        return request
    answers = (
        replace(answer, values=without_secrets(request, answer.values)) if answer.values else answer
        for answer in request.answers
    )
    return replace(request, answers=tuple(answers))


def decision_lines(request: HumanRequest) -> list[str]:
    """Returns a decision for an agent's prompt. All texts of people are JSON strings, so that they stay data."""
    lines = [f"request: {request.id}", f"question: {_data(request.title)}", f"status: {request.status}"]
    if request.tool:
        lines.append(f"tool: {_data(request.tool.name)}, digest {request.tool.digest}")
        arguments = request.arguments if request.arguments is not None else request.tool.arguments
        lines.append(f"arguments: {_data(dict(arguments))}")
    if request.values is not None:
        lines.append(f"values: {_data(dict(request.values))}")
    if request.status is RequestStatus.CANCELLED and request.reason:
        lines.append(f"reason: {_data(request.reason)}")
    for answer in request.answers:
        lines.append(f"decision: {answer.decision} by {_data(answer.person)} at {to_iso(answer.at)}")
    if age := _age(request):
        lines.append(f"asked: {age}")
    if request.resume is not ResumeStatus.NONE:
        lines.append("note: this decision was handed out before, so its effects may have begun")
    return lines


def _data(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
