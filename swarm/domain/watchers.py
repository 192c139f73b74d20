"""Metric events and the watchers that receive them, so that an operator can observe the system.

A query function records a metric event with ``tx.note`` while it changes the database. Events are reported once, after
the commit: a transaction that is rolled back reports nothing, and a repeated transaction reports nothing twice.
Watchers are called after the commit, on the event loop's thread; they neither wait nor raise. No behaviour depends on
events or watchers, because only the database holds the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.deliveries import Answer, Delivery, DeliveryKind, DeliveryStep
from swarm.domain.model.feedback import Opinion, Reason
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.webhooks import WebhookKind, WebhookStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """A step of an object that its timeline records, for example ``inbox.respond``."""

    change: str
    subject: str  # the id of the changed object
    thread_id: str | None
    agent_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerClaimed:
    """A claim of work or of a notice by an agent."""

    kind: str  # the trigger's kind
    trigger_id: str
    agent_id: str
    attempt: int
    waited_us: int  # since the trigger was stored
    also: tuple[str, ...] = ()  # messages handed out with it, or the messages it was delegated from


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseEnded:
    """The end of a lease."""

    how: LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRefused:
    """A call under a lease that is no longer valid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryStepped:
    """A step of a delivery, or a failed attempt at one."""

    kind: DeliveryKind
    step: DeliveryStep
    age_us: int  # since the delivery was queued


@dataclass(frozen=True, kw_only=True, slots=True)
class ReactionsExpired:
    """The number of reactions that expired together."""

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackGiven:
    """A person's new opinion of an answer."""

    agent: str  # its name
    value: Opinion
    reason: Reason | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookEnded:
    """The end of a call of another service."""

    kind: WebhookKind
    outcome: WebhookStatus
    age_us: int  # since the call was stored


@dataclass(frozen=True, kw_only=True, slots=True)
class Escalated:
    """A request for a human in a thread."""

    door: str
    outcome: str  # asked, or asked_before


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelsUsed:
    """What a run has used of models, or has used since its last report."""

    agent: str  # its name
    input_tokens: int
    output_tokens: int
    cost_microdollars: int


MetricEvent = (
    Changed
    | TriggerClaimed
    | LeaseEnded
    | LeaseRefused
    | DeliveryStepped
    | FeedbackGiven
    | ReactionsExpired
    | WebhookEnded
    | Escalated
    | ModelsUsed
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseCall:
    """One database call, from its entry into the queue until its result."""

    writes: bool
    seconds: float
    error: BaseException | None
    facts: Sequence[MetricEvent]  # empty unless committed


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackCall:
    """One call to Slack's Web API."""

    method: str
    result: str  # ok, refused, ratelimited, not_sent, in_doubt
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackEventHandled:
    """A message, an edit or a deletion reported by Slack."""

    kind: str  # message, edit, delete
    stored: bool  # False: it failed, and Slack sends it again
    seconds: float  # until the commit


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of an MCP tool."""

    tool: str
    agent: str  # the agent's name
    about: str | None  # the inbox message or task in its arguments
    result: str  # ok, or the error's code
    seconds: float


class Watcher:
    """A receiver of events; the default implementation ignores all events."""

    def database_called(self, call: DatabaseCall) -> None:
        """Reports that a database call has ended."""

    def committed_together(self, count: int) -> None:
        """Reports that this many writes shared one commit."""

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        """Reports that an event from Slack was stored, or failed."""

    def slack_called(self, call: SlackCall) -> None:
        """Reports a call to Slack."""

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        """Reports the result of a delivery's Slack call."""

    def tool_called(self, call: ToolCall) -> None:
        """Reports that an agent called a tool."""

    def slack_was_deaf(self) -> None:
        """Reports that a Slack connection without events was replaced."""

    def caught_up(self, messages: int) -> None:
        """Reports that this many missed events were stored."""

    def clock_stepped(self, seconds: float) -> None:
        """Reports that the database's clock was moved by this much."""


class Watchers(Watcher):
    """A watcher that passes every event to several watchers."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = tuple(watchers)

    def database_called(self, call: DatabaseCall) -> None:
        for watcher in self._watchers:
            watcher.database_called(call)

    def committed_together(self, count: int) -> None:
        for watcher in self._watchers:
            watcher.committed_together(count)

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        for watcher in self._watchers:
            watcher.slack_event_handled(event)

    def slack_called(self, call: SlackCall) -> None:
        for watcher in self._watchers:
            watcher.slack_called(call)

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        for watcher in self._watchers:
            watcher.delivery_tried(delivery, answer, seconds)

    def tool_called(self, call: ToolCall) -> None:
        for watcher in self._watchers:
            watcher.tool_called(call)

    def slack_was_deaf(self) -> None:
        for watcher in self._watchers:
            watcher.slack_was_deaf()

    def caught_up(self, messages: int) -> None:
        for watcher in self._watchers:
            watcher.caught_up(messages)

    def clock_stepped(self, seconds: float) -> None:
        for watcher in self._watchers:
            watcher.clock_stepped(seconds)


NO_WATCHERS: Final = Watcher()
"""A watcher that ignores all events."""
