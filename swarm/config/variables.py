"""The environment variables, and the setting for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONFIG_VARIABLE: Final = "SWARM_CONFIG"
"""Names the file read in place of ``./swarm.yaml``; it stands for no setting, so it is not in VARIABLES."""

DYNAMIC_AGENTS_VARIABLE: Final = "DYNAMIC_AGENTS_URL"
DYNAMIC_AGENTS: Final = "dynamic-agents"
"""The name of the agent behind this variable."""

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "SLACK_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_APP_TOKEN": ("slack", "app_token"),
    "SLACK_SIGNING_SECRET": ("slack", "signing_secret"),
    "SLACK_API_BASE_URL": ("slack", "api_base_url"),
    "SLACK_AGENT_SESSIONS": ("slack", "agent_sessions"),
    "SWARM_SLACK_MODE": ("slack", "mode"),
    "SWARM_SLACK_TIMEOUT_SECONDS": ("slack", "timeout_seconds"),
    "SWARM_SLACK_PACE": ("slack", "pace"),
    "SWARM_HOST": ("http", "host"),
    "PORT": ("http", "port"),
    "SWARM_URL": ("http", "url"),
    "SWARM_ALLOWED_HOSTS": ("http", "allowed_hosts"),
    "SWARM_ALLOWED_ORIGINS": ("http", "allowed_origins"),
    "SWARM_DATABASE_URL": ("database", "url"),
    "SWARM_HOME": ("home",),
    "SWARM_OPERATOR_TOKEN": ("operator_token",),
    "SWARM_ENROLMENT_KEY": ("enrolment_key",),
    "SWARM_DEFAULT_AGENT": ("agents", "default"),
    "SWARM_OFFLINE_AFTER_SECONDS": ("agents", "offline_after_seconds"),
    DYNAMIC_AGENTS_VARIABLE: ("agents", "remote", DYNAMIC_AGENTS, "url"),
    "LLM_MODEL": ("model", "name"),
    "LLM_PROVIDER": ("model", "provider"),
    "OPENAI_API_KEY": ("providers", "openai", "api_key"),
    "OPENAI_BASE_URL": ("providers", "openai", "base_url"),
    "ANTHROPIC_API_KEY": ("providers", "anthropic", "api_key"),
    "ANTHROPIC_BASE_URL": ("providers", "anthropic", "base_url"),
    "OLLAMA_BASE_URL": ("providers", "ollama", "base_url"),
    "SWARM_SERVERS_CONFIG": ("tools", "servers_config"),
    "SWARM_PROMPTS_CONFIG": ("tools", "prompts_config"),
    "SWARM_WORK_TREE": ("tools", "work_tree"),
    "SWARM_DOCUMENTS": ("documents", "folder"),
    "SEARCH_MAX_CALLS": ("tools", "search_max_calls"),
    "FETCH_DOCUMENT_MAX_CALLS": ("tools", "fetch_document_max_calls"),
    "SWARM_MESSAGES_PER_MINUTE": ("limits", "messages_per_minute_per_user"),
    "SWARM_LEASE_SECONDS": ("leases", "seconds"),
    "SWARM_FILE_CAP_BYTES": ("files", "cap_bytes"),
    "SWARM_RETENTION_THREADS_DAYS": ("retention", "threads_days"),
    "SWARM_RETENTION_SESSIONS_DAYS": ("retention", "sessions_days"),
    "SWARM_RETENTION_RUNS_DAYS": ("retention", "runs_days"),
    "SWARM_RETENTION_AGENT_MESSAGES_DAYS": ("retention", "agent_messages_days"),
    "SWARM_RETENTION_ROUTING_DAYS": ("retention", "routing_days"),
    "SWARM_LOG_LEVEL": ("log", "level"),
    "SWARM_LOG_FORMAT": ("log", "format"),
    "SWARM_REMOVE_SECRETS": ("remove_secrets",),
    "SWARM_METRICS_TOKEN": ("metrics", "token"),
    "SWARM_METRICS_OPEN": ("metrics", "open"),
    "SWARM_TRACES_ENDPOINT": ("traces", "endpoint"),
    "SWARM_TEST_CLOCK": ("test_clock",),
}
"""The environment variables, each with its setting."""

READ_ELSEWHERE: Final = frozenset(
    {
        CONFIG_VARIABLE,
        "SWARM_AGENT_NAME",  # the demo's agents
        "SWARM_AGENT_TOKEN",  # `swarm tray`, and agents
        "SWARM_AGENT_TOKEN_FILE",  # the demo's agents
        "SWARM_CONFORMANCE_TOKEN",  # `swarm conformance`
        "SWARM_RUN",  # the mark of programs run by a tool of the host, which may be swarm
    }
)
"""Variables of ours that stand for no setting."""
