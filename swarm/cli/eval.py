"""``swarm eval``: evaluates a model for the built-in agents' work."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from swarm.cli.terminal import Terminal
from swarm.domain.errors import ConfigurationError
from swarm.telemetry import log

if TYPE_CHECKING:
    from swarm.agents.router.evaluation import Judged, Suite
    from swarm.config import Settings

evaluation = App(name="eval", help="Measure how well the configured model does the built-in agents' work.")
_out = Terminal()


@evaluation.command
def router(
    *,
    category: Annotated[list[str] | None, Parameter(negative=())] = None,
    sentences: Path | None = None,
    parallel: Annotated[int, Parameter(validator=Number(gte=1))] = 4,
    at_least: Annotated[float, Parameter(validator=Number(gte=0, lte=100))] = 0.0,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
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
        A file with your own sentences, in the format of swarm/agents/router/sentences.yaml.
    parallel
        Number of sentences processed at once.
    at_least
        The exit code is 1 if a lower percentage of the sentences is decided correctly.
    as_json
        Print everything as JSON.
    """
    from swarm.agents.router.evaluation import SENTENCES, load
    from swarm.config import load as settings

    log.configure("error")
    suite = _chosen(load(sentences or SENTENCES), category or [])
    judged = asyncio.run(_judged(settings(), suite, parallel))
    if as_json:
        sys.stdout.write(json.dumps([_plain(one) for one in judged], indent=2) + "\n")
    else:
        _show(judged)
    right = 100 * sum(one.is_right for one in judged) / len(judged)
    return 0 if right >= at_least else 1


def _chosen(suite: Suite, categories: Sequence[str]) -> Suite:
    from dataclasses import replace

    known = list(dict.fromkeys(case.category for case in suite.cases))
    if unknown := [name for name in categories if name not in known]:
        raise ConfigurationError(f"There is no category '{unknown[0]}'; the categories are: {', '.join(known)}.")
    return replace(suite, cases=tuple(case for case in suite.cases if not categories or case.category in categories))


async def _judged(settings: Settings, suite: Suite, parallel: int) -> list[Judged]:
    from swarm.agents.models.building import build
    from swarm.agents.models.check import check
    from swarm.agents.models.usage import usage_of
    from swarm.agents.router.evaluation import Forgets, evaluate
    from swarm.agents.router.router import Router
    from swarm.agents.system_prompts.files import PromptFiles
    from swarm.agents.system_prompts.renderer import Renderer
    from swarm.app import built_in, settings_mapping

    prompts, renderer = PromptFiles(settings.tools.prompts_config), Renderer()
    try:
        async with build(settings_mapping.model_specs(settings)) as models:
            router = Router(
                models.model,
                memory=Forgets(),
                tools=lambda: (),
                wordings=lambda turn, tools: built_in.wordings(prompts, renderer, "tools", turn, tools),
                usage_of=usage_of,
            )
            await check(models.specs)
            with _progress() as progress:
                bar = progress.add_task(f"asking {models.specs[0].label}", total=len(suite.cases))
                return await evaluate(router, suite, parallel=parallel, done=lambda _: progress.advance(bar))
    finally:
        await renderer.aclose()


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _show(judged: Sequence[Judged]) -> None:
    from swarm.agents.router.evaluation import Got, confusion

    table = Table("expected", *(got.value for got in Got), title="What was decided", title_justify="left")
    for label, counts in confusion(judged).items():
        table.add_row(label.value, *(_cell(counts[got], is_right=got.value == label.value) for got in Got))
    _out.print(table)
    for one in judged:
        if not one.is_right:
            _out.print(f"{one.case.id}: “{one.case.say}” → {one.got.value} {one.detail}", soft_wrap=True)
    _out.print(_sum(judged), style="bold")


def _cell(count: int, *, is_right: bool) -> Text:
    return Text(str(count or ""), "green" if is_right else "red")


def _sum(judged: Sequence[Judged]) -> str:
    from swarm.domain.model.language_models import ModelUsage

    right = sum(one.is_right for one in judged)
    used = sum((one.usage for one in judged), ModelUsage())
    cost = "unknown" if used.cost_microdollars is None else f"{used.cost_microdollars / 1_000_000:.4f} US dollars"
    return (
        f"{right} of {len(judged)} right ({100 * right / len(judged):.1f} %), "
        f"{used.requests} calls of the model, {used.input_tokens + used.output_tokens:,} tokens, cost {cost}"
    )


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
