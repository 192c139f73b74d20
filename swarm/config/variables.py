"""The environment variables: the settings that they change, and variables that are set but never read.

A variable whose name looks like one of ours and that nothing reads is reported, so that a typo in a name does not go
unnoticed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from swarm.config.importing import caipe_variables
from swarm.config.settings import Settings
from swarm.domain.errors import ConfigurationError

CONFIG_VARIABLE: Final = "SWARM_CONFIG"
"""The variable that names the file read in place of ``./swarm.yaml``. It changes no setting, so it is not in
VARIABLES."""

DYNAMIC_AGENTS_VARIABLE: Final = "DYNAMIC_AGENTS_URL"
DYNAMIC_AGENTS: Final = caipe_variables.SERVICE
"""The name of the agent that DYNAMIC_AGENTS_URL configures."""

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
    "SWARM_DATABASE_POOLER_URL": ("database", "pooler_url"),
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
    "SWARM_RETENTION_RUN_LOGS_DAYS": ("retention", "run_logs_days"),
    "SWARM_RETENTION_AGENT_MESSAGES_DAYS": ("retention", "agent_messages_days"),
    "SWARM_RETENTION_AUDIT_DAYS": ("retention", "audit_days"),
    "SWARM_RETENTION_ROUTING_DAYS": ("retention", "routing_days"),
    "SWARM_LOG_LEVEL": ("log", "level"),
    "SWARM_LOG_FORMAT": ("log", "format"),
    "SWARM_REMOVE_SECRETS": ("remove_secrets",),
    "SWARM_PROMPT_RETRY_PREFIX": ("prompts", "retry_prefix"),
    "CAIPE_UI_URL": ("feedback", "caipe_url"),
    "LANGFUSE_HOST": ("feedback", "langfuse", "url"),
    "LANGFUSE_PUBLIC_KEY": ("feedback", "langfuse", "public_key"),
    "LANGFUSE_SECRET_KEY": ("feedback", "langfuse", "secret_key"),
    "SWARM_FEEDBACK_WEBHOOK_URL": ("feedback", "webhook", "url"),
    "SWARM_FEEDBACK_WEBHOOK_SECRET": ("feedback", "webhook", "secret"),
    "SWARM_METRICS_TOKEN": ("metrics", "token"),
    "SWARM_METRICS_OPEN": ("metrics", "open"),
    "SWARM_TRACES_ENDPOINT": ("traces", "endpoint"),
    "SWARM_TEST_CLOCK": ("test_clock",),
    # Names of CAIPE's Slack bot
    "SLACK_INTEGRATION_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_INTEGRATION_APP_TOKEN": ("slack", "app_token"),
    "SLACK_INTEGRATION_SIGNING_SECRET": ("slack", "signing_secret"),
    "SLACK_INTEGRATION_BOT_MODE": ("slack", "mode"),
    "SLACK_BOT_MODE": ("slack", "mode"),
    "SLACK_INTEGRATION_PROMPT_AI_ALERTS": ("channel_defaults", "alerts", "template"),
    "SLACK_INTEGRATION_PROMPT_RETRY_PREFIX": ("prompts", "retry_prefix"),
}
"""The environment variables, each with the setting that it changes. Of several for one setting, the first wins."""

READ_ELSEWHERE: Final = frozenset(
    {
        CONFIG_VARIABLE,
        "SWARM_AGENT_NAME",  # the demo's agents
        "SWARM_AGENT_TOKEN",  # for `swarm tray` and agents
        "SWARM_AGENT_TOKEN_FILE",  # the demo's agents
        "SWARM_TOKEN",  # of a runner
        "SWARM_CONFORMANCE_TOKEN",  # `swarm conformance`
        "SWARM_LEASE",  # for commands that a runner starts
        "SWARM_MCP_AUTHORIZATION",  # the same
        "SWARM_MCP_URL",  # the same
        "SWARM_RUN",  # marks programs run by a host tool; swarm itself may be such a program
    }
)
"""Our variables that change no setting."""


OURS: Final = ("SWARM_", "SLACK_INTEGRATION_")
"""The prefixes of our variables; variables with other names may belong to other programs."""

_OF_TESTS: Final = "SWARM_TEST_"
KNOWN: Final = READ_ELSEWHERE | VARIABLES.keys() | caipe_variables.READ | caipe_variables.WITHOUT_COUNTERPART.keys()

PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAMED: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
"""Also the placeholders of other programs, in a file of MCP servers."""

_OF_KUBERNETES: Final = re.compile(
    r"SWARM(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
"""Variables that Kubernetes sets in every container for a Service called swarm or swarm-something."""
_KUBERNETES_PORT: Final = re.compile(r"(tcp|udp|sctp)://")


def report_unread(sources: Mapping[str, Mapping[str, str]], settings: Settings, *texts: str) -> None:
    """Raises ConfigurationError, which names each of our variables that is never read, and its source.

    ``sources`` has the variables that are set, by source. ``texts`` are the contents of the files with ``${NAME}``
    placeholders.
    """
    read = {*_passed_on(settings), *(name for text in texts for name in _NAMED.findall(text))}
    found = [
        f"{name} ({where}) is never read: {_advice(name)}"
        for where, variables in sources.items()
        for name, value in variables.items()
        if name.startswith(OURS) and name not in read and not _is_known(name, value)
    ]
    if found:
        raise ConfigurationError(
            "; ".join(found), hint="Correct the name, or unset it; docs/configuration.md lists all variables."
        )


def _passed_on(settings: Settings) -> Iterator[str]:
    """Yields the variables that tools pass to their programs."""
    for chosen in (settings.tools.git, settings.tools.shell, settings.tools.delegates):
        yield from chosen.environment


def _is_known(name: str, value: str) -> bool:
    if name in KNOWN or name.startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(name):
        return True
    return name.endswith("_PORT") and _KUBERNETES_PORT.match(value) is not None


def _advice(name: str) -> str:
    close = [*_without_prefix(name), *difflib.get_close_matches(name, sorted(KNOWN), n=1)]
    return f"is {close[0]} meant?" if close else "there is no such setting"


def _without_prefix(name: str) -> Iterator[str]:
    """Yields likely intended names: PORT for SWARM_PORT, SLACK_BOT_TOKEN for SLACK_INTEGRATION_BOT_TOKEN."""
    for prefix, instead in (("SWARM_", ""), ("SLACK_INTEGRATION_", "SLACK_")):
        if name.startswith(prefix) and (other := instead + name.removeprefix(prefix)) in KNOWN:
            yield other
