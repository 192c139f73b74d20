"""The methods of Slack's Web API that the twin has, one module a namespace."""

from slack_twin.methods import (
    assistant,
    auth,
    chat,
    conversations,
    files,
    reactions,
    sessions,
    streaming,
    team,
    users,
    views,
)
from slack_twin.methods.call import Call, Method, TokenKind, missing_scope

__all__ = ["METHODS", "Call", "Method", "TokenKind", "missing_scope"]

METHODS: dict[str, Method] = {
    method.name: method
    for namespace in (assistant, auth, chat, conversations, files, reactions, sessions, streaming, team, users, views)
    for method in namespace.METHODS
}
