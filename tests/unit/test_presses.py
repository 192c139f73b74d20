"""What Slack says of a pressed button, and what it does not say."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swarm.domain.presses import STOP_TASK_ACTION, ButtonPressed
from swarm.slack.presses import button_pressed

PAYLOAD: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U1", "username": "alice"},
    "trigger_id": "123.456.abc",
    "container": {"type": "message", "message_ts": "1700000000.000200", "thread_ts": "1700000000.000100"},
    "channel": {"id": "C1", "name": "general"},
    "actions": [{"type": "button", "action_id": STOP_TASK_ACTION, "value": "task-1", "action_ts": "1700000001.000000"}],
}


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
    )


@pytest.mark.parametrize("path", [("user", "id"), ("channel", "id"), ("container", "message_ts"), ("trigger_id",)])
@pytest.mark.parametrize("value", [None, 7, [], {}, ""])
def test_a_press_that_lacks_what_every_press_has_is_none(path: tuple[str, ...], value: object) -> None:
    payload = copy.deepcopy(PAYLOAD)
    inner = payload
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert button_pressed(payload) is None


@pytest.mark.parametrize("payload", [None, [], {}, {"type": "view_submission"}, {**PAYLOAD, "actions": []}])
def test_what_is_no_press_is_none(payload: object) -> None:
    assert button_pressed(payload) is None
