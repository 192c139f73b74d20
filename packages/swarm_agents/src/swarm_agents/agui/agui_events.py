"""Writes a built-in agent's events as AG-UI 1.0 events; the counterpart of `swarm.agents.remote.translation`.

This module also writes the last event of a run, and complete answers for clients that do not stream.

Every message, tool, step and sub-agent is closed before the run ends, and ids are unique. In caipe's dialect, however,
the end of a call means that its tool has answered.

https://docs.ag-ui.com/concepts/events
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    CustomEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentFinishedEvent,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder

from swarm.agents.remote.translation.progress import WARNING
from swarm.domain.answers.agents import Dialect, RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    PlanShown,
    SourceChanged,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    Warned,
)
from swarm_agents.agui.agui_interrupts import interrupts_of, waiting_call
from swarm_base.characters import Visible, data_for_model
from swarm_base.secrets import without_secrets

_SUCCEEDED: Final = "done"
_FAILED: Final = '{"error": "The tool failed."}'
"""The result of a failed tool that clients see unless the settings allow details."""
_ERROR_CHARACTERS: Final = 2_000
"""The maximum length of an error; many clients look for errors only in short results."""

_ENCODER: Final = EventEncoder()


class AguiEventWriter:
    """A writer for one run's events. ``thread_id`` and ``run_id`` are the client's ids for the conversation and the
    run."""

    def __init__(
        self, thread_id: str, run_id: str, dialect: Dialect = Dialect.AGUI, *, tool_details: bool = False
    ) -> None:
        self._tool_details = tool_details
        self._is_caipe = dialect is Dialect.CAIPE
        self._thread_id = thread_id
        self._run_id = run_id
        self._count = 0
        self._message: tuple[str, str] | None = None  # the open message: our id and the agent's
        self._visible = Visible()  # length of the open message's text
        self._calls: dict[str, bool] = {}  # whether each tool has answered, by call id
        self._step = ""
        self._sub_agent: tuple[str, str] | None = None  # the sub-agent that is writing: the id of its run, and its name

    def started(self) -> BaseEvent:
        """Returns the first event of the run."""
        return RunStartedEvent(thread_id=self._thread_id, run_id=self._run_id, protocol_version=PROTOCOL_VERSION)

    def write(self, event: AgentEvent) -> Iterator[BaseEvent]:
        """Yields the AG-UI events for an agent's event: usually one, sometimes none."""
        match event:
            case TextDelta():
                yield from self._text(event)
            case TextEnded(message_id=agents_id):
                if self._message and self._message[1] == agents_id:
                    yield from self._end_text()
            case ToolStarted():
                yield from self._start_tool(event)
            case ToolEnded():
                yield from self._end_tool(event)
            case PlanShown():
                yield StateSnapshotEvent(snapshot=_plan(event))
            case StepNamed(name=name):
                yield from self._change_step(name)
            case SourceChanged(sub_agent=name):
                yield from self._change_source(name or "")
            case Warned(message=message):
                yield CustomEvent(name=WARNING, value={"message": message})
            case _:
                yield from self._end(event)

    def _text(self, delta: TextDelta) -> Iterator[BaseEvent]:
        """Writes a piece of text with our own ids, since agents may repeat ids in later runs and clients store messages
        by id."""
        if not delta.text:
            return
        sub_agent = self._sub_agent[0] if self._sub_agent else None
        if self._message is None or self._message[1] != delta.message_id:
            yield from self._end_text()
            self._message = (self._new_id("m"), delta.message_id)
            yield TextMessageStartEvent(message_id=self._message[0], role="assistant", subagent_run_id=sub_agent)
        self._visible, text = self._visible.feed(delta.text)
        if text:
            yield TextMessageContentEvent(message_id=self._message[0], delta=text, subagent_run_id=sub_agent)

    def _end_text(self) -> Iterator[BaseEvent]:
        if self._message:
            sub_agent = self._sub_agent[0] if self._sub_agent else None
            _, rest = self._visible.end()
            self._visible = Visible()
            if rest:
                yield TextMessageContentEvent(message_id=self._message[0], delta=rest, subagent_run_id=sub_agent)
            yield TextMessageEndEvent(message_id=self._message[0], subagent_run_id=sub_agent)
            self._message = None

    def _start_tool(self, tool: ToolStarted) -> Iterator[BaseEvent]:
        """Begins a tool call. Text after the call becomes a separate message."""
        yield from self._end_text()
        if tool.id not in self._calls:
            self._calls[tool.id] = False
            yield ToolCallStartEvent(tool_call_id=tool.id, tool_call_name=tool.name)
            arguments = without_secrets(tool.arguments) if self._tool_details else ""
            yield ToolCallArgsEvent(tool_call_id=tool.id, delta=arguments or "{}")

    def _end_tool(self, tool: ToolEnded) -> Iterator[BaseEvent]:
        """Ends a tool call. ``TOOL_CALL_END`` is sent only now, since many clients may treat it as the end of the tool.
        Clients of caipe do, so for them the event comes last, and is never sent for a tool without an answer.
        """
        if self._calls.get(tool.id) is False:
            self._calls[tool.id] = True
            end = ToolCallEndEvent(tool_call_id=tool.id)
            result = ToolCallResultEvent(
                message_id=self._new_id("m"),
                tool_call_id=tool.id,
                content=self._result(tool),
                role="tool",
            )
            yield from (result, end) if self._is_caipe else (end, result)

    def _result(self, tool: ToolEnded) -> str:
        """Returns a tool's result. AG-UI has no field for a failed tool, so an object with only an error represents the
        failure."""
        result = without_secrets(tool.result) if self._tool_details else ""
        if tool.failed:
            return json.dumps({"error": result[:_ERROR_CHARACTERS]}, ensure_ascii=False) if result else _FAILED
        return result or _SUCCEEDED

    def _change_step(self, name: str) -> Iterator[BaseEvent]:
        if self._step:
            yield StepFinishedEvent(step_name=self._step)
        self._step = name
        if name:
            yield StepStartedEvent(step_name=name)

    def _change_source(self, name: str) -> Iterator[BaseEvent]:
        if name == (self._sub_agent[1] if self._sub_agent else ""):
            return
        yield from self._end_text()
        if self._sub_agent:
            yield SubagentFinishedEvent(subagent_run_id=self._sub_agent[0])
        self._sub_agent = (self._new_id("s"), name) if name else None
        if self._sub_agent:
            yield SubagentStartedEvent(subagent_run_id=self._sub_agent[0], name=name)

    def _end(self, end: RunEnd) -> Iterator[BaseEvent]:
        yield from self._end_text()
        yield from self._change_source("")
        if isinstance(end, Interrupted):
            yield from self._waiting_calls(end)
        if not self._is_caipe:
            left = (id for id, has_answered in self._calls.items() if not has_answered)
            yield from (ToolCallEndEvent(tool_call_id=id) for id in left)
        yield from self._change_step("")
        yield _last_event(end, self._thread_id, self._run_id, frozenset(self._calls), is_caipe=self._is_caipe)

    def _waiting_calls(self, end: Interrupted) -> Iterator[BaseEvent]:
        """Shows the calls that wait for approval, always with their arguments: people decide about these."""
        for call in map(waiting_call, end.asked):
            if call and call[0] and call[0] not in self._calls:
                self._calls[call[0]] = False
                yield ToolCallStartEvent(tool_call_id=call[0], tool_call_name=call[1])
                yield ToolCallArgsEvent(tool_call_id=call[0], delta=call[2] or "{}")

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{self._run_id}-{kind}{self._count}"


def encoded(event: BaseEvent) -> bytes:
    """Returns one server-sent event without invisible characters. `AguiEventWriter` has already cleaned pieces of
    text."""
    if isinstance(event, TextMessageContentEvent):
        return _ENCODER.encode(event).encode()
    data = data_for_model(event.model_dump(by_alias=True, exclude_none=True))
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _plan(plan: PlanShown) -> dict[str, object]:
    """Returns the plan as the agent's state, which has no other part."""
    steps = [{"id": step.id, "title": step.title, "status": step.status.value} for step in plan.steps]
    return {"plan": {"title": plan.title, "steps": steps}}


_BROKEN: Final = "broken"
"""The error code of an interrupted run; a failed run has the agent's own code."""

_NOTHING_ASKED: Final = Failed(message="The agent is waiting for an answer, but has not asked a question.")


def _last_event(end: RunEnd, thread_id: str, run_id: str, calls: Collection[str], *, is_caipe: bool) -> BaseEvent:
    """Returns the event that ends a run. ``calls`` are the ids of the tool calls sent to the client."""
    match end:
        case Finished(result=result):
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, result=result)
        case Interrupted(asked=()):
            return _error(_NOTHING_ASKED)
        case Interrupted(asked=asked):
            outcome = RunFinishedInterruptOutcome(interrupts=interrupts_of(asked, calls, is_caipe=is_caipe))
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=outcome)
        case Cancelled():
            return RunFinishedEvent(thread_id=thread_id, run_id=run_id, outcome=RunFinishedCancelledOutcome())
        case Failed() | Broken():
            return _error(end)


def whole_answer(end: RunEnd) -> dict[str, object]:
    """Returns ``{"success": true, "content"}``, or ``{"success": false, "error", "code"}`` with the reason as a
    sentence."""
    match end:
        case Finished(result=str(text)) if text:
            return {"success": True, "content": text}
        case Finished():
            return _refused("The agent finished without an answer.", "empty")
        case Interrupted(asked=asked):
            prompts = " ".join(one.prompt for one in asked if one.prompt)
            return _refused(f"The agent has a question: {prompts}".rstrip(": "), "interrupt")
        case Cancelled():
            return _refused("The run was cancelled.", "cancelled")
        case Failed() | Broken():
            return _refused(*_words(end))


def _refused(error: str, code: str) -> dict[str, object]:
    return {"success": False, "error": error, "code": code}


def _error(end: Failed | Broken) -> RunErrorEvent:
    message, code = _words(end)
    return RunErrorEvent(message=message, code=code or None)


def _words(end: Failed | Broken) -> tuple[str, str]:
    if isinstance(end, Failed):
        return end.message, end.code
    return f"The agent could not answer: {end.reason}.", _BROKEN
