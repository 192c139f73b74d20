"""The environment variables of CAIPE's Slack bot (``integrations/slack_bot`` and its Helm chart), in all its versions.

Those with the same meaning as one of our settings are further names of it (`swarm.config.variables.VARIABLES`). `READ`
are translated together with the channels. `WITHOUT_COUNTERPART` are known, and named when they are set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from swarm.config.importing.translation import Fate, Note

BOT_CONFIG: Final = "SLACK_INTEGRATION_BOT_CONFIG"
DEFAULT_AGENT: Final = "SLACK_INTEGRATION_DEFAULT_AGENT_ID"
DM_AGENT: Final = "SLACK_INTEGRATION_DM_AGENT_ID"
VICTOROPS_AGENT: Final = "SLACK_INTEGRATION_VICTOROPS_AGENT_ID"
ALERTS_PROMPT: Final = "SLACK_INTEGRATION_PROMPT_AI_ALERTS"
SILENCE: Final = "SLACK_INTEGRATION_SILENCE_ENV"
API_URL: Final = "CAIPE_API_URL"
SERVICE: Final = "dynamic-agents"
"""The name under ``agents.remote`` of the service whose agents the channels name."""

_ENABLE_AUTH: Final = "SLACK_INTEGRATION_ENABLE_AUTH"
_OAUTH: Final = {
    key: (f"SLACK_INTEGRATION_AUTH_{key.upper()}", f"OAUTH2_{key.upper()}")
    for key in ("token_url", "client_id", "client_secret", "scope", "audience")
}

READ: Final = frozenset(
    {BOT_CONFIG, DEFAULT_AGENT, DM_AGENT, VICTOROPS_AGENT, SILENCE, API_URL, _ENABLE_AUTH}.union(*_OAUTH.values())
)
"""The variables that are translated."""

_PROMPT: Final = "the wording belongs into the agent's system prompt, which gets client_context.{}"
_STATUS: Final = "agents' states have fixed texts"
_ACCESS: Final = "who may use an agent is in channels.*.allowed_users and agents.access"
_ACCOUNTS: Final = "Slack's own identities count, there are no linked accounts"
_ADMIN: Final = "channels are configured in swarm.yaml, and `swarm reload` applies changes"

WITHOUT_COUNTERPART: Final[Mapping[str, str]] = {
    "SLACK_INTEGRATION_APP_NAME": "the app is called as in Slack",
    "SLACK_INTEGRATION_LANGFUSE_ENABLED": "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are enough",
    "SLACK_INTEGRATION_MESSAGE_CHAR_LIMIT": "messages reach agents in full",
    "SLACK_INTEGRATION_THREAD_HISTORY_LIMIT": "threads reach agents in full, up to prompts.history_characters",
    "SLACK_INTEGRATION_PROMPT_RESPONSE_STYLE": _PROMPT.format("source, and the keys of channels.*.client_context"),
    "SLACK_INTEGRATION_PROMPT_QANDA": _PROMPT.format("channel_name and overthink"),
    "SLACK_INTEGRATION_PROMPT_OVERTHINK_QANDA": _PROMPT.format("overthink"),
    "SLACK_INTEGRATION_PROMPT_MENTION": _PROMPT.format("channel_type"),
    "SLACK_INTEGRATION_PROMPT_DM": _PROMPT.format("channel_type (dm)"),
    "SLACK_INTEGRATION_PROMPT_HUMBLE_FOLLOWUP": _PROMPT.format("humble_followup"),
    "SLACK_ADMIN_ALLOWED_CLIENT_IDS": _ADMIN,
    "SLACK_ADMIN_API_ENABLED": _ADMIN,
    "SLACK_ADMIN_API_HOST": _ADMIN,
    "SLACK_ADMIN_API_PORT": _ADMIN,
    "SLACK_ADMIN_DEV_AUTH_ENABLED": _ADMIN,
    "SLACK_ADMIN_DEV_TOKEN": _ADMIN,
    "SLACK_ADMIN_JWKS_URL": _ADMIN,
    "SLACK_ADMIN_JWT_AUDIENCE": _ADMIN,
    "SLACK_ADMIN_JWT_ISSUER": _ADMIN,
    "SLACK_AGENT_ROUTES_ENABLED": "routes in CAIPE's database are not read; channels names each channel's agent",
    "SLACK_AGENT_ROUTES_MODE": "routes in CAIPE's database are not read; channels names each channel's agent",
    "SLACK_AGENT_ROUTES_TTL_SECONDS": "routes in CAIPE's database are not read; channels names each channel's agent",
    "SLACK_AUTO_ASSIGN_UNMAPPED_CHANNELS": "agents.default answers mentions in channels without an entry",
    "SLACK_DEFAULT_AGENT_ID": f"agents.default ({DEFAULT_AGENT}) answers mentions in channels without an entry",
    "SLACK_DEFAULT_TEAM_SLUG": _ACCESS,
    "SLACK_BOT_DISABLE_LOG_REDACTION": "logs never contain secrets",
    "SLACK_COMMAND_RATE_LIMIT": "limits.messages_per_minute_per_user limits messages and clicks",
    "SLACK_COMMAND_RATE_WINDOW": "limits.messages_per_minute_per_user limits messages and clicks",
    "SLACK_FORCE_LINK": _ACCOUNTS,
    "SLACK_JIT_ALLOWED_EMAIL_DOMAINS": "channels.*.allowed_domains limits who may use the agents",
    "SLACK_JIT_CREATE_USER": _ACCOUNTS,
    "SLACK_LINKING_PROMPT_COOLDOWN": _ACCOUNTS,
    "SLACK_LINK_HMAC_SECRET": _ACCOUNTS,
    "SLACK_LOADING_MESSAGES": _STATUS,
    "SLACK_OVERTHINK_STATUS_DISPLAY_SECS": "a silent run shows no status",
    "SLACK_PLATFORM_SETTINGS_TIMEOUT_SECONDS": _ADMIN,
    "SLACK_PLATFORM_SETTINGS_TTL_SECONDS": _ADMIN,
    "SLACK_RBAC_ENABLED": _ACCESS,
    "SLACK_REBAC_API_URL": _ACCESS,
    "SLACK_STATUS_ERROR": _STATUS,
    "SLACK_STATUS_SKIP_DEFER": "a silent run shows no status",
    "SLACK_STATUS_SKIP_LOW_CONFIDENCE": "a silent run shows no status",
    "SLACK_WORKSPACE_ALIAS": "the workspace is the one of the bot token",
    "SLACK_WORKSPACE_ID": "the workspace is the one of the bot token",
    "SLACK_WORKSPACE_URL": "the workspace is the one of the bot token",
    "CAIPE_CONNECT_RETRIES": "an agent that cannot be reached is tried again for as long as it takes",
    "CAIPE_CONNECT_RETRY_DELAY": "an agent that cannot be reached is tried again for as long as it takes",
    "CAIPE_PLATFORM_AUDIENCE": "OAUTH2_AUDIENCE is the audience of access tokens",
    "CAIPE_UI_BASE_URL": _ACCOUNTS,
    "JIRA_BASE_URL": "the agent that opens tickets knows its Jira",
}
"""The other variables, each with the reason why nothing reads it."""

_OF_CAIPE_ONLY: Final = ("SLACK_INTEGRATION_", "SLACK_", "CAIPE_")


def notes(variables: Mapping[str, str]) -> Iterator[Note]:
    """Yields a note on each variable that is set and has no counterpart.

    Names that other programs use as well count only if there is a configuration of CAIPE's bot.
    """
    for name, reason in WITHOUT_COUNTERPART.items():
        if variables.get(name) and (name.startswith(_OF_CAIPE_ONLY) or BOT_CONFIG in variables):
            yield Note(source=name, fate=Fate.LEFT, remark=reason)


def config_file(value: str, folder: Path) -> Path | None:
    """Returns the file that `BOT_CONFIG` names, or None if there is no such file, as for YAML in the variable."""
    path = os.path.join(folder, os.path.expanduser(value))  # pathlib fails for long texts
    return Path(path) if os.path.isfile(path) else None


def is_on(value: str | None) -> bool:
    """Whether a variable of CAIPE switches something on."""
    return (value or "").strip().lower() == "true"


def oauth(variables: Mapping[str, str]) -> dict[str, Any]:
    """Returns the client credentials as settings, by key with the variable's name; empty if they are switched off."""
    if not is_on(variables.get(_ENABLE_AUTH)):
        return {}
    return {key: name for key, names in _OAUTH.items() for name in reversed(names) if variables.get(name)}
