"""chat.scheduleMessage and related methods: messages that are posted later.

https://docs.slack.dev/reference/methods/chat.scheduleMessage
"""

from slack_twin import shapes
from slack_twin.arguments import Arguments
from slack_twin.drafts import draft_warnings, read_draft
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.messages import Message
from slack_twin.methods.call import Call, Method
from slack_twin.methods.chat import writable_channel
from slack_twin.methods.paging import page
from slack_twin.workspace import Draft


def schedule(call: Call) -> Json:
    """Schedules a message. Raises `invalid_time`, `time_in_past`, `time_too_far`, and the errors of a post."""
    channel = writable_channel(call)
    draft = read_draft(call.args, call.app)
    post_at = _second(call.args, "post_at")
    if post_at is None:
        raise SlackError("invalid_time")
    if channel.is_archived:
        raise SlackError("is_archived")
    scheduled = call.workspace.schedules.add(call.app.id, channel, draft, post_at)
    call.warnings.extend(draft_warnings(call.args))
    return {
        "channel": channel.id,
        "scheduled_message_id": scheduled.id,
        "post_at": post_at,
        "message": _shape(call, channel.id, draft),
    }


def _shape(call: Call, channel_id: str, draft: Draft) -> Json:
    """Returns the scheduled message like a posted one, but without a timestamp."""
    message = Message(
        ts="",
        channel=channel_id,
        user=draft.user,
        text=draft.text,
        app_id=draft.app_id,
        blocks=draft.blocks,
        attachments=draft.attachments,
        metadata=draft.metadata,
        username=draft.username,
    )
    shape = shapes.message(message, call.directory)
    return {key: value for key, value in shape.items() if key != "ts"} | {"type": "delayed_message"}


def delete(call: Call) -> Json:
    """Deletes a scheduled message. Raises `invalid_scheduled_message_id`."""
    channel = call.visible_channel()
    call.workspace.schedules.remove(call.app.id, channel, call.args.text("scheduled_message_id"))
    return {}


def list_scheduled(call: Call) -> Json:
    """Returns the app's scheduled messages, the next one first. Raises `invalid_channel`."""
    wanted = call.args.optional("channel")
    if wanted and wanted not in call.directory.channels:
        raise SlackError("invalid_channel")
    oldest, latest = _second(call.args, "oldest") or 0, _second(call.args, "latest")
    found = [
        one
        for one in call.workspace.schedules.of(call.app.id)
        if wanted in ("", one.channel.id) and oldest <= one.post_at and (latest is None or one.post_at <= latest)
    ]
    shown, metadata = page(found, call.args)
    listed: list[Json] = [
        {
            "id": one.id,
            "channel_id": one.channel.id,
            "post_at": one.post_at,
            "date_created": one.created,
            "text": one.draft.text,
        }
        for one in shown
    ]
    return {"scheduled_messages": listed} | metadata


def _second(args: Arguments, name: str) -> int | None:
    """Returns integer seconds since 1970, None if absent. Raises `invalid_time`."""
    value = args.optional(name)
    if not value:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 12):
        raise SlackError("invalid_time")
    return int(value)


METHODS = (
    Method(name="chat.scheduleMessage", handle=schedule, tier=Tier.TIER_3, scopes=("chat:write",)),
    Method(name="chat.deleteScheduledMessage", handle=delete, tier=Tier.TIER_3, scopes=("chat:write",)),
    Method(name="chat.scheduledMessages.list", handle=list_scheduled, tier=Tier.TIER_3),
)
