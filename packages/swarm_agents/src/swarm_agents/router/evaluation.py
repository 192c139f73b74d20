"""Evaluates a model's routing: runs each labelled sentence through the router's single decision call.

A label contains a message, the available tools, and the expected decision. The results form a table.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from swarm.domain.answers.events import InputMessage, RunInput, Speaker
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.sessions import SessionMessage, WaitingTurn
from swarm_agents.builtin.labelled_files import LabelledEntry, StrictEntry, load_labelled
from swarm_agents.builtin.run import BuiltinRun
from swarm_agents.router.decision import AskBack, CallTools, Refuse, RouterDecision, StopDecision
from swarm_agents.router.router import Router
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed

SENTENCES: Final = Path(__file__).with_name("sentences.yaml")


class Expected(StrEnum):
    """The correct decision for a sentence."""

    CALL = "call"
    ASK = "ask"
    REFUSE = "refuse"
    STOP = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class _KnownTool:
    """A tool that the evaluation describes but does not implement."""

    name: str
    server: str
    description: str
    parameters: Mapping[str, Any]
    allowed: bool  # tools that are not allowed test whether requests are refused


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A sentence with its label."""

    id: str
    category: str  # "complete", "missing", "no tool", "small talk", "not allowed", "other languages", "follow-up"
    say: str
    expected: Expected
    tool: str = ""  # the tool that should be called
    arguments: Mapping[str, Any] = field(default_factory=dict)  # required arguments; others are allowed
    before: Sequence[tuple[str, str]] = ()  # earlier messages: ("user" or "assistant", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """All sentences of an evaluation and their tools."""

    tools: tuple[_KnownTool, ...]
    cases: tuple[Case, ...]


class _ToolEntry(StrictEntry):
    server: str
    description: str
    parameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)
    allowed: bool = True


class _Entry(LabelledEntry):
    """A sentence as it is written in the file."""

    call: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict, alias="with")
    expect: Literal["ask", "refuse", "stop"] | None = None


class _File(StrictEntry):
    tools: dict[str, _ToolEntry]
    sentences: dict[str, list[_Entry]]


def load(path: Path = SENTENCES) -> Suite:
    """Loads the sentences from a file with the format of ``sentences.yaml``. Raises ConfigurationError for a wrong
    file."""
    return load_labelled(path, _suite, what="labelled sentences", example=SENTENCES)


def _suite(document: object) -> Suite:
    """Raises ValueError for another document."""
    file = _File.model_validate(document)
    tools = tuple(
        _KnownTool(
            name=name,
            server=tool.server,
            description=tool.description,
            parameters={"type": "object", "properties": tool.parameters, "required": tool.required},
            allowed=tool.allowed,
        )
        for name, tool in file.tools.items()
    )
    allowed = {tool.name for tool in tools if tool.allowed}
    cases = tuple(
        _case(f"{category} {number}", category, entry, allowed)
        for category, entries in file.sentences.items()
        for number, entry in enumerate(entries, 1)
    )
    if not cases:
        raise ValueError("it contains no sentences")
    return Suite(tools=tools, cases=cases)


def _case(where: str, category: str, entry: _Entry, allowed: Collection[str]) -> Case:
    """Raises ValueError for a label that no router can meet, or that is none."""
    if (entry.call is None) == (entry.expect is None) or (entry.arguments and not entry.call):
        raise ValueError(f"{where} needs one label: expect (ask, refuse or stop), or call and with")
    if entry.call is not None and entry.call not in allowed:
        raise ValueError(f"{where} calls '{entry.call}', which is not a tool of the file that is allowed")
    return Case(
        id=where,
        category=category,
        say=entry.say,
        expected=Expected(entry.expect or "call"),
        tool=entry.call or "",
        arguments=entry.arguments,
        before=entry.earlier,
    )


class Got(StrEnum):
    """The decision that the router made."""

    CALL = "call"
    WRONG_TOOL = "wrong tool"
    WRONG_ARGUMENTS = "wrong arguments"
    ASK = "ask"
    REFUSE = "refuse"
    STOP = "stop"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A sentence and its result."""

    case: Case
    got: Got
    detail: str  # a short form of the decision or error
    requests: int  # number of model calls
    usage: ModelUsage

    @property
    def is_right(self) -> bool:
        """Returns whether the decision matches the label."""
        return self.got.value == self.case.expected.value


class Forgets:
    """An empty memory, because each sentence includes its earlier messages."""

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        """Returns no messages."""
        return []

    async def waiting_turn(
        self, session_id: str, conversation_id: str, call_ids: Collection[str] = ()
    ) -> WaitingTurn | None:
        """Returns None: no call waits, because none is made."""
        return None

    async def settle_calls(self, session_id: str, run: str, results: Sequence[SessionMessage]) -> frozenset[str]:
        """Settles nothing."""
        return frozenset()

    async def change_result(self, session_id: str, run: str, result: SessionMessage) -> None:
        """Stores nothing."""


async def evaluate(
    router: Router,
    suite: Suite,
    *,
    parallel: int = 4,
    done: Callable[[Judged], None] = lambda judged: None,
) -> list[Judged]:
    """Decides every sentence, ``parallel`` at a time. Calls the model but no tools. Keeps the suite's order."""
    tools = [_offered(tool) for tool in suite.tools if tool.allowed]
    gate = asyncio.Semaphore(parallel)

    async def one(case: Case) -> Judged:
        async with gate:
            judged = await _judged(router, case, tools)
        done(judged)
        return judged

    return list(await asyncio.gather(*(one(case) for case in suite.cases)))


def confusion(judged: Sequence[Judged]) -> Mapping[Expected, Counter[Got]]:
    """Counts the results for each label."""
    return {label: Counter(one.got for one in judged if one.case.expected is label) for label in Expected}


async def _judged(router: Router, case: Case, tools: Sequence[Tool]) -> Judged:
    run = BuiltinRun(_run_input(case), f"evaluation:{case.id}")
    try:
        decision = await router.decide(run, tools)
        got, detail = _got(case, decision)
    except Exception as error:  # noqa: BLE001 - one sentence must not end the evaluation; it is told in the table
        got, detail = Got.ERROR, f"{type(error).__name__}: {error}"
    return Judged(case=case, got=got, detail=detail[:300], requests=run.usage.requests, usage=run.usage)


def _run_input(case: Case) -> RunInput:
    earlier = [
        InputMessage(id=str(number), speaker=Speaker(speaker), text=text)
        for number, (speaker, text) in enumerate(case.before)
    ]
    new = InputMessage(id=case.id, speaker=Speaker.USER, text=case.say)
    return RunInput(
        run_id=case.id,
        agui_run_id=case.id,
        trace_id=case.id,
        conversation_id=case.id,
        messages=(new,),
        history=tuple(earlier),
    )


def _got(case: Case, decision: RouterDecision) -> tuple[Got, str]:
    match decision:
        case AskBack(question=question, missing=missing, problems=problems):
            return Got.ASK, question or "; ".join((*missing, *problems))
        case Refuse():
            return Got.REFUSE, ""
        case StopDecision():
            return Got.STOP, ""
        case CallTools(calls=calls):
            made = ", ".join(f"{call.tool.name}({dict(call.arguments)})" for call in calls)
            if case.expected is Expected.CALL:
                right = [call for call in calls if call.tool.name == case.tool]
                if not right:
                    return Got.WRONG_TOOL, made
                if not any(_has(call.arguments, case.arguments) for call in right):
                    return Got.WRONG_ARGUMENTS, made
            return Got.CALL, made


def _has(arguments: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return all(_same(arguments.get(name), value) for name, value in expected.items())


def _same(given: Any, expected: Any) -> bool:
    """Returns whether two values are equal, ignoring case and surrounding spaces in texts and the types of numbers."""
    if isinstance(given, str) and isinstance(expected, str):
        return given.strip().casefold() == expected.strip().casefold()
    return bool(given == expected)


def _offered(tool: _KnownTool) -> Tool:
    async def nothing(arguments: Mapping[str, Any]) -> ToolAnswer:
        return failed("Nothing is called in an evaluation.")

    return Tool(
        name=tool.name, description=tool.description, parameters=tool.parameters, call=nothing, server=tool.server
    )
