"""The opening of a chat: its agent, the place of its runs, and its session.

Runs happen in the coordinator of this home, if one runs and has built-in agents, otherwise in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from swarm.app import built_in, home, preflight, settings_mapping
from swarm.cli.chat.archive import Archive
from swarm.cli.chat.arguments import ChatArguments, new_session_id
from swarm.cli.client import CoordinatorClient, CoordinatorRefused, NoServer
from swarm.config import Kind, Settings
from swarm.config.reading import ASSISTANT
from swarm.domain.answers.agents import AgentClient, Dialect, RemoteAgent
from swarm.domain.errors import ConfigurationError, NotFound
from swarm.store.builtin.sessions import ListedSession

LOOK_SECONDS: Final = 3.0
"""How long a coordinator may take to list its agents; a slower one counts as missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinatorAccess:
    """A coordinator that accepts our token."""

    url: str
    token: str = field(repr=False)
    agents: tuple[str, ...]  # the built-in ones, the default first; at least one

    def agent(self, name: str) -> RemoteAgent:
        """The connection of one of its agents."""
        return RemoteAgent(name=name, url=self.url, dialect=Dialect.CAIPE, token=self.token, agent_id=name)


def found(settings: Settings) -> CoordinatorAccess | None:
    """The coordinator; None without an answer, for another home's, or without built-in agents. Blocks.

    Raises NoServer if SWARM_URL (http.url) names a coordinator that does not answer.
    """
    url = settings.http.address
    try:
        token = home.operator_token(settings)
        with CoordinatorClient(url, token, timeout_seconds=LOOK_SECONDS) as coordinator:
            names = _names(coordinator.call("GET", "/api/v1/agents"))
    except NoServer:
        if settings.http.url:
            raise
        return None
    except (CoordinatorRefused, ConfigurationError):  # without a token, none has ever run in this home
        return None
    return CoordinatorAccess(url=url, token=token, agents=names) if names else None


def _names(said: Any) -> tuple[str, ...]:
    match said:
        case {"agents": [*agents]}:
            return tuple(agent["name"] for agent in agents if isinstance(agent, dict) and "name" in agent)
        case _:
            return ()


@dataclass(kw_only=True, slots=True)
class Chat:
    """An agent and its session in this chat."""

    agent: str
    client: AgentClient
    where: str  # for people: the answering model and place
    archive: Archive
    session_id: str
    is_resumed: bool = False
    compacted: Callable[[], Coroutine[None, None, None]] | None = None  # waits for a session's summary made here


@asynccontextmanager
async def opened(settings: Settings, wish: ChatArguments, *, checks_model: bool) -> AsyncIterator[Chat]:
    """A chat with all its resources, which are released at the end.

    ``checks_model``: check the model at the start, if the settings say so; a coordinator has done that. Raises
    ConfigurationError, NotFound and Unavailable, with hints.
    """
    async with AsyncExitStack() as stack:
        coordinator = await asyncio.to_thread(found, settings)
        names = coordinator.agents if coordinator else tuple(settings.agents.builtin)
        if not names:
            raise nobody(settings)
        home.prepare(settings)
        archive = Archive(settings, stack, is_ours=coordinator is None)
        begun = await _begun(archive, wish)
        agent = _known(wish.agent or (begun.agent if begun else usual(settings, names)), names)
        client, where, compacted = await _client(
            settings, coordinator, agent, archive, stack, checks_model=checks_model
        )
        yield Chat(
            agent=agent,
            client=client,
            where=where,
            archive=archive,
            session_id=begun.id if begun else new_session_id(),
            is_resumed=begun is not None,
            compacted=compacted,
        )


def nobody(settings: Settings) -> ConfigurationError:
    """The error for a chat without any agent."""
    if settings.model.name:
        return ConfigurationError(
            "No built-in agent is configured, so there is nobody to talk to.",
            hint="Add one to swarm.yaml: agents: {builtin: {assistant: {kind: assistant}}}.",
        )
    return ConfigurationError(
        "No model is configured, so there is nobody to talk to.",
        hint="Set LLM_MODEL and its key (LLM_MODEL=gpt-5-mini and OPENAI_API_KEY), or the name of a model of an Ollama "
        "on this machine (LLM_MODEL=qwen3:8b). `swarm demo` needs no model.",
    )


def usual(settings: Settings, names: Sequence[str]) -> str:
    """The agent for people who name none: the default of the settings, an assistant, or the first."""
    assistants = [name for name, chosen in settings.agents.builtin.items() if chosen.kind is Kind.ASSISTANT]
    wanted = [settings.agents.default, *assistants, ASSISTANT]  # a coordinator's settings may differ from these
    return next((name for name in wanted if name and name in names), names[0])


def _known(agent: str, names: Sequence[str]) -> str:
    if agent not in names:
        raise NotFound(f"There is no built-in agent '{agent}'.", hint=f"There are: {', '.join(names)}.")
    return agent


async def _begun(archive: Archive, wish: ChatArguments) -> ListedSession | None:
    """The session to continue; None without such a wish."""
    if not wish.resume:
        return None
    if wish.session_id is None:
        sessions = await archive.latest(wish.agent, 1)
        missing = NotFound("There is no session to go on with yet.", hint="Begin one: swarm chat")
    else:
        sessions = [each for each in await archive.named(wish.session_id) if wish.agent in (None, each.agent)]
        missing = NotFound(
            f"There is no session {wish.session_id}{f' with {wish.agent}' if wish.agent else ''}.",
            hint="`/sessions` in `swarm chat` lists them.",
        )
    if not sessions:
        raise missing
    return sessions[0]


async def _client(
    settings: Settings,
    coordinator: CoordinatorAccess | None,
    agent: str,
    archive: Archive,
    stack: AsyncExitStack,
    *,
    checks_model: bool,
) -> tuple[AgentClient, str, Callable[[], Coroutine[None, None, None]] | None]:
    """The client for runs; its place, for people; and the wait for a session's summary, if made here."""
    if coordinator:
        from swarm.agents.remote.agui import AguiAgent  # the protocol's types take a while to load

        remote = AguiAgent(coordinator.agent(agent))
        stack.push_async_callback(remote.aclose)
        return remote, f"the coordinator at {coordinator.url}", None
    alone = _alone(settings, agent, checks_model=checks_model)
    await asyncio.to_thread(
        preflight.check_models, settings_mapping.model_specs(alone, alone.agents.builtin[agent].model)
    )
    agents = await stack.enter_async_context(built_in.opened(alone, await archive.database()))
    ours = agents.agents[agent]
    where = f"{settings.agents.builtin[agent].model or settings.model.name}, without a coordinator"
    return ours, where, ours.compacted


def _alone(settings: Settings, agent: str, *, checks_model: bool) -> Settings:
    """The settings with this agent alone: parts of other agents are not loaded, and cannot fail."""
    builtin = {agent: settings.agents.builtin[agent]}
    model = settings.model.model_copy(update={"check_at_start": settings.model.check_at_start and checks_model})
    return settings.model_copy(
        update={"agents": settings.agents.model_copy(update={"builtin": builtin}), "model": model}
    )
