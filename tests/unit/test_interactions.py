"""What Slack says of presses and forms of requests, and what it does not say."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.requests import FieldType, FormField, HumanDecision, Option, options
from swarm.domain.requests.button_actions import ARGUMENTS_ACTION, DECIDE_ACTION, FORM_ACTION, STOP_TASK_ACTION
from swarm.slack.form_fields import BACK_ACTION, block_id_of, key_of, typed_values
from swarm.slack.incoming.interactions import (
    FormBack,
    FormSubmitted,
    OptionsWanted,
    RequestPressed,
    interaction,
)
from tests.support.every import every
from tests.support.human_requests import REQUEST_ID

pytestmark = pytest.mark.req("HITL-02")

STATE: dict[str, Any] = {
    "values": {
        "field:a": {"value": {"type": "plain_text_input", "value": "text"}},
        "field:b": {"value": {"type": "static_select", "selected_option": {"value": "x"}}},
        "field:c": {"value": {"type": "multi_static_select", "selected_options": [{"value": "x"}, {"value": "y"}]}},
        "field:d": {"value": {"type": "radio_buttons", "selected_option": None}},
        "other": {"value": {"type": "plain_text_input", "value": "not ours"}},
    }
}
VALUES = {"a": "text", "b": "x", "c": ["x", "y"], "d": None}
PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U1", "team_id": "T1"},
    "trigger_id": "123.456.abc",
    "container": {"type": "message", "message_ts": "1700000000.000200", "thread_ts": "1700000000.000100"},
    "channel": {"id": "C1"},
    "state": STATE,
    "actions": [
        {"type": "button", "action_id": f"{DECIDE_ACTION}approve", "value": REQUEST_ID, "block_id": "v1:grants"}
    ],
}
VIEW: dict[str, Any] = {
    "id": "V1",
    "hash": "h.1",
    "callback_id": FORM_ACTION,
    "private_metadata": json.dumps({"request": REQUEST_ID, "page": 2, "decision": "edit", "seen": "v1"}),
    "app_installed_team_id": "T1",
    "state": STATE,
}
SUBMISSION: dict[str, Any] = {"type": "view_submission", "user": {"id": "U1", "team_id": "T1"}, "view": VIEW}
BACK: dict[str, Any] = {
    **SUBMISSION,
    "type": "block_actions",
    "container": {"type": "view", "view_id": "V1"},
    "actions": [{"type": "button", "action_id": BACK_ACTION, "value": REQUEST_ID}],
}
SEARCH: dict[str, Any] = {
    "type": "block_suggestion",
    "user": {"id": "U1"},
    "action_id": "value",
    "block_id": "field:a",
    "value": "wor",
    "view": VIEW,
}
IN_FORM: dict[str, Any] = {
    "request_id": REQUEST_ID,
    "seen": "v1",
    "page": 2,
    "decision": HumanDecision.EDIT,
    "person": "U1",
    "team": "T1",
    "installed_team": "T1",
    "values": VALUES,
}


def without(body: dict[str, Any], *path: str, value: object = None) -> dict[str, Any]:
    """A copy with another value at a path."""
    changed = copy.deepcopy(body)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def pressed(action_id: str) -> object:
    return interaction(PRESS | {"actions": [{"action_id": action_id, "value": REQUEST_ID}]})


def test_a_press_names_the_request_the_decision_the_person_the_place_and_the_values() -> None:
    assert interaction(PRESS) == RequestPressed(
        request_id=REQUEST_ID,
        action=f"{DECIDE_ACTION}approve",
        decision=HumanDecision.APPROVE,
        person="U1",
        team="T1",
        channel="C1",
        message_ts="1700000000.000200",
        thread_ts="1700000000.000100",
        trigger_id="123.456.abc",
        seen="v1",
        values=VALUES,
    )


@every("decision", list(HumanDecision))
def test_every_decision_has_its_button(decision: HumanDecision) -> None:
    found = pressed(DECIDE_ACTION + decision)
    assert isinstance(found, RequestPressed)
    assert found.decision is decision


@every("action_id", [FORM_ACTION, ARGUMENTS_ACTION, f"{DECIDE_ACTION}obey", DECIDE_ACTION])
def test_other_buttons_and_unknown_decisions_are_presses_without_a_decision(action_id: str) -> None:
    found = pressed(action_id)
    assert isinstance(found, RequestPressed)
    assert (found.decision, found.action) == (None, action_id)


@every("action_id", [STOP_TASK_ACTION, "", "value", BACK_ACTION, "request_decide"])
def test_buttons_of_others_are_none(action_id: str) -> None:
    assert pressed(action_id) is None


@every("path", [("user", "id"), ("channel", "id"), ("container", "message_ts"), ("trigger_id",), ("actions",)])
@every("value", [None, 7, [], {}, ""])
def test_a_press_that_lacks_what_every_press_has_is_none(path: tuple[str, ...], value: object) -> None:
    assert interaction(without(PRESS, *path, value=value)) is None


@pytest.mark.req("HITL-05")
def test_what_happens_in_a_form_names_its_request_page_decision_and_values() -> None:
    assert interaction(SUBMISSION) == FormSubmitted(**IN_FORM)
    assert interaction(BACK) == FormBack(**IN_FORM, view_id="V1", view_hash="h.1")


@every(
    "metadata",
    [
        None,
        "",
        "{",
        "[]",
        "7",
        json.dumps({"request": REQUEST_ID, "page": 0, "decision": "answer"}),
        json.dumps({"request": REQUEST_ID, "page": True, "decision": "answer"}),
        json.dumps({"request": REQUEST_ID, "page": "1", "decision": "answer"}),
        json.dumps({"request": REQUEST_ID, "page": 1, "decision": "obey"}),
    ],
)
@pytest.mark.req("HITL-05")
def test_a_form_whose_metadata_are_not_ours_names_no_request(metadata: object) -> None:
    found = interaction(without(SUBMISSION, "view", "private_metadata", value=metadata))
    assert isinstance(found, FormSubmitted)
    assert (found.request_id, found.decision, found.person) == ("", None, "U1")


@every(
    "body",
    [
        without(SUBMISSION, "view", "callback_id", value="other"),
        without(SUBMISSION, "user", "id", value=None),
        without(BACK, "view", "id", value=7),
        without(BACK, "actions", value=[{"action_id": "other"}]),
        without(SEARCH, "block_id", value="other"),
        without(SEARCH, "action_id", value="other"),
        without(SEARCH, "view", value={**VIEW, "private_metadata": "{}"}),
        {**SEARCH, "view": None},
        {"type": "shortcut"},
        None,
        [],
    ],
)
def test_what_is_not_about_a_request_is_none(body: object) -> None:
    assert interaction(body) is None


@pytest.mark.req("HITL-05")
def test_a_search_in_a_menu_names_the_request_of_its_form() -> None:
    expected = {"request_id": REQUEST_ID, "key": "a", "query": "wor", "person": "U1"}
    assert interaction(SEARCH) == OptionsWanted(**expected, decision=HumanDecision.EDIT)


def values_of(state: object, fields: Sequence[FormField]) -> dict[str, Any]:
    """What was entered into these fields."""
    found = interaction({**PRESS, "state": state})
    assert isinstance(found, RequestPressed)
    return typed_values(found.values, fields)


FIELDS = (
    FormField(name="a"),
    FormField(name="b", type=FieldType.SELECT, options=options("x")),
    FormField(name="c", type=FieldType.MULTISELECT, options=options("x", "y")),
    FormField(name="d", type=FieldType.BOOLEAN),
    FormField(name="absent"),
)


@pytest.mark.req("HITL-01")
def test_values_have_the_names_and_types_of_their_fields() -> None:
    assert values_of(STATE, FIELDS) == VALUES
    yes = {"values": {"field:d": {"value": {"selected_option": {"value": "true"}}}}}
    assert values_of(yes, FIELDS) == {"d": True}


@pytest.mark.req("HITL-01")
def test_the_places_of_options_become_their_values() -> None:
    long = tuple(Option(value=f"{n}" * 200) for n in range(9))
    one, some = (FormField(name=kind, type=kind, options=long) for kind in (FieldType.SELECT, FieldType.MULTISELECT))
    state = {
        "values": {
            "field:select": {"value": {"selected_option": {"value": "o:3"}}},
            "field:multiselect": {"value": {"selected_options": [{"value": "o:0"}, {"value": "o:99"}]}},
        }
    }
    assert values_of(state, (one, some)) == {"select": "3" * 200, "multiselect": ["0" * 200, "o:99"]}


@pytest.mark.req("HITL-01")
@every("name", ["x" * 300, "a\nb", "\ud800", "x" * 249])
def test_a_name_that_slack_does_not_take_is_known_again(name: str) -> None:
    field = FormField(name=name)
    assert len(block_id_of(field)) <= 255
    state = {"values": {block_id_of(field): {"value": {"value": "text"}}}}
    assert values_of(state, (field, FormField(name="x" * 301))) == {name: "text"}
    assert key_of(FormField(name="short")) == "short"


@every("state", [None, 7, [], {}, {"values": 7}, {"values": {"field:a": 7}}, {"values": {"field:a": {"value": 7}}}])
def test_a_state_of_another_form_has_no_values(state: object) -> None:
    assert {value for value in values_of(state, FIELDS).values() if value is not None} == set()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["field:a", REQUEST_ID])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
PATHS = ["user", "view", "container", "channel", "state", "actions", "message", "value", "block_id", "trigger_id"]
INNER = ["id", "hash", "callback_id", "private_metadata", "state", "message_ts", "values", "team_id"]


@given(st.sampled_from([PRESS, SUBMISSION, BACK, SEARCH]), st.sampled_from(PATHS), st.sampled_from(INNER), JSON)
def test_no_payload_raises(body: dict[str, Any], name: str, inner: str, value: Any) -> None:
    found = interaction(body | {name: value})
    part = body.get(name)
    if isinstance(part, dict):
        found = interaction(body | {name: part | {inner: value}})
    if isinstance(found, RequestPressed | FormSubmitted | FormBack):
        values_of({"values": {"field:a": value}}, FIELDS)
        assert isinstance(found.values, dict)
