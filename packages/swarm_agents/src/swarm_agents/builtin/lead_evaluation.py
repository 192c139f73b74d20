"""Evaluates a model as a lead: what it does with each labelled thread, given the lead's real prompt and tools.

A label contains the messages, and what a lead should do: answer, ask, or delegate to certain workers. The tools record
their calls and change nothing: `list-agents` shows the team of the file, delegations succeed, and all other tools have
nothing to show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BeforeValidator, Field, StringConstraints

from swarm.domain.answers.events import InputMessage, RunInput, Speaker
from swarm.domain.model.language_models import NO_LIMITS, ModelUsage, RunLimits
from swarm.domain.model.sessions import MessageRole
from swarm_agents.builtin.labelled_files import LabelledEntry, StrictEntry, load_labelled
from swarm_agents.builtin.run import BuiltinRun
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed

THREADS: Final = Path(__file__).with_name("threads.yaml")

_DELEGATE: Final = frozenset({"inbox-delegate", "create-task"})


class LeadMove(StrEnum):
    """What a lead does with a thread, or should do."""

    ANSWER = "answer"
    ASK = "ask"
    DELEGATE = "delegate"
    WRONG_WORKER = "wrong worker"  # delegated, but not to the workers of the label, each once
    ERROR = "error"


LABELS: Final = (LeadMove.ANSWER, LeadMove.ASK, LeadMove.DELEGATE)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledThread:
    """A thread with its label."""

    id: str
    category: str
    say: str
    expected: LeadMove
    workers: tuple[str, ...] = ()  # that should get the work
    before: Sequence[tuple[str, str]] = ()  # earlier messages: ("user" or "assistant", text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadSuite:
    """All threads of an evaluation, and the workers whom the lead can ask."""

    team: Mapping[str, Mapping[str, str]]  # by name: description, and status (online, if it is missing)
    threads: tuple[LabelledThread, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedThread:
    """A thread and what the lead did with it."""

    thread: LabelledThread
    got: LeadMove
    workers: tuple[str, ...] = ()
    text: str = ""  # what people would have read, or the error
    usage: ModelUsage = field(default_factory=ModelUsage)

    @property
    def is_right(self) -> bool:
        """Whether the lead did what the label says."""
        return self.got is self.thread.expected

    @property
    def is_routed(self) -> bool:
        """Whether the lead chose the right kind of move, to whomever it delegated."""
        return self.is_right or (self.thread.expected is LeadMove.DELEGATE and self.got is LeadMove.WRONG_WORKER)


@dataclass(frozen=True, kw_only=True, slots=True)
class LeadScore:
    """The shares of right decisions, in percent; None without a thread that counts."""

    right: float
    routing: float
    delegation: float | None  # of the threads to delegate: those that went to the right workers


class _Worker(StrictEntry):
    description: str = ""
    status: Literal["online", "offline"] = "online"


class _Entry(LabelledEntry):
    """A thread as it is written in the file."""

    expect: Literal["answer", "ask", "delegate"] | None = None
    delegate: Annotated[list[str], BeforeValidator(lambda said: [said] if isinstance(said, str) else said)] = Field(
        default_factory=list
    )


class _File(StrictEntry):
    team: dict[Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")], _Worker]
    threads: dict[str, list[_Entry]]


def load_threads(path: Path = THREADS) -> ThreadSuite:
    """Loads threads from a file with the format of ``threads.yaml``. Raises ConfigurationError for a wrong file."""
    return load_labelled(path, _suite, what="labelled threads", example=THREADS)


def _suite(document: object) -> ThreadSuite:
    """Raises ValueError for another document."""
    file = _File.model_validate(document)
    online = [name for name, worker in file.team.items() if worker.status == "online"]
    threads = tuple(
        _labelled(category, number, entry, online)
        for category, entries in file.threads.items()
        for number, entry in enumerate(entries, 1)
    )
    if not threads:
        raise ValueError("it contains no threads")
    return ThreadSuite(team={name: worker.model_dump() for name, worker in file.team.items()}, threads=threads)


def _labelled(category: str, number: int, entry: _Entry, online: Collection[str]) -> LabelledThread:
    """Raises ValueError for a label that no lead can meet, or that is none."""
    where = f"{category} {number}"
    if missing := set(entry.delegate) - set(online):
        raise ValueError(f"{where} names '{min(missing)}', which is not a worker of the team that is online")
    if len(set(entry.delegate)) < len(entry.delegate):
        raise ValueError(f"{where} names a worker twice")
    expected = LeadMove(entry.expect or ("delegate" if entry.delegate else "error"))
    if expected not in LABELS or (expected is LeadMove.DELEGATE) != bool(entry.delegate):
        raise ValueError(f"{where} needs one label: expect (answer or ask), or delegate with its workers")
    return LabelledThread(
        id=where,
        category=category,
        say=entry.say,
        expected=expected,
        workers=tuple(entry.delegate),
        before=entry.earlier,
    )


MakeLead = Callable[[Sequence[Tool]], Callable[[BuiltinRun], Awaitable[None]]]
"""Returns what answers a run with these tools, such as `Assistant.answer`."""


async def evaluate_lead(
    make: MakeLead,
    tools: Sequence[Tool],
    suite: ThreadSuite,
    limits: RunLimits = NO_LIMITS,
    *,
    parallel: int = 4,
    done: Callable[[JudgedThread], None] = lambda judged: None,
) -> list[JudgedThread]:
    """Has the lead work on every thread within the limits of a run, ``parallel`` at a time. Keeps the suite's order."""
    gate = asyncio.Semaphore(parallel)

    async def one(thread: LabelledThread) -> JudgedThread:
        async with gate:
            judged = await _judged(make, tools, suite, thread, limits)
        done(judged)
        return judged

    return list(await asyncio.gather(*(one(thread) for thread in suite.threads)))


def score(judged: Sequence[JudgedThread]) -> LeadScore:
    """Returns the shares of right decisions."""
    delegated = [one.is_right for one in judged if one.thread.expected is LeadMove.DELEGATE]
    return LeadScore(
        right=_percent([one.is_right for one in judged]),
        routing=_percent([one.is_routed for one in judged]),
        delegation=_percent(delegated) if delegated else None,
    )


def _percent(found: Sequence[bool]) -> float:
    return 100 * sum(found) / len(found) if found else 0.0


async def _judged(
    make: MakeLead, tools: Sequence[Tool], suite: ThreadSuite, thread: LabelledThread, limits: RunLimits
) -> JudgedThread:
    recorded: list[str] = []
    posted: list[str] = []
    run = BuiltinRun(_run_input(thread), f"evaluation:{thread.id}")
    run.limits = limits
    reading = asyncio.create_task(_read(run))
    try:
        await make([_recording(tool, suite, recorded, posted) for tool in tools])(run)
    except Exception as error:  # noqa: BLE001 - one thread must not end the evaluation; it is told in the table
        text = f"{type(error).__name__}: {error}"
        return JudgedThread(thread=thread, got=LeadMove.ERROR, text=text[:300], usage=run.usage)
    finally:
        reading.cancel()
    said = posted or [one.text for one in run.remembered if one.role is MessageRole.ASSISTANT]
    text = "\n\n".join(said).strip()
    workers = tuple(sorted(recorded))
    return JudgedThread(thread=thread, got=_move(thread, workers, text), workers=workers, text=text, usage=run.usage)


async def _read(run: BuiltinRun) -> None:
    """Reads what people would see, so that the run never waits for room."""
    while True:
        await run.heard()


def _move(thread: LabelledThread, workers: Sequence[str], text: str) -> LeadMove:
    """Returns what the lead did. A text whose last sentence is a question asks."""
    if not workers:
        return LeadMove.ASK if text.rstrip("*_`)\"'”’»“ \n").endswith(("?", "？")) else LeadMove.ANSWER
    is_other = thread.expected is LeadMove.DELEGATE and sorted(workers) != sorted(thread.workers)
    return LeadMove.WRONG_WORKER if is_other else LeadMove.DELEGATE


def _recording(tool: Tool, suite: ThreadSuite, delegated: list[str], posted: list[str]) -> Tool:
    """Returns a tool that looks the same and does nothing."""

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        if tool.name == "list-agents":
            return ToolAnswer(text=orjson.dumps({"agents": _shown(suite), "left_out": 0}).decode())
        if tool.name == "slack-reply":
            posted.append(str(arguments.get("message") or ""))
            return ToolAnswer(text=orjson.dumps({"delivery_ids": [], "status": "responded"}).decode())
        if tool.name not in _DELEGATE:
            return failed("There is nothing to show in this evaluation.")
        worker = str(arguments.get("agent") or "nobody").strip().lower()
        known = suite.team.get(worker)
        if known is None or known.get("status", "online") != "online":
            there = ", ".join(name for name, one in suite.team.items() if one.get("status", "online") == "online")
            return failed(f"conflict: '{worker}' cannot be asked. Workers that are online: {there}.")
        delegated.append(worker)
        return ToolAnswer(text=orjson.dumps({"task_id": f"task-{len(delegated)}", "owner": worker}).decode())

    return replace(tool, call=call)


def _shown(suite: ThreadSuite) -> list[dict[str, object]]:
    load: dict[str, object] = {"tasks": 0, "threads": 0, "runs": 0}
    workers: list[dict[str, object]] = [
        {"name": name, "role": "worker", "description": one.get("description", ""),
         "status": one.get("status", "online"), "load": load}
        for name, one in suite.team.items()
    ]  # fmt: skip
    return [{"name": "lead", "role": "lead", "description": "You.", "status": "online", "load": load}, *workers]


def _run_input(thread: LabelledThread) -> RunInput:
    earlier = tuple(
        InputMessage(id=str(number), speaker=Speaker(who), text=text, author="lead" if who == "assistant" else "Ann")
        for number, (who, text) in enumerate(thread.before)
    )
    return RunInput(
        run_id="",
        agui_run_id=thread.id,
        trace_id=thread.id,
        conversation_id=thread.id,
        messages=(InputMessage(id=thread.id, speaker=Speaker.USER, text=thread.say, author="Ann"),),
        history=earlier,
        client_context={"source": "slack", "channel_type": "channel", "channel_name": "#general"},
    )
