"""The supported methods of Slack's Web API, one module per namespace."""

from slack_twin.methods import (
    assistant,
    auth,
    channels,
    chat,
    conversations,
    files,
    oauth,
    pins,
    reactions,
    scheduling,
    sessions,
    streaming,
    team,
    users,
    views,
)
from slack_twin.methods.call import NOBODY, Call, Method, TokenKind, missing_scope

__all__ = ["METHODS", "NOBODY", "Call", "Method", "TokenKind", "missing_scope"]

_NAMESPACES = (
    *(assistant, auth, channels, chat, conversations, files, oauth, pins),
    *(reactions, scheduling, sessions, streaming, team, users, views),
)
METHODS: dict[str, Method] = {method.name: method for namespace in _NAMESPACES for method in namespace.METHODS}
