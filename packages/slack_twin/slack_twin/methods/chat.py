"""chat.*: posts, updates and deletes messages, and attaches previews to links."""

from dataclasses import replace

from slack_twin import shapes
from slack_twin.blocks import checked_attachments
from slack_twin.changes import MessageChanged
from slack_twin.drafts import MAX_TEXT_CHARACTERS, draft_warnings, read_draft, stored_text
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method
from slack_twin.people import Channel, ChannelKind
from slack_twin.text import unescape
from slack_twin.workspace import Draft

__all__ = ["MAX_TEXT_CHARACTERS", "METHODS"]

_MAX_UPDATED_CHARACTERS = 4_000  # limit of `text`; the limit of a post is ten times as high


def post_message(call: Call) -> Json:
    """Posts to a channel, by id or `#name`, or to a person. Raises `no_text`, `msg_too_long`, `thread_not_found`, …"""
    channel = writable_channel(call)
    message = call.workspace.post(channel, read_draft(call.args, call.app))
    call.warnings.extend(draft_warnings(call.args))
    shape = shapes.message(message, call.directory, log=channel.messages)
    return {"channel": channel.id, "ts": message.ts, "message": shape}


def post_ephemeral(call: Call) -> Json:
    """Posts an ephemeral message. Raises `user_not_in_channel`."""
    channel = writable_channel(call)
    user = call.args.text("user")
    if user not in channel.members:
        raise SlackError("user_not_in_channel")
    ts = call.workspace.post_ephemeral(channel, to=user, draft=read_draft(call.args, call.app))
    call.warnings.extend(draft_warnings(call.args))
    return {"message_ts": ts}


def update(call: Call) -> Json:
    """Updates one of the app's messages; omitted fields stay unchanged.

    Raises `message_not_found`, `cant_update_message`, `no_text`.
    """
    channel = call.joined_channel()
    previous = call.own_message(channel, "ts", "cant_update_message")
    if previous.streaming:
        raise SlackError("streaming_state_conflict")
    if len(call.args.optional("text")) > _MAX_UPDATED_CHARACTERS:
        raise SlackError("msg_too_long")
    draft = read_draft(call.args, call.app)
    changed = replace(
        previous,
        text=draft.text if "text" in call.args or "markdown_text" in call.args else previous.text,
        blocks=draft.blocks if "blocks" in call.args or "markdown_text" in call.args else previous.blocks,
        attachments=draft.attachments if "attachments" in call.args else previous.attachments,
        metadata=draft.metadata if "metadata" in call.args else previous.metadata,
    )
    edited = call.workspace.edit(channel, previous, changed)
    shape = shapes.message(edited, call.directory, log=channel.messages)
    return {"channel": channel.id, "ts": edited.ts, "text": edited.text, "message": shape}


def delete(call: Call) -> Json:
    """Deletes one of the app's messages. Raises `message_not_found`, `cant_delete_message`."""
    channel = call.joined_channel()
    message = call.own_message(channel, "ts", "cant_delete_message")
    if message.streaming:
        raise SlackError("cant_delete_message")
    call.workspace.delete(channel, message)
    return {"channel": channel.id, "ts": message.ts}


def get_permalink(call: Call) -> Json:
    """Returns a link that opens the message on the twin's page."""
    channel = call.visible_channel()
    message = call.message(channel, "message_ts")
    return {"channel": channel.id, "permalink": shapes.permalink(message, call.base_url)}


def writable_channel(call: Call) -> Channel:
    """Returns the channel to post to; unlike other methods, posting accepts a name or a person's id.

    Raises `channel_not_found`, `not_in_channel`.
    """
    target = call.args.text("channel")
    if target in call.directory.users:
        return call.workspace.direct_channel(target, call.app.bot_user)
    channel = call.directory.channel(target)
    if channel is None or (channel.kind is not ChannelKind.PUBLIC and call.app.bot_user not in channel.members):
        raise SlackError("channel_not_found")
    if call.app.bot_user not in channel.members and "chat:write.public" not in call.app.scopes:
        raise SlackError("not_in_channel")
    return channel


def me_message(call: Call) -> Json:
    """Posts a message that describes the bot's action, like `/me`. Raises `no_text`."""
    channel = writable_channel(call)
    text = call.args.optional("text")
    if not text:
        raise SlackError("no_text")
    draft = Draft(user=call.app.bot_user, app_id=call.app.id, text=stored_text(text), subtype="me_message")
    message = call.workspace.post(channel, draft)
    call.warnings.extend(draft_warnings(call.args))
    return {"channel": channel.id, "ts": message.ts}


def unfurl(call: Call) -> Json:
    """Attaches previews to the links of a message; the same call again replaces them.

    Raises `missing_channel`, `missing_ts`, `missing_unfurls`, `invalid_unfurls_format`, `cannot_find_channel`,
    `cannot_find_message`, `cannot_unfurl_message`.
    """
    for name in ("channel", "ts", "unfurls"):
        if name not in call.args:
            raise SlackError(f"missing_{name}")
    channel = call.directory.channels.get(call.args.optional("channel"))
    if channel is None or call.app.bot_user not in channel.members:
        raise SlackError("cannot_find_channel")
    message = channel.messages.get(call.args.timestamp("ts"))
    if message is None:
        raise SlackError("cannot_find_message")
    unfurls = call.args.json("unfurls")
    if not isinstance(unfurls, dict) or not all(isinstance(shown, dict) for shown in unfurls.values()):
        raise SlackError("invalid_unfurls_format")
    if any(url not in unescape(message.text) for url in unfurls):
        raise SlackError("cannot_unfurl_message")
    mark = {"is_app_unfurl": True, "app_id": call.app.id, "bot_id": call.app.bot_id}
    made = [
        shown | {"from_url": url, "original_url": url, "app_unfurl_url": url} | mark for url, shown in unfurls.items()
    ]
    kept = [shown for shown in message.attachments if shown.get("app_unfurl_url") not in unfurls]
    changed = replace(message, attachments=checked_attachments([*kept, *made]))
    channel.messages.replace(changed)
    ts = call.workspace.next_ts()
    call.workspace.announce(MessageChanged(channel=channel, message=changed, previous=message, ts=ts))
    return {}


METHODS = (
    Method(name="chat.postMessage", handle=post_message, tier=Tier.SPECIAL, scopes=("chat:write",), is_post=True),
    Method(name="chat.postEphemeral", handle=post_ephemeral, tier=Tier.TIER_4, scopes=("chat:write",)),
    Method(name="chat.meMessage", handle=me_message, tier=Tier.TIER_3, scopes=("chat:write",), is_post=True),
    Method(name="chat.update", handle=update, tier=Tier.TIER_3, scopes=("chat:write",)),
    Method(name="chat.delete", handle=delete, tier=Tier.TIER_3, scopes=("chat:write",)),
    Method(name="chat.unfurl", handle=unfurl, tier=Tier.TIER_3, scopes=("links:write",)),
    Method(name="chat.getPermalink", handle=get_permalink, tier=Tier.SPECIAL),
)
