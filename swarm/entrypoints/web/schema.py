"""Requests and responses of the HTTP API, except for the shapes shared with the tools."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from swarm.domain.model.agents import ListedAgentRow, Role
from swarm.domain.model.deliveries import DeliveryRow, DeliveryStatus
from swarm.domain.model.inbox import InboxMessageRow, InboxStatus
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import LeaseView, Trigger
from swarm.domain.selections import Selection
from swarm.domain.views import time_of

MAX_TOKENS = 500
"""The maximum number of leases in one call."""

Tokens = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(max_length=MAX_TOKENS, description="Lease tokens."),
]
Capabilities = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
Description = Annotated[str, Field(max_length=4000)]
Limit = Annotated[int, Field(ge=1, le=500)]


class Input(BaseModel):
    """The base class of request bodies and queries, which accept no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewAgent(Input):
    name: Annotated[str, Field(description="1 to 32 characters of a-z, 0-9 and '-', and no reserved name.")]
    role: Role
    description: Description = ""
    capabilities: Capabilities = []


class AgentChange(Input):
    description: Description | None = None
    capabilities: Capabilities | None = None

    @model_validator(mode="after")
    def _says_something(self) -> AgentChange:
        if self.description is None and self.capabilities is None:
            raise ValueError("give a description, capabilities, or both")
        return self


class Renewal(Input):
    tokens: Tokens
    parked_seconds: Annotated[
        float | None,
        Field(ge=0, le=8 * 86_400, allow_inf_nan=False, description="A limit of the account is reached for so long."),
    ] = None


class Release(Input):
    tokens: Tokens
    delay_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False, strict=True)] = 0


class Finish(Input):
    tokens: Tokens
    outcome: FinishOutcome
    reason: Annotated[str, Field(max_length=4000)] = ""
    next: Annotated[int, Field(ge=0, le=20)] = 0


class InboxQuery(Input):
    status: InboxStatus | None = None
    limit: Limit = 100


class DeliveriesQuery(Input):
    status: DeliveryStatus | None = None
    limit: Limit = 100


class Where(Input):
    """What to act on; what is left out does not matter."""

    agent: Annotated[str | None, Field(max_length=32, description="An agent's name.")] = None
    channel: Annotated[str | None, Field(max_length=20, description="A channel's id.")] = None
    since: Annotated[str | None, Field(max_length=40, description="A time in ISO 8601.")] = None
    reason: Annotated[str | None, Field(max_length=200, description="A part of the recorded reason.")] = None

    def selection(self, status: str) -> Selection:
        """Returns the selection. Raises Invalid for a bad time."""
        return Selection(
            status=status, agent=self.agent, channel=self.channel, since=time_of(self.since), reason=self.reason
        )


class DeadWhere(Where):
    status: Literal["dead"] = "dead"


class RedriveAll(Input):
    where: DeadWhere
    dry_run: Annotated[bool, Field(description="Only count what matches.")] = False


class FailedWhere(Where):
    status: Literal["failed", "expired"] = "failed"


class ResendAll(Input):
    where: FailedWhere
    dry_run: Annotated[bool, Field(description="Only count what matches.")] = False


class FeedbackQuery(Input):
    since: Annotated[str | None, Field(max_length=40, description="A time in ISO 8601.")] = None
    agent: Annotated[str | None, Field(max_length=32, description="An agent's name.")] = None
    limit: Limit = 100


class ExplainQuery(Input):
    message: Annotated[str, Field(max_length=500, description="CHANNEL:TS, a message's link, or an inbox message id.")]


class Polled(TypedDict):
    """The answer to a poll."""

    triggers: list[Trigger]


class RenewedShape(TypedDict):
    """The answer to a renewal."""

    renewed: list[LeaseView]
    lost: list[str]
    notices: list[Trigger]


class Released(TypedDict):
    """The tokens by outcome."""

    released: list[str]
    lost: list[str]


class FinishedShape(TypedDict):
    """The tokens by outcome."""

    finished: list[str]
    lost: list[str]


class FinishedNextShape(FinishedShape):
    """The answer to a call that asked for the next triggers."""

    triggers: NotRequired[list[Trigger]]


class RegisteredShape(TypedDict):
    """A new agent and its token, which is not shown again."""

    id: str
    name: str
    role: str
    token: str


class Agents(TypedDict):
    agents: list[ListedAgentRow]


class InboxMessages(TypedDict):
    inbox_messages: list[InboxMessageRow]


class Deliveries(TypedDict):
    deliveries: list[DeliveryRow]
