"""pins.*: messages pinned to their channel."""

from slack_twin import shapes
from slack_twin.errors import Json
from slack_twin.limits import Tier
from slack_twin.methods.call import Call, Method


def add(call: Call) -> Json:
    """Pins a message. Raises `already_pinned` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    call.workspace.pin(channel, message, user=call.app.bot_user)
    return {}


def remove(call: Call) -> Json:
    """Unpins a message. Raises `no_pin` and the errors of `Call.target_message`."""
    channel, message = call.target_message()
    call.workspace.unpin(channel, message, user=call.app.bot_user)
    return {}


def list_pins(call: Call) -> Json:
    """Returns the pinned messages of a channel, the latest first."""
    channel = call.joined_channel()
    pins = [(call.workspace.message(channel, ts), pin) for ts, pin in reversed(channel.messages.pins.items())]
    return {"items": [shapes.pinned(said, pin, channel, call.directory, call.base_url) for said, pin in pins]}


METHODS = (
    Method(name="pins.add", handle=add, tier=Tier.TIER_2, scopes=("pins:write",)),
    Method(name="pins.remove", handle=remove, tier=Tier.TIER_2, scopes=("pins:write",)),
    Method(name="pins.list", handle=list_pins, tier=Tier.TIER_2, scopes=("pins:read",)),
)
