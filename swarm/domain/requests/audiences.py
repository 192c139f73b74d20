"""The views of a request for its asker, and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swarm.domain.model.request_views import (
    AskingRunView,
    CardView,
    FieldView,
    FileDiffView,
    OptionView,
    PersonView,
    PolicyView,
    RequestView,
    ToolRequestView,
)
from swarm.domain.model.requests import (
    DecisionPolicy,
    FileDiff,
    FormField,
    HumanRequest,
    Option,
    RequestFacts,
    ToolRequest,
)
from swarm.domain.requests.shown import HIDDEN, without_secrets
from swarm.domain.views import facts_of


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
        **facts_of(RequestFacts, request),
        fields=tuple(_field(field) for field in request.fields),
        tool=_tool(request.tool) if request.tool else None,
        policy=PolicyView(**facts_of(DecisionPolicy, request.policy)),
        requester=people[0] if people else None,
        requesters=people,
        thread=request.thread_id,
        run=run if request.run_id else None,
        cards=tuple(CardView(channel=channel, ts=ts) for channel, ts in cards),
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
