"""reactions.*: emoji reactions to messages."""

import re

from slack_twin import shapes
from slack_twin.emoji import canonical
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method

_EMOJI = re.compile(r"[\w+'\-]{1,100}(::skin-tone-[2-6])?")


def add(call: Call) -> Json:
    """Adds a reaction. Raises `already_reacted`, `invalid_name` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    call.workspace.react(channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name")))
    return {}


def remove(call: Call) -> Json:
    """Removes a reaction. Raises `no_reaction`, `invalid_name` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    call.workspace.unreact(channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name")))
    return {}


def get(call: Call) -> Json:
    channel, message = call.target_message()
    shape = shapes.message(message, call.directory, log=channel.messages)
    return {"type": "message", "channel": channel.id, "message": shape}


def emoji_name(name: str) -> str:
    """Returns Slack's name of an emoji, without colons. Raises `invalid_name`."""
    bare = name.strip(":")
    if not _EMOJI.fullmatch(bare):
        raise SlackError("invalid_name")
    return canonical(bare)


METHODS = (
    Method(name="reactions.add", handle=add, tier=Tier.TIER_3, scopes=("reactions:write",)),
    Method(name="reactions.remove", handle=remove, tier=Tier.TIER_2, scopes=("reactions:write",)),
    Method(name="reactions.get", handle=get, tier=Tier.TIER_3, scopes=("reactions:read",)),
)
