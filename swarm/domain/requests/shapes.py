"""The JSON of requests to people, grants and the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar, cast

from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.grants import AuditLine, Grant
from swarm.domain.model.requests import FormField, HumanRequest, RequestAnswer
from swarm.domain.requests.shown import HIDDEN, without_secrets

Shape = TypeVar("Shape")


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
    people = [PersonShape(id=one, name=None) for one in request.requesters]
    run = AskingRunShape(id=request.run_id or "", answered=request.run_ended, total=request.run_total)
    return _of(
        RequestShape,
        request,
        fields=[_field(field) for field in request.fields],
        tool=_of(ToolRequestShape, request.tool, diffs=list(map(asdict, request.tool.diffs))) if request.tool else None,
        policy=_of(PolicyShape, request.policy),
        requester=people[0] if people else None,
        requesters=people,
        thread=request.thread_id,
        run=run if request.run_id else None,
        cards=[CardShape(channel=channel, ts=ts) for channel, ts in cards],
        answers=[_answer(request, answer, for_asker=for_asker) for answer in request.answers],
    )


def grant_shape(grant: Grant) -> GrantShape:
    """Returns a grant."""
    return _of(GrantShape, grant, thread=grant.thread_id)


def audit_shape(line: AuditLine) -> AuditShape:
    """Returns a line of the audit."""
    return _of(AuditShape, line, request=line.request_id)


def _field(field: FormField) -> FieldShape:
    default = HIDDEN if field.secret and field.default is not None else field.default
    return _of(FieldShape, field, default=default, options=list(map(asdict, field.options)))


def _answer(request: HumanRequest, answer: RequestAnswer, *, for_asker: bool) -> RequestAnswerShape:
    values = answer.values if for_asker or answer.values is None else without_secrets(request, answer.values)
    return _of(RequestAnswerShape, answer, values=values)


def _of(shape: type[Shape], source: object, **given: object) -> Shape:
    """Returns a shape whose values are the attributes with the same names, except those that are given."""
    return cast(
        "Shape",
        {
            name: given.get(name) if name in given else _json(name, getattr(source, name))
            for name in shape.__annotations__
        },
    )


def _json(name: str, value: object) -> object:
    if isinstance(value, int) and (name == "at" or name.endswith("_at")):
        return to_iso(value)
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
