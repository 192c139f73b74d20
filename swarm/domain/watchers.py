"""Watchers: who is told what the system does, so that an operator can see it.

Everything is told after it happened, on the event loop's thread. A watcher neither waits nor raises, and nothing
depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.metric_events import MetricEvent
from swarm.domain.model.deliveries import Answer, Delivery


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
