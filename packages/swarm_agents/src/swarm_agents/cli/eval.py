"""``swarm eval``: evaluates a model for the built-in agents' work."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from swarm.cli.terminal import Terminal
from swarm.domain.errors import ConfigurationError
from swarm_base import log

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from swarm.config import BuiltinAgentSettings, Settings
    from swarm.domain.model.language_models import ModelUsage
    from swarm_agents.builtin.lead_evaluation import JudgedThread, LabelledThread, LeadScore, ThreadSuite
    from swarm_agents.builtin.run import BuiltinRun
    from swarm_agents.router.evaluation import Case, Judged, Suite
    from swarm_agents.system_prompts.files import PromptFiles
    from swarm_agents.system_prompts.renderer import Renderer
    from swarm_agents.toolbox.tool import Tool

evaluation = App(name="eval", help="Measure how well the configured model does the built-in agents' work.")
_out = Terminal()
_err = Terminal(stderr=True)

_Categories = Annotated[list[str] | None, Parameter(negative=())]
_Parallel = Annotated[int, Parameter(validator=Number(gte=1))]
_Percent = Annotated[float, Parameter(validator=Number(gte=0, lte=100))]
_Json = Annotated[bool, Parameter(name="--json", negative=())]

C = TypeVar("C", bound="Case | LabelledThread")


@evaluation.command
def router(
    *,
    category: _Categories = None,
    sentences: Path | None = None,
    parallel: _Parallel = 4,
    at_least: _Percent = 0.0,
    as_json: _Json = False,
) -> int:
    """Have the model route 130 labelled sentences as the tool router does, and print the results.

    No tool is run, and neither Slack nor a coordinator is needed; each sentence costs one call of the model. The model
    and the prompt are those of the settings:

    `LLM_MODEL=gpt-5-mini OPENAI_API_KEY=… swarm eval router`

    `LLM_MODEL=qwen3:8b swarm eval router --category missing --category "small talk"` (Ollama)

    Parameters
    ----------
    category
        Use only the sentences of this category; may be given several times.
    sentences
        A file with your own sentences, in the format of packages/swarm_agents/src/swarm_agents/router/sentences.yaml.
    parallel
        Number of sentences processed at once.
    at_least
        The exit code is 1 if a lower percentage of the sentences is decided correctly, or if the model never answers.
    as_json
        Print everything as JSON.
    """
    from dataclasses import replace

    from swarm.config import load as settings
    from swarm_agents.router.evaluation import SENTENCES, Got, load

    log.configure("error")
    suite = load(sentences or SENTENCES)
    chosen = replace(suite, cases=_of_categories(suite.cases, category or []))
    judged = asyncio.run(_judged(settings(), chosen, parallel))
    if as_json:
        _print_json([_plain(one) for one in judged])
    else:
        _show(judged)
    is_answered = any(one.got is not Got.ERROR for one in judged)
    return 0 if is_answered and _percent_right(judged) >= at_least else 1


@evaluation.command
def lead(
    *,
    agent: str | None = None,
    provider: str | None = None,
    env: _Categories = None,
    category: _Categories = None,
    threads: Path | None = None,
    parallel: _Parallel = 4,
    at_least: _Percent = 0.0,
    as_json: _Json = False,
) -> int:
    """Have the model lead a team in labelled threads, and print how well it answers, asks and delegates.

    The prompt and the tools are those of a built-in lead, but nothing is delegated and nobody is asked: neither Slack
    nor a coordinator is needed. Each thread costs one to four calls of the model:

    `LLM_MODEL=gpt-5-mini OPENAI_API_KEY=… swarm eval lead --at-least 90`

    With a coding CLI as the lead, as `swarm run --role lead` starts it:

    `swarm eval lead --provider claude`

    Parameters
    ----------
    agent
        A built-in lead of the settings with tools: [swarm]; by default the first. Without one, a lead without
        instructions of its own is evaluated.
    provider
        Evaluate a coding CLI instead: claude, codex, opencode, acp:COMMAND or command:COMMAND.
    env
        With provider: a variable that the CLI gets; may be given several times.
    category
        Use only the threads of this category; may be given several times.
    threads
        A file with your own threads, in the format of packages/swarm_agents/src/swarm_agents/builtin/threads.yaml.
    parallel
        Number of threads processed at once.
    at_least
        The exit code is 1 if a lower percentage of the threads is handled as labelled, or if the model failed in all.
    as_json
        Print everything as JSON.
    """
    from dataclasses import asdict, replace

    from swarm_agents.builtin.lead_evaluation import THREADS, LeadMove, load_threads, score

    log.configure("error")
    suite = load_threads(threads or THREADS)
    chosen = replace(suite, threads=_of_categories(suite.threads, category or []))
    judged = _judged_threads(agent, provider, env, chosen, parallel)
    found = score(judged)
    if as_json:
        _print_json({"score": asdict(found), "threads": [_plain_thread(one) for one in judged]})
    else:
        _show_led(judged, found)
    is_answered = any(one.got is not LeadMove.ERROR for one in judged)
    return 0 if is_answered and found.right >= at_least else 1


def _judged_threads(
    agent: str | None, provider: str | None, env: _Categories, suite: ThreadSuite, parallel: int
) -> list[JudgedThread]:
    """Has the lead answer the threads. Raises ConfigurationError for options that exclude each other."""
    from swarm.config import load as settings

    if (agent if provider is not None else env) is not None:
        wrong = "--provider and --agent exclude each other" if agent is not None else "--env needs --provider"
        raise ConfigurationError(f"{wrong}: the lead is either a coding CLI or a built-in agent.")
    if provider is None:
        return asyncio.run(_led(settings(), agent, suite, parallel))
    return asyncio.run(_led_by_cli(settings(), provider, env or (), suite, parallel))


def _led_by(settings: Settings, name: str | None) -> tuple[str, BuiltinAgentSettings]:
    """Returns the lead to evaluate, by name. Raises ConfigurationError for an agent that does not lead."""
    from swarm.config import BuiltinAgentSettings, Kind, LocalTool
    from swarm.domain.model.agents import Role

    leads = {
        key: one
        for key, one in settings.agents.builtin.items()
        if one.role is Role.LEAD and LocalTool.SWARM in one.tools
    }
    if name and name not in leads:
        there = ", ".join(leads) or "none"
        raise ConfigurationError(f"'{name}' is no built-in lead with tools: [swarm]; there are: {there}.")
    default = {"lead": BuiltinAgentSettings(kind=Kind.ASSISTANT, tools=[LocalTool.SWARM])}
    return next((key, one) for key, one in (leads or default).items() if name in (None, key))


async def _led(settings: Settings, name: str | None, suite: ThreadSuite, parallel: int) -> list[JudgedThread]:
    from swarm_agents.app import built_in
    from swarm_agents.app.limits import run_limits
    from swarm_agents.app.swarm_tools import TeamTools
    from swarm_agents.builtin.assistant import Assistant
    from swarm_agents.builtin.lead_evaluation import evaluate_lead
    from swarm_agents.models.usage import usage_of
    from swarm_agents.router.evaluation import Forgets

    called, chosen = _led_by(settings, name)
    own = called if called in settings.agents.builtin else None
    async with _asked(settings, own, len(suite.threads)) as (model, prompts, renderer, done):

        def make(tools: Sequence[Tool]) -> Callable[[BuiltinRun], Awaitable[None]]:
            return Assistant(
                model,
                memory=Forgets(),
                tools=lambda: tools,
                prompt=built_in.assistant_prompt(prompts, renderer, called, chosen),
                usage_of=usage_of,
            ).answer

        limits = run_limits(settings, own)
        return await evaluate_lead(make, TeamTools().of(chosen.role), suite, limits, parallel=parallel, done=done)


async def _led_by_cli(
    settings: Settings, provider: str, env: Sequence[str], suite: ThreadSuite, parallel: int
) -> list[JudgedThread]:
    from swarm import extensions
    from swarm.app import home
    from swarm.domain.model.agents import Role
    from swarm_agents.builtin.lead_evaluation import evaluate_lead
    from swarm_base.prompts import base_prompt

    extensions.require("swarm-runner", f"`swarm eval lead --provider {provider}`")
    from swarm_agents.cli.eval_cli import coding_lead, lead_tools

    make = coding_lead(provider, env, base_prompt(Role.LEAD, home.prompts(settings) / "lead.md"))
    with _progress(f"asking {provider}", len(suite.threads)) as done:
        return await evaluate_lead(make, lead_tools(), suite, parallel=parallel, done=done)


def _show_led(judged: Sequence[JudgedThread], found: LeadScore) -> None:
    from swarm_agents.builtin.lead_evaluation import LABELS, LeadMove

    table = Table("expected", *(move.value for move in LeadMove), title="What the lead did", title_justify="left")
    for label in LABELS:
        counts = Counter(one.got for one in judged if one.thread.expected is label)
        table.add_row(label.value, *(_cell(counts[move], is_right=move is label) for move in LeadMove))
    _out.print(table)
    for one in judged:
        if not one.is_right:
            wanted = ", ".join(one.thread.workers) or one.thread.expected.value
            done = ", ".join(one.workers) or one.got.value
            _out.print(f"{one.thread.id}: “{one.thread.say}” → {done} instead of {wanted}: {one.text}", soft_wrap=True)
    delegation = "" if found.delegation is None else f", {found.delegation:.1f} % of the delegations"
    _print_sum(judged, f", {found.routing:.1f} % routed{delegation}")


def _plain_thread(one: JudgedThread) -> dict[str, object]:
    return {
        "id": one.thread.id,
        "category": one.thread.category,
        "say": one.thread.say,
        "expected": one.thread.expected.value,
        "expected_workers": list(one.thread.workers),
        "got": one.got.value,
        "workers": list(one.workers),
        "right": one.is_right,
        "text": one.text,
        "requests": one.usage.requests,
    }


def _of_categories(cases: Sequence[C], categories: Sequence[str]) -> tuple[C, ...]:
    known = list(dict.fromkeys(case.category for case in cases))
    if unknown := [name for name in categories if name not in known]:
        raise ConfigurationError(f"There is no category '{unknown[0]}'; the categories are: {', '.join(known)}.")
    return tuple(case for case in cases if not categories or case.category in categories)


async def _judged(settings: Settings, suite: Suite, parallel: int) -> list[Judged]:
    from swarm_agents.app import built_in
    from swarm_agents.models.usage import usage_of
    from swarm_agents.router.evaluation import Forgets, evaluate
    from swarm_agents.router.router import Router

    async with _asked(settings, None, len(suite.cases)) as (model, prompts, renderer, done):
        router = Router(
            model,
            memory=Forgets(),
            tools=lambda: (),
            wordings=lambda turn, tools: built_in.wordings(prompts, renderer, "tools", turn, tools),
            usage_of=usage_of,
        )
        return await evaluate(router, suite, parallel=parallel, done=done)


@asynccontextmanager
async def _asked(
    settings: Settings, agent: str | None, total: int
) -> AsyncIterator[tuple[Model, PromptFiles, Renderer, Callable[[object], None]]]:
    """Yields the model of an agent, checked; what renders prompts; and a function that advances the progress shown."""
    from swarm.app import settings_mapping
    from swarm_agents.models.building import build
    from swarm_agents.models.check import check
    from swarm_agents.system_prompts.files import PromptFiles
    from swarm_agents.system_prompts.renderer import Renderer

    prompts, renderer = PromptFiles(settings.tools.prompts_config), Renderer()
    try:
        async with build(settings_mapping.model_specs(settings, agent)) as models:
            for trouble in await check(models.specs, waits=False):
                _err.print(trouble.message, soft_wrap=True)
            with _progress(f"asking {models.specs[0].label}", total) as done:
                yield models.model, prompts, renderer, done
    finally:
        await renderer.aclose()


@contextmanager
def _progress(asking: str, total: int) -> Iterator[Callable[[object], None]]:
    """Shows how far the examples are. Yields a function that advances it."""
    if not _err.is_terminal:
        _err.print(f"{asking}: {total} examples", soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as progress:
        bar = progress.add_task(asking, total=total)
        yield lambda _: progress.advance(bar)


def _show(judged: Sequence[Judged]) -> None:
    from swarm_agents.router.evaluation import Got, confusion

    table = Table("expected", *(got.value for got in Got), title="What was decided", title_justify="left")
    for label, counts in confusion(judged).items():
        table.add_row(label.value, *(_cell(counts[got], is_right=got.value == label.value) for got in Got))
    _out.print(table)
    for one in judged:
        if not one.is_right:
            _out.print(f"{one.case.id}: “{one.case.say}” → {one.got.value} {one.detail}", soft_wrap=True)
    _print_sum(judged)


def _cell(count: int, *, is_right: bool) -> Text:
    return Text(str(count or ""), "green" if is_right else "red")


def _percent_right(judged: Sequence[Judged | JudgedThread]) -> float:
    return 100 * sum(one.is_right for one in judged) / max(len(judged), 1)


def _print_sum(judged: Sequence[Judged | JudgedThread], more: str = "") -> None:
    right = sum(one.is_right for one in judged)
    share = f"{right} of {len(judged)} right ({_percent_right(judged):.1f} %){more}"
    _out.print(f"{share}, {_used([one.usage for one in judged])}", style="bold")


def _print_json(found: object) -> None:
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def _used(usages: Sequence[ModelUsage]) -> str:
    from swarm.domain.model.language_models import ModelUsage

    used = sum(usages, ModelUsage())
    cost = "unknown" if used.cost_microdollars is None else f"{used.cost_microdollars / 1_000_000:.4f} US dollars"
    return f"{used.requests} calls of the model, {used.input_tokens + used.output_tokens:,} tokens, cost {cost}"


def _plain(one: Judged) -> dict[str, object]:
    return {
        "id": one.case.id,
        "category": one.case.category,
        "say": one.case.say,
        "expected": one.case.expected.value,
        "got": one.got.value,
        "right": one.is_right,
        "detail": one.detail,
        "requests": one.requests,
    }
