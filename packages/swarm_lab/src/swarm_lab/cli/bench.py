"""``swarm bench``: the command line for the measurements. The options and their defaults are defined in
`swarm_lab.bench.plans`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import App, Parameter

from swarm_lab.bench.plans import DecisionsPlan, LoopPlan, RunnersPlan, StormPlan, StreamPlan, TeamPlan

T = TypeVar("T")

_Options = Annotated[T, Parameter(name="*")]
_Repeat = Annotated[
    int,
    Parameter(help="Number of repetitions; the median, minimum and maximum of each figure are shown."),
]
_JsonFile = Annotated[Path | None, Parameter(name="--json", help="File to which the figures are also written as JSON.")]

bench = App(
    name="bench",
    help="Measure the performance of this machine against the targets of the design.\n\n"
    "Each command starts coordinators of its own on a new database, with a local Slack; nothing else is touched. A "
    "quick look: `swarm bench loop --only pairs --seconds 3`.",
)


@bench.command(name="loop")
def _bench_loop(*, plan: _Options[LoopPlan] = LoopPlan(), repeat: _Repeat = 1, json_file: _JsonFile = None) -> int:
    """Measure the path of a message: stored, claimed, finished. Takes about ten minutes; `--only` selects parts."""
    from swarm_lab.bench import figures
    from swarm_lab.bench.loop import loop

    return figures.main(partial(loop.chosen, plan), repeat, json_file)


@bench.command(name="team")
def _bench_team(*, plan: _Options[TeamPlan] = TeamPlan(), repeat: _Repeat = 1, json_file: _JsonFile = None) -> int:
    """Measure a team: a lead delegates every message, and workers complete it, up to the result in Slack."""
    from swarm_lab.bench import figures, team

    return figures.main(lambda: {"team": partial(team.measure, plan)}, repeat, json_file)


@bench.command(name="runners")
def _bench_runners(*, plan: _Options[RunnersPlan] = RunnersPlan(), json_file: _JsonFile = None) -> int:
    """Measure runners of coding CLIs, which are scripts here: ten times three tasks at once, for ten minutes. The exit
    code is 1 if a task or a lease is lost, or a task is done twice."""
    from swarm_lab.bench import figures, runners

    return figures.main(lambda: {"runners": partial(runners.measure, plan)}, 1, json_file, verdict=True)


@bench.command(name="stream")
def _bench_stream(*, plan: _Options[StreamPlan] = StreamPlan(), json_file: _JsonFile = None) -> int:
    """Measure streamed answers from an agent's delta to the call of Slack, within and above Slack's limits."""
    from swarm_lab.bench import figures, streams

    return figures.main(lambda: {"stream": partial(streams.measure, plan)}, 1, json_file)


@bench.command(name="decisions")
def _bench_decisions(
    *, plan: _Options[DecisionsPlan] = DecisionsPlan(), repeat: _Repeat = 1, json_file: _JsonFile = None
) -> int:
    """Measure people's decisions from the click to the changed card, the opened form and the agent that asked."""
    from swarm_lab.bench import decisions, figures

    return figures.main(lambda: {"decisions": partial(decisions.measure, plan)}, repeat, json_file)


@bench.command(name="storm")
def _bench_storm(*, plan: _Options[StormPlan] = StormPlan(), json_file: _JsonFile = None) -> int:
    """Put a team under stress: events are sent twice, agents and coordinators are killed. The exit code is 1 if
    anything is lost or duplicated."""
    from swarm_lab.bench import figures, storm

    return figures.main(lambda: {"storm": partial(storm.measure, plan)}, 1, json_file, verdict=True)
