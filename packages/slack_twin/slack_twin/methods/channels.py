"""conversations.*: creates, describes, closes and archives channels, and changes their members."""

from collections.abc import Mapping

from slack_twin import shapes
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.people import Channel, ChannelKind, User

Scopes = Mapping[ChannelKind, tuple[str, ...]]

# The scopes for changing a conversation of each kind; one of them is required.
_MANAGE = {
    ChannelKind.PUBLIC: ("channels:manage",),
    ChannelKind.PRIVATE: ("groups:write",),
    ChannelKind.DIRECT: ("im:write",),
    ChannelKind.GROUP_DIRECT: ("mpim:write",),
}
_ALL_MANAGE = tuple(scope for scopes in _MANAGE.values() for scope in scopes)
_INVITE = {ChannelKind.PUBLIC: ("channels:write.invites",), ChannelKind.PRIVATE: ("groups:write.invites",)}
_TOPIC = {
    ChannelKind.PUBLIC: ("channels:write.topic",),
    ChannelKind.PRIVATE: ("groups:write.topic",),
    ChannelKind.DIRECT: ("im:write.topic",),
    ChannelKind.GROUP_DIRECT: ("mpim:write.topic",),
}
_CHANNELS = (ChannelKind.PUBLIC, ChannelKind.PRIVATE)
_GENERAL = "general"
_MOST_INVITED = 100
_MAX_TOPIC_CHARACTERS = 250


def create(call: Call) -> Json:
    """Creates a channel with the bot as its first member.

    Raises `name_taken`, `invalid_name_required` and similar errors.
    """
    is_private = call.args.flag("is_private")
    call.require(*_MANAGE[ChannelKind.PRIVATE if is_private else ChannelKind.PUBLIC])
    channels = call.workspace.channels
    return _shown(call, channels.create(call.args.optional("name"), by=call.app.bot_user, is_private=is_private))


def invite(call: Call) -> Json:
    """Invites people: all of them or, if one cannot be invited, none, unless `force` is set.

    Raises `no_user`, `user_not_found`, `cant_invite_self`, `already_in_channel`, `too_many_users`, `not_in_channel`,
    `is_archived`, with `errors` that contains an entry for each failed person.
    """
    channel = _managed(call, _INVITE, joined=True)
    _check_open(channel)
    wanted = [name.strip() for name in call.args.optional("users").split(",") if name.strip()]
    if not wanted:
        raise SlackError("no_user")
    if len(wanted) > _MOST_INVITED:
        raise SlackError("too_many_users")
    refused = {name: error for name in wanted if (error := _cannot_come(call, channel, name))}
    if refused and (len(refused) == len(wanted) or not call.args.flag("force")):
        errors = [{"user": name, "ok": False, "error": error} for name, error in refused.items()]
        raise SlackError(next(iter(refused.values())), errors=errors)
    for name in wanted:
        if name not in refused:
            call.workspace.channels.join(channel, name, inviter=call.app.bot_user)
    return _shown(call, channel)


def _cannot_come(call: Call, channel: Channel, user_id: str) -> str | None:
    if user_id not in call.directory.users:
        return "user_not_found"
    if user_id == call.app.bot_user:
        return "cant_invite_self"
    return "already_in_channel" if user_id in channel.members else None


def kick(call: Call) -> Json:
    """Removes a person. Raises `user_not_found`, `cant_kick_self`, `cant_kick_from_general`, `not_in_channel`."""
    channel = _managed(call, joined=True)
    user = _user(call)
    if user.id == call.app.bot_user:
        raise SlackError("cant_kick_self")
    if channel.name == _GENERAL:
        raise SlackError("cant_kick_from_general")
    if user.id not in channel.members:
        raise SlackError("not_in_channel")
    call.workspace.channels.leave(channel, user.id, removed_by=call.app.bot_user)
    return {}


def _user(call: Call) -> User:
    user = call.directory.users.get(call.args.text("user"))
    if user is None:
        raise SlackError("user_not_found")
    return user


def leave(call: Call) -> Json:
    """Removes the bot. Raises `cant_leave_general`, `last_member` of a private channel, `is_archived`."""
    channel = _managed(call)
    if call.app.bot_user not in channel.members:
        return {"not_in_channel": True}
    _check_open(channel)
    if channel.name == _GENERAL:
        raise SlackError("cant_leave_general")
    if channel.kind is ChannelKind.PRIVATE and len(channel.members) == 1:
        raise SlackError("last_member")
    call.workspace.channels.leave(channel, call.app.bot_user)
    return {}


def archive(call: Call) -> Json:
    """Archives a channel. Raises `already_archived`, `cant_archive_general`."""
    channel = _managed(call)
    if channel.name == _GENERAL:
        raise SlackError("cant_archive_general")
    call.workspace.channels.archive(channel, by=call.app.bot_user)
    return {}


def unarchive(call: Call) -> Json:
    """Unarchives a channel. Raises `not_archived`."""
    call.workspace.channels.unarchive(_managed(call), by=call.app.bot_user)
    return {}


def rename(call: Call) -> Json:
    """Renames a channel; only its creator may. Raises `not_authorized`, `name_taken`, `invalid_name_required`, …"""
    channel = _managed(call, joined=True)
    if channel.creator != call.app.bot_user:
        raise SlackError("not_authorized")
    _check_open(channel)
    call.workspace.channels.rename(channel, call.args.optional("name"), by=call.app.bot_user)
    return _shown(call, channel)


def set_topic(call: Call) -> Json:
    """Sets the topic. Raises `too_long` above 250 characters, `is_archived`."""
    channel, topic = _described(call, "topic")
    call.workspace.channels.set_topic(channel, topic, by=call.app.bot_user)
    return _shown(call, channel)


def set_purpose(call: Call) -> Json:
    """Sets the purpose. Raises `too_long` above 250 characters, `is_archived`."""
    channel, purpose = _described(call, "purpose")
    call.workspace.channels.set_purpose(channel, purpose, by=call.app.bot_user)
    return _shown(call, channel)


def _described(call: Call, name: str) -> tuple[Channel, str]:
    channel = _managed(call, _TOPIC, kinds=(*_CHANNELS, ChannelKind.GROUP_DIRECT), joined=True)
    if name not in call.args:
        call.args.text(name)  # raises an error if the argument is missing; an empty text is valid
    _check_open(channel)
    if len(call.args.optional(name)) > _MAX_TOPIC_CHARACTERS:
        raise SlackError("too_long")
    return channel, call.args.optional(name)


def close(call: Call) -> Json:
    """Removes a direct conversation from the bot's list; its messages stay. Raises `method_not_supported_…`."""
    channel = _managed(call, kinds=(ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT))
    if call.app.bot_user in channel.closed_by:
        return {"no_op": True, "already_closed": True}
    channel.closed_by.add(call.app.bot_user)
    return {}


def mark(call: Call) -> Json:
    """Sets the bot's read mark. Raises `invalid_timestamp`, `not_in_channel`."""
    channel = _managed(call, kinds=tuple(ChannelKind), joined=True)
    try:
        timestamp = call.args.timestamp("ts")
    except SlackError:
        raise SlackError("invalid_timestamp") from None
    if not timestamp:
        raise SlackError("invalid_timestamp")
    channel.last_read[call.app.bot_user] = timestamp
    return {}


def _managed(
    call: Call,
    also: Scopes | None = None,
    *,
    kinds: tuple[ChannelKind, ...] = _CHANNELS,
    joined: bool = False,
) -> Channel:
    """Returns the conversation if the method supports its kind and the app has a scope; `also` are alternative scopes.

    Raises `channel_not_found`, `method_not_supported_for_channel_type`, `missing_scope` and, with `joined`,
    `not_in_channel`.
    """
    channel = call.visible_channel()
    if channel.kind not in kinds:
        raise SlackError("method_not_supported_for_channel_type")
    call.require(*_MANAGE[channel.kind], *(also or {}).get(channel.kind, ()))
    return call.joined_channel() if joined else channel


def _check_open(channel: Channel) -> None:
    if channel.is_archived:
        raise SlackError("is_archived")


def _shown(call: Call, channel: Channel) -> Json:
    return {"channel": shapes.channel(channel, call.app.bot_user)}


def _scopes(more: Scopes) -> tuple[str, ...]:
    return (*_ALL_MANAGE, *(scope for scopes in more.values() for scope in scopes))


METHODS = (
    Method(name="conversations.create", handle=create, tier=Tier.TIER_2, scopes=_ALL_MANAGE),
    Method(name="conversations.invite", handle=invite, tier=Tier.TIER_3, scopes=_scopes(_INVITE)),
    Method(name="conversations.kick", handle=kick, tier=Tier.TIER_3, scopes=_ALL_MANAGE),
    Method(name="conversations.leave", handle=leave, tier=Tier.TIER_3, scopes=_ALL_MANAGE),
    Method(name="conversations.archive", handle=archive, tier=Tier.TIER_2, scopes=_ALL_MANAGE),
    Method(name="conversations.unarchive", handle=unarchive, tier=Tier.TIER_2, scopes=_ALL_MANAGE),
    Method(name="conversations.rename", handle=rename, tier=Tier.TIER_2, scopes=_ALL_MANAGE),
    Method(name="conversations.setTopic", handle=set_topic, tier=Tier.TIER_2, scopes=_scopes(_TOPIC)),
    Method(name="conversations.setPurpose", handle=set_purpose, tier=Tier.TIER_2, scopes=_scopes(_TOPIC)),
    Method(name="conversations.close", handle=close, tier=Tier.TIER_2, scopes=_ALL_MANAGE),
    Method(name="conversations.mark", handle=mark, tier=Tier.TIER_3, scopes=_ALL_MANAGE),
)
