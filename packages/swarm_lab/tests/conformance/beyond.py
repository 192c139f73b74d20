"""Agents to be examined beyond the 22 checks: a complete one, and for each check one that fails exactly it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    EventType,
    Interrupt,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from packages.swarm_lab.tests.conformance.agents import LONG, Seen, content
from swarm_lab.conformance.scenarios import Beyond
from tests.support.agui_server import FINISHED, STARTED, Step

STEPS: Final = ("Search both sides", "Read the best document", "Compare")
CAPPED: Final = "search has been called once, which is the limit for one question. Go on without search."
NAMELESS: Final = "This has been called once, which is the limit for one question."
NOTE: Final = "I have written the note down: lunch is at noon, for all of the team.\n"

Runs = tuple[tuple[Step, ...], ...]
"""The steps of each run of an agent in one conversation."""


def complete(
    seen: Seen,
    *,
    changing: bool = True,
    parallel: bool = True,
    capped: str = CAPPED,
    reads: bool = True,
) -> Runs:
    """Shows its plan, searches both sides at once, of which one is too much, and reads a document."""
    if parallel:
        searches = (*_started("s1", "search"), *_started("s2", "search"), *_said("s1", "a.md"), *_said("s2", capped))
    else:
        searches = (*_started("s1", "search"), *_said("s1", "a.md"), *_started("s2", "search"), *_said("s2", capped))
    read = (*_started("f1", "fetch_document"), *_said("f1", "All about it. " * 60)) if reads else ()
    steps: list[Step] = [STARTED, _plan(0), seen[1], *searches]
    steps += [_plan(1 if changing else 0), *read, _plan(2 if changing else 0), seen[2]]
    for number, line in enumerate(LONG, start=3):
        steps += [content(line), seen[number]]
    return ((*steps, FINISHED),)


def asking(
    question: bool = True,
    approval: bool = True,
    answer: str = NOTE,
    note: str = "Lunch is at noon.",
    made: bool = False,
    questions: int = 1,
    end: Step = FINISHED,
) -> Runs:
    """Asks what the note should say, then whether it may write it, and then says that it has."""
    runs: list[tuple[Step, ...]] = []
    if question:
        runs += [(STARTED, _asks(_form()))] * questions
    if approval:
        call = (
            *_started("w1", "file-write", arguments=json.dumps({"path": "note.md", "text": note})),
            *(_said("w1", "written") if made else ()),
            _asks(_may()),
        )
        runs.append((STARTED, *call))
    return (*runs, (STARTED, content(answer), end))


BROKEN_BEYOND: Final[Mapping[Beyond, Callable[[Seen], Runs]]] = {
    Beyond.PLAN: lambda seen: complete(seen, changing=False),
    Beyond.PARALLEL: lambda seen: complete(seen, parallel=False),
    Beyond.CAPS: lambda seen: complete(seen, capped=NAMELESS),
    Beyond.QUESTION: lambda seen: asking(question=False),
    Beyond.APPROVAL: lambda seen: asking(approval=False),
    Beyond.RESUMED: lambda seen: asking(answer="Done."),
}
"""For each check beyond the 22 an agent that fails it, and nothing else."""


def _plan(done: int) -> StateSnapshotEvent:
    statuses = ["completed" if at < done else "in_progress" if at == done else "pending" for at in range(len(STEPS))]
    todos = [{"content": step, "status": status} for step, status in zip(STEPS, statuses, strict=True)]
    return StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot={"todos": todos})


def _started(id: str, name: str, arguments: str = "{}") -> Sequence[BaseEvent]:
    return (
        ToolCallStartEvent(type=EventType.TOOL_CALL_START, tool_call_id=id, tool_call_name=name),
        ToolCallArgsEvent(type=EventType.TOOL_CALL_ARGS, tool_call_id=id, delta=arguments),
        ToolCallEndEvent(type=EventType.TOOL_CALL_END, tool_call_id=id),
    )


def _said(id: str, text: str) -> Sequence[BaseEvent]:
    return (ToolCallResultEvent(type=EventType.TOOL_CALL_RESULT, message_id=f"r{id}", tool_call_id=id, content=text),)


def _form() -> Interrupt:
    schema = {"type": "object", "properties": {"text": {"type": "string", "title": "Text"}}, "required": ["text"]}
    return Interrupt(id="q1", reason="a text", message="What should the note say?", response_schema=schema)


def _may() -> Interrupt:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}},
        "required": ["approved"],
    }
    return Interrupt(id="q2", reason="tool_call", message="May I?", tool_call_id="w1", response_schema=schema)


def _asks(interrupt: Interrupt) -> BaseEvent:
    outcome = RunFinishedInterruptOutcome(type="interrupt", interrupts=[interrupt])
    return FINISHED.model_copy(update={"outcome": outcome})
