"""reactions.*: emoji reactions to messages."""

from slack_twin import shapes
from slack_twin.directory import Directory
from slack_twin.emoji import EMOJI, canonical, is_known
from slack_twin.errors import Json, SlackError
from slack_twin.limits import Tier
from slack_twin.messages import Message
from slack_twin.methods.call import Call, Method
from slack_twin.methods.paging import page
from slack_twin.people import Channel


def add(call: Call) -> Json:
    """Adds a reaction. Raises `already_reacted`, `invalid_name` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    if channel.is_archived:
        raise SlackError("is_archived")
    call.workspace.react(
        channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name"), call.directory)
    )
    return {}


def remove(call: Call) -> Json:
    """Removes a reaction. Raises `no_reaction`, `invalid_name` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    call.workspace.unreact(
        channel, message, user=call.app.bot_user, name=emoji_name(call.args.text("name"), call.directory)
    )
    return {}


def get(call: Call) -> Json:
    return _item(call, *call.target_message())


def _item(call: Call, channel: Channel, message: Message) -> Json:
    shape = shapes.message(message, call.directory, log=channel.messages)
    link = {"permalink": shapes.permalink(message, call.base_url)}
    return {"type": "message", "channel": channel.id, "message": shape | link}


def list_reactions(call: Call) -> Json:
    """Returns the messages to which a user has reacted, the latest first. Raises `user_not_found`."""
    user = call.args.optional("user") or call.app.bot_user
    if user not in call.directory.users:
        raise SlackError("user_not_found")
    found = [
        (message.ts, channel, message)
        for channel in call.directory.channels.values()
        for message in channel.messages.all()
        if call.app.bot_user in channel.members and any(user in reaction.users for reaction in message.reactions)
    ]
    shown, metadata = page(sorted(found, reverse=True, key=lambda item: item[0]), call.args)
    return {"items": [_item(call, channel, message) for _, channel, message in shown]} | metadata


def emoji_name(name: str, directory: Directory) -> str:
    """Returns Slack's name of an emoji, without colons. Raises `invalid_name` for an unknown one."""
    bare = name.strip(":")
    if not EMOJI.fullmatch(bare) or not (is_known(bare) or bare in directory.emoji):
        raise SlackError("invalid_name")
    return canonical(bare)


def list_emoji(call: Call) -> Json:
    """Returns the workspace's own emoji."""
    return {"emoji": dict(call.directory.emoji), "cache_ts": f"{call.workspace.clock.now():.6f}"}


METHODS = (
    Method(name="reactions.add", handle=add, tier=Tier.TIER_3, scopes=("reactions:write",)),
    Method(name="reactions.remove", handle=remove, tier=Tier.TIER_2, scopes=("reactions:write",)),
    Method(name="reactions.list", handle=list_reactions, tier=Tier.TIER_2, scopes=("reactions:read",)),
    Method(name="emoji.list", handle=list_emoji, tier=Tier.TIER_2, scopes=("emoji:read",)),
    Method(name="reactions.get", handle=get, tier=Tier.TIER_3, scopes=("reactions:read",)),
)
