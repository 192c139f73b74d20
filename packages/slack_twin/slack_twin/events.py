"""Slack's events for changes of the workspace, and their envelope.

https://docs.slack.dev/reference/events and https://docs.slack.dev/apis/events-api
"""

import secrets
from dataclasses import dataclass

from slack_twin import changes, channel_events, shapes
from slack_twin.directory import TEAM_ID, Directory
from slack_twin.envelopes import Envelope
from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import App, ChannelKind
from slack_twin.subscriptions import hears
from slack_twin.text import mentioned

_OF_MESSAGES = (changes.MessagePosted, changes.MessageChanged, changes.MessageDeleted)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event for one app. Its id stays the same in redeliveries."""

    event_id: str
    type: str
    body: Json
    payload: Json

    @property
    def envelope(self) -> Envelope:
        return Envelope.EVENTS_API

    @property
    def accepts_response(self) -> bool:
        return False

    @property
    def id(self) -> str:
        return self.event_id

    @property
    def subtype(self) -> str | None:
        return self._text("subtype")

    @property
    def channel(self) -> str | None:
        return self._text("channel")

    @property
    def ts(self) -> str | None:
        return self._text("ts")

    def _text(self, name: str) -> str | None:
        """Returns a field of the event, or of its item."""
        item = self.body.get("item")
        value = (item if isinstance(item, dict) and name in item else self.body).get(name)
        return value if isinstance(value, str) else None


def events_for(
    app: App, change: changes.Change, directory: Directory, *, base_url: str, now: float, own: bool
) -> list[Event]:
    """Returns the events of a change for `app`, limited to its memberships, subscriptions and scopes.

    Every app gets changes of public channels themselves. With `own`, an app also gets those of its own messages.
    """
    is_own = _actor_app(change, directory) == app.id
    if (is_own and not (own and isinstance(change, _OF_MESSAGES))) or not _reaches(app, change):
        return []
    is_shared = directory.is_shared(change.channel)
    bodies = _bodies(app, change, directory, base_url)
    bodies = [body for body in bodies if not (is_own and body["type"] == "app_mention")]
    return [_event(app, body, now, is_shared=is_shared) for body in bodies if hears(app, body, change.channel)]


def _reaches(app: App, change: changes.Change) -> bool:
    """Returns whether an app is a member of the place of a change."""
    match change:
        case changes.AppTold():
            return change.app_id == app.id
        case changes.ChannelCreated() | changes.ChannelRenamed() | changes.ChannelArchived():
            return change.channel.kind is ChannelKind.PUBLIC or app.bot_user in change.channel.members
        case changes.MemberLeft():
            return app.bot_user in change.channel.members or app.bot_user == change.user
    return app.bot_user in change.channel.members


def _actor_app(change: changes.Change, directory: Directory) -> str | None:
    """Returns the app that caused the change, or None for a person."""
    match change:
        case changes.MessagePosted():
            return change.message.app_id or _app_of(change.by or change.message.user, directory)
        case changes.MessageChanged() | changes.MessageDeleted():
            return change.previous.app_id
        case changes.MemberJoined():
            return _app_of(change.inviter or change.user, directory)
        case changes.MemberLeft():
            return _app_of(change.removed_by or change.user, directory)
        case (
            changes.ReactionAdded()
            | changes.ReactionRemoved()
            | changes.ChannelCreated()
            | changes.ChannelRenamed()
            | changes.ChannelArchived()
            | changes.PinChanged()
        ):
            return _app_of(change.user, directory)
        case changes.EphemeralPosted() | changes.StatusChanged() | changes.AssistantChanged():
            return change.app_id
        case changes.ViewChanged() | changes.AppTold():
            return None


def _app_of(user: str, directory: Directory) -> str | None:
    app = directory.app_of_bot_user(user)
    return app.id if app else None


def _bodies(app: App, change: changes.Change, directory: Directory, base_url: str) -> list[Json]:
    match change:
        case changes.AppTold():
            return [change.body]
        case changes.MessagePosted():
            return _posted(app, change, directory)
        case changes.MessageChanged():
            return [] if change.is_live else [_changed(change, directory)]
        case changes.MessageDeleted():
            return [_deleted(change, directory)]
        case changes.ReactionAdded():
            return [_reaction("reaction_added", change)]
        case changes.ReactionRemoved():
            return [_reaction("reaction_removed", change)]
        case changes.MemberJoined():
            return [channel_events.joined(change)]
        case changes.MemberLeft():
            return [channel_events.left(change, is_own=change.user == app.bot_user)]
        case changes.ChannelCreated():
            return channel_events.created(change)
        case changes.ChannelRenamed():
            return [channel_events.renamed(change)]
        case changes.ChannelArchived():
            return [channel_events.archived(change)]
        case changes.PinChanged():
            return [channel_events.pin(change, directory, base_url)]
        case changes.EphemeralPosted() | changes.StatusChanged() | changes.AssistantChanged() | changes.ViewChanged():
            return []


def _posted(app: App, change: changes.MessagePosted, directory: Directory) -> list[Json]:
    """Returns the events of a post. A mention in a channel arrives twice: as `app_mention` and as `message`."""
    channel, said = change.channel, change.message
    body = _message_body(change, directory)
    events = []
    is_direct = channel.kind in (ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT)
    if not (is_direct or said.is_note) and app.bot_user in mentioned(said.text):
        mention = {key: value for key, value in body.items() if key not in ("channel_type", "root", "metadata")}
        events.append(mention | {"type": "app_mention"})
    return [*events, body, *_shared_files(change)]


def _shared_files(change: changes.MessagePosted) -> list[Json]:
    """Returns an event for each file of a message. https://docs.slack.dev/reference/events/file_shared"""
    return [
        {
            "type": "file_shared",
            "file_id": shared.id,
            "user_id": change.message.user,
            "file": {"id": shared.id},
            "channel_id": change.channel.id,
            "event_ts": change.message.ts,
        }
        for shared in change.message.files
    ]


def _message_body(change: changes.MessagePosted, directory: Directory) -> Json:
    channel, said = change.channel, change.message
    body = shapes.message(said, directory, log=channel.messages)
    body |= {"channel": channel.id, "event_ts": said.ts, "channel_type": channel.kind.value}
    if directory.is_shared(channel):
        body |= dict.fromkeys(("user_team", "source_team"), directory.team_of(said.user))
    if said.subtype == "thread_broadcast" and said.thread_ts:
        root = channel.messages.get(said.thread_ts)
        body |= {"root": shapes.message(root, directory, log=channel.messages)} if root else {}
    return body


def _changed(change: changes.MessageChanged, directory: Directory) -> Json:
    log = change.channel.messages
    return {
        "type": "message",
        "subtype": "message_changed",
        "channel": change.channel.id,
        "hidden": True,
        "message": shapes.message(change.message, directory, log=log),
        "previous_message": shapes.message(change.previous, directory, log=log),
        "ts": change.ts,
        "event_ts": change.ts,
        "channel_type": change.channel.kind.value,
    }


def _deleted(change: changes.MessageDeleted, directory: Directory) -> Json:
    """Returns the event of a deletion. A root message with replies is reported as changed into a tombstone."""
    if change.tombstone is not None:
        tombstone: Message = change.tombstone
        return _changed(
            changes.MessageChanged(channel=change.channel, message=tombstone, previous=change.previous, ts=change.ts),
            directory,
        )
    return {
        "type": "message",
        "subtype": "message_deleted",
        "channel": change.channel.id,
        "hidden": True,
        "deleted_ts": change.previous.ts,
        "previous_message": shapes.message(change.previous, directory),
        "ts": change.ts,
        "event_ts": change.ts,
        "channel_type": change.channel.kind.value,
    }


def _reaction(name: str, change: changes.ReactionAdded | changes.ReactionRemoved) -> Json:
    return {
        "type": name,
        "user": change.user,
        "item": {"type": "message", "channel": change.channel.id, "ts": change.message.ts},
        "reaction": change.name,
        "item_user": change.message.user,
        "event_ts": change.ts,
    }


def _event(app: App, body: Json, now: float, *, is_shared: bool = False) -> Event:
    event_id = "Ev" + secrets.token_hex(8).upper()
    payload: Json = {
        "token": "twin",
        "team_id": TEAM_ID,
        "api_app_id": app.id,
        "event": body,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": int(now),
        "authorizations": [
            {"team_id": TEAM_ID, "user_id": app.bot_user, "is_bot": True, "is_enterprise_install": False}
        ],
        "is_ext_shared_channel": is_shared,
        "event_context": f"4-{event_id}",
    }
    return Event(event_id=event_id, type=str(body["type"]), body=body, payload=payload)


def url_verification(challenge: str) -> Event:
    """Returns the challenge for a request URL, which must respond with `challenge`.

    https://docs.slack.dev/reference/events/url_verification
    """
    payload: Json = {"token": "twin", "challenge": challenge, "type": "url_verification"}
    return Event(event_id=challenge, type="url_verification", body={}, payload=payload)


def app_rate_limited(app: App, *, now: float) -> Event:
    """Returns the event that reports held-back events. https://docs.slack.dev/reference/events/app_rate_limited"""
    event_id = "Ev" + secrets.token_hex(8).upper()
    payload: Json = {
        "token": "twin",
        "type": "app_rate_limited",
        "team_id": TEAM_ID,
        "minute_rate_limited": int(now // 60 * 60),
        "api_app_id": app.id,
    }
    return Event(event_id=event_id, type="app_rate_limited", body={}, payload=payload)
