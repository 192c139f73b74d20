"""The load measurements run; how fast anything is, no test can say."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclopts import Token

from swarm_base.processes.supervisor import descendants
from swarm_lab.bench import decisions, runners, storm, streams, team
from swarm_lab.bench.figures import BenchError, Better, Circumstances, Figure, Say, combined, main, measure, percentile
from swarm_lab.bench.loop.loop import MEASUREMENTS, chosen
from swarm_lab.bench.loop.plain import GROUP, plain_driver
from swarm_lab.bench.plans import DecisionsPlan, LoopPlan, RunnersPlan, StormPlan, StreamPlan, TeamPlan, numbers
from swarm_lab.cli.bench import bench

TINY = LoopPlan(
    settle_seconds=0,
    seconds=0.3,
    events_per_second=50,
    events_in_flight=4,
    polls=8,
    more_polls=16,
    agents=(2,),
    pairs_per_second=60,
    callers=4,
    store_pairs=64,
    plain_pairs=20,
    long_thread=20,
    open_reactions=20,
    looks=5,
    rows=200,
    few_rows=20,
    claims=10,
)
TEAM = TeamPlan(settle_seconds=0, seconds=0.3, workers=2, per_second=10, in_flight=2)
STREAM = StreamPlan(
    settle_seconds=0, streams=(2,), seconds=1.5, answers=2, answer_every_seconds=0.5, refill_seconds=0.5,
    events_per_second=20,
)  # fmt: skip
DECISIONS = DecisionsPlan(settle_seconds=0, count=5, per_second=5, events_per_second=10, fill_seconds=0)


async def measured(plan: LoopPlan, name: str, say: Say = print) -> list[Figure]:
    return await measure(chosen(replace(plan, only=name)), 1, say)


async def check(name: str) -> None:
    said: list[str] = []
    figures = await measured(TINY, name, said.append)
    assert figures
    assert {figure.measurement for figure in figures} == {name}
    assert all(math.isfinite(figure.value) for figure in figures)
    assert any(figure.target is not None for figure in figures) or name == "pairs"
    assert said
    assert all(line.startswith(f"{name}: ") for line in said)


async def test_the_smallest_loop_measures_pairs_on_a_real_coordinator() -> None:
    await check("pairs")


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in MEASUREMENTS if name != "pairs"])
async def test_a_measurement_tells_what_it_does_and_returns_its_figures(name: str) -> None:
    await check(name)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c_ends_the_bench_and_leaves_no_child() -> None:
    command = (sys.executable, "-P", "-m", "swarm", "bench", "loop", "--only", "start", "--seconds", "600")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        assert running.stderr
        assert running.stderr.readline() == "start: idle for 600 s\n"
        children = descendants({running.pid})
        assert len(children) >= 2  # a coordinator and its supervisor
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.stderr.read() == ""
    assert [child for child in children if Path(f"/proc/{child.pid}").exists()] == []


@pytest.mark.long
async def test_a_team_of_the_bench_brings_every_message_to_its_result() -> None:
    figures = await team.measure(TEAM, print)

    assert {figure.measurement for figure in figures} == {"team"}
    assert all(figure.value > 0 for figure in figures if figure.unit not in ("", "cores"))


@pytest.mark.long
@pytest.mark.req("RUN-01", "RUN-02")
async def test_runners_of_the_bench_do_every_task_once() -> None:
    plan = RunnersPlan(settle_seconds=0, runners=2, concurrent=2, seconds=3, work_seconds=1)
    found = {figure.what: figure for figure in await runners.measure(plan, print)}

    assert found["tasks done"].value >= 4
    assert all(figure.value == 0 for figure in found.values() if figure.target == 0)
    assert found["claimed → first text in Slack, p50"].value > 0
    assert 0 < found["memory of one runner, at most"].value < 1_000


@pytest.mark.long
@pytest.mark.req("STREAM-04", "STREAM-05")
async def test_streams_of_the_bench_lose_nothing_and_no_call_is_refused() -> None:
    figures = await streams.measure(STREAM, print)

    assert {figure.measurement for figure in figures} == {
        streams.FIRST_TEXT,
        "2 at once",
        "2 at once, 20 events/s",
    }
    found = {figure.what: figure for figure in figures if figure.measurement == "2 at once"}
    assert found["answers streamed"].value + found["answers posted, since no stream was free"].value == 2
    assert all(figure.value == 0 for figure in figures if figure.target == 0)
    assert found["first delta → call, p50"].value > 0


@pytest.mark.long
@pytest.mark.req("HITL-01", "HITL-02")
async def test_decisions_of_the_bench_reach_the_cards_and_the_agent() -> None:
    figures = await decisions.measure(DECISIONS, print)

    assert {figure.measurement for figure in figures} == {"5/s", "5/s beside 10 events/s"}
    assert all(figure.value == 0 for figure in figures if figure.target == 0)
    assert all(figure.value > 0 for figure in figures if figure.what.endswith(", max"))
    found = {figure.what for figure in figures}
    assert {"click → card changed, p99", "click → form opened, max", "form sent → acknowledged, p50"} <= found
    assert {"click → agent has the decision, p99", "other events, received → acked, p99"} <= found


@pytest.mark.long
async def test_several_processes_share_the_load(postgres_server_url: str) -> None:
    pairs = await measured(replace(TINY, processes=2, database=postgres_server_url), "pairs")
    shared = await team.measure(replace(TEAM, processes=2, database=postgres_server_url), print)

    assert all(figure.value > 0 for figure in [*pairs, *shared] if figure.unit not in ("", "cores"))


async def test_several_processes_without_a_server_are_refused() -> None:
    with pytest.raises(BenchError, match="need a PostgreSQL"):
        await storm.measure(StormPlan(processes=2), print)


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]

    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)) == (50, 99, 100)
    assert percentile([7.0], 0.99) == 7


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(BenchError):
        percentile([], 0.5)


def test_a_target_is_met_from_the_side_that_is_better() -> None:
    assert _figure(2, Better.LOWER, 2).met is True
    assert _figure(3, Better.LOWER, 2).met is False
    assert _figure(3, Better.HIGHER, 2).met is True
    assert _figure(1, Better.HIGHER, 2).met is False
    assert _figure(1, Better.HIGHER, None).met is None


def test_of_several_runs_the_median_counts_and_the_range_is_kept() -> None:
    (found,) = combined([[_figure(value, Better.LOWER, 4)] for value in (4, 3, 8)])

    assert (found.minimum, found.value, found.maximum, found.met) == (3, 4, 8, True)
    assert (_figure(7, Better.LOWER).minimum, _figure(7, Better.LOWER).maximum) == (7, 7)


def test_of_several_runs_the_circumstances_are_the_usual_ones() -> None:
    loads = [Circumstances(others=others, cpu_ms=2 * others) for others in (0.5, 0.1, 1.5)]

    (found,) = combined([[replace(_figure(1, Better.LOWER), beside=load)] for load in loads])

    assert found.beside == Circumstances(others=0.5, cpu_ms=1.0, deliveries_open=None)


@pytest.mark.parametrize("words", ["loop --agents 8,1 --seconds 3", "loop --agents 8 --agents 1 --seconds 3"])
def test_several_numbers_are_given_with_commas_or_with_repeated_options(words: str) -> None:
    _, bound, _ = bench.parse_args(words.split(), print_error=False, exit_on_error=False)

    assert bound.arguments["plan"] == LoopPlan(agents=(8, 1), seconds=3)


@pytest.mark.parametrize("word", ["8,", "0", "few"])
def test_what_is_no_list_of_numbers_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"begin at 1|invalid literal"):
        numbers(None, [Token(value=word)])


async def test_the_plain_driver_writes_the_rows_of_a_pair(any_server: str) -> None:
    async with plain_driver(any_server) as run:
        speeds = [await run(1, 3), await run(GROUP, GROUP)]

    assert all(value > 0 for speed in speeds for value in (speed.events, speed.pairs, speed.pair_cpu_ms))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def any_server(request: pytest.FixtureRequest) -> str:
    return "sqlite" if request.param == "sqlite" else str(request.getfixturevalue("postgres_server_url"))


@pytest.mark.parametrize(("found", "code"), [(0.0, 0), (1.0, 1)])
def test_a_verdict_is_also_an_exit_code(
    found: float, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def make(say: Say) -> list[Figure]:
        return [_figure(found, Better.LOWER, 0)]

    assert main(lambda: {"it": make}, 1, None) == 0
    assert main(lambda: {"it": make}, 1, tmp_path / "figures.json", verdict=True) == code
    assert ("NO" in capsys.readouterr().out) == bool(code)
    (written,) = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert written == {
        "measurement": "m", "what": "w", "value": found, "unit": "ms", "better": "lower", "target": 0, "beside": None,
        "runs": [], "minimum": found, "maximum": found, "met": not code,
    }  # fmt: skip


def test_a_measurement_that_cannot_be_made_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    async def make(say: Say) -> list[Figure]:
        raise BenchError("the twin did not start")

    assert main(lambda: {"it": make}, 1, None) == 1
    assert "the twin did not start" in capsys.readouterr().err


def test_measurements_are_chosen_by_name_and_made_in_their_own_order() -> None:
    def names(**options: Any) -> list[str]:
        return list(chosen(LoopPlan(**options)))

    assert names() == list(MEASUREMENTS)
    assert names(only="store, events") == ["events", "store"]
    assert names(processes=3) == ["first", "events", "polls", "fairness", "pairs"]
    with pytest.raises(BenchError, match="store is not available for several coordinators"):
        names(only="store,pairs", processes=3)
    with pytest.raises(BenchError, match="there is no measurement speed"):
        names(only="events,speed")


def _figure(value: float, better: Better, target: float | None = None) -> Figure:
    return Figure("m", "w", value, "ms", better, target)
