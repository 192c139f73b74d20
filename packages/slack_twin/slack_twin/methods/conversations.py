"""conversations.*: lists, reads, joins and opens conversations."""

from collections.abc import Sequence

from slack_twin import shapes
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.methods.paging import cursor_for, page, place_in
from slack_twin.people import Channel, ChannelKind

_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")
_WRITE = ("im:write", "mpim:write", "channels:manage", "groups:write")
_MOST_IN_GROUP = 8


def list_conversations(call: Call) -> Json:
    """Lists conversations. Raises `invalid_types`, and `missing_scope` for a kind that the app may not read."""
    kinds = wanted_kinds(call)
    for kind in kinds:
        call.require(f"{kind.scope_family}:read")
    visible = [
        channel
        for channel in call.directory.channels.values()
        if channel.kind in kinds and (channel.kind is ChannelKind.PUBLIC or call.app.bot_user in channel.members)
        if not (channel.is_archived and call.args.flag("exclude_archived"))
    ]
    channels, metadata = page(visible, call.args)
    shown = [_with_count(call, channel) for channel in channels]
    return {"channels": shown} | metadata


def _with_count(call: Call, channel: Channel) -> Json:
    shape = shapes.channel(channel, call.app.bot_user)
    return shape if channel.kind is ChannelKind.DIRECT else shape | {"num_members": len(channel.members)}


def wanted_kinds(call: Call) -> set[ChannelKind]:
    """Returns the kinds in `types`, by default public channels. Raises `invalid_types`."""
    by_name = {kind.listed_as: kind for kind in ChannelKind}
    names = [name.strip() for name in call.args.optional("types", "public_channel").split(",") if name.strip()]
    if not names or any(name not in by_name for name in names):
        raise SlackError("invalid_types")
    return {by_name[name] for name in names}


def info(call: Call) -> Json:
    channel = call.visible_channel()
    call.require(f"{channel.kind.scope_family}:read")
    shape = shapes.channel(channel, call.app.bot_user)
    if call.args.flag("include_num_members"):
        shape["num_members"] = len(channel.members)
    return {"channel": shape}


def members(call: Call) -> Json:
    channel = call.visible_channel()
    call.require(f"{channel.kind.scope_family}:read")
    people, metadata = page(list(channel.members), call.args)
    return {"members": list(people)} | metadata


def history(call: Call) -> Json:
    """Returns a channel's messages, newest first: roots and broadcast replies, but no other replies."""
    channel = _readable(call)
    after, before = _range(call)
    older_than = place_in(call.args, "next_ts")
    limit = call.args.count("limit", default=100, highest=999)
    shown = channel.messages.shown(after=after, before=min(before, older_than) if older_than else before)
    newest, rest = shown[-limit:], shown[:-limit]
    following = cursor_for("next_ts", newest[0]) if rest else ""
    messages = _messages(call, channel, list(reversed(newest)))
    return _reading(messages, following) | {"pin_count": len(channel.messages.pins)}


def replies(call: Call) -> Json:
    """Returns a root and its replies, oldest first; for a reply, only that reply. Raises `thread_not_found`."""
    channel = _readable(call)
    root = channel.messages.get(call.args.optional("ts"))
    if root is None:
        raise SlackError("thread_not_found")
    if root.thread_ts is not None:
        return _reading(_messages(call, channel, [root.ts]), "")
    after, before = _range(call)
    newer_than = place_in(call.args, "next_ts")
    limit = call.args.count("limit", default=1000, highest=1000)
    found = channel.messages.replies(root.ts, after=max(after, newer_than or ""), before=before)
    thread = [*([] if newer_than else [root.ts]), *found]
    following = cursor_for("next_ts", thread[limit]) if len(thread) > limit else ""
    return _reading(_messages(call, channel, thread[:limit]), following)


def _readable(call: Call) -> Channel:
    channel = call.joined_channel()
    call.require(f"{channel.kind.scope_family}:history")
    return channel


def _range(call: Call) -> tuple[str, str]:
    """Returns `oldest` and `latest` as a half-open range of timestamps.

    Appending "." or "0" to a timestamp yields the next string after it, so each end can be exclusive or inclusive.
    """
    oldest, latest = _moment(call, "oldest"), _moment(call, "latest")
    if call.args.flag("inclusive"):
        return oldest, latest + "0" if latest else "~"
    return oldest + "0" if oldest else "", latest or "~"


def _moment(call: Call, name: str) -> str:
    """Returns a timestamp argument. Raises `invalid_ts_oldest`, `invalid_ts_latest`."""
    try:
        return _full(call.args.timestamp(name))
    except SlackError:
        raise SlackError(f"invalid_ts_{name}") from None


def _full(timestamp: str) -> str:
    """Returns a timestamp with all its digits, so that the order of strings is the order of times."""
    if not timestamp:
        return ""
    seconds, _, micros = timestamp.partition(".")
    return f"{int(seconds):010d}.{micros:0<6}"


def _messages(call: Call, channel: Channel, timestamps: Sequence[str]) -> list[Json]:
    all_metadata = call.args.flag("include_all_metadata")
    found = (call.workspace.message(channel, ts) for ts in timestamps)
    return [
        shapes.message(message, call.directory, log=channel.messages, all_metadata=all_metadata) for message in found
    ]


def _reading(messages: list[Json], following: str) -> Json:
    reading: Json = {"messages": messages, "has_more": bool(following)}
    return reading | ({"response_metadata": {"next_cursor": following}} if following else {})


def join(call: Call) -> Json:
    """Joins a public channel. Raises `method_not_supported_for_channel_type` for other conversations, `is_archived`."""
    channel = call.visible_channel()
    if channel.kind is not ChannelKind.PUBLIC:
        raise SlackError("method_not_supported_for_channel_type")
    if not call.workspace.channels.join(channel, call.app.bot_user):
        call.warnings.append("already_in_channel")
    return {"channel": shapes.channel(channel, call.app.bot_user)}


def open_direct(call: Call) -> Json:
    """Opens a direct conversation with one to eight people, or returns the conversation in `channel`."""
    channel = call.visible_channel() if "channel" in call.args else _direct(call)
    channel.closed_by.discard(call.app.bot_user)
    if call.args.flag("return_im"):
        return {"channel": shapes.channel(channel, call.app.bot_user)}
    return {"channel": {"id": channel.id}}


def _direct(call: Call) -> Channel:
    """Returns the direct conversation. Raises `users_list_not_supplied`, `user_not_found`, `too_many_users`."""
    people = [name.strip() for name in call.args.optional("users").split(",") if name.strip()]
    if not people:
        raise SlackError("users_list_not_supplied")
    if any(person not in call.directory.users for person in people):
        raise SlackError("user_not_found")
    if len(people) > _MOST_IN_GROUP:
        raise SlackError("too_many_users")
    return call.workspace.direct_channel(*people, call.app.bot_user)


METHODS = (
    Method(name="conversations.list", handle=list_conversations, tier=Tier.TIER_2, scopes=_READ),
    Method(name="conversations.info", handle=info, tier=Tier.TIER_3, scopes=_READ),
    Method(name="conversations.members", handle=members, tier=Tier.TIER_4, scopes=_READ),
    Method(name="conversations.history", handle=history, tier=Tier.TIER_3, scopes=_HISTORY),
    Method(name="conversations.replies", handle=replies, tier=Tier.TIER_3, scopes=_HISTORY),
    Method(name="conversations.join", handle=join, tier=Tier.TIER_3, scopes=("channels:join",)),
    Method(name="conversations.open", handle=open_direct, tier=Tier.TIER_3, scopes=_WRITE),
)
