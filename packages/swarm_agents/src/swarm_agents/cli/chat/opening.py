"""Opens a chat: reads its arguments, chooses its agent and session, and decides where it runs.

The agent runs in this home's coordinator if that is running and has built-in agents, otherwise in this process. Earlier
sessions are read from the database in both cases.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from swarm.app import home, preflight, settings_mapping
from swarm.cli import NoServer
from swarm.cli.operator_commands import CoordinatorClient, CoordinatorRefused
from swarm.clock import new_id
from swarm.config import Kind, Settings
from swarm.config.reading import ASSISTANT
from swarm.domain.answers.agents import AgentClient, Dialect, RemoteAgent, ResumeForm
from swarm.domain.errors import ConfigurationError, NotFound, Unavailable
from swarm.domain.model.language_models import ModelUsage, UsagePurpose
from swarm.domain.model.sessions import SessionMessage
from swarm.services.builtin.model_usage import ModelUsageLog
from swarm.services.builtin.sessions import BuiltInOwner, DatabaseMemory
from swarm.store.admin import preparation
from swarm.store.bridge.database import Database
from swarm.store.builtin import session_lists
from swarm.store.builtin.session_lists import ListedSession
from swarm_agents.app import built_in

if TYPE_CHECKING:
    from swarm_agents.builtin.agent import BuiltinAgent

_PREFIX: Final = "cli:"
"""The prefix of the ids of terminal sessions."""

_ID: Final = re.compile(rf"(?:{_PREFIX}\S+|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")
_SHOWN_SESSIONS: Final = 20
_COUNTED_RUNS: Final = 1_000
_LOOK_SECONDS: Final = 3.0
"""The time limit for a coordinator to list its agents; a slower coordinator counts as missing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatArguments:
    """The agent, question and session of a chat."""

    question: str = ""  # empty for a conversation
    agent: str | None = None  # None for the session's agent, or the usual one
    resume: bool = False  # continue a session
    session_id: str | None = None  # None for the last session


def parse_arguments(words: Sequence[str], *, resume: bool, agent: str | None) -> ChatArguments:
    """Parses the arguments. The first argument after ``--resume`` may be a session id."""
    session_id = None
    if resume and words and _ID.fullmatch(words[0]):
        session_id, words = full_id(words[0]), words[1:]
    return ChatArguments(question=" ".join(words).strip(), agent=agent, resume=resume, session_id=session_id)


def full_id(id: str) -> str:
    """Returns a session's full id, given an id with or without the prefix."""
    return id if id.startswith(_PREFIX) else _PREFIX + id


def new_session_id() -> str:
    """Returns the id of a new session."""
    return full_id(new_id())


class Archive:
    """The messages and usage of sessions. The database is opened on first use, and closed with ``stack``.

    If ``is_ours`` is set, no coordinator prepares the database, so the archive does. Otherwise all methods raise
    Unavailable for a database that has another version or cannot be reached.
    """

    def __init__(self, settings: Settings, stack: AsyncExitStack, *, is_ours: bool) -> None:
        self._url = settings.database_url
        self._stack = stack
        self._is_ours = is_ours
        self._database: Database | None = None

    async def database(self) -> Database:
        """Returns the database. Also raises ConfigurationError for an invalid URL."""
        if self._database is None:
            await asyncio.to_thread(self._prepare)
            self._database = await self._stack.enter_async_context(Database(self._url))
        return self._database

    async def latest(self, agent: str | None, limit: int = _SHOWN_SESSIONS) -> list[ListedSession]:
        """Returns the most recently used terminal sessions of one agent or of all agents, newest first."""
        return await (await self.database()).read(session_lists.newest, _PREFIX, agent, limit)

    async def named(self, session_id: str, agent: str | None) -> ListedSession | None:
        """Returns the session with this id. Each agent may have such a session; without ``agent``, the most recently
        used one is returned."""
        found = await (await self.database()).read(session_lists.named, session_id, _SHOWN_SESSIONS)
        return next((each for each in found if agent in (None, each.agent)), None)

    async def messages(self, agent: str, session_id: str) -> Sequence[SessionMessage]:
        """Returns all messages of a session, oldest first. An unknown session has no messages."""
        return await DatabaseMemory(await self.database(), BuiltInOwner(agent), None).get_originals(session_id)

    async def usage(self, agent: str, session_id: str) -> tuple[int, ModelUsage]:
        """Returns the number of the session's answers, and its usage including summaries. Very old answers are not
        counted."""
        latest = await ModelUsageLog(await self.database()).latest(agent, _COUNTED_RUNS)
        runs = [run for run in latest if run.session_id == session_id]
        answers = sum(run.purpose is UsagePurpose.ANSWER for run in runs)
        return answers, reduce(add, (run.usage for run in runs), ModelUsage())

    def _prepare(self) -> None:
        if self._is_ours:
            preparation.prepare(self._url)
        elif not preparation.is_current(self._url):
            raise Unavailable(
                "The coordinator's database cannot be read from here, so earlier sessions cannot be shown.",
                hint="Use the settings of the coordinator (SWARM_HOME, SWARM_DATABASE_URL).",
            )


@dataclass(kw_only=True, slots=True)
class Chat:
    """An agent and its session in this chat."""

    agent: str
    client: AgentClient
    where: str  # user-facing: which model answers, and where
    archive: Archive
    session_id: str
    is_resumed: bool = False
    compacted: Callable[[], Coroutine[None, None, None]] | None = None  # waits for summaries made here


@asynccontextmanager
async def opened(settings: Settings, arguments: ChatArguments, *, checks_model: bool) -> AsyncIterator[Chat]:
    """Yields a chat with all its resources, which are released at the end.

    If ``checks_model`` is set, the model is checked at the start as the settings require; a coordinator has already
    done so. Raises ConfigurationError, NotFound and Unavailable, with hints.
    """
    async with AsyncExitStack() as stack:
        remote = await asyncio.to_thread(coordinator_agents, settings)
        names = tuple(remote or settings.agents.builtin)
        if not names:
            raise _no_agent(settings)
        home.prepare(settings)
        archive = Archive(settings, stack, is_ours=not remote)
        session = await _resumed(archive, arguments)
        agent = arguments.agent or (session.agent if session else _usual(settings, names))
        if agent not in names:
            raise NotFound(f"There is no built-in agent '{agent}'.", hint=f"There are: {', '.join(names)}.")
        client: AgentClient
        compacted = None
        if remote:
            from swarm.agents.remote.agui import AguiAgent  # loading the protocol's types takes a while

            client = AguiAgent(remote[agent])
            stack.push_async_callback(client.aclose)
            where = f"the coordinator at {remote[agent].url}"
        else:
            here, model = await _here(settings, agent, archive, stack, checks_model=checks_model)
            client, compacted, where = here, here.compacted, f"{model}, without a coordinator"
        yield Chat(
            agent=agent,
            client=client,
            where=where,
            archive=archive,
            session_id=session.id if session else new_session_id(),
            is_resumed=session is not None,
            compacted=compacted,
        )


async def _here(
    settings: Settings, agent: str, archive: Archive, stack: AsyncExitStack, *, checks_model: bool
) -> tuple[BuiltinAgent, str]:
    """Returns an agent that runs in this process until ``stack`` is closed, and the name of its model."""
    alone = _alone(settings, agent, checks_model=checks_model)
    specs = settings_mapping.model_specs(alone, agent)
    await asyncio.to_thread(preflight.check_models, specs)
    database = await archive.database()
    await built_in.register(settings, database)  # all in their order, of which the first is the default lead
    agents = await stack.enter_async_context(built_in.opened(alone, database))
    return agents.agents[agent], specs[0].name


def coordinator_agents(settings: Settings) -> Mapping[str, RemoteAgent]:
    """Returns the coordinator's built-in agents by name, with the default agent first. Blocks.

    Returns no agents if the coordinator does not answer or belongs to another home. Raises NoServer if SWARM_URL
    (http.url) names a coordinator that does not answer.
    """
    url = settings.http.address
    try:
        token = home.operator_token(settings)
        with CoordinatorClient(url, token, timeout_seconds=_LOOK_SECONDS) as coordinator:
            match coordinator.call("GET", "/api/v1/agents"):
                case {"agents": [*listed]}:
                    names = [each["name"] for each in listed if isinstance(each, dict) and "name" in each]
                case _:
                    names = []
    except NoServer:
        if settings.http.url:
            raise
        return {}
    except (CoordinatorRefused, ConfigurationError):  # without a token, no coordinator has ever run in this home
        return {}
    shared: dict[str, Any] = {"url": url, "dialect": Dialect.CAIPE, "resume": ResumeForm.DATA, "token": token}
    return {name: RemoteAgent(name=name, agent_id=name, **shared) for name in names}


def _no_agent(settings: Settings) -> ConfigurationError:
    if settings.model.name:
        return ConfigurationError(
            "No built-in agent is configured, so there is no agent to talk to.",
            hint="Add one to swarm.yaml: agents: {builtin: {assistant: {kind: assistant}}}.",
        )
    return ConfigurationError(
        "No model is configured, so there is no agent to talk to.",
        hint="Set LLM_MODEL and its key (LLM_MODEL=gpt-5-mini and OPENAI_API_KEY), or the name of a model of an Ollama "
        "on this machine (LLM_MODEL=qwen3:8b). `swarm demo` needs no model.",
    )


def _usual(settings: Settings, names: Sequence[str]) -> str:
    """Returns the agent to use if none is named: the default agent of the settings, an assistant, or the first
    agent."""
    assistants = [name for name, chosen in settings.agents.builtin.items() if chosen.kind is Kind.ASSISTANT]
    wanted = [settings.agents.default, *assistants, ASSISTANT]  # a coordinator's settings may differ from these
    return next((name for name in wanted if name and name in names), names[0])


async def _resumed(archive: Archive, arguments: ChatArguments) -> ListedSession | None:
    """Returns the session to continue; None for a new one."""
    if not arguments.resume:
        return None
    agent, id = arguments.agent, arguments.session_id
    if id is None:
        for session in await archive.latest(agent, 1):
            return session
        raise NotFound("There is no session to continue yet.", hint="To begin one: swarm chat")
    if named := await archive.named(id, agent):
        return named
    raise NotFound(
        f"There is no session {id}{f' with {agent}' if agent else ''}.", hint="`/sessions` in `swarm chat` lists them."
    )


def _alone(settings: Settings, agent: str, *, checks_model: bool) -> Settings:
    """Returns the settings with only this agent, so that parts of other agents are not loaded and cannot fail."""
    builtin = {agent: settings.agents.builtin[agent]}
    model = settings.model.model_copy(update={"check_at_start": settings.model.check_at_start and checks_model})
    return settings.model_copy(
        update={"agents": settings.agents.model_copy(update={"builtin": builtin}), "model": model}
    )
