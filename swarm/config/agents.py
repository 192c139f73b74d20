"""The settings for answering agents, including the agents that the coordinator calls itself, and their budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal
from uuid import UUID

from pydantic import Field, SecretStr, field_validator, model_validator

from swarm.config.builtin import BuiltinAgentSettings
from swarm.config.channels import AgentAccessSettings
from swarm.domain.answers.agents import (
    LONGEST_RUN_SECONDS,
    PARALLEL_RUNS,
    TIMEOUT_SECONDS,
    Dialect,
    History,
    OnRestart,
    ResumeForm,
    ThreadContext,
)
from swarm.domain.model.agents import MOST_AGENTS, MOST_ENROLLED, OFFLINE_AFTER_SECONDS, Role
from swarm.domain.policy.channels import SuggestedPrompt
from swarm.domain.policy.section import HttpAddress, Section, named


class OAuthSettings(Section):
    """OAuth 2 client credentials for fetching an agent's access tokens."""

    token_url: HttpAddress
    client_id: str = Field(min_length=1)
    client_secret: SecretStr
    scope: str | None = None
    audience: str | None = None
    auth: Literal["basic", "body"] | None = Field(
        None,
        description="where the credentials are sent: basic (the header Authorization) or body; by default basic, and "
        "body if that is refused",
    )


class RemoteAgentSettings(Section):
    """An agent that speaks AG-UI over HTTP and streams its answers."""

    url: HttpAddress = Field(
        description="the URL to which runs are posted; for caipe the base URL, without /api/v1/chat"
    )
    dialect: Dialect = Field(Dialect.AGUI, description="agui (protocol 1.0), or caipe")
    role: Role = Field(Role.LEAD, description="lead, or worker")
    description: str = Field("", description="what the agent is good at, for agents that delegate")
    token: SecretStr | None = Field(None, description="a bearer token; cannot be combined with oauth")
    oauth: OAuthSettings | None = None
    agent_id: str | None = Field(None, description="the id of the agent within the service; caipe only")
    agent_ids: Mapping[str, str] = Field(
        default_factory=dict,
        description="several agents of the service: each agent's name here, and its id in the service; caipe only",
    )
    thread_context: ThreadContext = Field(
        ThreadContext.CLIENT_CONTEXT,
        description="where earlier messages are sent: in client_context, or in the message itself, before its text; "
        "caipe only",
    )
    resume: ResumeForm = Field(
        ResumeForm.FORM,
        description="how people's answers are sent: form (form_data), or data (resume_data); caipe only",
    )
    history: History | None = Field(
        None,
        description="the part of the thread to send: new (since the last run) or all; by default all for agui and new "
        "for caipe",
    )
    timeout_seconds: float = Field(TIMEOUT_SECONDS, gt=0, description="maximum silence of the agent during a run")
    longest_run_seconds: float = Field(LONGEST_RUN_SECONDS, gt=0, description="maximum duration of a run")
    parallel: int = Field(
        PARALLEL_RUNS, ge=1, description="maximum number of simultaneous runs in one coordinator process"
    )
    on_restart: OnRestart = Field(
        OnRestart.RERUN, description="what to do with runs interrupted by a restart: rerun, or ask with a Retry button"
    )
    namespace: UUID | None = Field(None, description="the namespace of the conversation ids (UUID v5)")
    footer: str = Field("", max_length=1_000, description="your own text below every answer, in mrkdwn")
    suggested_prompts: tuple[SuggestedPrompt, ...] = Field(
        (), max_length=4, description="prompts to choose from where people start a conversation with this agent"
    )

    @model_validator(mode="after")
    def _has_one_identity(self) -> RemoteAgentSettings:
        if self.token and self.oauth:
            raise ValueError("token and oauth are both set; one of them is expected")
        if self.agent_id and self.agent_ids:
            raise ValueError("agent_id and agent_ids are both set; one of them is expected")
        return self

    @field_validator("agent_ids")
    @classmethod
    def _have_names(cls, ids: Mapping[str, str]) -> Mapping[str, str]:
        return named(ids)

    @property
    def history_sent(self) -> History:
        """The part of a thread that is sent to the agent. The default is the complete thread for AG-UI, and new
        messages for caipe.

        An AG-UI agent has no memory of its own, while a caipe service stores conversations.
        """
        return self.history or (History.NEW if self.dialect is Dialect.CAIPE else History.ALL)


class AgentSettings(Section):
    """The settings for answering agents."""

    default: str | None = Field(None, description="the default lead's name; by default the oldest lead that is online")
    dm: str | None = Field(
        None, description="the name of the agent for direct messages; by default the same as in channels"
    )
    offline_after_seconds: float = Field(
        OFFLINE_AFTER_SECONDS, gt=0, description="silence after which an agent counts as offline"
    )
    most: int = Field(MOST_AGENTS, ge=1, description="maximum number of registered agents")
    most_enrolled: int = Field(
        MOST_ENROLLED, ge=0, description="maximum number of agents registered with an enrolment key"
    )
    access: Mapping[str, AgentAccessSettings] = Field(
        default_factory=dict, description="who may use an agent, by its name; agents without an entry are for everyone"
    )
    remote: Mapping[str, RemoteAgentSettings] = Field(default_factory=dict, description="AG-UI agents, by name")
    builtin: Mapping[str, BuiltinAgentSettings] = Field(default_factory=dict, description="built-in agents, by name")

    @field_validator("access", "remote", "builtin")
    @classmethod
    def _have_names(cls, agents: Mapping[str, Section]) -> Mapping[str, Section]:
        return named(agents)

    @property
    def remote_in_full(self) -> dict[str, RemoteAgentSettings]:
        """The remote agents, with an entry that has several ``agent_ids`` expanded into one entry for each agent."""
        return dict(self._remote_one_by_one())

    def _remote_one_by_one(self) -> Iterator[tuple[str, RemoteAgentSettings]]:
        for name, entry in self.remote.items():
            if not entry.agent_ids:
                yield name, entry
            for called, agent_id in entry.agent_ids.items():
                yield called, entry.model_copy(update={"agent_id": agent_id, "agent_ids": {}})

    @model_validator(mode="after")
    def _names_are_unique(self) -> AgentSettings:
        names = Counter(name for name, _ in self._remote_one_by_one())
        if twice := sorted(name for name, count in names.items() if count > 1):
            raise ValueError(f"'{twice[0]}' is used twice under remote; every agent needs its own name")
        if both := sorted(set(names) & set(self.builtin)):
            raise ValueError(f"'{both[0]}' is under both remote and builtin; every agent needs its own name")
        return self

    @model_validator(mode="after")
    def _default_is_a_lead(self) -> AgentSettings:
        name = self.default or ""
        chosen = self.remote_in_full.get(name) or self.builtin.get(name)
        if chosen and chosen.role is not Role.LEAD:
            raise ValueError(f"default is '{self.default}', whose role is worker; the name of a lead is expected")
        return self
