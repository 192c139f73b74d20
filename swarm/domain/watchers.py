"""Facts: what a transaction has changed, told after its commit to whoever watches.

A query function notes them with ``tx.note`` while it changes the database. They are told once, and only if the commit
succeeded: a transaction that was rolled back, and one that was run again, tells nothing twice. Nothing depends on
them: the database alone says what is so.

Watchers: who is told what the system does, so that an operator can see it.

Everything is told after it happened, on the event loop's thread. A watcher neither waits nor raises, and nothing
depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.deliveries import Answer, Delivery, DeliveryKind, DeliveryStep
from swarm.domain.model.leases import LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """Something took a step that its timeline records, for example ``inbox.respond``."""

    change: str
    subject: str  # the id of what has changed
    thread_id: str | None
    agent_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TriggerClaimed:
    """An agent got work or news under a lease."""

    kind: str  # the trigger's
    trigger_id: str
    agent_id: str
    attempt: int
    waited_us: int  # since it was stored
    also: tuple[str, ...] = ()  # messages that came with it, or from which it was delegated


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseEnded:
    """A lease came to its end."""

    how: LeaseEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRefused:
    """Somebody wanted to go on under a lease that no longer holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryStepped:
    """An intended effect in Slack came one step further, or did not."""

    kind: DeliveryKind
    step: DeliveryStep
    age_us: int  # since it was wanted


@dataclass(frozen=True, kw_only=True, slots=True)
class ReactionsExpired:
    """So many reactions could not leave in time, and were given up together."""

    count: int


MetricEvent = Changed | TriggerClaimed | LeaseEnded | LeaseRefused | DeliveryStepped | ReactionsExpired


@dataclass(frozen=True, kw_only=True, slots=True)
class DatabaseCall:
    """One call of the database, from its entry into the queue until its result was there."""

    writes: bool
    seconds: float
    error: BaseException | None
    facts: Sequence[MetricEvent]  # none unless it was committed


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackCall:
    """One call of Slack's Web API."""

    method: str
    result: str  # ok, refused, ratelimited, not_sent, in_doubt
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackEventHandled:
    """A message, an edit or a delete that Slack told us of."""

    kind: str  # message, edit, delete
    stored: bool  # else it failed, and Slack tells it again
    seconds: float  # until it was committed


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """One call of an MCP tool."""

    tool: str
    agent: str  # its name
    about: str | None  # the inbox message or task that its arguments name
    result: str  # ok, or the error's code
    seconds: float


class Watcher:
    """Somebody who watches; by default with closed eyes."""

    def database_called(self, call: DatabaseCall) -> None:
        """A call of the database has ended."""

    def committed_together(self, count: int) -> None:
        """So many writes shared one commit."""

    def slack_event_handled(self, event: SlackEventHandled) -> None:
        """What Slack told us was stored, or was not."""

    def slack_called(self, call: SlackCall) -> None:
        """Slack was called."""

    def delivery_tried(self, delivery: Delivery, answer: Answer, seconds: float) -> None:
        """A delivery's call of Slack came back with an answer."""

    def tool_called(self, call: ToolCall) -> None:
        """An agent used a tool."""

    def slack_was_deaf(self) -> None:
        """A connection to Slack brought no events and was replaced."""

    def caught_up(self, messages: int) -> None:
        """So many events that had been missed were taken in."""

    def clock_stepped(self, seconds: float) -> None:
        """The database's clock was set forth, or back, by so much."""


class Watchers(Watcher):
    """Several watchers, each told everything."""

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
"""Nobody watches."""
