"""The view of a request, made for its asker or for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swarm.domain.model.requests import (
    Asker,
    DecisionPolicy,
    FileDiff,
    FormField,
    HumanDecision,
    HumanRequest,
    Option,
    RequestAnswer,
    RequestStatus,
    ResumeStatus,
    ToolRequest,
)
from swarm.domain.requests.shown import HIDDEN, without_secrets
from swarm.domain.views import Hidden, Time, View, facts_of


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionView(Option, View):
    """One choice of a select."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldView(FormField, View):
    """One field of a form."""

    options: tuple[OptionView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyView(DecisionPolicy, View):
    """Who may decide, and how many people have to."""

    direct_message: Hidden[bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiffView(FileDiff, View):
    """What a call does to one file; ``old`` is null for a new file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequestView(View):
    """The tool call that waits for approval."""

    name: str
    arguments: Mapping[str, Any]
    diffs: tuple[FileDiffView, ...]
    locations: tuple[str, ...]
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonView(View):
    """A person, by Slack user id. The name is null if it is not known."""

    id: str
    name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskingRunView(View):
    """The run that asked, and how many of its requests have ended."""

    id: str
    answered: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CardView(View):
    """A message in Slack that shows the request."""

    channel: str
    ts: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestView(View):
    """A request to people."""

    id: str
    status: RequestStatus
    resume: ResumeStatus
    asker: Asker
    title: str
    prompt: str
    fields: tuple[FieldView, ...]
    decisions: tuple[HumanDecision, ...]
    tool: ToolRequestView | None
    policy: PolicyView
    requester: PersonView | None
    requesters: tuple[PersonView, ...]
    agent: str
    thread: str | None
    run: AskingRunView | None
    cards: tuple[CardView, ...]
    created_at: Time
    expires_at: Time | None
    ended_at: Time | None
    reason: str | None
    answers: tuple[RequestAnswer, ...]


def for_people(request: HumanRequest, cards: Sequence[tuple[str, str]] = ()) -> RequestView:
    """Returns a request for the operator, with the whole call, but without the values of secret fields.

    ``cards`` are the channels and timestamps of the messages that show it.
    """
    answers = tuple(
        replace(answer, values=answer.values and without_secrets(request, answer.values)) for answer in request.answers
    )
    return for_asker(replace(request, answers=answers), cards)


def for_asker(request: HumanRequest, cards: Sequence[tuple[str, str]] = ()) -> RequestView:
    """Returns a request for its asker, who alone gets the values of secret fields."""
    people = tuple(PersonView(id=one) for one in request.requesters)
    run = AskingRunView(id=request.run_id or "", answered=request.run_ended, total=request.run_total)
    return RequestView(
        id=request.id,
        status=request.status,
        resume=request.resume,
        asker=request.asker,
        title=request.title,
        prompt=request.prompt,
        fields=tuple(_field(field) for field in request.fields),
        decisions=request.decisions,
        tool=_tool(request.tool) if request.tool else None,
        policy=PolicyView(**facts_of(DecisionPolicy, request.policy)),
        requester=people[0] if people else None,
        requesters=people,
        agent=request.agent,
        thread=request.thread_id,
        run=run if request.run_id else None,
        cards=tuple(CardView(channel=channel, ts=ts) for channel, ts in cards),
        created_at=request.created_at,
        expires_at=request.expires_at,
        ended_at=request.ended_at,
        reason=request.reason,
        answers=request.answers,
    )


def _field(field: FormField) -> FieldView:
    shown = replace(field, default=HIDDEN) if field.secret and field.default is not None else field
    options = tuple(OptionView(**facts_of(Option, option)) for option in field.options)
    return FieldView(**facts_of(FormField, shown) | {"options": options})


def _tool(tool: ToolRequest) -> ToolRequestView:
    diffs = tuple(FileDiffView(**facts_of(FileDiff, diff)) for diff in tool.diffs)
    return ToolRequestView(
        name=tool.name, arguments=tool.arguments, diffs=diffs, locations=tool.locations, digest=tool.digest
    )
