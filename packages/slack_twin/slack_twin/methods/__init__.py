"""The supported methods of Slack's Web API, one module per namespace."""

import re

from slack_twin.methods import (
    assistant,
    auth,
    bookmarks,
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

__all__ = ["METHODS", "NOBODY", "Call", "Method", "TokenKind", "is_retired", "missing_scope"]

_NAMESPACES = (
    *(assistant, auth, bookmarks, channels, chat, conversations, files, oauth, pins),
    *(reactions, scheduling, sessions, streaming, team, users, views),
)
_RETIRED = re.compile(
    r"(channels|groups|im|mpim|apps\.permissions)\..*|files\.upload|files\.comments\.(add|edit)|rtm\.start"
    r"|workflows\.(stepCompleted|stepFailed|updateStep)"
)
METHODS: dict[str, Method] = {method.name: method for namespace in _NAMESPACES for method in namespace.METHODS}


def is_retired(name: str) -> bool:
    """Returns whether Slack has retired a method, which then answers `method_deprecated`."""
    return _RETIRED.fullmatch(name) is not None
