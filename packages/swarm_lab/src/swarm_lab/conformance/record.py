"""The record of one answer: the agent's events, the calls of Slack, and the messages that people finally see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from swarm.domain.answers.agent_events import missing_text
from swarm.domain.answers.events import (
    AgentEvent,
    AnswerOutcome,
    Finished,
    SourceChanged,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.answers.text import without_markers

OPENS: Final = "chat.startStream"
APPENDS: Final = "chat.appendStream"
CLOSES: Final = "chat.stopStream"
POSTS: Final = "chat.postMessage"
UPDATES: Final = "chat.update"
SHOWING: Final = frozenset({OPENS, APPENDS, CLOSES, POSTS, UPDATES})
"""The methods that change the visible part of an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """An event of the agent. All times are in seconds, on the workspace's clock."""

    at: float
    event: AgentEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One visible call of Slack's Web API."""

    at: float  # the time at which the call reached Slack
    method: str
    ok: bool
    has_text: bool = False
    has_footer: bool = False  # the lines below a finished answer
    cards: tuple[tuple[str, str], ...] = ()  # the title and the status of each tool and step


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolUse:
    """A call of a tool by the agent."""

    name: str
    began: int  # the number of the event
    ended: int | None = None  # None: the call did not end
    result: str = ""  # empty if the agent does not say it
    failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message of the answer as people see it."""

    text: str  # the text that people see
    markdown: str  # the text as sent to Slack
    is_open: bool  # still being written
    cards: int  # the visible tools and steps
    has_footer: bool


@dataclass(frozen=True, kw_only=True)
class Record:
    """The data for the checks, all in order."""

    asked_at: float
    heard: tuple[Heard, ...]
    calls: tuple[Call, ...]
    messages: tuple[Message, ...]  # when the answer was over
    messages_later: tuple[Message, ...]  # shortly afterwards
    outcome: AnswerOutcome
    before: tuple[Record, ...] = ()  # the earlier runs of the conversation, which ended with questions

    @property
    def text(self) -> str:
        """The text shown to people, in all messages together."""
        return "\n".join(message.text for message in self.messages)

    @property
    def markdown(self) -> str:
        """The same text as sent to Slack."""
        return "\n".join(message.markdown for message in self.messages)

    @property
    def over_at(self) -> float:
        """The time when the agent ended or failed."""
        return self.heard[-1].at if self.heard else self.asked_at

    @cached_property
    def pieces(self) -> tuple[Heard, ...]:
        """The agent's pieces of text, without blank pieces and pieces of its sub-agents."""
        return tuple(Heard(at=at, event=delta) for at, delta in self._own_deltas() if delta.text.strip())

    @cached_property
    def said(self) -> str:
        """The agent's complete text: its messages, and the part of the final result that the messages do not
        contain."""
        texts: list[str] = []
        message_id: str | None = None
        for _, delta in self._own_deltas():
            if delta.message_id != message_id:
                texts.append("")
                message_id = delta.message_id
            texts[-1] += delta.text
        said = without_markers("\n".join(texts))
        missing = missing_text(without_markers(self.result), said, texts[-1] if texts else "")
        return f"{said}{'' if missing.goes_on else chr(10)}{missing.text}"

    @cached_property
    def text_calls(self) -> tuple[Call, ...]:
        """The calls that showed text."""
        return tuple(call for call in self.calls if call.ok and call.has_text)

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of the agent's tools."""
        return tuple(heard.event.name for heard in self.heard if isinstance(heard.event, ToolStarted))

    @cached_property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """The calls of tools, in the order in which they began."""
        uses: dict[str, ToolUse] = {}
        for number, heard in enumerate(self.heard):
            match heard.event:
                case ToolStarted(id=id, name=name):
                    uses.setdefault(id, ToolUse(name=name, began=number))
                case ToolEnded(id=id, failed=failed, result=result) if id in uses:
                    ended = number if uses[id].ended is None else uses[id].ended
                    uses[id] = replace(uses[id], ended=ended, failed=failed, result=result or uses[id].result)
        return tuple(uses.values())

    def _own_deltas(self) -> Iterator[tuple[float, TextDelta]]:
        sub_agent: str | None = None
        for heard in self.heard:
            match heard.event:
                case SourceChanged(sub_agent=source):
                    sub_agent = source
                case TextDelta() as delta if sub_agent is None:
                    yield heard.at, delta

    @property
    def result(self) -> str:
        """The final text, if the agent sent one separately from the pieces."""
        last = self.heard[-1].event if self.heard else None
        return (last.result or "") if isinstance(last, Finished) else ""
