"""Metric events and the watchers that receive them, so that an operator can observe the system.

A query function notes a metric event with ``tx.note`` while it changes the database. Events are reported once, after
the commit: a transaction that is rolled back reports nothing, and a repeated one nothing twice. Watchers are called
after the fact, on the event loop's thread; they neither wait nor raise. No behaviour depends on either: the database
alone holds the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.deliveries import Answer, Delivery, DeliveryKind, DeliveryStep
from swarm.domain.model.inbox import LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """An object took a step that its timeline records, for example ``inbox.respond``."""

    change: str
    subject: str  # the id of the changed object
    thread_id: str | None
    agent_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerClaimed:
    """An agent claimed work or a notice."""

    kind: str  # the trigger's
    trigger_id: str
    agent_id: str
    attempt: int
    waited_us: int  # since the trigger was stored
    also: tuple[str, ...] = ()  # messages handed out together with it, or from which it was delegated


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseEnded:
    """A lease ended."""

    how: LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRefused:
    """A call came under a lease that is no longer valid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryStepped:
    """A delivery took a step, or failed to."""

    kind: DeliveryKind
    step: DeliveryStep
    age_us: int  # since the delivery was queued


@dataclass(frozen=True, kw_only=True, slots=True)
class ReactionsExpired:
    """This many reactions expired together."""

    count: int


MetricEvent = Changed | TriggerClaimed | LeaseEnded | LeaseRefused | DeliveryStepped | ReactionsExpired


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseCall:
    """One database call, from its entry into the queue until its result."""

    writes: bool
    seconds: float
    error: BaseException | None
    facts: Sequence[MetricEvent]  # empty unless committed


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackCall:
    """One call of Slack's Web API."""

    method: str
    result: str  # ok, refused, ratelimited, not_sent, in_doubt
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackEventHandled:
    """A message, an edit or a delete reported by Slack."""

    kind: str  # message, edit, delete
    stored: bool  # False: it failed, and Slack sends it again
    seconds: float  # until the commit


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of an MCP tool."""

    tool: str
    agent: str  # its name
    about: str | None  # the inbox message or task in its arguments
    result: str  # ok, or the error's code
    seconds: float


class Watcher:
    """Receives events; the default implementation ignores them all."""

    def database_called(self, call: DatabaseCall) -> None:
        """A call of the database has ended."""

    def committed_together(self, count: int) -> None:
        """This many writes shared one commit."""

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        """An event from Slack was stored, or failed."""

    def slack_called(self, call: SlackCall) -> None:
        """Slack was called."""

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        """A delivery's Slack call has a result."""

    def tool_called(self, call: ToolCall) -> None:
        """An agent called a tool."""

    def slack_was_deaf(self) -> None:
        """A Slack connection without events was replaced."""

    def caught_up(self, messages: int) -> None:
        """This many missed events were stored."""

    def clock_stepped(self, seconds: float) -> None:
        """The database's clock was moved by this much."""


class Watchers(Watcher):
    """Passes every event to several watchers."""

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
"""Ignores all events."""
