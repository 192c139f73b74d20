"""Converts Slack's payloads about requests to people: presses of a card's buttons, and what happens in a form.

An unrelated or malformed payload becomes None; nothing raises. A payload that is about a request, but names none or an
unknown decision, becomes an object that says so, because attempts to tamper are recorded.

https://docs.slack.dev/reference/interaction-payloads
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from swarm.domain.model.requests import HumanDecision
from swarm.domain.requests.button_actions import ARGUMENTS_ACTION, DECIDE_ACTION, FOR_EVERYBODY, FORM_ACTION
from swarm.slack.form_fields import BACK_ACTION, EDIT_ACTION, VALUE_ACTION, field_key
from swarm.slack.incoming.fields import EMPTY, JsonObject, id_at, is_object, object_at, objects_at, text_at, ts_at

_DECISIONS: Final = {decision.value: decision for decision in HumanDecision}
_MAX_ID: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPressed:
    """A press of a button of a card. ``values`` are those of the card's inputs by their keys."""

    request_id: str
    action: str  # the ``action_id``
    decision: HumanDecision | None  # None: another button, or an unknown decision
    person: str
    team: str | None  # the person's workspace, if Slack reports it
    channel: str
    message_ts: str
    thread_ts: str | None
    trigger_id: str
    seen: str  # the version of the card; something else if the card has none
    for_everybody: bool = False
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str]:
        """The channel and the timestamp of the message with the pressed button."""
        return self.channel, self.message_ts


@dataclass(frozen=True, kw_only=True, slots=True)
class _InForm:
    """An act in a form. ``request_id`` is empty and ``decision`` None if the form's metadata are not ours."""

    request_id: str
    seen: str  # the version that the form shows
    page: int  # counted from 1
    decision: HumanDecision | None
    person: str
    team: str | None
    installed_team: str | None = None  # the workspace or organisation that the form's app is installed in
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormSubmitted(_InForm):
    """A press of a form's last button."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormBack(_InForm):
    """A press of Back in a form, or of Change arguments (``edits``)."""

    view_id: str
    view_hash: str
    edits: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionsWanted:
    """A search in a menu whose options do not fit into the message or the form."""

    request_id: str
    decision: HumanDecision | None
    key: str  # of the field, see `swarm.slack.form_fields.key_of`
    query: str
    person: str


Interaction = RequestPressed | FormSubmitted | FormBack | OptionsWanted


def interaction(body: object) -> Interaction | None:
    """Returns what a person did about a request; None for other payloads."""
    if not is_object(body):
        return None
    match text_at(body, "type"):
        case "block_actions":
            return request_pressed(body) or form_back(body)
        case "view_submission":
            found = _in_form(body, "view_submission")
            return FormSubmitted(**found) if found else None
        case "block_suggestion":
            return options_wanted(body)
    return None


def request_pressed(body: object) -> RequestPressed | None:
    """Returns a press of one of the buttons of a card in a message."""
    action = _action(body)
    if not is_object(body) or action is None or not _is_ours(text_at(action, "action_id")):
        return None
    container, action_id = object_at(body, "container"), text_at(action, "action_id")
    person, team = _person(body)
    channel = id_at(object_at(body, "channel"), "id") or id_at(container, "channel_id")
    message_ts, trigger_id = ts_at(container, "message_ts"), text_at(body, "trigger_id")
    if not (person and channel and message_ts and trigger_id):
        return None
    return RequestPressed(
        request_id=text_at(action, "value")[:_MAX_ID],
        action=action_id,
        decision=_decision_of(action_id),
        for_everybody=action_id.endswith(FOR_EVERYBODY),
        person=person,
        team=team,
        channel=channel,
        message_ts=message_ts,
        thread_ts=ts_at(container, "thread_ts") or ts_at(object_at(body, "message"), "thread_ts"),
        trigger_id=trigger_id,
        seen=text_at(action, "block_id").partition(":")[0],
        values=_raw_values(object_at(body, "state")),
    )


def _decision_of(action_id: str) -> HumanDecision | None:
    if action_id == f"{DECIDE_ACTION}{HumanDecision.APPROVE_ALWAYS}{FOR_EVERYBODY}":
        return HumanDecision.APPROVE_ALWAYS
    return _DECISIONS.get(action_id.removeprefix(DECIDE_ACTION)) if action_id.startswith(DECIDE_ACTION) else None


def form_back(body: object) -> FormBack | None:
    """Returns a press of Back, or of Change arguments, in one of our forms."""
    action, found = _action(body), _in_form(body, "block_actions")
    action_id = text_at(action, "action_id") if action else ""
    if not is_object(body) or not found or action_id not in (BACK_ACTION, EDIT_ACTION):
        return None
    view = object_at(body, "view")
    view_id, edits = id_at(view, "id"), action_id == EDIT_ACTION
    return FormBack(**found, view_id=view_id, view_hash=text_at(view, "hash"), edits=edits) if view_id else None


def options_wanted(body: object) -> OptionsWanted | None:
    """Returns a search in a menu of a form, which names its request in its metadata."""
    if not is_object(body) or text_at(body, "type") != "block_suggestion":
        return None
    key, (person, _) = field_key(text_at(body, "block_id")), _person(body)
    if key is None or not person or text_at(body, "action_id") != VALUE_ACTION:
        return None
    request_id, _, decision, _ = _metadata(object_at(body, "view"))
    if not request_id:
        return None
    return OptionsWanted(request_id=request_id, decision=decision, key=key, query=text_at(body, "value"), person=person)


def _in_form(body: object, kind: str) -> dict[str, Any] | None:
    view = object_at(body, "view") if is_object(body) else EMPTY
    if not is_object(body) or text_at(body, "type") != kind or text_at(view, "callback_id") != FORM_ACTION:
        return None
    person, team = _person(body)
    if not person:
        return None
    request_id, page, decision, seen = _metadata(view)
    return {
        "request_id": request_id,
        "seen": seen,
        "page": page,
        "decision": decision,
        "person": person,
        "team": team,
        "installed_team": id_at(view, "app_installed_team_id"),
        "values": _raw_values(object_at(view, "state")),
    }


def _metadata(view: JsonObject) -> tuple[str, int, HumanDecision | None, str]:
    """Returns the request, the page, the decision and the version of a form; empty values for metadata that are not
    ours.
    """
    try:
        read = orjson.loads(text_at(view, "private_metadata"))
    except orjson.JSONDecodeError:
        read = None
    page = read.get("page") if is_object(read) else None
    decision = _DECISIONS.get(text_at(read, "decision")) if is_object(read) else None
    if not is_object(read) or isinstance(page, bool) or not isinstance(page, int) or page < 1 or decision is None:
        return "", 1, None, ""
    return text_at(read, "request")[:_MAX_ID], page, decision, text_at(read, "seen")


def _raw_values(state: JsonObject) -> dict[str, Any]:
    """Returns the values by the keys of their fields, as Slack reports them."""
    blocks = object_at(state, "values")
    found = ((field_key(block_id), object_at(blocks, block_id)) for block_id in blocks)
    return {key: _entered(object_at(parts, VALUE_ACTION)) for key, parts in found if key is not None and parts}


def _entered(element: JsonObject) -> Any:
    if "selected_options" in element:
        return [text_at(option, "value") for option in objects_at(element, "selected_options")]
    if "selected_option" in element:
        option = object_at(element, "selected_option")
        return text_at(option, "value") if option else None
    return text_at(element, "value") or None


def _action(body: object) -> JsonObject | None:
    if not is_object(body) or text_at(body, "type") != "block_actions":
        return None
    return next(iter(objects_at(body, "actions")), None)


def _is_ours(action_id: str) -> bool:
    return action_id.startswith(DECIDE_ACTION) or action_id in (FORM_ACTION, ARGUMENTS_ACTION)


def _person(body: Mapping[str, object]) -> tuple[str | None, str | None]:
    user = object_at(body, "user")
    return id_at(user, "id"), id_at(user, "team_id")
