"""The operator's configuration of a channel, with defaults: the agent, its listening, its looks, alerts, help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from swarm.domain.answers.calls import Growth, TaskDisplay


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


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertPolicy:
    """How alerts reach the channel's agent."""

    template: str | None = None  # with {alert_text} and other variables; None: the built-in template
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)  # the channel's own variables
    jira_project: str = ""
    jira_config: Mapping[str, object] = field(default_factory=dict, hash=False)  # fields of a ticket, JSON values
    window_seconds: float = ALERT_WINDOW_SECONDS  # equal alerts within it are grouped; 0: never


class WebhookFormat(StrEnum):
    """The body of an escalation's webhook."""

    JSON = "json"  # our own
    PAGERDUTY = "pagerduty"  # Events API v2
    VICTOROPS = "victorops"  # REST endpoint of Splunk On-Call


@dataclass(frozen=True, kw_only=True, slots=True)
class EscalationPolicy:
    """What happens when somebody in a thread asks for a human. Everything that is set happens, once per thread."""

    users: tuple[str, ...] = ()  # user ids, mentioned in the thread
    groups: tuple[str, ...] = ()  # user group ids (S…), mentioned in the thread
    emoji: str | None = None  # added to the thread's first message
    webhook: WebhookFormat | None = None  # the body for the service; its address and secrets stay in the settings
    agent: str | None = None  # the agent that is asked who is on call
    team: str = ""  # the team whose on-call person the agent names
    on_dead_letter: bool = False  # also when a message of the thread is set aside after its last attempt

    def __bool__(self) -> bool:
        return bool(self.users or self.groups or self.emoji or self.webhook or self.agent)


NO_ESCALATION: Final = EscalationPolicy()


@dataclass(frozen=True, kw_only=True, slots=True)
class SuggestedPrompt:
    """A prompt that people may choose instead of writing. Slack's limits apply: at most four are shown."""

    title: str
    message: str


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelPolicy:
    """The operator's configuration of one channel, with defaults."""

    agent: str | None = None  # an agent's name; None: the default lead
    enabled: bool = True
    listen: Listen = Listen.MENTION
    overthink: bool = False  # runs that nobody asked for are silent until their answer is judged
    alerts: AlertPolicy = field(default_factory=AlertPolicy)
    # A person on any of these three lists may use the swarm here. None: the list does not exist; without lists: all.
    allowed_users: frozenset[str] | None = None  # user ids
    allowed_groups: frozenset[str] | None = None  # ids of user groups (S…)
    allowed_domains: frozenset[str] | None = None  # domains of e-mail addresses, lower case
    allowed_bots: frozenset[str] = frozenset()  # bot ids (B…), the user ids of bots (U…), or * for all
    bot_messages_per_hour: int = BOT_MESSAGES_PER_HOUR  # routed in one thread
    display: TaskDisplay = TaskDisplay.PLAN
    stream: Growth = Growth.AUTO
    client_context: Mapping[str, object] = field(default_factory=dict, hash=False)  # the channel's keys, JSON values
    external: External = External.DENY
    share_email: bool = False  # whether the agent gets the requester's e-mail address
    dm_replies: DirectReplies = DirectReplies.THREAD
    greeting: str | None = None  # shown where people start a conversation with the app; None: the built-in text
    suggested_prompts: tuple[SuggestedPrompt, ...] = ()  # with the greeting
    escalation: EscalationPolicy = NO_ESCALATION

    @property
    def people(self) -> PeopleLists:
        """The lists of people who may use the swarm here."""
        if self.allowed_users is None and self.allowed_groups is None and self.allowed_domains is None:
            return EVERYONE  # the usual case, for every message
        return PeopleLists(users=self.allowed_users, groups=self.allowed_groups, domains=self.allowed_domains)
