"""The JSON of requests to people, grants and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.grants import AuditLine, Grant
from swarm.domain.model.requests import FormField, HumanRequest, RequestAnswer, ToolRequest
from swarm.domain.shown_requests import HIDDEN


class OptionShape(TypedDict):
    """One choice of a select."""

    value: str
    label: str


class FieldShape(TypedDict):
    """One field of a form."""

    name: str
    label: str
    type: str
    required: bool
    default: Any
    placeholder: str
    description: str
    options: list[OptionShape]
    min: float | None
    max: float | None
    pattern: str | None
    secret: bool


class PolicyShape(TypedDict):
    """Who may decide, and how many people have to."""

    users: list[str]
    groups: list[str]
    requester: bool
    not_requester: bool
    need: int
    veto: bool


class FileDiffShape(TypedDict):
    """What a call does to one file; ``old`` is null for a new file."""

    path: str
    old: str | None
    new: str


class ToolRequestShape(TypedDict):
    """The tool call that waits for approval."""

    name: str
    arguments: dict[str, Any]
    diffs: list[FileDiffShape]
    locations: list[str]
    digest: str


class PersonShape(TypedDict):
    """A person, by Slack user id. The name is null if it is not known."""

    id: str
    name: str | None


class AskingRunShape(TypedDict):
    """The run that asked, and how many of its requests have ended."""

    id: str
    answered: int
    total: int


class CardShape(TypedDict):
    """A message in Slack that shows the request."""

    channel: str
    ts: str


class RequestAnswerShape(TypedDict):
    """One person's decision. Values of secret fields are hidden from everybody but the asker."""

    person: str
    decision: str
    values: dict[str, Any] | None
    arguments: dict[str, Any] | None
    at: str
    door: str


class RequestShape(TypedDict):
    """A request to people."""

    id: str
    status: str
    resume: str
    asker: str
    title: str
    prompt: str
    fields: list[FieldShape]
    decisions: list[str]
    tool: ToolRequestShape | None
    policy: PolicyShape
    requester: PersonShape | None
    requesters: list[PersonShape]
    agent: str
    thread: str | None
    run: AskingRunShape | None
    cards: list[CardShape]
    created_at: str
    expires_at: str | None
    ended_at: str | None
    reason: str | None
    answers: list[RequestAnswerShape]


class FoundRequests(TypedDict):
    """Requests, newest first."""

    requests: list[RequestShape]


class GrantShape(TypedDict):
    """A permission for one tool of one agent."""

    id: str
    agent: str
    tool: str
    scope: str
    covers: str
    thread: str | None
    given_by: str
    created_at: str
    expires_at: str | None
    uses: int


class FoundGrants(TypedDict):
    """The valid grants, newest first."""

    grants: list[GrantShape]


class AuditShape(TypedDict):
    """One line of the audit. ``seq`` orders the lines; pass the last one as ``after`` to read on."""

    seq: int
    at: str
    kind: str
    request: str | None
    person: str | None
    agent: str | None
    tool: str | None
    digest: str | None
    outcome: str


class FoundAudit(TypedDict):
    """Lines of the audit, oldest first."""

    audit: list[AuditShape]


def request_shape(
    request: HumanRequest,
    *,
    for_asker: bool = False,
    cards: Sequence[tuple[str, str]] = (),
) -> RequestShape:
    """Returns a request for its asker or the operator, with the whole call. Only its asker gets the values of secret
    fields.

    ``cards`` are the channels and timestamps of the messages that show it.
    """
    return {
        "id": request.id,
        "status": request.status.value,
        "resume": request.resume.value,
        "asker": request.asker.value,
        "title": request.title,
        "prompt": request.prompt,
        "fields": [_field(field) for field in request.fields],
        "decisions": [decision.value for decision in request.decisions],
        "tool": _tool(request.tool) if request.tool else None,
        "policy": {
            "users": list(request.policy.users),
            "groups": list(request.policy.groups),
            "requester": request.policy.requester,
            "not_requester": request.policy.not_requester,
            "need": request.policy.need,
            "veto": request.policy.veto,
        },
        "requester": _person(request.requester) if request.requester else None,
        "requesters": [_person(one) for one in request.requesters],
        "agent": request.agent,
        "thread": request.thread_id,
        "run": _run(request),
        "cards": [{"channel": channel, "ts": ts} for channel, ts in cards],
        "created_at": to_iso(request.created_at),
        "expires_at": _time(request.expires_at),
        "ended_at": _time(request.ended_at),
        "reason": request.reason,
        "answers": [_answer(request, answer, for_asker=for_asker) for answer in request.answers],
    }


def _person(person: str) -> PersonShape:
    return {"id": person, "name": None}


def _run(request: HumanRequest) -> AskingRunShape | None:
    if request.run_id is None:
        return None
    return {"id": request.run_id, "answered": request.run_ended, "total": request.run_total}


def grant_shape(grant: Grant) -> GrantShape:
    """Returns a grant."""
    return {
        "id": grant.id,
        "agent": grant.agent,
        "tool": grant.tool,
        "scope": grant.scope.value,
        "covers": grant.covers.value,
        "thread": grant.thread_id,
        "given_by": grant.given_by,
        "created_at": to_iso(grant.created_at),
        "expires_at": _time(grant.expires_at),
        "uses": grant.uses,
    }


def audit_shape(line: AuditLine) -> AuditShape:
    """Returns a line of the audit."""
    return {
        "seq": line.seq,
        "at": to_iso(line.at),
        "kind": line.kind.value,
        "request": line.request_id,
        "person": line.person,
        "agent": line.agent,
        "tool": line.tool,
        "digest": line.digest,
        "outcome": line.outcome,
    }


def _field(field: FormField) -> FieldShape:
    return {
        "name": field.name,
        "label": field.label,
        "type": field.type.value,
        "required": field.required,
        "default": HIDDEN if field.secret and field.default is not None else field.default,
        "placeholder": field.placeholder,
        "description": field.description,
        "options": [{"value": option.value, "label": option.label} for option in field.options],
        "min": field.min,
        "max": field.max,
        "pattern": field.pattern,
        "secret": field.secret,
    }


def _tool(tool: ToolRequest) -> ToolRequestShape:
    return {
        "name": tool.name,
        "arguments": dict(tool.arguments),
        "diffs": [{"path": diff.path, "old": diff.old, "new": diff.new} for diff in tool.diffs],
        "locations": list(tool.locations),
        "digest": tool.digest,
    }


def _answer(request: HumanRequest, answer: RequestAnswer, *, for_asker: bool) -> RequestAnswerShape:
    values = answer.values
    if values is not None and not for_asker:
        values = {name: HIDDEN if name in request.secrets else value for name, value in values.items()}
    arguments = answer.arguments
    return {
        "person": answer.person,
        "decision": answer.decision.value,
        "values": None if values is None else dict(values),
        "arguments": None if arguments is None else dict(arguments),
        "at": to_iso(answer.at),
        "door": answer.door.value,
    }


def _time(moment: int | None) -> str | None:
    return None if moment is None else to_iso(moment)
