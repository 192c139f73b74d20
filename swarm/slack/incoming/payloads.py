"""Converts Slack's payloads to domain objects: events, messages from history, and button presses.

Buttons are Swarm's own buttons and Slack's Stop button. Messages from history have the same form as events. An
unrelated payload becomes None. A message event without a required field raises BadRequest; no other payload raises.
Malformed messages in a history are left out and logged.
"""

from __future__ import annotations

from typing import Final, TypeVar

import orjson
import structlog

from swarm.domain.errors import BadRequest
from swarm.domain.model.deliveries import METADATA_EVENT_TYPE
from swarm.domain.model.threads import (
    FLAT,
    Author,
    AuthorKind,
    ChannelType,
    File,
    MessageDeleted,
    MessageEdited,
    SlackEvent,
    SlackMessage,
)
from swarm.domain.policy.access import Me, Person
from swarm.domain.requests.button_actions import FEEDBACK_FORM, ButtonPressed, PaneOpened, SessionStopped
from swarm.slack.form_fields import COMMENT_BLOCK, COMMENT_INPUT
from swarm.slack.incoming.fields import (
    EMPTY,
    JsonObject,
    count_at,
    id_at,
    ids_at,
    is_object,
    json_text,
    object_at,
    objects_at,
    text_at,
    ts_at,
)
from swarm.slack.incoming.message_text import file_name, files_of, message_words, transcript

T = TypeVar("T")

_log = structlog.get_logger(__name__)

_ABOUT_MESSAGES: Final = frozenset({"message", "app_mention"})
_CHANNEL_TYPES: Final = {"im": ChannelType.DM, "app_home": ChannelType.DM, "mpim": ChannelType.GROUP}
_TOMBSTONE: Final = "tombstone"
"""The subtype of a deleted root message that still has replies."""

_SLACKBOT: Final = "USLACKBOT"
"""Slack's own bot, whose reminders and answers only name a user."""

_CHANNEL_ENTITY: Final = "slack#/types/channel_id"

_NEWS_ABOUT_OTHERS: Final = frozenset({"message_replied"})
"""Subtypes that repeat another event."""


def slack_event(body: object, me: Me | None = None) -> SlackEvent | None:
    """Returns the message event in an envelope of the Events API (``event_callback``).

    Returns None for other events. With ``me``, Swarm's own posts are recognised as an agent's. Raises BadRequest for a
    message event without a message, channel or author.
    """
    event = object_at(body, "event") if is_object(body) else EMPTY
    if not is_object(body) or text_at(event, "type") not in _ABOUT_MESSAGES:
        return None
    return _event(event, id_at(body, "event_id"), me)


def history_message(channel: str, message: object, me: Me | None = None) -> SlackMessage | None:
    """Converts a message object of ``conversations.history`` or ``conversations.replies``.

    Returns None if it is malformed or is the tombstone of a deleted message.
    """
    if not is_object(message):
        _ignore("it is not an object")
        return None
    if text_at(message, "subtype") == _TOMBSTONE:
        return None
    try:
        return _message({**message, "channel": channel}, None, me)
    except BadRequest as problem:
        _ignore(problem.message)
        return None


def _event(event: JsonObject, event_id: str | None, me: Me | None) -> SlackEvent | None:
    match text_at(event, "subtype"):
        case "message_changed":
            return _changed(event, event_id, me)
        case "message_deleted":
            previous = object_at(event, "previous_message")
            return _deleted(event, previous, ts_at(event, "deleted_ts") or ts_at(previous, "ts"), event_id)
        case subtype if subtype in _NEWS_ABOUT_OTHERS:
            return None
        case _:
            return _message(event, event_id, me)


def _changed(event: JsonObject, event_id: str | None, me: Me | None) -> MessageEdited | MessageDeleted:
    """Returns an edit or a deletion. Unfurled links also arrive as changes, as do deleted roots that remain as
    tombstones for their replies.
    """
    message, previous = object_at(event, "message"), object_at(event, "previous_message")
    if text_at(message, "subtype") == _TOMBSTONE:
        return _deleted(event, message, ts_at(message, "ts"), event_id)
    where = {key: event[key] for key in ("channel", "channel_type") if key in event}
    now, before = (sum("content" in transcript(file) for file in files_of(one)) for one in (message, previous))
    if previous and now > before and message.get("edited") == previous.get("edited"):
        where["edited"] = {"ts": event.get("ts")}  # a transcript has come, which Slack does not call an edit
    return MessageEdited(
        message=_message({**message, **where}, event_id, me),
        previous_text=_own_text(previous, me) if previous else None,
    )


def _deleted(event: JsonObject, message: JsonObject, ts: str | None, event_id: str | None) -> MessageDeleted:
    return MessageDeleted(
        channel=_required(id_at(event, "channel"), "channel"),
        ts=_required(ts, "ts"),
        thread_ts=_thread_ts(message, ts),
        event_id=event_id,
    )


def _message(message: JsonObject, event_id: str | None, me: Me | None) -> SlackMessage:
    channel = _required(id_at(message, "channel"), "channel")
    ts = _required(ts_at(message, "ts"), "ts")
    author = _required(_author(message, me), "user or bot_id")
    words = message_words(message, author.kind)
    thread_ts = _thread_ts(message, ts)
    may_be_alert = author.kind is AuthorKind.BOT and thread_ts is None
    return SlackMessage(
        channel=channel,
        ts=ts,
        thread_ts=thread_ts,
        author=author,
        text=words.text,
        quoted=words.quoted,
        blocks=json_text(message, "blocks") if may_be_alert else "",
        attachments=json_text(message, "attachments") if may_be_alert else "",
        subtype=text_at(message, "subtype") or None,
        channel_type=_channel_type(message, channel),
        files=tuple(_files(message)),
        edited_ts=ts_at(object_at(message, "edited"), "ts"),
        event_id=event_id,
        delivery_id=_own_metadata(message, "delivery_id") if author.kind is AuthorKind.AGENT else None,
        has_replies=ts_at(message, "latest_reply") is not None,
    )


def _author(message: JsonObject, me: Me | None) -> Author | None:
    user, bot = id_at(message, "user"), id_at(message, "bot_id")
    author_id = user or bot
    if author_id is None:
        return None
    is_bot = bot is not None or user == _SLACKBOT or text_at(message, "subtype") == "bot_message"
    author = Author(
        id=author_id,
        kind=AuthorKind.BOT if is_bot else AuthorKind.USER,
        name=_bot_name(message) if is_bot else None,
        bot_id=bot,
        teams=_homes(message),
    )
    if me is None or not me.wrote(author):
        return author
    return Author(id=author_id, kind=AuthorKind.AGENT, name=_own_metadata(message, "agent"), bot_id=bot)


def _homes(message: JsonObject) -> tuple[str, ...]:
    """Returns the author's own workspaces. ``team`` is not included, because it may be the channel's."""
    named = (id_at(message, "user_team"), id_at(message, "source_team"), id_at(_profile(message), "team"))
    return tuple(dict.fromkeys(team for team in named if team))


def _profile(message: JsonObject) -> JsonObject:
    return object_at(message, "user_profile")


def person_of(user_id: str, user: JsonObject) -> Person:
    """Converts the user object of ``users.info``. https://docs.slack.dev/reference/objects/user-object"""
    profile, enterprise = object_at(user, "profile"), object_at(user, "enterprise_user")
    names = (text_at(profile, "display_name"), text_at(profile, "real_name"), text_at(user, "real_name"))
    teams = (id_at(user, "team_id"), id_at(enterprise, "enterprise_id"), *ids_at(enterprise, "teams"))
    return Person(
        id=user_id,
        name=next(filter(None, names), text_at(user, "name") or user_id),
        email=text_at(profile, "email") or None,
        teams=tuple(dict.fromkeys(team for team in teams if team)),
        is_guest=user.get("is_restricted") is True or user.get("is_ultra_restricted") is True,
        is_stranger=user.get("is_stranger") is True,
        is_known=user.get("deleted") is not True,
        is_confirmed=user.get("is_email_confirmed") is not False,
    )


def _bot_name(message: JsonObject) -> str | None:
    return text_at(message, "username") or text_at(object_at(message, "bot_profile"), "name") or None


def _own_metadata(message: JsonObject, key: str) -> str | None:
    """Returns a field of Swarm's metadata in a post. Anyone can write such metadata, so this is valid only for Swarm's
    own posts.
    """
    metadata = object_at(message, "metadata")
    if text_at(metadata, "event_type") != METADATA_EVENT_TYPE:
        return None
    return text_at(object_at(metadata, "event_payload"), key) or None


def _own_text(message: JsonObject, me: Me | None) -> str:
    """Returns the text that the author wrote, without forwarded messages."""
    author = _author(message, me)
    words = message_words(message, author.kind if author else AuthorKind.USER)
    return words.text.removesuffix(words.quoted)


def _thread_ts(message: JsonObject, ts: str | None) -> str | None:
    """Returns the timestamp of a reply's root. Slack gives a root with replies its own timestamp; here a root
    has None.
    """
    thread_ts = ts_at(message, "thread_ts")
    return thread_ts if thread_ts != ts else None


def _channel_type(message: JsonObject, channel: str) -> ChannelType:
    """Returns the channel's type. ``app_mention`` and history do not contain it; there the id of a direct message
    starts with D.
    """
    told = text_at(message, "channel_type")
    if told:
        return _CHANNEL_TYPES.get(told, ChannelType.CHANNEL)
    return ChannelType.DM if channel.startswith("D") else ChannelType.CHANNEL


def _files(message: JsonObject) -> list[File]:
    """Returns the files that have an id, also those of forwarded messages."""
    found = {
        file_id: File(
            id=file_id,
            name=file_name(file),
            mimetype=text_at(file, "mimetype") or None,
            size_bytes=count_at(file, "size"),
        )
        for file in files_of(message)
        if (file_id := id_at(file, "id"))
    }
    return list(found.values())


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise BadRequest(f"The payload's {name} is missing or malformed.")
    return value


def _ignore(reason: str) -> None:
    _log.warning("A message of a history is ignored.", action="slack_payload_ignored", reason=reason)


def button_pressed(body: object) -> ButtonPressed | None:
    """Returns the button press in an interactive payload; None for other or malformed payloads."""
    if not is_object(body) or text_at(body, "type") != "block_actions":
        return None
    action = next(iter(objects_at(body, "actions")), None)
    return _press(body, action) if action else None


def feedback_entered(body: object) -> ButtonPressed | None:
    """Returns the submission of the form for feedback, as a press in the message that opened it; None for other or
    malformed payloads.
    """
    if not is_object(body) or text_at(body, "type") != "view_submission":
        return None
    view = object_at(body, "view")
    if text_at(view, "callback_id") != FEEDBACK_FORM:
        return None
    try:
        about = orjson.loads(text_at(view, "private_metadata"))
    except orjson.JSONDecodeError:
        return None
    user, view_id = object_at(body, "user"), id_at(view, "id")
    user_id = id_at(user, "id")
    channel, message_ts = (id_at(about, "channel"), ts_at(about, "message_ts")) if is_object(about) else (None, None)
    if not (user_id and view_id and channel and message_ts):
        return None
    entered = object_at(object_at(object_at(object_at(view, "state"), "values"), COMMENT_BLOCK), COMMENT_INPUT)
    return ButtonPressed(
        key=f"view:{view_id}",
        action_id=FEEDBACK_FORM,
        value=text_at(about, "answer"),
        user_id=user_id,
        channel=channel,
        message_ts=message_ts,
        thread_ts=ts_at(about, "thread_ts"),
        team=id_at(user, "team_id"),
        response_url=text_at(about, "response_url") or None,
        text=text_at(entered, "value"),
    )


def session_stopped(body: object) -> SessionStopped | None:
    """Returns the press of Slack's own Stop button in an ``agent_session_stopped`` event.

    Returns None for other or malformed events. https://docs.slack.dev/reference/events/agent_session_stopped
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


def pane_opened(body: object) -> PaneOpened | None:
    """Returns the opening of an assistant pane (``assistant_thread_started``, ``assistant_thread_context_changed``) or
    of the app's Messages tab (``app_home_opened``).

    Returns None for other or malformed events. https://docs.slack.dev/ai/migrating-to-agent-messaging
    """
    event = object_at(body, "event") if is_object(body) else EMPTY
    if not is_object(body):
        return None
    match text_at(event, "type"):
        case "app_home_opened" if text_at(event, "tab") == "messages":
            return _pane(body, event, {**event, "thread_ts": None}, _viewed(object_at(event, "context")))
        case "assistant_thread_started" | "assistant_thread_context_changed" as kind:
            pane = object_at(event, "assistant_thread")
            if ts_at(pane, "thread_ts") is None:
                return None
            viewing = id_at(object_at(pane, "context"), "channel_id")
            return _pane(body, event, {**pane, "user": pane.get("user_id"), "channel": pane.get("channel_id")}, viewing,
                         is_change=kind == "assistant_thread_context_changed")  # fmt: skip
        case _:
            return None


def _pane(
    body: JsonObject, event: JsonObject, place: JsonObject, viewing: str | None, *, is_change: bool = False
) -> PaneOpened | None:
    event_id, user_id, channel = id_at(body, "event_id"), id_at(place, "user"), id_at(place, "channel")
    event_ts = ts_at(event, "event_ts")
    if not (event_id and user_id and channel and event_ts):
        return None
    return PaneOpened(
        key=f"pane:{event_id}",
        user_id=user_id,
        channel=channel,
        thread_ts=ts_at(place, "thread_ts") or FLAT,
        event_ts=event_ts,
        viewing=viewing,
        is_change=is_change,
    )


def _viewed(context: JsonObject) -> str | None:
    """Returns the channel that the person views; Slack lists the most relevant entity first."""
    entities = objects_at(context, "entities")
    found = (id_at(entity, "value") for entity in entities if text_at(entity, "type") == _CHANNEL_ENTITY)
    return next((channel for channel in found if channel), None)


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
        trigger_id=trigger_id,
        response_url=text_at(body, "response_url") or None if container.get("is_ephemeral") is True else None,
        is_ephemeral=container.get("is_ephemeral") is True,
    )


def _timestamps(source: JsonObject, key: str) -> tuple[str, ...]:
    """Returns the Slack timestamps among an array's elements."""
    values = source.get(key)
    given = values if isinstance(values, list) else []
    return tuple(ts for value in given if (ts := ts_at({key: value}, key)))
