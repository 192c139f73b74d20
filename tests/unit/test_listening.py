"""Since when coordinators have listened for so long: the time of all processes, each moment once, without breaks."""

from __future__ import annotations

import pytest

from swarm.domain.model.agents import is_online, listened_since

pytestmark = pytest.mark.req("LOOP-21", "LOOP-17")


@pytest.mark.parametrize(
    ("spans", "wanted", "since"),
    [
        ([(0, 100)], 40, 60),
        ([(0, 100)], 101, 1),
        ([(10, 100)], 90, 10),
        ([(10, 100)], 91, 1),
        ([(10, 40), (90, 100)], 30, 20),  # a break of 50
        ([(10, 40), (30, 60), (90, 100)], 50, 20),  # one after another, with an overlap
        ([(10, 60), (20, 30), (90, 100)], 50, 20),  # one within another
        ([(10, 100), (50, 100), (90, 100)], 60, 40),
        ([(90, 100), (10, 95)], 30, 70),
        ([(60, 60), (70, 70), (90, 100)], 11, 1),  # processes that died at once
        ([], 1, 1),
    ],
)
def test_the_time_in_which_somebody_listened_is_counted_once(
    spans: list[tuple[int, int]], wanted: int, since: int
) -> None:
    assert listened_since(spans, wanted) == max(1, since)
    assert listened_since(spans[::-1], wanted) == max(1, since)


def test_an_agent_is_online_that_was_seen_since_then() -> None:
    assert [is_online(seen, 100) for seen in (None, 99, 100, 101)] == [False, False, False, True]
