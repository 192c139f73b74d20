"""The settings of channels, and of who may use the swarm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import Field, JsonValue, SecretStr, field_validator, model_validator

from swarm.config.section import GivenSecret, OwnSecret
from swarm.domain.answers.calls import Growth, TaskDisplay
from swarm.domain.policy.channels import (
    ALERT_WINDOW_SECONDS,
    BOT_MESSAGES_PER_HOUR,
    DirectReplies,
    External,
    Listen,
    SuggestedPrompt,
    WebhookFormat,
)
from swarm.domain.policy.section import Domain, EmojiName, GroupId, HttpAddress, Section, UserId
from swarm.domain.prompts.alerts import VARIABLES
from swarm.domain.prompts.input import OWN_KEYS

_VARIABLE: Final = re.compile(r"[a-z_][a-z0-9_]*")


class SuggestedPromptSettings(Section):
    """A prompt that people may choose where they start a conversation with the app."""

    title: str = Field(min_length=1, max_length=75, description="the text of the choice")
    message: str = Field(min_length=1, max_length=3_000, description="the message that is sent")

    @property
    def prompt(self) -> SuggestedPrompt:
        """The prompt."""
        return SuggestedPrompt(title=self.title, message=self.message)


class AlertSettings(Section):
    """How posts of bots reach the channel's agent, with the listening mode `alerts`."""

    template: str | None = Field(None, min_length=1, description="the message for the agent, with {alert_text} …")
    template_file: Path | None = Field(None, description="a file with the template")
    variables: Mapping[str, str] = Field(default_factory=dict, description="your own variables for the template")
    jira_project: str = Field("", description="the variable {jira_project}")
    jira_config: Mapping[str, JsonValue] = Field(
        default_factory=dict, description="fields of a ticket, for the variable {jira_config_str}"
    )
    window_seconds: float = Field(
        ALERT_WINDOW_SECONDS, ge=0, le=7 * 86_400, description="time in which equal alerts are grouped; 0: never"
    )

    @field_validator("variables")
    @classmethod
    def _have_names(cls, variables: Mapping[str, str]) -> Mapping[str, str]:
        for name in variables:
            if name in VARIABLES:
                raise ValueError(f"'{name}' is set by swarm itself; variables of your own are expected")
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"'{name}' cannot be a variable; lower-case letters, digits and _ are expected")
        return variables

    @model_validator(mode="after")
    def _has_one_template(self) -> AlertSettings:
        if self.template and self.template_file:
            raise ValueError("template and template_file are both set; one of them is expected")
        return self


class EscalationWebhookSettings(Section):
    """A service that is told when somebody asks for a human."""

    url: HttpAddress = Field(description="the address that the body is posted to")
    format: WebhookFormat = Field(
        WebhookFormat.JSON, description="json (swarm's own), pagerduty (Events API v2), or victorops (REST endpoint)"
    )
    routing_key: GivenSecret | None = Field(None, description="PagerDuty's integration key")
    secret: OwnSecret | None = Field(None, description="signs the body of the format json")

    @model_validator(mode="after")
    def _has_what_its_format_needs(self) -> EscalationWebhookSettings:
        if (self.format is WebhookFormat.PAGERDUTY) != (self.routing_key is not None):
            raise ValueError("format pagerduty and routing_key belong together")
        if self.secret and self.format is not WebhookFormat.JSON:
            raise ValueError(f"secret is only for the format json, and format is {self.format}")
        return self


class EscalationSettings(Section):
    """What happens when somebody in a thread asks for a human."""

    users: tuple[UserId, ...] = Field((), description="user ids to mention in the thread")
    groups: tuple[GroupId, ...] = Field((), description="ids of user groups (S…) to mention in the thread")
    emoji: EmojiName | None = Field(None, description="the emoji to add to the thread's first message")
    webhook: EscalationWebhookSettings | None = None
    agent: str | None = Field(None, description="the agent that is asked who is on call")
    team: str = Field("", description="the team whose on-call person the agent names")
    on_dead_letter: bool = Field(
        False, description="also when a message of the thread is set aside after its last attempt"
    )


class ChannelSettings(Section):
    """The settings for one channel, or the defaults for all channels."""

    agent: str | None = Field(None, description="an agent's name; by default the default lead")
    agent_id: str | None = Field(
        None, min_length=1, description="the agent's id in the CAIPE service that agent names, or in the only one"
    )
    enabled: bool = True
    listen: Listen = Field(
        Listen.MENTION,
        description="mention, all (root messages of people and allowed bots), bots (allowed bots' posts only), alerts "
        "(the same, through a template)",
    )
    overthink: bool = Field(
        False, description="answers that nobody asked for are shown only if the agent is sure of them"
    )
    alerts: AlertSettings = AlertSettings()
    allowed_users: frozenset[str] | None = Field(
        None, description="user ids; null, and no other such list, allows everyone"
    )
    allowed_groups: frozenset[GroupId] | None = Field(None, description="ids of user groups (S…)")
    allowed_domains: frozenset[Domain] | None = Field(None, description="domains of e-mail addresses")
    allowed_bots: frozenset[str] = Field(frozenset(), description="bot ids (B…) or bot users' ids (U…); *: all")
    bot_messages_per_hour: int = Field(
        BOT_MESSAGES_PER_HOUR,
        ge=1,
        le=1_000,
        description="maximum number of bots' messages that reach agents, per thread and hour",
    )
    external: External = Field(
        External.DENY, description="whether guests and people from other workspaces reach agents: deny or allow"
    )
    display: TaskDisplay = Field(TaskDisplay.PLAN, description="how tools and plans are shown: plan, or timeline")
    stream: Growth = Field(
        Growth.AUTO,
        description="how answers grow: native (live only for the person who asked), edits (everybody sees it), auto "
        "(edits once a second person has written in the thread)",
    )
    client_context: Mapping[str, JsonValue] = Field(
        default_factory=dict,
        description="your own keys for the agent's client context, for example to influence its style",
    )
    share_email: bool = Field(False, description="tell the agent the e-mail address of the person who asks")
    dm_replies: DirectReplies = Field(
        DirectReplies.THREAD, description="answers to direct messages: thread (below each message), or flat (beside it)"
    )
    greeting: str | None = Field(
        None, min_length=1, max_length=3_000, description="text where people start a conversation with the app"
    )
    suggested_prompts: tuple[SuggestedPromptSettings, ...] = Field(
        (), max_length=4, description="prompts to choose from where people start a conversation with the app"
    )
    escalation: EscalationSettings = EscalationSettings()

    def inheriting(self, defaults: ChannelSettings) -> ChannelSettings:
        """Returns these settings, with every missing key taken from ``defaults``, also those of `alerts`. Who names an
        agent does not inherit the id of another one.
        """
        own = self.model_fields_set
        changes: dict[str, object] = {"alerts": self.alerts.inheriting(defaults.alerts)} if "alerts" in own else {}
        if "agent" in own and "agent_id" not in own:
            changes["agent_id"] = None
        return super().inheriting(defaults).model_copy(update=changes)

    @field_validator("client_context")
    @classmethod
    def _are_their_own(cls, extra: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        if taken := sorted(OWN_KEYS & set(extra)):
            raise ValueError(f"'{taken[0]}' is set by swarm itself; keys of your own are expected")
        return extra


class AgentAccessSettings(Section):
    """Who may use one agent. A person on any of the lists of people may; without such lists, everyone."""

    users: frozenset[str] | None = Field(None, description="user ids")
    groups: frozenset[GroupId] | None = Field(None, description="ids of user groups (S…)")
    domains: frozenset[Domain] | None = Field(None, description="domains of e-mail addresses")
    channels: frozenset[str] | None = Field(
        None, description="channel ids; null allows all channels and direct messages"
    )


class LangfuseSettings(Section):
    """Langfuse, which gets feedback as scores."""

    url: HttpAddress = Field("https://cloud.langfuse.com", description="Langfuse's address")
    public_key: str | None = Field(None, min_length=1)
    secret_key: SecretStr | None = None

    @model_validator(mode="after")
    def _has_both_keys(self) -> LangfuseSettings:
        if (self.public_key is None) != (self.secret_key is None):
            raise ValueError("public_key and secret_key belong together")
        return self


class FeedbackWebhookSettings(Section):
    """A service of your own, which gets every feedback."""

    url: HttpAddress | None = None
    secret: OwnSecret | None = Field(None, description="signs the body")

    @model_validator(mode="after")
    def _has_an_address(self) -> FeedbackWebhookSettings:
        if self.secret and not self.url:
            raise ValueError("secret is set, so url is expected as well")
        return self


class FeedbackSettings(Section):
    """Where people's feedback on answers is forwarded to."""

    langfuse: LangfuseSettings = LangfuseSettings()
    caipe_url: HttpAddress | None = Field(
        None, description="the address of CAIPE's web interface, which gets feedback at /api/feedback"
    )
    caipe_token: SecretStr | None = Field(None, description="a bearer token for it")
    webhook: FeedbackWebhookSettings = FeedbackWebhookSettings()
