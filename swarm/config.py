"""Settings: one frozen object, checked at start, that names the key, the value and what is expected.

A value comes from the first of: the process's environment, ``./.env``, ``~/.swarm/.env``, ``swarm.yaml``, the default.
`VARIABLES` lists every environment variable with the setting it stands for. In ``swarm.yaml`` the settings have the
shape of the classes below, and ``${NAME}`` stands for a variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from swarm.domain.access import Listen
from swarm.domain.agents import OFFLINE_AFTER_SECONDS
from swarm.domain.errors import ConfigurationError
from swarm.domain.files import DEFAULT_CAP_BYTES
from swarm.domain.inbox import REACTION_ANSWERED, REACTION_FAILED, REACTION_STORED
from swarm.domain.leases import LEASE_SECONDS

CONFIG_FILE: Final = "swarm.yaml"

VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "SLACK_BOT_TOKEN": ("slack", "bot_token"),
    "SLACK_APP_TOKEN": ("slack", "app_token"),
    "SLACK_SIGNING_SECRET": ("slack", "signing_secret"),
    "SLACK_API_BASE_URL": ("slack", "api_base_url"),
    "SWARM_SLACK_MODE": ("slack", "mode"),
    "SWARM_SLACK_TIMEOUT_SECONDS": ("slack", "timeout_seconds"),
    "SWARM_SLACK_PACE": ("slack", "pace"),
    "SWARM_HOST": ("http", "host"),
    "PORT": ("http", "port"),
    "SWARM_DATABASE_URL": ("database", "url"),
    "SWARM_HOME": ("home",),
    "SWARM_OPERATOR_TOKEN": ("operator_token",),
    "SWARM_ENROLMENT_KEY": ("enrolment_key",),
    "SWARM_DEFAULT_AGENT": ("agents", "default"),
    "SWARM_OFFLINE_AFTER_SECONDS": ("agents", "offline_after_seconds"),
    "SWARM_LEASE_SECONDS": ("leases", "seconds"),
    "SWARM_FILE_CAP_BYTES": ("files", "cap_bytes"),
    "SWARM_LOG_LEVEL": ("log", "level"),
    "SWARM_LOG_FORMAT": ("log", "format"),
    "SWARM_METRICS_TOKEN": ("metrics", "token"),
    "SWARM_METRICS_OPEN": ("metrics", "open"),
    "SWARM_TRACES_ENDPOINT": ("traces", "endpoint"),
}
"""Environment variable -> the setting it stands for."""

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_CHANNEL_ID = re.compile(r"[CDG][A-Z0-9]{2,}")


class SlackMode(StrEnum):
    """How Slack reaches us."""

    SOCKET = "socket"
    HTTP = "http"


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"  # text on a terminal, else JSON
    TEXT = "text"
    JSON = "json"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SlackSettings(_Section):
    """The Slack app. Without tokens there is no Slack, and ``swarm up`` says so."""

    bot_token: SecretStr | None = Field(None, description="xoxb-…, from OAuth & Permissions")
    app_token: SecretStr | None = Field(None, description="xapp-…, from Basic Information, for Socket Mode")
    signing_secret: SecretStr | None = Field(None, description="from Basic Information, for HTTP mode")
    api_base_url: str = Field("https://slack.com/api/", description="another address reaches the twin")
    mode: SlackMode = Field(SlackMode.SOCKET, description="socket, or http for the Events API at /slack/events")
    pace: bool = Field(True, description="keep to Slack's rate limits; off only for load tests against the twin")
    timeout_seconds: float = Field(10, gt=0, le=60, description="how long one call of Slack may take")

    @field_validator("api_base_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("an http or https URL is expected")
        return url if url.endswith("/") else url + "/"

    @model_validator(mode="after")
    def _is_complete(self) -> SlackSettings:
        """One token without the other stops the start."""
        partner, name = (
            (self.app_token, "app_token (SLACK_APP_TOKEN)")
            if self.mode is SlackMode.SOCKET
            else (self.signing_secret, "signing_secret (SLACK_SIGNING_SECRET)")
        )
        if self.bot_token and not partner:
            raise ValueError(f"bot_token is set, so {name} is expected as well for mode {self.mode}")
        if partner and not self.bot_token:
            raise ValueError(f"{name} is set, so bot_token (SLACK_BOT_TOKEN) is expected as well")
        return self


class HttpSettings(_Section):
    """Where the coordinator listens."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65_535, description="0 takes a free port")


class DatabaseSettings(_Section):
    """Where the state is kept."""

    url: str | None = Field(None, description="sqlite:///path or postgresql://…; without it SQLite in the home folder")


class AgentSettings(_Section):
    """Who answers."""

    default: str | None = Field(None, description="the default lead's name; without it the oldest that is online")
    offline_after_seconds: float = Field(OFFLINE_AFTER_SECONDS, gt=0, description="silence after which one is offline")


class LeaseSettings(_Section):
    """The right to work, for a while."""

    seconds: float = Field(LEASE_SECONDS, ge=2, le=3_600, description="without renewal; agents renew every third of it")


class ReactionSettings(_Section):
    """Emoji that show a message's state, by name; null switches one off."""

    stored: str | None = REACTION_STORED
    answered: str | None = REACTION_ANSWERED
    failed: str | None = REACTION_FAILED


class ChannelSettings(_Section):
    """What holds in one channel, or everywhere where nothing else is said."""

    agent: str | None = Field(None, description="an agent's name; without it the default lead")
    enabled: bool = True
    listen: Listen = Field(Listen.MENTION, description="mention, all (people's root messages), bots (allowed bots too)")
    allowed_users: frozenset[str] | None = Field(None, description="user ids; null allows everybody")
    allowed_bots: frozenset[str] = Field(frozenset(), description="bot ids (B…) or bot users' ids (U…)")


class FileSettings(_Section):
    """Attachments on their way from and to Slack."""

    cap_bytes: int = Field(DEFAULT_CAP_BYTES, gt=0, description="no larger file is moved")


class LogSettings(_Section):
    """What the log says."""

    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    format: LogFormat = Field(LogFormat.AUTO, description="text, json, or auto: JSON unless it goes to a terminal")


class MetricsSettings(_Section):
    """Who may read ``/metrics``, beside the operator."""

    token: SecretStr | None = Field(None, description="a bearer token that is good for /metrics only")
    open: bool = Field(False, description="let everybody read it who can reach it")


class TracesSettings(_Section):
    """OpenTelemetry. Off without an endpoint."""

    endpoint: str | None = Field(None, description="an OTLP collector's HTTP address; needs the extra 'otel'")

    @field_validator("endpoint")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("an http or https URL is expected, for example http://127.0.0.1:4318")
        return url


class Settings(_Section):
    """All settings of a coordinator."""

    home: Path = Field(Path("~/.swarm"), description="where the embedded set-up keeps its files")
    operator_token: SecretStr | None = Field(None, description="for administration; made and kept in home without it")
    enrolment_key: SecretStr | None = Field(None, description="lets programs register themselves as workers")
    slack: SlackSettings = SlackSettings()
    http: HttpSettings = HttpSettings()
    database: DatabaseSettings = DatabaseSettings()
    agents: AgentSettings = AgentSettings()
    leases: LeaseSettings = LeaseSettings()
    reactions: ReactionSettings = ReactionSettings()
    channel_defaults: ChannelSettings = ChannelSettings()
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict, description="by channel id, C0123456789")
    files: FileSettings = FileSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    traces: TracesSettings = TracesSettings()

    @field_validator("channels")
    @classmethod
    def _are_channel_ids(cls, channels: Mapping[str, ChannelSettings]) -> Mapping[str, ChannelSettings]:
        for key in channels:
            if not _CHANNEL_ID.fullmatch(key):
                raise ValueError(f"'{key}' is not a channel id; an id such as C0123456789 is expected (see 'About')")
        return channels

    @property
    def database_url(self) -> str:
        """The database, the embedded one where none is named."""
        return self.database.url or f"sqlite:///{self.home.expanduser() / 'swarm.db'}"


def load(
    environment: Mapping[str, str] | None = None, *, folder: Path | None = None, user_home: Path | None = None
) -> Settings:
    """The settings of a process that was started in ``folder``; raises ConfigurationError with every bad key."""
    folder = folder or Path.cwd()
    user_home = user_home or Path.home()
    variables = _variables(dict(os.environ if environment is None else environment), folder, user_home)
    values = _read_yaml(folder / CONFIG_FILE, variables)
    for name, path in VARIABLES.items():
        if variables.get(name):
            _put(values, path, variables[name])
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigurationError(_explain(error)) from error


def _variables(environment: dict[str, str], folder: Path, user_home: Path) -> dict[str, str]:
    """All variables, the environment before ``./.env`` before ``~/.swarm/.env``; empty ones count as not set."""
    found: dict[str, str] = {}
    for source in (environment, dotenv_values(folder / ".env"), dotenv_values(user_home / ".swarm" / ".env")):
        for name, value in source.items():
            if value:
                found.setdefault(name, value)
    return found


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
    """What is wrong with a file, without an excerpt of it: that might be a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


def _filled_in(value: object, variables: Mapping[str, str], key: str, path: Path) -> Any:
    """The value with each ``${NAME}`` replaced."""
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
            return  # the model will say what is wrong with it
        values = section
    values[last] = value


def _explain(error: ValidationError) -> str:
    """Every bad key with its value, unless that is a secret, and what is expected."""
    lines = []
    for problem in error.errors(include_url=False):
        path = tuple(str(part) for part in problem["loc"])
        variable = next((name for name, known in VARIABLES.items() if known == path), None)
        key = ".".join(path) + (f" ({variable})" if variable else "")
        value = problem.get("input")
        shown = "" if _is_secret(path) or isinstance(value, dict | list) else f" is {value!r}"
        expected = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            shown, expected = "", "there is no such setting"
        lines.append(f"{key}{shown}: {expected}")
    return "; ".join(lines)


def _is_secret(path: tuple[str, ...]) -> bool:
    return any(word in path[-1] for word in ("token", "secret", "key")) if path else False


def secrets(settings: BaseModel) -> list[str]:
    """Every value that nobody may see, to be hidden wherever it turns up."""
    found: list[str] = []
    for _, value in settings:
        if isinstance(value, SecretStr):
            found.append(value.get_secret_value())
        elif isinstance(value, BaseModel):
            found += secrets(value)
        elif isinstance(value, str) and "://" in value and (password := _password(value)):
            found.append(password)
    return found


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def describe(settings: type[BaseModel] = Settings, prefix: str = "") -> list[tuple[str, FieldInfo]]:
    """Every setting by its dotted key, for the documentation and its test."""
    found: list[tuple[str, FieldInfo]] = []
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, _Section):
            found += describe(kind, f"{prefix}{name}.")
        else:
            found.append((prefix + name, field))
    return found
