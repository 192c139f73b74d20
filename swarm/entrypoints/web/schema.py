"""Requests and answers of the HTTP API, beside the shapes shared with the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.deliveries import DeliveryStatus
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.shapes import AgentShape, LeaseShape, TriggerShape, agent_shape, lease_shape, trigger_shape
from swarm.services.inbox.work import Heartbeat
from swarm.services.operate.agents import Present, Registered
from swarm.services.operate.explain import Explanation, InboxMessageExplanation, Step
from swarm.services.operate.overview import Timeline
from swarm.services.rules.leases import Ended
from swarm.store.inbox.inbox import InboxMessage

MAX_TOKENS = 500
"""The number of leases in one call."""

Tokens = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(max_length=MAX_TOKENS, description="Lease tokens."),
]
Capabilities = Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=100)]
Description = Annotated[str, Field(max_length=4000)]
Limit = Annotated[int, Field(ge=1, le=500)]


class Input(BaseModel):
    """The base of request bodies and queries: these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NewAgent(Input):
    name: Annotated[str, Field(description="1 to 32 characters of a-z, 0-9 and '-', not 'all' or 'swarm'.")]
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


class Release(Input):
    tokens: Tokens
    delay_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False, strict=True)] = 0


class Finish(Input):
    tokens: Tokens
    outcome: FinishOutcome
    reason: Annotated[str, Field(max_length=4000)] = ""


class InboxQuery(Input):
    status: InboxStatus | None = None
    limit: Limit = 100


class DeliveriesQuery(Input):
    status: DeliveryStatus | None = None
    limit: Limit = 100


class ExplainQuery(Input):
    message: Annotated[str, Field(max_length=500, description="CHANNEL:TS, a message's link, or an inbox message id.")]


class Polled(TypedDict):
    """The answer to a poll."""

    triggers: list[TriggerShape]


class RenewedShape(TypedDict):
    """The answer to a renewal."""

    renewed: list[LeaseShape]
    lost: list[str]
    notices: list[TriggerShape]


class Released(TypedDict):
    """The tokens by outcome."""

    released: list[str]
    lost: list[str]


class FinishedShape(TypedDict):
    """The tokens by outcome."""

    finished: list[str]
    lost: list[str]


class RegisteredShape(TypedDict):
    """A new agent and its token, which is shown only now."""

    id: str
    name: str
    role: str
    token: str


class AgentRow(AgentShape):
    """An agent in the operator's view."""

    created_at: str
    last_seen_at: str | None
    reach: str
    enrolled: bool


class InboxMessageRow(TypedDict):
    """An inbox message in the operator's view."""

    id: str
    status: str
    agent_id: str | None
    agent: str | None
    thread_id: str
    channel: str
    ts: str
    matched_by: str
    reason: str
    attempts: int
    created_at: str


class StepShape(TypedDict):
    """One line of a timeline."""

    at: str
    change: str
    agent: str | None
    reason: str | None


class ThreadTimeline(TypedDict):
    """A thread with its timeline, oldest first."""

    id: str
    team: str
    channel: str
    thread_ts: str
    owner: str | None
    epoch: int
    context: str
    timeline: list[StepShape]


class DeliveryRow(TypedDict):
    """One intended effect in Slack."""

    id: str
    kind: str
    status: str
    thread_id: str
    inbox_message_id: str | None
    channel: str
    text: str | None
    attempts: int
    sent_ts: str | None
    error: str | None
    created_at: str


class ExplainedInboxMessage(TypedDict):
    """The course of a message for one agent."""

    inbox_message_id: str
    agent: str | None
    status: str
    matched_by: str
    attempts: int
    timeline: list[StepShape]
    deliveries: list[str]


class ExplainedTask(TypedDict):
    """The course of a task made from the message."""

    task_id: str
    title: str
    agent: str | None
    status: str
    timeline: list[StepShape]
    deliveries: list[str]


class Explained(TypedDict):
    """The routing of a message, and its course for each agent."""

    channel: str
    ts: str
    stored: bool
    owner: str | None
    routing: list[StepShape]
    entries: list[ExplainedInboxMessage]
    tasks: list[ExplainedTask]


class Agents(TypedDict):
    agents: list[AgentRow]


class InboxMessages(TypedDict):
    inbox_messages: list[InboxMessageRow]


class Deliveries(TypedDict):
    deliveries: list[DeliveryRow]


def renewed_shape(beat: Heartbeat) -> RenewedShape:
    return {
        "renewed": [lease_shape(token, expires_at) for token, expires_at in beat.renewed.expiries],
        "lost": list(beat.renewed.lost),
        "notices": [trigger_shape(notice) for notice in beat.notices],
    }


def released_shape(ended: Ended) -> Released:
    return {"released": list(ended.ended), "lost": list(ended.lost)}


def finished_shape(ended: Ended) -> FinishedShape:
    return {"finished": list(ended.ended), "lost": list(ended.lost)}


def registered_shape(registered: Registered) -> RegisteredShape:
    agent = registered.agent
    return {"id": agent.id, "name": agent.name, "role": agent.role.value, "token": registered.token}


def agent_row(present: Present) -> AgentRow:
    agent: Agent = present.agent
    return {
        **agent_shape(agent, online=present.online),
        "created_at": to_iso(agent.created_at),
        "last_seen_at": to_iso(agent.last_seen_at) if agent.last_seen_at is not None else None,
        "reach": agent.reach.value,
        "enrolled": agent.enrolled,
    }


def inbox_message_row(inbox_message: InboxMessage, names: Mapping[str, str]) -> InboxMessageRow:
    return {
        "id": inbox_message.id,
        "status": inbox_message.status.value,
        "agent_id": inbox_message.agent_id,
        "agent": names.get(inbox_message.agent_id) if inbox_message.agent_id else None,
        "thread_id": inbox_message.thread_id,
        "channel": inbox_message.channel,
        "ts": inbox_message.ts,
        "matched_by": inbox_message.matched_by.value,
        "reason": inbox_message.reason,
        "attempts": inbox_message.attempts,
        "created_at": to_iso(inbox_message.created_at),
    }


def timeline_shape(timeline: Timeline) -> ThreadTimeline:
    thread = timeline.thread
    return {
        "id": thread.id,
        "team": thread.team,
        "channel": thread.channel,
        "thread_ts": thread.thread_ts,
        "owner": timeline.owner,
        "epoch": thread.epoch,
        "context": thread.context.value,
        "timeline": [_step(step) for step in timeline.steps],
    }


def delivery_row(row: Mapping[str, Any]) -> DeliveryRow:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "status": row["status"],
        "thread_id": row["thread_id"],
        "inbox_message_id": row["inbox_message_id"],
        "channel": row["channel"],
        "text": row["text"],
        "attempts": row["attempts"],
        "sent_ts": row["sent_ts"],
        "error": row["error"],
        "created_at": to_iso(row["created_at"]),
    }


def explained_shape(explanation: Explanation) -> Explained:
    return {
        "channel": explanation.channel,
        "ts": explanation.ts,
        "stored": explanation.stored,
        "owner": explanation.owner,
        "routing": [_step(step) for step in explanation.routing],
        "entries": [_explained_inbox_message(inbox_message) for inbox_message in explanation.inbox_messages],
        "tasks": [
            {
                "task_id": task.task_id,
                "title": task.title,
                "agent": task.agent,
                "status": task.status,
                "timeline": [_step(step) for step in task.steps],
                "deliveries": list(task.deliveries),
            }
            for task in explanation.tasks
        ],
    }


def _explained_inbox_message(inbox_message: InboxMessageExplanation) -> ExplainedInboxMessage:
    return {
        "inbox_message_id": inbox_message.inbox_message_id,
        "agent": inbox_message.agent,
        "status": inbox_message.status,
        "matched_by": inbox_message.matched_by,
        "attempts": inbox_message.attempts,
        "timeline": [_step(step) for step in inbox_message.steps],
        "deliveries": list(inbox_message.deliveries),
    }


def _step(step: Step) -> StepShape:
    return {"at": to_iso(step.at), "change": step.change, "agent": step.agent, "reason": step.reason}
