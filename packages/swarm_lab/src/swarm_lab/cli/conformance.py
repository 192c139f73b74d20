"""``swarm conformance``: tests how an agent answers in Slack."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.domain.answers.agents import Dialect, RemoteAgent
from swarm.domain.errors import ConfigurationError
from swarm_base import log

if TYPE_CHECKING:
    from swarm.config import Settings
    from swarm.domain.answers.agents import AgentClient
    from swarm.domain.answers.calls import AnswerTarget
    from swarm.services.runs.event_sources import NameConversation
    from swarm.store.bridge.database import Database
    from swarm_lab.conformance.run import ConversationOf, Result
    from swarm_lab.conformance.scenarios import Scenario

TOKEN_VARIABLE = "SWARM_CONFORMANCE_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, kw_only=True, slots=True)
class _InProcessAgent:
    """A built-in agent that runs in this process, with settings for this agent only."""

    name: str
    settings: Settings


class Named(StrEnum):
    """The scenarios as command line options."""

    SIMPLE_CHAT = "simple-chat"
    OFF_TOPIC = "off-topic"
    RAG_SIMPLE = "rag-simple"
    RAG_COMPLEX = "rag-complex"
    HUMAN_INPUT = "human-input"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """The options of ``swarm conformance``."""

    agent: str
    """The agent's address, or its name below agents.remote or agents.builtin in swarm.yaml."""

    suite: Annotated[bool, Parameter(negative=())] = False
    """Run all scenarios, which is also the default without --scenario."""

    scenario: Annotated[list[Named] | None, Parameter(negative=())] = None
    """Run only this scenario; may be given several times."""

    dialect: Dialect | None = None
    """agui (the default): the address takes runs of AG-UI 1.0; caipe: it is the base of CAIPE's chat API."""

    token: Annotated[str | None, Parameter(env_var=TOKEN_VARIABLE, show_env_var=True)] = None
    """A bearer token for the agent. Prefer the environment variable, since other users of the machine can see
    arguments."""

    agent_id: str | None = None
    """The id of the agent within the service; caipe only."""

    timeout_seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 120.0
    """Time limit for one answer."""

    first_sign_seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0
    """Time limit for the first text or tool of an answer ("stream opened")."""

    beyond: Annotated[bool, Parameter(negative=())] = False
    """Have the checks beyond the 22 count for the exit code, too."""

    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False
    """Print everything as JSON; progress still goes to standard error."""


def conformance(*, options: Annotated[_Options, Parameter(name="*")]) -> int:
    """Ask an agent questions, show its answers in a local Slack, and judge them by 22 checks, and six beyond.

    Neither Slack nor a running coordinator is needed: the answers go through the coordinator's own code into a Slack
    twin that lives as long as the command. An AG-UI agent must already be running; a built-in agent is run by the
    command, with its model, documents and MCP servers, and forgets everything afterwards. The agent is asked for a joke
    (simple-chat), for the weather, which it should decline (off-topic), and two questions that it should look up in
    documents (rag-simple, rag-complex). The exit code is 0 only if all of the 22 checks pass. Beyond them, and reported
    apart: plans, parallel searches and caps in rag-complex, and whether it asks people and goes on (human-input).

    For example, an AG-UI agent on this machine, a CAIPE service, and an agent of swarm.yaml, remote or built in:

    `swarm conformance --suite --agent http://127.0.0.1:8000/`

    `swarm conformance --scenario simple-chat --agent https://caipe.example.org --dialect caipe`

    `swarm conformance --suite --agent docs`
    """
    log.configure("error")
    chosen = _chosen(options.scenario or [], suite=options.suite)
    found = _limited(_found(options), options.timeout_seconds)
    results = asyncio.run(_examined(found, chosen, options.first_sign_seconds))
    _show(found.name, results, as_json=options.as_json)
    return 0 if all(result.passed and (result.passed_beyond or not options.beyond) for result in results) else 1


def _chosen(names: Sequence[Named], *, suite: bool) -> list[Scenario]:
    from swarm_lab.conformance.scenarios import ALL_SCENARIOS

    if suite and names:
        raise ConfigurationError("--suite runs all scenarios; use either --suite or --scenario.")
    return [scenario for scenario in ALL_SCENARIOS if not names or Named(scenario.name) in names]


def _found(options: _Options) -> RemoteAgent | _InProcessAgent:
    agent = options.agent
    known = RemoteAgent(name=_host(agent), url=agent) if "://" in agent else _configured(agent)
    if isinstance(known, _InProcessAgent):
        return known
    return replace(
        known,
        dialect=options.dialect or known.dialect,
        token=options.token or known.token,
        oauth=None if options.token else known.oauth,
        agent_id=options.agent_id or known.agent_id,
    )


def _host(url: str) -> str:
    """Returns the part of an address that may be shown; the address may contain a password."""
    return urlsplit(url).netloc.rpartition("@")[2] or url


def _configured(name: str) -> RemoteAgent | _InProcessAgent:
    from swarm.app import settings_mapping
    from swarm.config import load

    settings = load()
    remotes = {remote.name: remote for remote in settings_mapping.remote_agents(settings)}
    if name in settings.agents.builtin:
        return _InProcessAgent(name=name, settings=_alone(settings, name))
    if name not in remotes:
        names = ", ".join([*remotes, *settings.agents.builtin]) or "none"
        raise ConfigurationError(
            f"There is no agent '{name}' below agents.remote or agents.builtin in swarm.yaml (there: {names}).",
            hint="Give its name or its address, for example http://127.0.0.1:8000/.",
        )
    return remotes[name]


def _alone(settings: Settings, name: str) -> Settings:
    """Returns the settings without any other agent."""
    agents = settings.agents.model_copy(update={"builtin": {name: settings.agents.builtin[name]}, "remote": {}})
    return settings.model_copy(update={"agents": agents})


def _limited(found: RemoteAgent | _InProcessAgent, seconds: float) -> RemoteAgent | _InProcessAgent:
    from swarm.config.builtin import AgentLimitSettings

    if isinstance(found, RemoteAgent):
        return replace(found, timeout_seconds=seconds, longest_run_seconds=seconds)
    settings = found.settings
    chosen = settings.agents.builtin[found.name]
    chosen = chosen.model_copy(update={"limits": AgentLimitSettings(seconds=seconds).inheriting(chosen.limits)})
    agents = settings.agents.model_copy(update={"builtin": {found.name: chosen}})
    return replace(found, settings=settings.model_copy(update={"agents": agents}))


async def _examined(
    found: RemoteAgent | _InProcessAgent, scenarios: Sequence[Scenario], first_sign_seconds: float
) -> list[Result]:
    from swarm_lab.conformance.checks import Limits
    from swarm_lab.conformance.report import Progress
    from swarm_lab.conformance.run import Examination, examine
    from swarm_lab.conformance.workspace import workspace

    opened = _reached(found) if isinstance(found, RemoteAgent) else _running(found)
    async with opened as (agent, conversation_of), workspace() as slack:
        limits = Limits(first_sign_seconds=first_sign_seconds)
        examination = Examination(agent, slack, conversation_of, name=found.name, limits=limits)
        with Progress(scenarios) as progress:
            return await examine(examination, scenarios, begun=progress.begun, done=progress.done)


@asynccontextmanager
async def _reached(remote: RemoteAgent) -> AsyncIterator[tuple[AgentClient, ConversationOf]]:
    from swarm.agents.remote.agui import AguiAgent
    from swarm.domain.answers.agents import conversation_with

    agent = AguiAgent(remote)
    try:
        yield agent, partial(_in_thread, partial(conversation_with, remote))
    finally:
        await agent.aclose()


@asynccontextmanager
async def _running(chosen: _InProcessAgent) -> AsyncIterator[tuple[AgentClient, ConversationOf]]:
    """Yields a built-in agent with a temporary database of its own."""
    from swarm.store.admin import preparation
    from swarm.store.bridge.database import Database
    from swarm_agents.app import built_in

    with TemporaryDirectory(prefix="swarm-conformance-") as folder:
        url = f"sqlite:///{Path(folder) / 'swarm.db'}"
        await asyncio.to_thread(preparation.prepare, url)
        async with Database(url) as database:
            await _index_documents(chosen.settings, database)
            async with built_in.opened(chosen.settings, database) as agents:
                yield agents.agents[chosen.name], partial(_in_thread, built_in.conversation_id)


async def _index_documents(settings: Settings, database: Database) -> None:
    """Indexes the documents before the first question."""
    from swarm.services.builtin.library import FolderIndex
    from swarm.services.builtin.library_folder import Folder

    folder = settings.documents.folder
    if folder and folder.expanduser().is_dir():  # the agent reports other problems itself
        await FolderIndex(database, Folder(path=folder.expanduser(), most_bytes=settings.documents.most_bytes)).scan()


def _in_thread(name: NameConversation, place: AnswerTarget) -> str:
    return name(team=place.team, channel=place.channel, thread_ts=place.thread_ts)


def _show(agent: str, results: Sequence[Result], *, as_json: bool) -> None:
    from swarm_lab.conformance import report

    if as_json:
        sys.stdout.write(report.as_json(agent, results) + os.linesep)
    else:
        report.show(agent, results)
