"""What keeps the swarm from working with Slack, for the operator: the reason and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swarm.domain.model.deliveries import ACCESS_CODES, MISSING_SCOPE

AUTH_PART: Final = "slack_token"
"""The part of ``/readyz`` that a refused token fails."""

_POSTS: Final = frozenset({"chat.postMessage", "chat.update"})


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackTrouble:
    """One reason. ``message`` contains no code of Slack, so that everybody may read it."""

    part: str
    code: str
    message: str
    remedy: str
    is_fatal: bool  # answers cannot be posted, so the coordinator is not ready


def slack_troubles(token_code: str | None, refused: Mapping[str, str]) -> tuple[SlackTrouble, ...]:
    """Returns the troubles with Slack. ``refused`` are codes by method, or by channel for `ACCESS_CODES`."""
    found: list[SlackTrouble] = []
    if token_code:
        message = "Slack refuses the bot token; everything for Slack waits, and is sent once it accepts a token."
        remedy = (
            "Install the app again, put its Bot User OAuth Token into SLACK_BOT_TOKEN and run swarm reload; "
            "a token from the process's environment needs a restart."
        )
        found.append(SlackTrouble(part=AUTH_PART, code=token_code, message=message, remedy=remedy, is_fatal=True))
    methods = sorted(method for method, code in refused.items() if code == MISSING_SCOPE)
    if methods:
        waits = "; posts wait" if _POSTS & {*methods} else ""
        message = f"The Slack app lacks a scope for {', '.join(methods)}{waits}."
        remedy = "Add the scopes of `swarm slack manifest` to the app and install it again."
        is_fatal = bool(_POSTS & {*methods})
        found.append(
            SlackTrouble(part="slack_scopes", code=MISSING_SCOPE, message=message, remedy=remedy, is_fatal=is_fatal)
        )
    for channel, code in sorted(refused.items()):
        if code in ACCESS_CODES:
            message = f"Slack refuses the app access to {channel}; what is for this channel waits for a day."
            remedy = "Ask an administrator of the workspace to grant the app access."
            found.append(SlackTrouble(part="slack_access", code=code, message=message, remedy=remedy, is_fatal=False))
    return tuple(found)
