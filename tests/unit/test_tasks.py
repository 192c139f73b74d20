"""The rules of tasks: depth, room, dependencies, and which states are which."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Invalid, TooLarge
from swarm.domain.model.tasks import (
    ACTIVE_STATUSES,
    MAX_DEPENDENCIES,
    MAX_DEPTH,
    MAX_TEXT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    OPEN_STATUSES,
    TASK_TRANSITIONS,
    UNSUCCESSFUL,
    TaskStatus,
    TaskStep,
    check_dependencies,
    check_depth,
    check_room,
)
from swarm.services.tasks.tasks import brief

pytestmark = pytest.mark.req("LOOP-16")


def reachable(status: TaskStatus, *, without: frozenset[TaskStep] = frozenset()) -> set[TaskStatus]:
    """Where a task may get to from there."""
    found: set[TaskStatus] = set()
    ahead = {status}
    while ahead:
        found |= ahead
        steps = (transition for step, transition in TASK_TRANSITIONS.items() if step not in without)
        ahead = {transition.target for transition in steps if transition.sources & found} - found
    return found


def test_a_task_is_open_exactly_while_it_can_still_be_cancelled() -> None:
    assert TASK_TRANSITIONS[TaskStep.CANCEL].sources == OPEN_STATUSES
    assert ACTIVE_STATUSES < OPEN_STATUSES


def test_what_is_over_stays_over_but_for_a_redrive_of_what_is_dead() -> None:
    for status in set(TaskStatus) - OPEN_STATUSES - {TaskStatus.DEAD}:
        assert reachable(status) == {status}
    assert reachable(TaskStatus.DEAD, without=frozenset({TaskStep.REDRIVE})) == {TaskStatus.DEAD}


def test_what_is_hopeless_to_wait_for_is_over_unless_an_operator_redrives_it() -> None:
    assert all(reachable(status, without=frozenset({TaskStep.REDRIVE})) == {status} for status in UNSUCCESSFUL)
    assert TaskStatus.COMPLETED not in UNSUCCESSFUL


def test_every_open_task_can_come_to_an_end_by_work() -> None:
    by_hand = frozenset({TaskStep.CANCEL, TaskStep.BURY, TaskStep.FAIL, TaskStep.BREAK, TaskStep.DECLINE})
    for status in OPEN_STATUSES:
        assert TaskStatus.COMPLETED in reachable(status, without=by_hand)


def test_depth_counts_from_one() -> None:
    assert [check_depth(None), check_depth(1), check_depth(MAX_DEPTH - 1)] == [1, 2, MAX_DEPTH]


def test_one_below_the_last_is_too_deep() -> None:
    with pytest.raises(Conflict, match=f"nested {MAX_DEPTH + 1} levels deep"):
        check_depth(MAX_DEPTH)


@pytest.mark.parametrize(("count", "fits"), [(0, True), (9, True), (10, False), (11, False)])
def test_room_ends_at_the_limit(count: int, fits: bool) -> None:
    if fits:
        check_room(count, 10, "here")
        return
    with pytest.raises(Conflict, match=f"There are {count} open tasks here already; at most 10") as no:
        check_room(count, 10, "here")
    assert no.value.hint


def test_a_task_depends_on_a_limited_number_of_others() -> None:
    check_dependencies([str(number) for number in range(MAX_DEPENDENCIES)], [])
    with pytest.raises(Invalid) as no:
        check_dependencies([str(number) for number in range(MAX_DEPENDENCIES + 1)], [])
    assert no.value.fields == {"depends_on": f"at most {MAX_DEPENDENCIES} task ids"}


def test_a_dependency_on_what_it_is_a_part_of_is_a_cycle() -> None:
    check_dependencies(["other"], ["parent", "grandparent"])
    with pytest.raises(Conflict, match=r"would wait for grandparent, which it is a part of: a cycle"):
        check_dependencies(["other", "grandparent"], ["parent", "grandparent"])


def test_the_first_line_of_a_task_is_its_title_unless_it_has_one() -> None:
    assert brief("Count the lines.\nAll of them.").title == "Count the lines."
    assert brief("x" * 500).title == "x" * 80
    assert brief("Count.", "Lines").title == "Lines"
    assert brief("Count.", " \u200b ").title == "Count."


def test_a_task_names_each_dependency_once() -> None:
    assert brief("Count.", depends_on=["a", "b", "a"]).depends_on == ("a", "b")


@pytest.mark.parametrize("nothing", ["", " \n", "\u200b"])
def test_a_task_says_what_is_to_be_done(nothing: str) -> None:
    with pytest.raises(Invalid, match="Say what is to be done"):
        brief(nothing, "Title")


@pytest.mark.parametrize("title", ["x" * (MAX_TITLE_CHARACTERS + 1), "two\nlines"])
def test_a_title_is_one_short_line(title: str) -> None:
    with pytest.raises(Invalid) as no:
        brief("Count.", title)
    assert "title" in no.value.fields


@pytest.mark.parametrize("priority", [-1, 101])
def test_a_priority_is_between_zero_and_a_hundred(priority: int) -> None:
    with pytest.raises(Invalid, match=f"{priority} is out of range"):
        brief("Count.", priority=priority)


def test_a_description_has_a_limit() -> None:
    assert len(brief("x" * MAX_TEXT_CHARACTERS).description) == MAX_TEXT_CHARACTERS
    with pytest.raises(TooLarge):
        brief("x" * (MAX_TEXT_CHARACTERS + 1))
