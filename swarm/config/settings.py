"""The settings of a coordinator, section by section.

The settings of agents are in `swarm.config.agents` and `swarm.config.builtin`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from swarm.config.agents import AgentSettings, RemoteAgentSettings
from swarm.config.builtin import (
    AgentLimitSettings,
    DocumentSettings,
    ModelSettings,
    ProviderSettings,
    RuntimeSettings,
    ToolSettings,
)
from swarm.config.channel_agents import agent_by_id, is_service
from swarm.config.channels import ChannelSettings, FeedbackSettings
from swarm.config.extension_sections import ExtensionSections, checked_sections
from swarm.config.section import GivenSecret, OwnSecret
from swarm.domain.model.files import DEFAULT_CAP_BYTES
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.model.runs import MOST_LOG_BYTES
from swarm.domain.policy.budgets import Budgets
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.policy.operating import MESSAGES_PER_MINUTE, Reactions, Retention
from swarm.domain.policy.section import CHANNEL_ID, GroupId, HttpAddress, Section, UserId
from swarm.domain.prompts.input import HISTORY_CHARACTERS, RETRY_PREFIX
from swarm.entrypoints.web.access import checked_host, checked_origin, is_this_machine


class _LimitSettings(AgentLimitSettings):
    """The limits of built-in agents, and for one person across all agents; null means no limit."""

    messages_per_minute_per_user: int | None = Field(
        MESSAGES_PER_MINUTE,
        ge=0,
        description="maximum number of messages and clicks by one person in all channels; 0: no limit",
    )


class SlackMode(StrEnum):
    """The transport for Slack's events."""

    SOCKET = "socket"
    HTTP = "http"


class LogFormat(StrEnum):
    """The format of the log lines."""

    AUTO = "auto"  # text on a terminal, otherwise JSON
    TEXT = "text"
    JSON = "json"


def _credential(begins: str, name: str) -> AfterValidator:
    """Refuses one of Slack's other credentials. What begins as none of them is left to Slack."""

    def check(given: SecretStr) -> SecretStr:
        value = given.get_secret_value().strip()
        if re.match(r"xapp-|xox[a-z]|xwfp-|[0-9a-f]{32}$", value) and not re.match(begins, value):
            raise ValueError(f"this is another of Slack's credentials; the app's {name} is expected")
        return given

    return AfterValidator(check)


_BotToken = Annotated[GivenSecret, _credential(r"(xoxe\.)?xoxb-", "bot token (xoxb-…)")]
_AppToken = Annotated[GivenSecret, _credential("xapp-", "app-level token (xapp-…)")]
_SigningSecret = Annotated[GivenSecret, _credential("[0-9a-f]", "signing secret")]


class SlackSettings(Section):
    """The settings of the Slack app. Without tokens, ``swarm up`` does not start."""

    bot_token: _BotToken | None = Field(None, description="xoxb-…, from OAuth & Permissions")
    app_token: _AppToken | None = Field(None, description="xapp-…, from Basic Information, for Socket Mode")
    signing_secret: _SigningSecret | None = Field(None, description="from Basic Information, for HTTP mode")
    api_base_url: str = Field("https://slack.com/api/", description="can be changed to reach the twin")
    mode: SlackMode = Field(SlackMode.SOCKET, description="socket, or http for the Events API at /slack/events")
    pace: bool = Field(True, description="observe Slack's rate limits; off only for load tests against the twin")
    timeout_seconds: float = Field(10, gt=0, le=60, description="maximum duration of one call of Slack")
    agent_sessions: bool | None = Field(
        None,
        description="whether the Slack app is an agent, so that Slack shows its own Stop button; null: tried once",
    )
    stop_button_after_seconds: float | None = Field(
        5, ge=0, description="time after which a run gets a Stop button; null: never"
    )

    @field_validator("api_base_url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("an http or https URL is expected")
        return url if url.endswith("/") else url + "/"

    @model_validator(mode="after")
    def _is_complete(self) -> SlackSettings:
        """Rejects settings with only one of the two credentials."""
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


def _split(value: object) -> object:
    """Returns a list from a comma-separated environment variable, or any other value unchanged."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class HttpSettings(Section):
    """The coordinator's address, and the hosts and origins that it accepts."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65_535, description="0 takes a free port")
    allowed_hosts: Annotated[list[Annotated[str, AfterValidator(checked_host)]], BeforeValidator(_split)] = Field(
        default_factory=list, description="additional host names accepted in the Host header, such as *.example.org"
    )
    allowed_origins: Annotated[list[Annotated[str, AfterValidator(checked_origin)]], BeforeValidator(_split)] = Field(
        default_factory=list, description="web pages that may call built-in agents, such as https://chat.example.org"
    )
    url: HttpAddress | None = Field(
        None, description="the address that our commands use; by default from host and port"
    )
    most_connections: int = Field(
        10_000, ge=10, description="maximum number of open connections; others are refused with 503"
    )

    @property
    def address(self) -> str:
        """The address for our commands, without a trailing slash."""
        if self.url:
            return self.url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - only compared
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class DatabaseSettings(Section):
    """The database that stores the state."""

    url: str | None = Field(None, description="sqlite:///path or postgresql://…; by default SQLite in the home folder")
    pooler_url: str | None = Field(
        None,
        description="a pooler in transaction mode, such as PgBouncer, in front of the PostgreSQL of `database.url`; "
        "queries use the pooler, and notifications and migrations use `database.url`",
    )


class LeaseSettings(Section):
    """The duration of leases."""

    seconds: float = Field(
        LEASE_SECONDS, ge=2, le=3_600, description="duration without renewal; agents renew after a third of it"
    )


class _PromptSettings(Section):
    """The settings for the agents' input."""

    history_characters: int | None = Field(
        HISTORY_CHARACTERS,
        ge=1_000,
        description="maximum size of a thread in a prompt; the newest messages are kept; null: no limit",
    )
    retry_prefix: str = Field(
        RETRY_PREFIX, max_length=3_000, description="text before the message when a person presses Retry"
    )


class FileSettings(Section):
    """The limits for attachments from and to Slack."""

    cap_bytes: int = Field(DEFAULT_CAP_BYTES, gt=0, description="maximum size of a file")


class RunLogSettings(Section):
    """The limits for the logs of runs, which runners send."""

    cap_bytes: int = Field(MOST_LOG_BYTES, ge=0, description="maximum size of one run's log; 0: no logs are kept")


class LogSettings(Section):
    """The level and format of the log."""

    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"
    format: LogFormat = Field(LogFormat.AUTO, description="text, json, or auto: text on a terminal, otherwise JSON")


class MetricsSettings(Section):
    """Access to ``/metrics`` for callers other than the operator."""

    token: OwnSecret | None = Field(None, description="a bearer token that is valid only for /metrics")
    open: bool = Field(False, description="let everyone who can reach it read /metrics")


class TracesSettings(Section):
    """OpenTelemetry traces, which are off without an endpoint."""

    endpoint: str | None = Field(None, description="an OTLP collector's HTTP address; needs the extra 'otel'")

    @field_validator("endpoint")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("an http or https URL is expected, for example http://127.0.0.1:4318")
        return url


class OperatorSettings(Section):
    """The people who run the swarm. Their Home tab in Slack shows mistakes in the settings."""

    users: tuple[UserId, ...] = Field((), description="user ids")
    groups: tuple[GroupId, ...] = Field((), description="ids of user groups (S…)")


class Settings(Section):
    """All settings of a coordinator."""

    home: Path = Field(Path("~/.swarm"), description="the folder for the files of the embedded setup")
    operators: OperatorSettings = OperatorSettings()
    operator_token: OwnSecret | None = Field(
        None, description="for administration; by default created and stored in home"
    )
    enrolment_key: OwnSecret | None = Field(None, description="lets programs register themselves as workers")
    slack: SlackSettings = SlackSettings()
    http: HttpSettings = HttpSettings()
    database: DatabaseSettings = DatabaseSettings()
    agents: AgentSettings = AgentSettings()
    model: ModelSettings = ModelSettings()
    providers: ProviderSettings = ProviderSettings()
    limits: _LimitSettings = _LimitSettings()
    budgets: Budgets = Budgets()
    runtime: RuntimeSettings = RuntimeSettings()
    tools: ToolSettings = ToolSettings()
    documents: DocumentSettings = DocumentSettings()
    leases: LeaseSettings = LeaseSettings()
    prompts: _PromptSettings = _PromptSettings()
    reactions: Reactions = Reactions()
    channel_defaults: ChannelSettings = ChannelSettings()
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict, description="by channel id, C0123456789")
    feedback: FeedbackSettings = FeedbackSettings()
    decisions: tuple[DecisionRule, ...] = Field(
        (), description="who decides on agents' requests; the first rule that applies replaces the agent's own policy"
    )
    files: FileSettings = FileSettings()
    run_logs: RunLogSettings = RunLogSettings()
    retention: Retention = Retention()
    log: LogSettings = LogSettings()
    remove_secrets: bool = Field(True, description="remove apparent secrets from agents' posts")
    metrics: MetricsSettings = MetricsSettings()
    traces: TracesSettings = TracesSettings()
    extensions: ExtensionSections = Field(
        default_factory=lambda: checked_sections({}), description="the sections of other packages, by name"
    )
    test_clock: Path | None = Field(
        None, description="a file with the number of seconds by which the clock is ahead; for tests only"
    )

    @field_validator("channels")
    @classmethod
    def _are_channel_ids(cls, channels: Mapping[str, ChannelSettings]) -> Mapping[str, ChannelSettings]:
        for key in channels:
            if not CHANNEL_ID.fullmatch(key):
                raise ValueError(f"'{key}' is not a channel id; an id such as C0123456789 is expected (see 'About')")
        return channels

    @model_validator(mode="after")
    def _builtin_agents_have_a_model(self) -> Settings:
        if self.agents.builtin and not self.model.name:
            name = next(iter(self.agents.builtin))
            raise ValueError(f"agents.builtin.{name} needs a model; model.name (LLM_MODEL) is expected")
        return self

    @model_validator(mode="after")
    def _test_clock_is_for_tests(self) -> Settings:
        """Rejects the test clock with the real Slack, which is never on this machine, so the clock cannot be left on by
        accident."""
        if self.test_clock and not is_this_machine(urlsplit(self.slack.api_base_url).hostname or ""):
            raise ValueError(
                "test_clock (SWARM_TEST_CLOCK) falsifies the clock and is only for tests against a twin of Slack on "
                "this "
                f"machine, but slack.api_base_url is {self.slack.api_base_url}; remove the setting test_clock"
            )
        return self

    @property
    def channels_in_full(self) -> Mapping[str, ChannelSettings]:
        """The channels, with missing keys taken from ``channel_defaults``."""
        return {channel: self._in_full(chosen) for channel, chosen in self.channels.items()}

    def _in_full(self, chosen: ChannelSettings) -> ChannelSettings:
        """Returns a channel's settings. With its own ``agent_id`` it inherits only an agent that is a service."""
        whole, own = chosen.inheriting(self.channel_defaults), chosen.model_fields_set
        is_foreign = "agent_id" in own and "agent" not in own and not is_service(self.agents, whole.agent or "")
        return whole.model_copy(update={"agent": None}) if is_foreign else whole

    @property
    def remote_in_full(self) -> dict[str, RemoteAgentSettings]:
        """The remote agents, also those that channels name by their ids. Raises ValueError; see `agent_by_id`."""
        chosen = (self.channel_defaults, *self.channels_in_full.values())
        by_id = (agent_by_id(self.agents, one) for one in chosen)
        return self.agents.remote_in_full | dict(named for named in by_id if named)

    def agent_of(self, chosen: ChannelSettings) -> str | None:
        """Returns the name of the agent of a channel with these settings. Raises ValueError; see `agent_by_id`."""
        named = agent_by_id(self.agents, chosen)
        return named[0] if named else chosen.agent

    @property
    def database_url(self) -> str:
        """The database's URL, by default that of the embedded database."""
        return self.database.url or f"sqlite:///{self.home.expanduser() / 'swarm.db'}"
