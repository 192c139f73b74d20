"""Slack's payloads for people's actions on buttons, menus, forms and commands.

https://docs.slack.dev/reference/interaction-payloads and
https://docs.slack.dev/interactivity/implementing-slash-commands
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from slack_twin import shapes
from slack_twin.directory import TEAM_DOMAIN, TEAM_ID, Directory
from slack_twin.elements import Element
from slack_twin.envelopes import Envelope
from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import App, Channel, ChannelKind, User

TOKEN = "twin"  # the old verification token, which apps should not check


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """One action of a person on its way to an app, sent only once."""

    envelope: Envelope
    payload: Json
    accepts_response: bool
    type: str
    channel: str | None = None
    ts: str | None = None
    subtype: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


def interaction(
    payload: Json, *, accepts_response: bool, channel: str | None = None, ts: str | None = None
) -> Interaction:
    return Interaction(
        envelope=Envelope.INTERACTIVE,
        payload=payload,
        accepts_response=accepts_response,
        type=str(payload["type"]),
        channel=channel,
        ts=ts,
    )


def common(kind: str, app: App, user: User) -> Json:
    """Returns the fields of every interactive payload."""
    return {
        "type": kind,
        "team": {"id": TEAM_ID, "domain": TEAM_DOMAIN},
        "enterprise": None,
        "user": {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team_id or TEAM_ID},
        "api_app_id": app.id,
        "token": TOKEN,
        "is_enterprise_install": False,
    }


def shortcut(kind: str, app: App, user: User, *, callback_id: str) -> Json:
    """Returns the fields of both kinds of shortcuts: fewer than in other payloads.

    The two kinds use different keys for the user's name.
    """
    payload = {name: value for name, value in common(kind, app, user).items() if name != "api_app_id"}
    called = "username" if kind == "shortcut" else "name"
    return payload | {
        "user": {"id": user.id, called: user.name, "team_id": user.team_id or TEAM_ID},
        "callback_id": callback_id,
    }


def channel_name(channel: Channel) -> str:
    """Returns a channel's name in payloads, which hide the names of non-public conversations."""
    match channel.kind:
        case ChannelKind.PUBLIC:
            return channel.name
        case ChannelKind.DIRECT:
            return "directmessage"
        case ChannelKind.PRIVATE | ChannelKind.GROUP_DIRECT:
            return "privategroup"


def action(element: Element, chosen: Mapping[str, object], *, ts: str) -> Json:
    """Returns an entry of `actions`."""
    return {
        "type": element.type,
        "action_id": element.action_id,
        "block_id": element.block_id,
        **element.repeated(),
        **chosen,
        "action_ts": ts,
    }


def channel_shape(channel: Channel) -> Json:
    return {"id": channel.id, "name": channel_name(channel)}


def message_shape(message: Message, channel: Channel, directory: Directory) -> Json:
    return shapes.message(message, directory, log=channel.messages)


def of_message(message: Message, channel: Channel, directory: Directory, *, is_ephemeral: bool) -> Json:
    """Returns the message fields of a payload. For an ephemeral message, these contain only the place."""
    container: Json = {
        "type": "message",
        "message_ts": message.ts,
        "channel_id": channel.id,
        "is_ephemeral": is_ephemeral,
    }
    if message.thread_ts:
        container["thread_ts"] = message.thread_ts
    place: Json = {"container": container, "channel": channel_shape(channel)}
    return place if is_ephemeral else place | {"message": message_shape(message, channel, directory)}


def slash_command(
    app: App, user: User, channel: Channel, *, command: str, text: str, trigger_id: str, response_url: str
) -> Interaction:
    payload: Json = {
        "token": TOKEN,
        "team_id": TEAM_ID,
        "team_domain": TEAM_DOMAIN,
        "channel_id": channel.id,
        "channel_name": channel_name(channel),
        "user_id": user.id,
        "user_name": user.name,
        "command": command,
        "text": text,
        "api_app_id": app.id,
        "is_enterprise_install": "false",  # a string, also over Socket Mode
        "response_url": response_url,
        "trigger_id": trigger_id,
    }
    return Interaction(
        envelope=Envelope.SLASH_COMMANDS,
        payload=payload,
        accepts_response=True,
        type="slash_commands",
        channel=channel.id,
    )
