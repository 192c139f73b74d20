"""The operator's configuration of a channel, with defaults: the agent, its listening, its looks, alerts, help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field, JsonValue, field_validator, model_validator

from swarm.domain.answers.calls import Growth, TaskDisplay
from swarm.domain.policy.section import Domain, EmojiName, GroupId, HttpAddress, Section, UserId
from swarm.domain.prompts.input import OWN_KEYS

ALERT_VARIABLES: Final = (
    "bot_username",
    "channel_id",
    "alert_text",
    "timestamp",
    "alert_blocks",
    "alert_attachments",
    "jira_project",
    "jira_config_str",
)
"""The variables of every template of alerts, in addition to the channel's own ones."""

_VARIABLE: Final = re.compile(r"[a-z_][a-z0-9_]*")


class Listen(StrEnum):
    """The messages of a channel that go to its agent without a mention."""

    MENTION = "mention"  # none
    ALL = "all"  # root messages of people and of allowed bots
    BOTS = "bots"  # only posts of allowed bots
    ALERTS = "alerts"  # only posts of allowed bots, through a template


class External(StrEnum):
    """The rights of strangers (guests, people from other workspaces, authors unknown to Slack) in a channel."""

    DENY = "deny"
    ALLOW = "allow"  # they reach agents; their messages alone never start tools that write


class DirectReplies(StrEnum):
    """Where answers to a direct message appear."""

    THREAD = "thread"  # below each message: every message roots a thread
    FLAT = "flat"  # beside it: all messages without a thread are one conversation


BOT_MESSAGES_PER_HOUR: Final = 10
"""The maximum number of bots' messages routed per thread and hour, so that two bots cannot loop."""

ALERT_WINDOW_SECONDS: Final = 600.0
"""An alert that comes again within this time belongs to the first one."""


class AlertPolicy(Section):
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
            if name in ALERT_VARIABLES:
                raise ValueError(f"'{name}' is set by swarm itself; variables of your own are expected")
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"'{name}' cannot be a variable; lower-case letters, digits and _ are expected")
        return variables

    @model_validator(mode="after")
    def _has_one_template(self) -> AlertPolicy:
        if self.template and self.template_file:
            raise ValueError("template and template_file are both set; one of them is expected")
        return self


class WebhookFormat(StrEnum):
    """The body of an escalation's webhook."""

    JSON = "json"  # our own
    PAGERDUTY = "pagerduty"  # Events API v2
    VICTOROPS = "victorops"  # REST endpoint of Splunk On-Call


class EscalationWebhook(Section):
    """A service that is told when somebody asks for a human."""

    url: HttpAddress = Field(repr=False, description="the address that the body is posted to")
    format: WebhookFormat = Field(
        WebhookFormat.JSON, description="json (swarm's own), pagerduty (Events API v2), or victorops (REST endpoint)"
    )


class EscalationPolicy(Section):
    """What happens when somebody in a thread asks for a human. Everything that is set happens, once per thread."""

    users: tuple[UserId, ...] = Field((), description="user ids to mention in the thread")
    groups: tuple[GroupId, ...] = Field((), description="ids of user groups (S…) to mention in the thread")
    emoji: EmojiName | None = Field(None, description="the emoji to add to the thread's first message")
    webhook: EscalationWebhook | None = None
    agent: str | None = Field(None, description="the agent that is asked who is on call")
    team: str = Field("", description="the team whose on-call person the agent names")
    on_dead_letter: bool = Field(
        False, description="also when a message of the thread is set aside after its last attempt"
    )

    def __bool__(self) -> bool:
        return bool(self.users or self.groups or self.emoji or self.webhook or self.agent)


class SuggestedPrompt(Section):
    """A prompt that people may choose where they start a conversation with the app."""

    title: str = Field(min_length=1, max_length=75, description="the text of the choice")
    message: str = Field(min_length=1, max_length=3_000, description="the message that is sent")


SUGGESTED_PROMPTS: Final = (SuggestedPrompt(title="What can you do?", message="What can you help me with?"),)
"""The prompts without any in the settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PeopleLists:
    """Lists of people. A person on any of them is permitted. None: no such list; without lists, everyone is."""

    users: frozenset[str] | None = None  # user ids
    groups: frozenset[str] | None = None  # ids of user groups (S…)
    domains: frozenset[str] | None = None  # domains of e-mail addresses, lower case

    def __bool__(self) -> bool:
        return self.users is not None or self.groups is not None or self.domains is not None


EVERYONE: Final = PeopleLists()


class ChannelPolicy(Section):
    """The operator's configuration of one channel, with defaults. In force, ``agent`` is also set for an ``agent_id``,
    and ``alerts.template`` for a ``template_file``.
    """

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
    alerts: AlertPolicy = AlertPolicy()
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
    suggested_prompts: tuple[SuggestedPrompt, ...] = Field(
        (), max_length=4, description="prompts to choose from where people start a conversation with the app"
    )
    escalation: EscalationPolicy = EscalationPolicy()

    @field_validator("client_context")
    @classmethod
    def _are_their_own(cls, extra: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        if taken := sorted(OWN_KEYS & set(extra)):
            raise ValueError(f"'{taken[0]}' is set by swarm itself; keys of your own are expected")
        return extra

    @property
    def people(self) -> PeopleLists:
        """The lists of people who may use the swarm here."""
        if self.allowed_users is None and self.allowed_groups is None and self.allowed_domains is None:
            return EVERYONE  # the usual case, for every message
        return PeopleLists(users=self.allowed_users, groups=self.allowed_groups, domains=self.allowed_domains)
