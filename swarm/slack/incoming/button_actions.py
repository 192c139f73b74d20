"""Slack's ``block_actions`` payloads as presses of our buttons, and its events as presses of Stop."""

from __future__ import annotations

from swarm.domain.button_actions import ButtonPressed, SessionStopped
from swarm.slack.incoming.fields import EMPTY, JsonObject, id_at, is_object, object_at, objects_at, text_at, ts_at


def button_pressed(body: object) -> ButtonPressed | None:
    """The press in an interactive payload; None for another or a malformed payload."""
    if not is_object(body) or text_at(body, "type") != "block_actions":
        return None
    action = next(iter(objects_at(body, "actions")), None)
    return _press(body, action) if action else None


def session_stopped(body: object) -> SessionStopped | None:
    """The press of Slack's own Stop in an ``agent_session_stopped`` event.

    None for another or a malformed event. https://docs.slack.dev/reference/events/agent_session_stopped
    """
    event = object_at(body, "event") if is_object(body) else EMPTY
    if not is_object(body) or text_at(event, "type") != "agent_session_stopped":
        return None
    event_id, user_id = id_at(body, "event_id"), id_at(event, "user")
    channel, thread_ts = id_at(event, "channel"), ts_at(event, "thread_ts")
    if not (event_id and channel and thread_ts and user_id):
        return None
    return SessionStopped(
        key=f"stop:{event_id}",
        channel=channel,
        thread_ts=thread_ts,
        user_id=user_id,
        message_ts=_timestamps(event, "streaming_message_ts"),
    )


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
        team=id_at(object_at(body, "user"), "team_id"),
    )


def _timestamps(source: JsonObject, key: str) -> tuple[str, ...]:
    """The Slack timestamps among an array's elements."""
    values = source.get(key)
    given = values if isinstance(values, list) else []
    return tuple(ts for value in given if (ts := ts_at({key: value}, key)))
