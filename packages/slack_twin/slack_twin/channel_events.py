"""Slack's events for changes of channels: members, names, topics and pins.

For private channels, some events have other names, such as `group_rename`.
"""

from slack_twin import shapes
from slack_twin.changes import ChannelArchived, ChannelCreated, ChannelRenamed, MemberJoined, MemberLeft, PinChanged
from slack_twin.directory import TEAM_ID, Directory
from slack_twin.errors import Json
from slack_twin.people import Channel, ChannelKind

# The `channel_type` of these events for each kind of conversation.
_LETTERS = {ChannelKind.PUBLIC: "C", ChannelKind.PRIVATE: "G", ChannelKind.DIRECT: "D", ChannelKind.GROUP_DIRECT: "G"}


def joined(change: MemberJoined) -> Json:
    body: Json = {"type": "member_joined_channel"} | _member(change)
    return body | ({"inviter": change.inviter} if change.inviter else {})


def left(change: MemberLeft, *, is_own: bool) -> Json:
    """Returns the event for a departed member. A removed bot gets a different event."""
    if not is_own:
        return {"type": "member_left_channel"} | _member(change)
    return {
        "type": "group_left" if _is_private(change.channel) else "channel_left",
        "channel": change.channel.id,
        "actor_id": change.removed_by or change.user,
        "event_ts": change.ts,
    }


def _member(change: MemberJoined | MemberLeft) -> Json:
    return {
        "user": change.user,
        "channel": change.channel.id,
        "channel_type": _LETTERS[change.channel.kind],
        "team": TEAM_ID,
        "event_ts": change.ts,
    }


def created(change: ChannelCreated) -> list[Json]:
    """Returns the events of a new channel; private channels cause none."""
    channel = change.channel
    if _is_private(channel):
        return []
    shape = shapes.channel(channel, channel.creator)
    told = {key: value for key, value in shape.items() if key not in ("is_member", "last_read", "connected_team_ids")}
    return [{"type": "channel_created", "channel": told, "event_ts": change.ts}]


def renamed(change: ChannelRenamed) -> Json:
    channel, is_private = change.channel, _is_private(change.channel)
    return {
        "type": "group_rename" if is_private else "channel_rename",
        "channel": {
            "id": channel.id,
            "is_channel": not is_private,
            "is_mpim": False,
            "name": channel.name,
            "name_normalized": channel.name,
            "created": channel.created,
        },
        "event_ts": change.ts,
    }


def archived(change: ChannelArchived) -> Json:
    channel = change.channel
    by: Json = {"channel": channel.id, "user": change.user, "event_ts": change.ts}
    if channel.is_archived:
        return by | {"type": "group_archive" if _is_private(channel) else "channel_archive", "is_moved": 0}
    if _is_private(channel):
        return {"type": "group_unarchive", "channel": channel.id, "actor_id": change.user, "event_ts": change.ts}
    return by | {"type": "channel_unarchive"}


def pin(change: PinChanged, directory: Directory, base_url: str) -> Json:
    channel, message = change.channel, change.message
    body: Json = {
        "type": "pin_removed" if change.is_gone else "pin_added",
        "user": change.user,
        "channel_id": channel.id,
        "item": shapes.pinned(message, change.pin, channel, directory, base_url),
        "item_user": message.user,
        "pin_count": len(channel.messages.pins),
        "pinned_info": shapes.pinned_info(channel.id, change.pin),
        "event_ts": change.ts,
    }
    return body | ({"has_pins": bool(channel.messages.pins)} if change.is_gone else {})


def _is_private(channel: Channel) -> bool:
    return channel.kind is ChannelKind.PRIVATE
