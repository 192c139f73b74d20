"""Reads the settings from their sources and combines them.

If the settings contain a model but no agents, default agents are added, so that a model alone is enough to start.

`VARIABLES` lists the environment variables with the settings that they change. Variables that look like settings but
are never read are reported, so that a typo in a name does not go unnoticed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from swarm.config.builtin import BuiltinAgentSettings, Kind
from swarm.config.settings import Settings
from swarm.domain.answers.agents import Dialect
from swarm.domain.errors import ConfigurationError
from swarm.telemetry.redaction import Redactor

CONFIG_VARIABLE: Final = "SWARM_CONFIG"
"""The variable that names the file read in place of ``./swarm.yaml``. It changes no setting, so it is not in
VARIABLES."""

DYNAMIC_AGENTS_VARIABLE: Final = "DYNAMIC_AGENTS_URL"
DYNAMIC_AGENTS: Final = "dynamic-agents"
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
    "SWARM_RETENTION_AGENT_MESSAGES_DAYS": ("retention", "agent_messages_days"),
    "SWARM_RETENTION_AUDIT_DAYS": ("retention", "audit_days"),
    "SWARM_RETENTION_ROUTING_DAYS": ("retention", "routing_days"),
    "SWARM_LOG_LEVEL": ("log", "level"),
    "SWARM_LOG_FORMAT": ("log", "format"),
    "SWARM_REMOVE_SECRETS": ("remove_secrets",),
    "SWARM_PROMPT_RETRY_PREFIX": ("prompts", "retry_prefix"),
    "SLACK_INTEGRATION_PROMPT_RETRY_PREFIX": ("prompts", "retry_prefix"),
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
}
"""The environment variables, each with the setting that it changes. Of several for one setting, the first counts."""

READ_ELSEWHERE: Final = frozenset(
    {
        CONFIG_VARIABLE,
        "SWARM_AGENT_NAME",  # the demo's agents
        "SWARM_AGENT_TOKEN",  # for `swarm tray` and agents
        "SWARM_AGENT_TOKEN_FILE",  # the demo's agents
        "SWARM_CONFORMANCE_TOKEN",  # `swarm conformance`
        "SWARM_RUN",  # marks programs run by a host tool; swarm itself may be such a program
    }
)
"""Our variables that change no setting."""


OURS: Final = ("SWARM_", "SLACK_INTEGRATION_")
"""The prefixes of our variables; variables with other names may belong to other programs."""

_OF_TESTS: Final = "SWARM_TEST_"
_KNOWN: Final = READ_ELSEWHERE | VARIABLES.keys()

_NOT_YET: Final = {
    "SLACK_INTEGRATION_BOT_CONFIG": (
        "it is not supported yet; configure channels in swarm.yaml (channels, channel_defaults), see "
        "docs/configuration.md"
    )
}

_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OF_KUBERNETES: Final = re.compile(
    r"SWARM(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
"""Variables that Kubernetes sets in every container for a Service called swarm or swarm-something."""
_KUBERNETES_PORT: Final = re.compile(r"(tcp|udp|sctp)://")


def _report_unread(sources: Mapping[str, Mapping[str, str]], settings: Settings, *texts: str) -> None:
    """Raises ConfigurationError, which names each of our variables that is never read, and its source.

    ``sources`` has the variables that are set, by source. ``texts`` are the contents of the files with ``${NAME}``
    placeholders.
    """
    read = {*_passed_on(settings), *(name for text in texts for name in _PLACEHOLDER.findall(text))}
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


def _text_of(path: Path) -> str:
    """Returns a file's text, or an empty string for an unreadable file, which is reported where the file is used."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _passed_on(settings: Settings) -> Iterator[str]:
    """Yields the variables that tools pass to their programs."""
    for chosen in (settings.tools.git, settings.tools.shell, settings.tools.delegates):
        yield from chosen.environment


def _is_known(name: str, value: str) -> bool:
    if name in _KNOWN or name.startswith(_OF_TESTS) or _OF_KUBERNETES.fullmatch(name):
        return True
    return name.endswith("_PORT") and _KUBERNETES_PORT.match(value) is not None


def _advice(name: str) -> str:
    if name in _NOT_YET:
        return _NOT_YET[name]
    close = [*_without_prefix(name), *difflib.get_close_matches(name, sorted(_KNOWN), n=1)]
    return f"is {close[0]} meant?" if close else "there is no such setting"


def _without_prefix(name: str) -> Iterator[str]:
    """Yields likely intended names: PORT for SWARM_PORT, SLACK_BOT_TOKEN for SLACK_INTEGRATION_BOT_TOKEN."""
    for prefix, instead in (("SWARM_", ""), ("SLACK_INTEGRATION_", "SLACK_")):
        if name.startswith(prefix) and (other := instead + name.removeprefix(prefix)) in _KNOWN:
            yield other


_SECRET = re.compile(r"(token|secret|key)$")
_REDACTOR: Final = Redactor()


class BadSettings(ConfigurationError):
    """Some settings are invalid. ``problems`` has each bad key with its problem."""

    def __init__(self, error: ValidationError, variables: Mapping[str, str]) -> None:
        found = [_problem(part, variables) for part in error.errors(include_url=False)]
        self.problems: Mapping[str, str] = dict(found)
        super().__init__(
            "; ".join(f"{key} {wrong}" if wrong.startswith("is ") else f"{key}: {wrong}" for key, wrong in found)
        )


def _problem(part: ErrorDetails, variables: Mapping[str, str]) -> tuple[str, str]:
    """Returns the key with its environment variable (of several, the one that is set), and the problem."""
    path = tuple(str(step) for step in part["loc"])
    names = [name for name, known in VARIABLES.items() if known == path]
    variable = next((name for name in names if variables.get(name)), names[0] if names else None)
    key = ".".join(path) + (f" ({variable})" if variable else "")
    if part["type"] == "extra_forbidden":
        return key, "there is no such setting"
    expected = part["msg"].removeprefix("Value error, ")
    value = part.get("input")
    if isinstance(value, dict | list) or (path and _SECRET.search(path[-1])) or part["type"] == "missing":
        return key, expected
    return key, f"is {_REDACTOR.line(repr(value))}: {expected}"


ASSISTANT: Final = "assistant"
ROUTER: Final = "tools"


def _with_default_agents(settings: Settings, folder: Path) -> Settings:
    """Returns the settings, adding an assistant if there is a model but no agent runs in the coordinator.

    If MCP servers are configured, a router is added too. The router comes first, so that it answers if no default is
    named and no other lead is older.
    """
    agents = settings.agents
    if not settings.model.name or agents.builtin or agents.remote:
        return settings
    builtin = {ASSISTANT: BuiltinAgentSettings(kind=Kind.ASSISTANT, description="Converses and uses tools.")}
    if (folder / settings.tools.servers_config).is_file():
        router = BuiltinAgentSettings(kind=Kind.ROUTER, description="Turns a sentence into a call of a tool.")
        builtin = {ROUTER: router, **builtin}
    return settings.model_copy(update={"agents": agents.model_copy(update={"builtin": builtin})})


CONFIG_FILE: Final = "swarm.yaml"


def load(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> Settings:
    """Returns the settings of a process started in ``folder``. Raises ConfigurationError, which names every bad key."""
    folder = folder or Path.cwd()
    sources = _sources(environment, folder, user_home or Path.home())
    variables = _merged(sources)
    file = settings_file(folder, variables)
    values = _read_yaml(file, variables)
    for name, path in reversed(list(VARIABLES.items())):  # the first variable of a setting takes precedence
        if variables.get(name):
            _put(values, path, variables[name])
    if variables.get(DYNAMIC_AGENTS_VARIABLE):
        _complete_dynamic_agents(values)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise BadSettings(error, variables) from error
    _report_unread(
        sources,
        settings,
        _text_of(file),
        _text_of(folder / settings.tools.servers_config),
    )
    return _with_default_agents(settings, folder)


def read_variables(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> dict[str, str]:
    """Returns all variables. The environment takes precedence over ``./.env``, and ``./.env`` over ``~/.swarm/.env``.
    Empty variables count as not set."""
    return _merged(_sources(environment, folder or Path.cwd(), user_home or Path.home()))


def _sources(environment: Mapping[str, str] | None, folder: Path, user_home: Path) -> dict[str, dict[str, str]]:
    """Returns the variables that are set, by source, in order of precedence."""
    given: dict[str, Mapping[str, str | None]] = {
        "in the environment": dict(os.environ if environment is None else environment)
    }
    files = {f"in {path}": dotenv_values(path) for path in dotenv_files(folder, user_home)}
    return {
        where: {name: value for name, value in variables.items() if value}
        for where, variables in (given | files).items()
    }


def _merged(sources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: value for variables in reversed(list(sources.values())) for name, value in variables.items()}


def dotenv_files(folder: Path, user_home: Path) -> tuple[Path, Path]:
    """Returns the files that may contain variables, in order of precedence. None of them has to exist."""
    return folder / ".env", user_home / ".swarm" / ".env"


def settings_file(folder: Path, variables: Mapping[str, str]) -> Path:
    """Returns the settings file. A file named by a variable must exist; ``swarm.yaml`` may be missing."""
    named = variables.get(CONFIG_VARIABLE)
    path = folder / (named or CONFIG_FILE)
    if named and not path.exists():
        raise ConfigurationError(f"{CONFIG_VARIABLE} is {named}: there is no such file")
    return path


def _read_yaml(path: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} cannot be read: {_reason(error)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: a mapping of settings is expected, not {type(document).__name__}")
    return {str(key): _filled_in(value, variables, str(key), path) for key, value in document.items()}


def _reason(error: Exception) -> str:
    """Returns the problem with a file, without an excerpt, which might contain a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


def _filled_in(value: object, variables: Mapping[str, str], key: str, path: Path) -> Any:
    """Returns the value with each ``${NAME}`` replaced."""
    if isinstance(value, dict):
        return {str(name): _filled_in(part, variables, f"{key}.{name}", path) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled_in(part, variables, f"{key}[{index}]", path) for index, part in enumerate(value)]
    if not isinstance(value, str):
        return value
    missing = [name for name in _PLACEHOLDER.findall(value) if name not in variables]
    if missing:
        raise ConfigurationError(f"{path}: {key} refers to ${{{missing[0]}}}, which is not set")
    return _PLACEHOLDER.sub(lambda found: variables[found.group(1)], value)


def _put(values: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    *parents, last = path
    for parent in parents:
        section = values.setdefault(parent, {})
        if not isinstance(section, dict):
            return  # the model reports the problem
        values = section
    values[last] = value


def _complete_dynamic_agents(values: dict[str, Any]) -> None:
    """Completes the settings of the agent behind DYNAMIC_AGENTS_URL. It uses the caipe protocol, and is the default
    agent if none is named."""
    agents = values.get("agents")
    remote = agents.get("remote") if isinstance(agents, dict) else None
    if isinstance(agents, dict) and isinstance(remote, dict) and isinstance(remote.get(DYNAMIC_AGENTS), dict):
        remote[DYNAMIC_AGENTS].setdefault("dialect", Dialect.CAIPE)
        agents["default"] = agents.get("default") or DYNAMIC_AGENTS
