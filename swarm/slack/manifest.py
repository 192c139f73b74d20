"""The app manifest, which the operator pastes into Slack, with exactly the scopes and events in use.

Each method lists its scopes, and each event lists the scope that it requires, so the manifest requests no unused scope;
a test compares these tables with the gateway. https://docs.slack.dev/reference/app-manifest/.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from swarm.domain.commands import Subcommand
from swarm.domain.policy.channels import SUGGESTED_PROMPTS

_READ_CONVERSATIONS: Final = ("channels:read", "groups:read", "im:read", "mpim:read")
_READ_HISTORY: Final = ("channels:history", "groups:history", "im:history", "mpim:history")

METHOD_SCOPES: Final[dict[str, tuple[str, ...]]] = {
    "agents.sessions.rename": ("chat:write",),  # only for apps declared as agents, like the next one
    "agents.sessions.setStatus": ("chat:write",),
    "apps.connections.open": (),  # uses the app-level token with connections:write
    "assistant.threads.setStatus": ("chat:write",),
    "assistant.threads.setSuggestedPrompts": ("assistant:write",),
    "assistant.threads.setTitle": ("assistant:write",),
    "auth.test": (),
    "bots.info": ("users:read",),
    "chat.appendStream": ("chat:write",),
    "chat.delete": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.postMessage": ("chat:write",),
    "chat.startStream": ("chat:write",),
    "chat.stopStream": ("chat:write",),
    "chat.update": ("chat:write",),
    "conversations.history": _READ_HISTORY,
    "conversations.info": _READ_CONVERSATIONS,
    "conversations.list": _READ_CONVERSATIONS,
    "conversations.replies": _READ_HISTORY,
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "reactions.add": ("reactions:write",),
    "reactions.remove": ("reactions:write",),
    "usergroups.users.list": ("usergroups:read",),
    "users.conversations": _READ_CONVERSATIONS,
    "users.info": ("users:read",),
    "users.lookupByEmail": (),  # needs EMAIL_SCOPE, only where an agent names who is on call
    "views.open": (),
    "views.publish": (),
    "views.update": (),
}

EVENT_SCOPES: Final[dict[str, str]] = {
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
}

PLACEHOLDER_URL: Final = "https://example.com/slack/events"
COMMAND: Final = "/swarm"
COMMAND_SCOPE: Final = "commands"

ASSISTANT_SCOPE: Final = "assistant:write"
"""Given to apps declared as agents or assistants."""


class View(StrEnum):
    """How people converse with the app in Slack, besides mentions. An app cannot go back from `AGENT`."""

    AGENT = "agent"  # in the Messages tab, with sessions and Slack's own Stop button; for new apps
    ASSISTANT = "assistant"  # in a pane beside the channels; Slack ends it in 2027
    PLAIN = "plain"  # only direct messages


VIEW_EVENT_SCOPES: Final[dict[View, dict[str, str]]] = {
    View.AGENT: {"agent_session_stopped": ASSISTANT_SCOPE},
    View.ASSISTANT: {
        "assistant_thread_context_changed": ASSISTANT_SCOPE,
        "assistant_thread_started": ASSISTANT_SCOPE,
    },
    View.PLAIN: {},
}
"""The events of each view, with the scope that they need."""

HOME_EVENTS: Final = frozenset({"app_home_opened"})
"""Events that need no scope: for the Home tab, and for the greeting in the Messages tab."""

EMAIL_SCOPE: Final = "users:read.email"
"""Needed only to show people's e-mail addresses to agents (``share_email``), for lists of their domains, and to find a
person on call by their address (``escalation.agent``).
"""

GROUPS_SCOPE: Final = "usergroups:read"

AGENT_DESCRIPTION: Final = "Ask for anything. An agent of the team will handle it, here or in a channel."

WHY: Final[dict[str, str]] = {
    "app_mentions:read": "Receive mentions, including in channels that the bot has not joined.",
    "assistant:write": "Act as an agent in Slack: suggest prompts, name threads, and learn when someone presses Stop.",
    "channels:history": "Receive messages in public channels, and read a thread from its beginning.",
    "channels:read": "Show agents the name of the channel that a message comes from.",
    "chat:write": "Post, edit and delete the agents' answers.",
    "commands": "Answer the slash command, only to the person who typed it.",
    "files:read": "Pass attachments of messages to the agents.",
    "files:write": "Upload the agents' files to threads.",
    "groups:history": "Receive messages in private channels that the bot was invited to.",
    "groups:read": "Show agents the name of such a channel.",
    "im:history": "Receive direct messages to the bot.",
    "im:read": "Show agents who a direct message is with.",
    "mpim:history": "Receive direct messages between several people and the bot.",
    "mpim:read": "Show agents the name of such a conversation.",
    "reactions:write": "Mark a message as seen, answered, failed or stopped.",
    "usergroups:read": "Let the members of a user group use the app, or decide on agents' requests.",
    "users:read": "Show agents people's and bots' names instead of ids.",
    "users:read.email": "Show agents e-mail addresses where shared; allow people by domain; find who is on call.",
}
"""The reason for each scope, shown in the setup guide."""


class EventTransport(StrEnum):
    """How Slack delivers events."""

    SOCKET = "socket"
    HTTP = "http"


def bot_scopes(view: View = View.AGENT, *, emails: bool = False) -> list[str]:
    """Returns all scopes needed by methods and events. ``emails`` adds the scope for people's e-mail addresses."""
    needed = {COMMAND_SCOPE, *EVENT_SCOPES.values()}.union(*METHOD_SCOPES.values())
    if view is View.PLAIN:
        needed.discard(ASSISTANT_SCOPE)  # the methods that need it are tried once, in vain
    return sorted(needed | ({EMAIL_SCOPE} if emails else set()))


def _features(view: View) -> dict[str, object]:
    prompts = [{"title": one.title, "message": one.message} for one in SUGGESTED_PROMPTS]
    match view:
        case View.AGENT:
            return {"agent_view": {"agent_description": AGENT_DESCRIPTION, "suggested_prompts": prompts}}
        case View.ASSISTANT:
            return {"assistant_view": {"assistant_description": AGENT_DESCRIPTION, "suggested_prompts": prompts}}
        case View.PLAIN:
            return {}


def manifest(
    mode: EventTransport = EventTransport.SOCKET,
    *,
    name: str = "swarm",
    request_url: str = PLACEHOLDER_URL,
    view: View = View.AGENT,
    emails: bool = False,
) -> dict[str, object]:
    """Returns the manifest of an app called ``name``. In HTTP mode Slack sends events to ``request_url``.

    ``view`` declares the app as an agent (https://docs.slack.dev/ai/agent-sessions), which not every plan supports, or
    as an assistant. ``emails`` is for ``share_email``, lists of domains and ``escalation.agent``.
    """
    subscriptions: dict[str, object] = {"bot_events": sorted({*EVENT_SCOPES, *VIEW_EVENT_SCOPES[view], *HOME_EVENTS})}
    interactivity: dict[str, object] = {"is_enabled": True}  # for the buttons under our messages
    command: dict[str, object] = {
        "command": COMMAND,
        "description": "The swarm's status, agents and tasks; stop, explain, feedback",
        "usage_hint": " | ".join(Subcommand),
        "should_escape": False,
    }
    if mode is EventTransport.HTTP:
        subscriptions["request_url"] = interactivity["request_url"] = command["url"] = request_url
    return {
        "display_information": {"name": name, "description": "A team of AI agents that works in your threads"},
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,  # required for direct messages to the bot
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [command],
            **_features(view),
        },
        "oauth_config": {"scopes": {"bot": bot_scopes(view, emails=emails)}},
        "settings": {
            "event_subscriptions": subscriptions,
            "interactivity": interactivity,
            "org_deploy_enabled": False,
            "socket_mode_enabled": mode is EventTransport.SOCKET,
            "token_rotation_enabled": False,
        },
    }
