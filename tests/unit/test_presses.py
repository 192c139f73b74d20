"""What Slack says of a pressed button, and what it does not say."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swarm.domain.requests.button_actions import (
    STOP_TASK_ACTION,
    ButtonPressed,
    Feedback,
    SessionStopped,
    feedback_of,
    feedback_value,
)
from swarm.slack.incoming.payloads import button_pressed, session_stopped
from swarm.slack.outgoing.ephemerals import MOST_A_MINUTE, SLOW_TEXT, PrivateAnswers
from tests.support.every import every

PAYLOAD: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U1", "username": "alice"},
    "trigger_id": "123.456.abc",
    "container": {"type": "message", "message_ts": "1700000000.000200", "thread_ts": "1700000000.000100"},
    "channel": {"id": "C1", "name": "general"},
    "actions": [{"type": "button", "action_id": STOP_TASK_ACTION, "value": "task-1", "action_ts": "1700000001.000000"}],
}


@pytest.mark.req("CHAN-08")
@pytest.mark.parametrize(("told", "is_ephemeral"), [(True, True), (False, False), ("yes", False)])
def test_a_press_in_a_message_that_only_one_person_sees_is_known(told: object, is_ephemeral: bool) -> None:
    payload = {**PAYLOAD, "container": {**PAYLOAD["container"], "is_ephemeral": told}}
    press = button_pressed(payload)
    assert press is not None
    assert press.is_ephemeral is is_ephemeral


@pytest.mark.req("LOOP-16")
def test_a_press_names_the_button_its_value_the_person_and_the_place() -> None:
    assert button_pressed(PAYLOAD) == ButtonPressed(
        key="press:123.456.abc:1700000001.000000",
        action_id=STOP_TASK_ACTION,
        value="task-1",
        user_id="U1",
        channel="C1",
        message_ts="1700000000.000200",
        thread_ts="1700000000.000100",
        trigger_id="123.456.abc",
    )


@every("path", [("user", "id"), ("channel", "id"), ("container", "message_ts"), ("trigger_id",)])
@every("value", [None, 7, [], {}, ""])
def test_a_press_that_lacks_what_every_press_has_is_none(path: tuple[str, ...], value: object) -> None:
    payload = copy.deepcopy(PAYLOAD)
    inner = payload
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert button_pressed(payload) is None


@every("payload", [None, [], {}, {"type": "view_submission"}, {**PAYLOAD, "actions": []}])
def test_what_is_no_press_is_none(payload: object) -> None:
    assert button_pressed(payload) is None


STOPPED: dict[str, Any] = {
    "type": "event_callback",
    "event_id": "Ev1",
    "event": {
        "type": "agent_session_stopped",
        "channel": "C1",
        "thread_ts": "1700000000.000100",
        "user": "U1",
        "streaming_message_ts": ["1700000000.000200"],
    },
}


@pytest.mark.req("STREAM-09")
def test_a_press_of_slacks_stop_names_the_person_the_thread_and_what_was_being_written() -> None:
    assert session_stopped(STOPPED) == SessionStopped(
        key="stop:Ev1",
        channel="C1",
        thread_ts="1700000000.000100",
        user_id="U1",
        message_ts=("1700000000.000200",),
    )


@every("given", [None, [], "1700000000.000200", [7, "soon"], {}])
def test_a_stop_that_names_no_messages_still_counts(given: object) -> None:
    stop = session_stopped({**STOPPED, "event": {**STOPPED["event"], "streaming_message_ts": given}})
    assert stop is not None
    assert stop.message_ts == ()


@every("field", ["type", "channel", "thread_ts", "user"])
@every("value", [None, 7, [], {}, ""])
def test_a_stop_that_does_not_say_where_or_by_whom_is_none(field: str, value: object) -> None:
    assert session_stopped({**STOPPED, "event": {**STOPPED["event"], field: value}}) is None


@every("body", [None, [], {}, {**STOPPED, "event": 5}, {**STOPPED, "event_id": None}, PAYLOAD])
def test_what_is_no_stop_is_none(body: object) -> None:
    assert session_stopped(body) is None


@pytest.mark.req("CHAN-05")
@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("run_id", ["0193b0c0-6400-7000-8000-000000000000", "with:a:colon"])
def test_feedback_survives_the_way_through_a_button(run_id: str, is_good: bool) -> None:
    feedback = Feedback(answer_id=run_id, is_good=is_good)
    assert feedback_of(feedback_value(feedback)) == feedback


@every("value", ["", "up", ":up", "turn:sideways", "turn:"])
def test_a_value_that_is_no_feedback_of_ours_is_none(value: str) -> None:
    assert feedback_of(value) is None


@pytest.mark.req("HITL-13")
def test_private_answers_are_limited_by_minute_and_person() -> None:
    now = [0.0]
    answers = PrivateAnswers(lambda: now[0])
    assert [answers.next("U1", "no") for _ in range(13)] == ["no"] * MOST_A_MINUTE + [SLOW_TEXT, None, None]
    assert answers.next("U2", "no") == "no"
    now[0] = 60.0
    assert answers.next("U1", "no") == "no"
