"""The events that an app receives, according to its subscriptions and scopes.

https://docs.slack.dev/reference/events; a manifest lists them as `settings.event_subscriptions.bot_events`.
"""

from collections.abc import Iterable

from slack_twin.errors import Json
from slack_twin.people import App, Channel

# The scope that each subscription needs. There are two if it depends on the kind of the conversation.
SCOPES: dict[str, tuple[str, ...]] = {
    "agent_session_stopped": (),
    "app_home_opened": (),
    "app_mention": ("app_mentions:read",),
    "assistant_thread_context_changed": ("assistant:write",),
    "assistant_thread_started": ("assistant:write",),
    "channel_archive": ("channels:read",),
    "channel_created": ("channels:read",),
    "channel_left": ("channels:read",),
    "channel_rename": ("channels:read",),
    "channel_unarchive": ("channels:read",),
    "file_deleted": ("files:read",),
    "file_shared": ("files:read",),
    "group_archive": ("groups:read",),
    "group_left": ("groups:read",),
    "group_rename": ("groups:read",),
    "group_unarchive": ("groups:read",),
    "member_joined_channel": ("channels:read", "groups:read"),
    "member_left_channel": ("channels:read", "groups:read"),
    "message.channels": ("channels:history",),
    "message.groups": ("groups:history",),
    "message.im": ("im:history",),
    "message.mpim": ("mpim:history",),
    "pin_added": ("pins:read",),
    "pin_removed": ("pins:read",),
    "reaction_added": ("reactions:read",),
    "reaction_removed": ("reactions:read",),
}


def hears(app: App, body: Json, channel: Channel) -> bool:
    """Returns whether an app gets an event in a channel that it may receive events from."""
    family = channel.kind.scope_family
    kind = str(body["type"])
    name = f"message.{family}" if kind == "message" else kind
    if app.events is not None and name not in app.events:
        return False
    needed = SCOPES.get(name, ())
    if len(needed) > 1:
        needed = tuple(scope for scope in needed if scope.startswith(f"{family}:"))
    return not needed or not app.scopes.isdisjoint(needed)


def checked_events(events: Iterable[str], scopes: Iterable[str]) -> frozenset[str]:
    """Returns the subscriptions if these scopes permit them, including those that the twin never sends.

    Raises ValueError for `message` without the kind of conversation, and for an event whose scope is missing.
    """
    wanted, given = frozenset(events), frozenset(scopes)
    if "message" in wanted:
        names = ", ".join(name for name in SCOPES if name.startswith("message."))
        raise ValueError(f"'message' is not an event to subscribe to; valid events: {names}")
    for name in sorted(wanted):
        needed = SCOPES.get(name, ())
        if needed and given.isdisjoint(needed):
            raise ValueError(f"the event '{name}' needs the scope {' or '.join(needed)}")
    return wanted
