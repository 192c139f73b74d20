"""The operating policy: the operator's decisions with all defaults, as the use cases need them.

Most of the policy is fixed while a process runs. The reloadable part, `Policies`, is one frozen value in a
`PolicyBook`: a reload replaces the value, and each later read gets the new value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from swarm.domain.model.agents import MOST_AGENTS, MOST_ENROLLED, OFFLINE_AFTER_SECONDS
from swarm.domain.model.inbox import REACTION_ANSWERED, REACTION_FAILED, REACTION_STOPPED, REACTION_STORED
from swarm.domain.model.leases import LEASE_SECONDS
from swarm.domain.model.requests import BY_REQUESTER, DecisionPolicy
from swarm.domain.model.threads import Author
from swarm.domain.model.webhooks import WebhookEndpoints
from swarm.domain.policy.access import AgentAccess, Denial, agent_denial, denial, first_denial
from swarm.domain.policy.budgets import Budgets
from swarm.domain.policy.channels import ChannelPolicy, DirectReplies, SuggestedPrompt
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.policy.section import EmojiName, Section
from swarm.domain.prompts.input import HISTORY_CHARACTERS, RETRY_PREFIX
from swarm.domain.slack_check import Finding

MESSAGES_PER_MINUTE: Final = 20

_DIRECT = "D"
"""The first letter of a direct message's channel id. No other type of channel uses it."""


MOST_KEPT_DAYS: Final = 36_500
"""The longest retention period: a hundred years."""


class Reactions(Section):
    """The names of the emoji that show a message's state; null switches a reaction off."""

    stored: EmojiName | None = REACTION_STORED
    answered: EmojiName | None = REACTION_ANSWERED
    failed: EmojiName | None = REACTION_FAILED
    stopped: EmojiName | None = REACTION_STOPPED


class Retention(Section):
    """The number of days for which texts of completed work are kept; see docs/operations.md, "What is kept"."""

    threads_days: int = Field(90, ge=1, le=MOST_KEPT_DAYS, description="after the last activity in a thread")
    sessions_days: int = Field(
        90, ge=1, le=MOST_KEPT_DAYS, description="after a built-in agent's session was last used"
    )
    runs_days: int = Field(90, ge=1, le=MOST_KEPT_DAYS, description="after the end of a run")
    run_logs_days: int = Field(14, ge=1, le=MOST_KEPT_DAYS, description="what the programs of agents have written")
    agent_messages_days: int = Field(90, ge=1, le=MOST_KEPT_DAYS, description="messages between agents")
    audit_days: int = Field(365, ge=1, le=MOST_KEPT_DAYS, description="who was asked for what, and who decided")
    routing_days: int = Field(
        7, ge=1, le=MOST_KEPT_DAYS, description="the reasons why messages were not routed to an agent"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Policies:
    """The part of the policy that a reload may change. ``channels`` is keyed by channel id."""

    default_agent: str | None = None  # a lead's name; None: the oldest lead that is online
    dm_agent: str | None = None  # the agent's name for direct messages; None: as in channels
    reactions: Reactions = field(default_factory=Reactions)
    messages_per_minute: int | None = None  # messages that reach agents, per person over all channels; None: no limit
    channels: Mapping[str, ChannelPolicy] = field(default_factory=dict)
    everywhere: ChannelPolicy = field(default_factory=ChannelPolicy)
    decisions: tuple[DecisionRule, ...] = ()  # who decides on requests; the first rule that applies counts
    budgets: Budgets = field(default_factory=Budgets)
    webhooks: WebhookEndpoints = field(default_factory=dict, repr=False)
    agent_access: Mapping[str, AgentAccess] = field(default_factory=dict)  # by agent's name; others are open to all
    agent_prompts: Mapping[str, tuple[SuggestedPrompt, ...]] = field(default_factory=dict)  # by the agent's name
    operators: DecisionPolicy = field(default_factory=DecisionPolicy)  # who is shown mistakes in the settings

    def of(self, channel: str) -> ChannelPolicy:
        """Returns the policy of a channel: its own entry, or `everywhere`; direct messages use ``dm_agent``."""
        own = self.channels.get(channel)
        if own is None and self.dm_agent and channel.startswith(_DIRECT):
            return self.everywhere.model_copy(update={"agent": self.dm_agent})
        return own or self.everywhere


class PolicyBook:
    """The policies in force. A replacement is one assignment, so no reader sees a partial change."""

    def __init__(self, policies: Policies) -> None:
        self.current = policies
        self.findings: tuple[Finding, ...] | None = None  # about the settings in Slack; None: nobody has looked yet


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatingPolicy:
    """The operator's decisions. Copies made with `dataclasses.replace` share the book and follow the same reloads."""

    offline_after_seconds: float = OFFLINE_AFTER_SECONDS
    lease_seconds: float = LEASE_SECONDS
    most_agents: int = MOST_AGENTS
    most_enrolled: int = MOST_ENROLLED
    started_at: int = 0  # microseconds: when this coordinator started to listen. 0: when it opened the database
    retention: Retention = field(default_factory=Retention)
    history_characters: int | None = HISTORY_CHARACTERS  # of a thread, included in a prompt or a run; None: all
    retry_prefix: str | None = RETRY_PREFIX  # the text before a message or a task after a person's Retry; None: no text
    book: PolicyBook = field(default_factory=lambda: PolicyBook(Policies()))
    workspace_url: str = ""  # of the workspace in Slack, for links; empty: unknown
    guarded_agents: frozenset[str] = frozenset()  # built-in agents whose tools reach the host; see `CallerPolicy`

    @property
    def default_agent(self) -> str | None:
        """A lead's name; None: the oldest lead that is online."""
        return self.book.current.default_agent

    @property
    def reactions(self) -> Reactions:
        """The emoji in force."""
        return self.book.current.reactions

    @property
    def messages_per_minute(self) -> int | None:
        """The limit on one person's messages that reach agents per minute; None: no limit."""
        return self.book.current.messages_per_minute

    @property
    def budgets(self) -> Budgets:
        """The budgets of runs."""
        return self.book.current.budgets

    def decision_policy(
        self, agent: str, channel: str | None, tool: str | None, asked: DecisionPolicy = BY_REQUESTER
    ) -> DecisionPolicy:
        """Returns who decides on a request: the operator's rule, or what the agent ``asked`` for."""
        rules = self.book.current.decisions
        return next((rule.policy for rule in rules if rule.applies(agent, channel, tool)), asked)

    def policy(self, channel: str) -> ChannelPolicy:
        """Returns the policy of a channel."""
        return self.book.current.of(channel)

    @property
    def agent_access(self) -> Mapping[str, AgentAccess]:
        """The limits on the use of agents, by name. Agents without an entry are open to all."""
        return self.book.current.agent_access

    def denial(self, author: Author, channel: str, agents: Iterable[str] = ()) -> Denial | None:
        """Returns why an author may not use the swarm in a channel, or one of these agents there; None if allowed.

        Every entry point asks here, except routing, which decides per agent (`swarm.domain.routing`).
        """
        access = self.agent_access
        limits = [access[name] for name in agents if name in access] if access else []
        of_agents = (agent_denial(author, limit, channel) for limit in limits)
        return first_denial((denial(author, self.policy(channel)), *of_agents))

    def is_flat(self, channel: str) -> bool:
        """Whether new messages outside threads in this channel belong to a flat direct message."""
        return channel.startswith(_DIRECT) and self.policy(channel).dm_replies is DirectReplies.FLAT


SETTINGS_KEPT: Final = "The old ones stay."
"""The note of a failed reload."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReloadResult:
    """The result of a reload. Keys are dotted; no value is disclosed except agents' names."""

    changed: tuple[str, ...]  # in force from now on
    needs_restart: tuple[str, ...]  # differs from the value at process start, and takes effect at the next start
    doubts: tuple[str, ...]  # sentences about likely mistakes, such as a name without an agent
