"""Plans, from wherever they come."""

from __future__ import annotations

import json
import time

import pytest

from swarm.domain.answers.events import (
    PlanShown,
    PlanStep,
    StepStatus,
    ToolEnded,
)
from tests.agents.wire_events import (
    Fields,
    arguments,
    custom,
    delta,
    result,
    snapshot,
    tool,
    tool_end,
    translated,
)

pytestmark = pytest.mark.req("STREAM-03")


def plan(*lines: tuple[str, StepStatus], ids: list[str] | None = None) -> PlanShown:
    names = ids or [str(place) for place in range(1, len(lines) + 1)]
    return PlanShown(
        steps=tuple(
            PlanStep(id=id, title=title, status=status) for id, (title, status) in zip(names, lines, strict=True)
        )
    )


PENDING, RUNNING, DONE, FAILED = StepStatus

TODOS = [
    {"content": "look", "status": "completed"},
    {"content": "think", "status": "in_progress"},
    {"content": "write", "status": "pending"},
]
SHOWN = plan(("look", DONE), ("think", RUNNING), ("write", PENDING))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([snapshot({"todos": TODOS})], id="state"),
        pytest.param([snapshot({"messages": [1], "plan": {"steps": TODOS}})], id="state, deeper"),
        pytest.param([delta({"op": "add", "path": "/todos", "value": TODOS})], id="a change of the state"),
        pytest.param([custom("todo_update", {"todos": TODOS})], id="an event"),
        pytest.param([custom("TODOS", TODOS)], id="an event that is the list"),
        pytest.param([custom("anything", {"plan": TODOS})], id="an event of any name"),
        pytest.param([tool(name="write_todos"), arguments(json.dumps({"todos": TODOS})), tool_end()], id="arguments"),
        pytest.param([tool(name="write_todos"), result(json.dumps({"todos": TODOS}))], id="a result"),
        pytest.param([tool(name="write_todos"), result(f"Updated todo list to {TODOS}")], id="a result of LangChain"),
        pytest.param(
            [{"type": "ACTIVITY_SNAPSHOT", "messageId": "a", "activityType": "PLAN", "content": {"steps": TODOS}}],
            id="activity",
        ),
    ],
)
def test_a_plan_is_shown_from_wherever_it_comes(events: list[Fields]) -> None:
    assert [event for event in translated(*events) if isinstance(event, PlanShown)] == [SHOWN]


def test_changes_of_the_state_change_the_plan() -> None:
    told = translated(
        snapshot({"todos": TODOS}),
        delta({"op": "replace", "path": "/todos/1/status", "value": "done"}, {"op": "add", "path": "/x", "value": 1}),
        delta({"op": "add", "path": "/todos/-", "value": "send"}, {"op": "remove", "path": "/todos/0"}),
        delta({"op": "replace", "path": "/todos/0", "value": {"title": "thought", "status": "failed"}}),
        delta(
            {"op": "replace", "path": "/todos/7/status", "value": "done"},
            {"op": "test", "path": "/todos", "value": 1},
        ),
    )
    assert told == [
        SHOWN,
        plan(("look", DONE), ("think", DONE), ("write", PENDING)),
        plan(("think", DONE), ("write", PENDING), ("send", PENDING)),
        plan(("thought", FAILED), ("write", PENDING), ("send", PENDING)),
    ]


def test_a_plan_that_has_not_changed_is_shown_once() -> None:
    assert translated(*[snapshot({"todos": TODOS, "n": n}) for n in range(3)], snapshot({"n": 3})) == [SHOWN]


def test_a_plan_of_a_sub_agent_is_its_own_business() -> None:
    assert not [
        told
        for told in translated(custom("NAMESPACE_CONTEXT", "sub"), snapshot({"todos": TODOS}))
        if isinstance(told, PlanShown)
    ]


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("pending", PENDING),
        ("not_started", PENDING),
        ("todo", PENDING),
        ("???", PENDING),
        (7, PENDING),
        ("in_progress", RUNNING),
        ("in-progress", RUNNING),
        ("IN PROGRESS", RUNNING),
        ("running", RUNNING),
        ("completed", DONE),
        ("complete", DONE),
        ("Done", DONE),
        ("success", DONE),
        ("failed", FAILED),
        ("error", FAILED),
        ("cancelled", FAILED),
    ],
)
def test_words_for_a_status(word: object, status: StepStatus) -> None:
    assert translated(snapshot({"steps": [{"description": "a", "status": word}]})) == [plan(("a", status))]


def test_lines_go_by_the_agents_own_ids_if_each_has_one() -> None:
    own = [{"id": 7, "title": "a"}, {"id": "x", "step": "b"}]
    assert translated(snapshot({"plan": own})) == [plan(("a", PENDING), ("b", PENDING), ids=["7", "x"])]
    same = [{"id": 7, "title": "a"}, {"id": 7, "title": "b"}]
    assert translated(snapshot({"plan": same})) == [plan(("a", PENDING), ("b", PENDING))]


def test_what_is_no_line_is_left_out_and_a_long_plan_is_cut() -> None:
    told = translated(snapshot({"todos": [None, 7, {}, {"content": ""}, "a", {"done": True, "name": "b"}]}))
    assert told == [plan(("a", PENDING), ("b", DONE))]
    (long,) = translated(snapshot({"todos": [f"{n} " + "x" * 900 for n in range(500)]}))
    assert isinstance(long, PlanShown)
    assert len(long.steps) == 100
    assert {len(step.title) for step in long.steps} == {250}


@pytest.mark.parametrize("text", ["[" * 20000, "Updated [", "x [" + "(" * 9000, "[lambda: 1]", "[1, 2", '{"todos": 7}'])
def test_results_that_look_like_plans(text: str) -> None:
    assert translated(tool(name="write_todos"), result(text))[1:] == [ToolEnded(id="t1")]


def test_a_patch_without_an_end_is_soon_applied() -> None:
    """A mebibyte of them, each on a list as long: what it costs must not grow with the square of that."""
    many = [{"op": "add", "path": "/todos/-", "value": "x"}] * 20_000
    begun = time.process_time()
    translated(snapshot({"todos": ["x"] * 200_000}), delta(*many))
    assert time.process_time() - begun < 5  # with the square it would be fifteen
