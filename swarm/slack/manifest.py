"""The app manifest: what the operator pastes into Slack, with exactly the scopes and events that are used.

Each method names the scopes it needs and each event the scope that lets it through, so nothing is asked for that no
code uses; a test compares these tables with the gateway. https://docs.slack.dev/reference/app-manifest/.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_READ_CONVERSATIONS: Final = ("channels:read", "groups:read", "im:read", "mpim:read")
_READ_HISTORY: Final = ("channels:history", "groups:history", "im:history", "mpim:history")

METHOD_SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "apps.connections.open": (),  # takes the app-level token with connections:write
    "auth.test": (),
    "bots.info": ("users:read",),
    "chat.delete": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "conversations.history": _READ_HISTORY,
    "conversations.info": _READ_CONVERSATIONS,
    "conversations.replies": _READ_HISTORY,
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "reactions.add": ("reactions:write",),
    "users.info": ("users:read",),
}

EVENT_SCOPES: Final[dict[str, str]] = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
}

WHY: Final[dict[str, str]] = {
    "app_mentions:read": "Hear mentions, also where the bot is not a member yet.",
    "channels:history": "Hear messages in public channels, and read a thread met in the middle.",
    "channels:read": "Tell agents the name of the channel a message comes from.",
    "chat:write": "Post, correct and take back the agents' answers.",
    "files:read": "Hand attachments of messages to the agents.",
    "files:write": "Put the agents' files into threads.",
    "groups:history": "Hear messages in private channels that the bot was invited to.",
    "groups:read": "Tell agents the name of such a channel.",
    "im:history": "Hear direct messages to the bot.",
    "im:read": "Tell agents with whom a direct message is.",
    "mpim:history": "Hear direct messages among several people and the bot.",
    "mpim:read": "Tell agents the name of such a conversation.",
    "reactions:write": "Mark a message as seen, answered or failed.",
    "users:read": "Show agents people's and bots' names instead of ids.",
}
"""Why each scope is asked for; the set-up guide shows it."""


class Mode(StrEnum):
    """How events reach us."""

    SOCKET = "socket"
    HTTP = "http"


def bot_scopes() -> list[str]:
    """Every scope that a method or an event needs."""
    needed = set(EVENT_SCOPES.values()).union(*METHOD_SCOPES.values())
    return sorted(needed)


def manifest(
    mode: Mode = Mode.SOCKET, *, name: str = "swarm", request_url: str = "https://example.com/slack/events"
) -> dict[str, object]:
    """The manifest of an app called ``name``; in HTTP mode Slack sends events to ``request_url``."""
    subscriptions: dict[str, object] = {"bot_events": sorted(EVENT_SCOPES)}
    interactivity: dict[str, object] = {"is_enabled": True}  # for the buttons under our messages
    if mode is Mode.HTTP:
        subscriptions["request_url"] = interactivity["request_url"] = request_url
    return {
        "display_information": {"name": name, "description": "A team of AI agents that work in your threads"},
        "features": {
            "app_home": {
                "home_tab_enabled": False,
                "messages_tab_enabled": True,  # without it nobody can write to the bot directly
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
        },
        "oauth_config": {"scopes": {"bot": bot_scopes()}},
        "settings": {
            "event_subscriptions": subscriptions,
            "interactivity": interactivity,
            "org_deploy_enabled": False,
            "socket_mode_enabled": mode is Mode.SOCKET,
            "token_rotation_enabled": False,
        },
    }
