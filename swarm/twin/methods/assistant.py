"""assistant.threads.*: what an app shows while it works."""

from swarm.twin.errors import Json, SlackError
from swarm.twin.limits import Tier
from swarm.twin.methods.call import Call, Method

_MOST_LOADING_MESSAGES = 10


def set_status(call: Call) -> Json:
    """Show a status in a thread for two minutes at most; an empty one clears it. Raises `thread_not_found`."""
    channel = call.joined_channel("channel_id")
    thread_ts = call.args.timestamp("thread_ts")
    if channel.messages.get(thread_ts) is None:
        raise SlackError("thread_not_found")
    loading = call.args.json("loading_messages")
    if loading is not None and (not isinstance(loading, list) or len(loading) > _MOST_LOADING_MESSAGES):
        raise SlackError(
            "invalid_arguments", messages=["[ERROR] loading_messages must be a list of at most 10 strings"]
        )
    call.workspace.set_status(channel, thread_ts, app=call.app, text=call.args.optional("status"))
    return {}


METHODS = (
    Method(
        name="assistant.threads.setStatus",
        handle=set_status,
        tier=Tier.SPECIAL,
        scopes=("assistant:write", "chat:write"),
    ),
)
