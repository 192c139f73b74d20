"""One turn: what is asked, and what of the answer is shown while it is made."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final, Protocol

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

OPERATOR: Final = "operator"
"""Who talks in a terminal, as the coordinator's doors call them."""

_NO_END: Final = Broken(reason="it stopped in the middle of its answer")


class AnswerDisplay(Protocol):
    """Where an answer is shown."""

    def write(self, text: str) -> None:
        """More of a text."""
        ...

    def end_text(self) -> None:
        """The text is whole; nothing if there is none."""
        ...

    def tool_began(self, id: str, name: str) -> None:
        """A tool is called."""
        ...

    def tool_ended(self, id: str, *, failed: bool) -> None:
        """A tool has answered; nothing for one that never began."""
        ...

    def plan(self, plan: PlanShown) -> None:
        """The plan is now this."""
        ...

    def step(self, name: str) -> None:
        """What the agent does at the moment."""
        ...


def turn_of(text: str, session_id: str) -> RunInput:
    """A run for what the person at the terminal says."""
    return RunInput(
        turn_id="",
        run_id=new_id(),
        trace_id=new_trace_id(),
        conversation_id=session_id,
        messages=(InputMessage(id=new_id(), speaker=Speaker.USER, text=storable(text)),),
        client_context={"source": "cli"},
        origin=Origin(door=Door.CLI, client=OPERATOR),
    )


async def answered(client: AgentClient, turn: RunInput, display: AnswerDisplay) -> RunEnd:
    """Run a turn and show it; how it ended. Cancelling this ends the run."""
    teller = _Teller(display)
    async with aclosing(client.run(turn)) as events:
        async for event in events:
            if isinstance(event, RunEnd):
                return teller.over(event)
            teller.tell(event)
    return _NO_END


def complaint(end: RunEnd, agent: str) -> str:
    """What to tell people about a run that did not bring an answer; empty for one that did. One sentence or several."""
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
    """Tells a display what happens, apart from what sub-agents write: that is no part of the answer."""

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
                pass  # a warning is the operator's, and in the agent's log

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
