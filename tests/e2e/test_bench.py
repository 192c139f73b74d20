"""The load measurements run; how fast anything is, no test can say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from swarm.bench.figures import BenchError, Better, Figure, combined, percentile
from swarm.bench.loop import MEASUREMENTS, chosen, measure
from swarm.bench.plan import Plan

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
)


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASUREMENTS)
async def test_a_measurement_tells_what_it_does_and_returns_its_figures(name: str) -> None:
    said: list[str] = []

    figures = await measure(TINY, [name], 1, said.append)

    assert figures
    assert {figure.measurement for figure in figures} == {name}
    assert all(math.isfinite(figure.value) for figure in figures)
    assert any(figure.target is not None for figure in figures)
    assert said
    assert all(line.startswith(f"{name}: ") for line in said)


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


def test_measurements_are_chosen_by_name_and_made_in_their_own_order() -> None:
    assert chosen("") == list(MEASUREMENTS)
    assert chosen("store, events") == ["events", "store"]
    with pytest.raises(BenchError, match="there is no measurement speed"):
        chosen("events,speed")


def _figure(value: float, better: Better, target: float | None = None) -> Figure:
    return Figure(measurement="m", what="w", value=value, unit="ms", better=better, target=target)
