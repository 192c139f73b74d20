"""The opening of a chat: its agent, the place of its runs, and its session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from swarm.app import built_in, home, preflight, settings_mapping
from swarm.cli.chat.archive import Archive
from swarm.cli.chat.arguments import ChatArguments, new_session_id
from swarm.cli.chat.coordinator import CoordinatorAccess, found
from swarm.config import Kind, Settings
from swarm.config.default_agents import ASSISTANT
from swarm.domain.answers.agents import AgentClient
from swarm.domain.errors import ConfigurationError, NotFound
from swarm.store.builtin.sessions import ListedSession


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
