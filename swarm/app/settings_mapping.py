"""Maps the settings to the values that the services and the agents' clients use."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from pydantic import SecretStr

from swarm.config import (
    BuiltinAgentSettings,
    ChannelSettings,
    Kind,
    LocalTool,
    OAuthSettings,
    RemoteAgentSettings,
    Settings,
)
from swarm.config.builtin import SERVERS_CONFIG
from swarm.config.channels import AgentAccessSettings, FeedbackSettings
from swarm.config.reading import where_set
from swarm.domain.answers.agents import ClientCredentials, History, RemoteAgent, StreamingAgent
from swarm.domain.model.agents import Reach
from swarm.domain.model.language_models import ModelSpec, Provider
from swarm.domain.model.requests import DecisionPolicy
from swarm.domain.model.webhooks import WebhookEndpoint, WebhookKind
from swarm.domain.policy.access import AgentAccess, CallerPolicy
from swarm.domain.policy.channels import ChannelPolicy, Listen, PeopleLists
from swarm.domain.policy.operating import OperatingPolicy, Policies, PolicyBook


def operating_policy(settings: Settings, workspace_url: str = "") -> OperatingPolicy:
    """Returns the complete operating policy, with a new policy book for the reloadable part.

    ``workspace_url`` is the workspace's address in Slack.
    """
    return OperatingPolicy(
        offline_after_seconds=settings.agents.offline_after_seconds,
        lease_seconds=settings.leases.seconds,
        most_agents=settings.agents.most,
        most_enrolled=settings.agents.most_enrolled,
        retention=settings.retention,
        history_characters=settings.prompts.history_characters,
        workspace_url=workspace_url,
        retry_prefix=settings.prompts.retry_prefix.strip() or None,
        book=PolicyBook(policies(settings)),
        guarded_agents=frozenset(name for name, policy in caller_policies(settings).items() if policy.reaches_host),
    )


def policies(settings: Settings) -> Policies:
    """Returns the reloadable part of the policy."""
    return Policies(
        default_agent=settings.agents.default,
        dm_agent=settings.agents.dm,
        reactions=settings.reactions,
        messages_per_minute=settings.limits.messages_per_minute_per_user or None,
        channels={channel: _in_force(settings, chosen) for channel, chosen in _channels(settings).items()},
        everywhere=_in_force(settings, settings.channel_defaults),
        decisions=settings.decisions,
        budgets=settings.budgets,
        webhooks=webhook_endpoints(settings),
        operators=DecisionPolicy(**settings.operators.model_dump()),
        agent_access={name: _access(name, chosen) for name, chosen in settings.agents.access.items()},
        agent_prompts={
            name: chosen.suggested_prompts
            for agents in (settings.agents.remote_in_full, settings.agents.builtin)
            for name, chosen in agents.items()
            if chosen.suggested_prompts
        },
    )


def webhook_endpoints(settings: Settings) -> dict[tuple[WebhookKind, str], WebhookEndpoint]:
    """Returns the endpoints of all configured services, with their secrets."""
    endpoints = {(kind, ""): endpoint for kind, endpoint in _feedback_endpoints(settings.feedback)}
    for channel, chosen in {"": settings.channel_defaults, **settings.channels_in_full}.items():
        if webhook := chosen.escalation.webhook:
            key = secret(webhook.routing_key)
            endpoints[WebhookKind.ESCALATION, channel] = WebhookEndpoint(
                url=webhook.url, fields={"routing_key": key} if key else {}, secret=secret(webhook.secret)
            )
    return endpoints


def _feedback_endpoints(feedback: FeedbackSettings) -> Iterator[tuple[WebhookKind, WebhookEndpoint]]:
    langfuse, webhook = feedback.langfuse, feedback.webhook
    if langfuse.public_key and langfuse.secret_key:
        pair = f"{langfuse.public_key}:{langfuse.secret_key.get_secret_value()}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        url = f"{langfuse.url.rstrip('/')}/api/public/scores"
        yield WebhookKind.LANGFUSE, WebhookEndpoint(url=url, headers=headers)
    if feedback.caipe_url:
        token = secret(feedback.caipe_token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{feedback.caipe_url.rstrip('/')}/api/feedback"
        yield WebhookKind.CAIPE, WebhookEndpoint(url=url, headers=headers)
    if webhook.url:
        yield WebhookKind.FEEDBACK, WebhookEndpoint(url=webhook.url, secret=secret(webhook.secret))


def streaming_agents(settings: Settings) -> list[StreamingAgent]:
    """Returns the agents that the coordinator runs: first the remote agents, then the built-in agents, each group in
    the order of the settings."""
    agents = settings.agents
    remote = [
        _streaming(name, chosen, Reach.AGUI, chosen.history_sent) for name, chosen in settings.remote_in_full.items()
    ]
    return remote + [_streaming(name, chosen, Reach.BUILTIN, History.ALL) for name, chosen in agents.builtin.items()]


def caller_policies(settings: Settings) -> dict[str, CallerPolicy]:
    """Returns the permitted callers of each built-in agent."""
    return {
        name: CallerPolicy(
            callers=frozenset(chosen.callers),
            reaches_host=_reaches_host(settings, chosen),
            tool_details=chosen.tool_details,
        )
        for name, chosen in settings.agents.builtin.items()
    }


def _reaches_host(settings: Settings, chosen: BuiltinAgentSettings) -> bool:
    """Whether an agent has any tools. Every tool either accesses the host or its documents, or belongs to an MCP
    server."""
    path = settings.tools.servers_config
    has_servers = chosen.servers != [] and (path != SERVERS_CONFIG or path.is_file())
    is_assistant = chosen.kind is Kind.ASSISTANT
    return has_servers or (is_assistant and bool(chosen.tools or settings.documents.folder))


def remote_agents(settings: Settings) -> list[RemoteAgent]:
    """Returns the connections of the remote agents, in the order of the settings."""
    return [_remote(name, chosen) for name, chosen in settings.remote_in_full.items()]


def model_specs(settings: Settings, agent: str | None = None) -> list[ModelSpec]:
    """Returns the built-in agents' model, or that of one ``agent``, followed by its fallbacks in order.

    An agent's own model has the same provider.
    """
    model = settings.model
    chosen = settings.agents.builtin[agent] if agent else None
    first = (chosen.model if chosen else None) or model.name
    if first is None:
        return []
    fallbacks = model.fallbacks if chosen is None or chosen.fallbacks is None else chosen.fallbacks
    named = [(model.provider, model.name or first, first)]
    named += [(other.provider, other.name, other.name) for other in fallbacks]
    guess = settings.providers.guess
    return [
        _model(settings, provider or guess(like), called, is_guessed=provider is None)
        for provider, like, called in named
    ]


def named_agents(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields each key that names an agent, together with that name."""
    named = {"agents.default": settings.agents.default, "agents.dm": settings.agents.dm}
    own = {"channel_defaults": settings.channel_defaults}
    own |= {
        f"channels.{channel}": chosen
        for channel, chosen in settings.channels_in_full.items()
        if {"agent", "agent_id"} & settings.channels[channel].model_fields_set
    }
    for key, chosen in own.items():
        named[f"{key}.agent_id" if chosen.agent_id else f"{key}.agent"] = settings.agent_of(chosen)
    for key, name in named.items():
        if name:
            yield key, name


def on_call_agents(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields each key that names an agent to ask who is on call, together with that name."""
    for key, chosen in {
        "channel_defaults": settings.channel_defaults,
        **{f"channels.{channel}": chosen for channel, chosen in settings.channels.items()},
    }.items():
        if name := chosen.escalation.agent:
            yield f"{key}.escalation.agent", name


def channels_without_agent(settings: Settings) -> list[str]:
    """Returns the configured channels that are switched on but name no agent, so that the default lead answers."""
    return [
        channel for channel, chosen in _channels(settings).items() if chosen.enabled and not settings.agent_of(chosen)
    ]


def overthink_without_effect(settings: Settings) -> list[str]:
    """Returns the keys that set ``overthink`` where it has no effect, because agents hear mentions only."""
    in_full = {
        channel: chosen for channel, chosen in _channels(settings).items() if chosen.enabled and chosen.overthink
    }
    deaf = [channel for channel, chosen in in_full.items() if chosen.listen is Listen.MENTION]
    keys = [
        f"channels.{channel}.overthink"
        for channel in deaf
        if "overthink" in settings.channels[channel].model_fields_set
    ]
    everywhere = settings.channel_defaults
    if everywhere.overthink and everywhere.listen is Listen.MENTION and len(deaf) == len(in_full):
        keys.append("channel_defaults.overthink")
    return keys


def secret(value: SecretStr | None) -> str | None:
    """Returns the plain value of a secret."""
    return value.get_secret_value() if value else None


def _channels(settings: Settings) -> dict[str, ChannelSettings]:
    """Returns the channels with all settings. A direct message channel without its own agent gets the agent for direct
    messages."""
    dm = settings.agents.dm
    return {
        channel: chosen.model_copy(update={"agent": dm})
        if dm and channel.startswith("D") and not {"agent", "agent_id"} & settings.channels[channel].model_fields_set
        else chosen
        for channel, chosen in settings.channels_in_full.items()
    }


def _in_force(settings: Settings, chosen: ChannelSettings) -> ChannelPolicy:
    return chosen.model_copy(update={"agent": settings.agent_of(chosen)})


def _access(name: str, chosen: AgentAccessSettings) -> AgentAccess:
    people = PeopleLists(users=chosen.users, groups=chosen.groups, domains=chosen.domains)
    return AgentAccess(name=name, people=people, channels=chosen.channels)


def _streaming(
    name: str, chosen: RemoteAgentSettings | BuiltinAgentSettings, reach: Reach, history: History
) -> StreamingAgent:
    return StreamingAgent(
        name=name,
        role=chosen.role,
        reach=reach,
        description=chosen.description,
        history=history,
        parallel=chosen.parallel,
        on_restart=chosen.on_restart,
        footer=chosen.footer,
        has_team=isinstance(chosen, BuiltinAgentSettings) and LocalTool.SWARM in chosen.tools,
        formerly=(chosen.formerly or "") if isinstance(chosen, BuiltinAgentSettings) else "",
    )


def _model(settings: Settings, provider: Provider, name: str, *, is_guessed: bool) -> ModelSpec:
    reached = settings.providers
    at: dict[Provider, tuple[str | None, SecretStr | None]] = {
        Provider.OPENAI: (reached.openai.base_url, reached.openai.api_key),
        Provider.ANTHROPIC: (reached.anthropic.base_url, reached.anthropic.api_key),
        Provider.BEDROCK: (reached.bedrock.base_url, None),
        Provider.OLLAMA: (reached.ollama.base_url, reached.ollama.api_key),
    }
    base_url, api_key = at[provider]
    return ModelSpec(
        provider=provider,
        name=name,
        base_url=base_url,
        api_key=secret(api_key),
        key_from=where_set("providers", provider, "api_key") if api_key else "",
        region=reached.bedrock.region if provider is Provider.BEDROCK else None,
        is_guessed=is_guessed,
        timeout_seconds=settings.model.timeout_seconds,
        max_tokens=settings.model.max_tokens,
        temperature=settings.model.temperature,
    )


def _remote(name: str, chosen: RemoteAgentSettings) -> RemoteAgent:
    return RemoteAgent(
        name=name,
        url=chosen.url,
        dialect=chosen.dialect,
        token=secret(chosen.token),
        oauth=_credentials(chosen.oauth) if chosen.oauth else None,
        agent_id=chosen.agent_id,
        timeout_seconds=chosen.timeout_seconds,
        longest_run_seconds=chosen.longest_run_seconds,
        namespace=chosen.namespace,
        thread_context=chosen.thread_context,
        resume=chosen.resume,
    )


def _credentials(oauth: OAuthSettings) -> ClientCredentials:
    return ClientCredentials(
        token_url=oauth.token_url,
        client_id=oauth.client_id,
        client_secret=oauth.client_secret.get_secret_value(),
        scope=oauth.scope,
        audience=oauth.audience,
        auth=oauth.auth,
    )
