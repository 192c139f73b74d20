"""One run of an agent: its input, and the display of the answer while it grows.

`PlainText` is the display for pipes and files: the visible text as it is written, and nothing else.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, Protocol, TextIO

from swarm.clock import new_id, new_trace_id
from swarm.domain.answers.agents import AgentClient, RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    InputMessage,
    Interrupted,
    Origin,
    PlanShown,
    RunInput,
    SourceChanged,
    Speaker,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.model.models import Door
from swarm.domain.model.sessions import storable
from swarm.domain.text.characters import Visible, for_terminal


class PlainText:
    """A `swarm.cli.chat.answering.AnswerDisplay`. ``notes``, if given, get a line for each tool."""

    def __init__(self, out: TextIO, notes: TextIO | None = None) -> None:
        self._out = out
        self._notes = notes
        self._visible = Visible()
        self._written = ""  # the end of the written text
        self._is_between = False
        self._tools: dict[str, str] = {}

    def write(self, text: str) -> None:
        """Add to a text."""
        self._visible, text = self._visible.feed(text)
        if self._is_between and text:
            self._put("\n" if self._written.endswith("\n") else "\n\n")
            self._is_between = False
        self._put(text)

    def end_text(self) -> None:
        """End a text; the next one stands apart from it."""
        self._visible, text = self._visible.end()
        self._put(text)
        self._is_between = bool(self._written)

    def end(self) -> None:
        """End the answer with a line break."""
        self.end_text()
        if self._written and not self._written.endswith("\n"):
            self._put("\n")

    def tool_began(self, id: str, name: str) -> None:
        """Remember a running tool."""
        self._tools[id] = for_terminal(name)

    def tool_ended(self, id: str, *, failed: bool) -> None:
        """Note a tool's end."""
        name = self._tools.pop(id, None)
        if name and self._notes:
            self._notes.write(f"{'✗' if failed else '✓'} {name}\n")
            self._notes.flush()

    def plan(self, plan: PlanShown) -> None:
        """Show nothing: plans are for people at a screen."""

    def step(self, name: str) -> None:
        """Show nothing, as for plans."""

    def _put(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._written = text[-1]


OPERATOR: Final = "operator"
"""The person at the terminal, by the name at the coordinator's entry points."""

_NO_END: Final = Broken(reason="it stopped in the middle of its answer")


class AnswerDisplay(Protocol):
    """The display of an answer."""

    def write(self, text: str) -> None:
        """Add to a text."""
        ...

    def end_text(self) -> None:
        """End the text; does nothing without one."""
        ...

    def tool_began(self, id: str, name: str) -> None:
        """Show a running tool."""
        ...

    def tool_ended(self, id: str, *, failed: bool) -> None:
        """Show a tool's end; does nothing for an unknown tool."""
        ...

    def plan(self, plan: PlanShown) -> None:
        """Show the current plan."""
        ...

    def step(self, name: str) -> None:
        """Show the agent's current activity."""
        ...


def run_input_of(text: str, session_id: str) -> RunInput:
    """A run for a text from the terminal."""
    return RunInput(
        run_id="",
        agui_run_id=new_id(),
        trace_id=new_trace_id(),
        conversation_id=session_id,
        messages=(InputMessage(id=new_id(), speaker=Speaker.USER, text=storable(text)),),
        client_context={"source": "cli"},
        origin=Origin(door=Door.CLI, client=OPERATOR),
    )


async def answered(client: AgentClient, run_input: RunInput, display: AnswerDisplay) -> RunEnd:
    """Run an agent and show its answer. Returns the run's end. Cancellation ends the run."""
    teller = _Teller(display)
    async with aclosing(client.run(run_input)) as events:
        async for event in events:
            if isinstance(event, RunEnd):
                return teller.over(event)
            teller.tell(event)
    return _NO_END


def complaint(end: RunEnd, agent: str) -> str:
    """A message about a run without an answer, of one sentence or several; empty for an answered run."""
    match end:
        case Finished():
            return ""
        case Interrupted(asked=asked):
            return " ".join(one.prompt for one in asked if one.prompt) or f"{agent} waits for an answer."
        case Cancelled():
            return "The answer was stopped."
        case Failed(message=message):
            return message or f"{agent} could not answer."
        case Broken(reason=reason):
            return f"{agent} could not answer: {reason}."


class _Teller:
    """Passes events to a display, apart from sub-agents' texts, which are no part of the answer."""

    def __init__(self, display: AnswerDisplay) -> None:
        self._display = display
        self._message_id: str | None = None
        self._is_inside = False
        self._has_written = False

    def tell(self, event: AgentEvent) -> None:
        match event:
            case TextDelta() if not self._is_inside:
                self._write(event)
            case TextEnded() if not self._is_inside:
                self._display.end_text()
            case SourceChanged(sub_agent=sub_agent):
                self._is_inside = sub_agent is not None
            case ToolStarted(id=id, name=name):
                self._display.end_text()
                self._display.tool_began(id, name)
            case ToolEnded(id=id, failed=failed):
                self._display.tool_ended(id, failed=failed)
            case PlanShown():
                self._display.plan(event)
            case StepNamed(name=name):
                self._display.step(name)
            case _:
                pass  # warnings are for the operator, in the agent's log

    def over(self, end: RunEnd) -> RunEnd:
        if isinstance(end, Finished) and end.result and not self._has_written:
            self._display.write(end.result)
            self._has_written = True
        self._display.end_text()
        if isinstance(end, Finished) and not self._has_written and not end.elsewhere:
            return Failed(message="The agent finished without an answer.", code="empty")
        return end

    def _write(self, delta: TextDelta) -> None:
        if delta.message_id != self._message_id:
            self._display.end_text()
            self._message_id = delta.message_id
        self._has_written = self._has_written or bool(delta.text.strip())
        self._display.write(delta.text)
