"""The load measurements run; how fast anything is, no test can say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from swarm.bench import team
from swarm.bench.figures import BenchError, Better, Figure, combined, percentile
from swarm.bench.loop import MEASUREMENTS, chosen
from swarm.bench.plan import Plan, Say
from swarm.bench.run import Measure, judged, measure
from swarm.bench.streams import stream

TINY = Plan(
    seconds=0.3,
    events_per_second=50,
    events_in_flight=4,
    polls=8,
    more_polls=16,
    agents=2,
    pairs_per_second=60,
    callers=4,
    store_pairs=60,
    rows=200,
    few_rows=20,
    claims=10,
    workers=2,
    team_per_second=10,
    team_in_flight=2,
    streams=(2,),
    stream_seconds=1.5,
    answers=2,
    answer_every_seconds=0.5,
    refill_seconds=0.5,
)


@pytest.mark.long
@pytest.mark.parametrize("name", MEASUREMENTS)
async def test_a_measurement_tells_what_it_does_and_returns_its_figures(name: str) -> None:
    said: list[str] = []

    figures = await measure({name: MEASUREMENTS[name]}, TINY, 1, said.append)

    assert figures
    assert {figure.measurement for figure in figures} == {name}
    assert all(math.isfinite(figure.value) for figure in figures)
    assert any(figure.target is not None for figure in figures)
    assert said
    assert all(line.startswith(f"{name}: ") for line in said)


@pytest.mark.long
async def test_a_team_of_the_bench_brings_every_message_to_its_result() -> None:
    figures = await measure({"team": team.measure}, TINY, 1, print)

    assert {figure.measurement for figure in figures} == {"team"}
    assert all(figure.value > 0 for figure in figures)


@pytest.mark.long
@pytest.mark.req("STREAM-04", "STREAM-05")
async def test_streams_of_the_bench_lose_nothing_and_no_call_is_refused() -> None:
    figures = await measure({"stream": stream.measure}, TINY, 1, print)

    assert {figure.measurement for figure in figures} == {stream.FIRST_TEXT, "2 at once"}
    found = {figure.what: figure for figure in figures if figure.measurement == "2 at once"}
    assert found["answers streamed"].value + found["answers posted, since no stream was free"].value == 2
    assert all(figure.value == 0 for figure in figures if figure.target == 0)
    assert found["first delta → call, p50"].value > 0


async def test_streams_of_several_processes_are_not_measured() -> None:
    with pytest.raises(BenchError, match="one coordinator process"):
        await measure({"stream": stream.measure}, replace(TINY, processes=2), 1, print)


@pytest.mark.long
@pytest.mark.parametrize(("name", "make"), [("pairs", MEASUREMENTS["pairs"]), ("team", team.measure)])
async def test_several_processes_share_the_load(name: str, make: Measure, postgres_server_url: str) -> None:
    plan = replace(TINY, processes=2, database=postgres_server_url)

    figures = await measure({name: make}, plan, 1, print)

    assert all(figure.value > 0 for figure in figures)


async def test_several_processes_without_a_server_are_refused() -> None:
    with pytest.raises(BenchError, match="need a PostgreSQL"):
        await measure({"team": team.measure}, replace(TINY, processes=2), 1, print)


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


def test_of_several_runs_the_best_counts() -> None:
    runs = [[_figure(value, Better.LOWER), _figure(value, Better.HIGHER)] for value in (4, 3, 5)]

    assert [figure.value for figure in combined(runs)] == [3, 5]


def test_of_a_ratio_the_median_counts() -> None:
    runs = [[replace(_figure(value, Better.HIGHER), ratio=True)] for value in (2, 9, 3)]

    assert [figure.value for figure in combined(runs)] == [3]


@pytest.mark.parametrize(("found", "code"), [(0.0, 0), (1.0, 1)])
def test_a_verdict_is_also_an_exit_code(found: float, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    async def make(say: Say) -> list[Figure]:
        return [_figure(found, Better.LOWER, 0)]

    assert judged(make, None) == code
    assert ("NO" in capsys.readouterr().out) == bool(code)


def test_a_measurement_that_cannot_be_made_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    async def make(say: Say) -> list[Figure]:
        raise BenchError("the twin did not start")

    assert judged(make, None) == 1
    assert "the twin did not start" in capsys.readouterr().err


def test_measurements_are_chosen_by_name_and_made_in_their_own_order() -> None:
    assert list(chosen("")) == list(MEASUREMENTS)
    assert list(chosen("store, events")) == ["events", "store"]
    assert list(chosen("", processes=3)) == ["events", "polls", "pairs"]
    with pytest.raises(BenchError, match="store has no coordinator process"):
        chosen("store,pairs", processes=3)
    with pytest.raises(BenchError, match="there is no measurement speed"):
        chosen("events,speed")


def _figure(value: float, better: Better, target: float | None = None) -> Figure:
    return Figure(measurement="m", what="w", value=value, unit="ms", better=better, target=target)
