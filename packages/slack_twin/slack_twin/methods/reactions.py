"""reactions.*: emoji on messages."""

import re

from slack_twin import shapes
from slack_twin.emoji import canonical
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.messages import Message
from slack_twin.methods.call import Call, Method
from slack_twin.people import Channel

_EMOJI = re.compile(r"[\w+'\-]{1,100}(::skin-tone-[2-6])?")


def add(call: Call) -> Json:
    """Raises `already_reacted`, `invalid_name` and what a target can raise."""
    channel, message = _target(call)
    call.workspace.react(channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name")))
    return {}


def remove(call: Call) -> Json:
    """Raises `no_reaction`, `invalid_name` and what a target can raise."""
    channel, message = _target(call)
    call.workspace.unreact(channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name")))
    return {}


def get(call: Call) -> Json:
    channel, message = _target(call)
    shape = shapes.message(message, call.directory, log=channel.messages)
    return {"type": "message", "channel": channel.id, "message": shape}


def emoji_name(name: str) -> str:
    """The name that Slack keeps, without colons. Raises `invalid_name`."""
    bare = name.strip(":")
    if not _EMOJI.fullmatch(bare):
        raise SlackError("invalid_name")
    return canonical(bare)


def _target(call: Call) -> tuple[Channel, Message]:
    """Raises `no_item_specified`, `bad_timestamp`, `channel_not_found`, `not_in_channel`, `message_not_found`."""
    if "channel" not in call.args or "timestamp" not in call.args:
        raise SlackError("no_item_specified")
    channel = call.joined_channel()
    try:
        timestamp = call.args.timestamp("timestamp")
    except SlackError:
        raise SlackError("bad_timestamp") from None
    return channel, call.workspace.message(channel, timestamp)


METHODS = (
    Method(name="reactions.add", handle=add, tier=Tier.TIER_3, scopes=("reactions:write",)),
    Method(name="reactions.remove", handle=remove, tier=Tier.TIER_2, scopes=("reactions:write",)),
    Method(name="reactions.get", handle=get, tier=Tier.TIER_3, scopes=("reactions:read",)),
)
