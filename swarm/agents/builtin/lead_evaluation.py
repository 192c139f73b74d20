"""Evaluates a model as a lead: what it does with each labelled thread, given the lead's real prompt and tools.

A label contains the messages, and what a lead should do: answer, ask, or delegate to certain workers. The tools record
their calls and change nothing: `list-agents` shows the team of the file, delegations succeed, and all other tools have
nothing to show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson
import yaml

from swarm.agents.builtin.run import BuiltinRun
from swarm.agents.toolbox.tool import Tool, ToolAnswer, failed
from swarm.domain.answers.events import InputMessage, RunInput, Speaker
from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import NO_LIMITS, ModelUsage, RunLimits
from swarm.domain.model.sessions import MessageRole

THREADS: Final = Path(__file__).with_name("threads.yaml")

_DELEGATE: Final = frozenset({"inbox-delegate", "create-task"})
_EXPECTED: Final = frozenset({"say", "before", "expect", "delegate"})


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


def load_threads(path: Path = THREADS) -> ThreadSuite:
    """Loads threads from a file with the format of ``threads.yaml``. Raises ConfigurationError for a wrong file."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        team = {str(name): dict(about) for name, about in document["team"].items()}
        threads = tuple(
            _labelled(category, number, entry, team)
            for category, entries in document["threads"].items()
            for number, entry in enumerate(entries, 1)
        )
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{path} is not a file with labelled threads: {error}", hint=f"{THREADS} shows the format."
        ) from error
    if not threads:
        raise ConfigurationError(f"{path} contains no threads.")
    return ThreadSuite(team=team, threads=threads)


def _labelled(category: str, number: int, entry: Mapping[str, Any], team: Mapping[str, object]) -> LabelledThread:
    where = f"{category} {number}"
    if unknown := entry.keys() - _EXPECTED:
        raise ValueError(f"{where} has an unknown key '{min(unknown)}'")
    wanted = entry.get("delegate", ())
    workers = tuple([wanted] if isinstance(wanted, str) else wanted)
    if missing := set(workers) - team.keys():
        raise ValueError(f"{where} names '{min(missing)}', which is not in the team")
    expected = LeadMove.DELEGATE if workers else LeadMove(entry["expect"])
    if expected not in LABELS or (expected is LeadMove.DELEGATE and not workers):
        raise ValueError(f"{where} expects '{expected}'; answer, ask, or delegate with a worker is possible")
    return LabelledThread(
        id=where,
        category=category,
        say=str(entry["say"]),
        expected=expected,
        workers=workers,
        before=tuple((str(who), str(text)) for said in entry.get("before", ()) for who, text in said.items()),
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
    run = BuiltinRun(_run_input(thread), f"evaluation:{thread.id}")
    run.limits = limits
    reading = asyncio.create_task(_read(run))
    try:
        await make([_recording(tool, suite, recorded) for tool in tools])(run)
    except Exception as error:  # noqa: BLE001 - one thread must not end the evaluation; it is told in the table
        text = f"{type(error).__name__}: {error}"
        return JudgedThread(thread=thread, got=LeadMove.ERROR, text=text[:300], usage=run.usage)
    finally:
        reading.cancel()
    text = "\n\n".join(one.text for one in run.remembered if one.role is MessageRole.ASSISTANT).strip()
    workers = tuple(sorted(recorded))
    return JudgedThread(thread=thread, got=_move(thread, workers, text), workers=workers, text=text, usage=run.usage)


async def _read(run: BuiltinRun) -> None:
    """Reads what people would see, so that the run never waits for room."""
    while True:
        await run.heard()


def _move(thread: LabelledThread, workers: Sequence[str], text: str) -> LeadMove:
    """Returns what the lead did. A text whose last sentence is a question asks."""
    if not workers:
        return LeadMove.ASK if text.rstrip("*_`)\"' \n").endswith(("?", "？")) else LeadMove.ANSWER
    is_other = thread.expected is LeadMove.DELEGATE and sorted(workers) != sorted(thread.workers)
    return LeadMove.WRONG_WORKER if is_other else LeadMove.DELEGATE


def _recording(tool: Tool, suite: ThreadSuite, delegated: list[str]) -> Tool:
    """Returns a tool that looks the same and does nothing."""

    async def call(arguments: Mapping[str, Any]) -> ToolAnswer:
        if tool.name == "list-agents":
            return ToolAnswer(text=orjson.dumps({"agents": _shown(suite), "left_out": 0}).decode())
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
