"""The view of a request to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from swarm.domain.model.requests import DecisionPolicy, FileDiff, FormField, Option, RequestFacts
from swarm.domain.views import Hidden, JsonView, Key


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionView(Option, JsonView):
    """One choice of a select."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldView(FormField, JsonView):
    """One field of a form."""

    options: tuple[OptionView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyView(DecisionPolicy, JsonView):
    """Who may decide, and how many people have to."""

    direct_message: Hidden[bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class FileDiffView(FileDiff, JsonView):
    """What a call does to one file; ``old`` is null for a new file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolRequestView(JsonView):
    """The tool call that waits for approval."""

    name: str
    arguments: Mapping[str, Any]
    diffs: tuple[FileDiffView, ...]
    locations: tuple[str, ...]
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonView(JsonView):
    """A person, by Slack user id. The name is null if it is not known."""

    id: str
    name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskingRunView(JsonView):
    """The run that asked, and how many of its requests have ended."""

    id: str
    answered: int
    total: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CardView(JsonView):
    """A message in Slack that shows the request."""

    channel: str
    ts: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestView(RequestFacts, JsonView):
    """A request to people."""

    fields: Annotated[tuple[FieldView, ...], Key(after="prompt")]
    tool: Annotated[ToolRequestView | None, Key(after="decisions")]
    policy: Annotated[PolicyView, Key(after="tool")]
    requester: Annotated[PersonView | None, Key(after="policy")]
    requesters: Annotated[tuple[PersonView, ...], Key(after="requester")]
    thread: Annotated[str | None, Key(after="agent")]
    run: Annotated[AskingRunView | None, Key(after="thread")]
    cards: Annotated[tuple[CardView, ...], Key(after="run")]
