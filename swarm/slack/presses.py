"""From Slack's ``block_actions`` payload to a press of one of our buttons."""

from __future__ import annotations

from swarm.domain.presses import ButtonPressed
from swarm.slack.fields import JsonObject, id_at, is_object, object_at, objects_at, text_at, ts_at


def button_pressed(body: object) -> ButtonPressed | None:
    """The press that an interactive payload tells of; None if it is about something else, or malformed."""
    if not is_object(body) or text_at(body, "type") != "block_actions":
        return None
    action = next(iter(objects_at(body, "actions")), None)
    return _press(body, action) if action else None


def _press(body: JsonObject, action: JsonObject) -> ButtonPressed | None:
    container = object_at(body, "container")
    user_id, channel = id_at(object_at(body, "user"), "id"), id_at(object_at(body, "channel"), "id")
    message_ts = ts_at(container, "message_ts")
    trigger_id, action_ts = text_at(body, "trigger_id"), text_at(action, "action_ts")
    if not (user_id and channel and message_ts and trigger_id and action_ts):
        return None
    return ButtonPressed(
        key=f"press:{trigger_id}:{action_ts}",
        action_id=text_at(action, "action_id"),
        value=text_at(action, "value"),
        user_id=user_id,
        channel=channel,
        message_ts=message_ts,
        thread_ts=ts_at(container, "thread_ts"),
    )
