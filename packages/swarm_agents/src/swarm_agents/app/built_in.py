"""Builds the built-in agents and their shared parts from the settings.

The coordinator uses ``opened``, and so do commands that run an agent without a coordinator, such as ``swarm chat``.
Heavy imports happen inside ``opened``, so a coordinator without built-in agents does not load them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from starlette.routing import BaseRoute

from swarm.app import process, settings_mapping
from swarm.app.extending import AgentHost, AgentSet, RouteHost
from swarm.app.process import ShutdownStack, StopDeadline
from swarm.config import BuiltinAgentSettings, Kind, LocalTool, Settings
from swarm.config.builtin import PROMPTS_CONFIG
from swarm.domain.answers.events import RunInput
from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.domain.model.agents import Reach
from swarm.domain.model.language_models import ModelSpec, UsageRecorder
from swarm.domain.model.requests import HumanRequest, NewRequest
from swarm.domain.model.sessions import Summarise
from swarm.services.ground.guarded import attempt
from swarm.services.runs import streaming_agents
from swarm.services.runs.event_sources import ManagedAgent
from swarm.store.bridge.database import Database
from swarm_agents.app.limits import day_limits, run_limits, tool_limits
from swarm_base import loading

if TYPE_CHECKING:
    from swarm.services.use_cases import Services
    from swarm_agents.app.built_in_tools import Toolbox
    from swarm_agents.builtin.agent import BuiltinAgent, RunStorage, Trouble, Works
    from swarm_agents.models.building import Models
    from swarm_agents.router.router import FindWordings, Wordings
    from swarm_agents.system_prompts.files import PromptFiles, Template
    from swarm_agents.system_prompts.renderer import Renderer
    from swarm_agents.toolbox.approval_rules import ApprovalRules
    from swarm_agents.toolbox.people import AskPeople
    from swarm_agents.toolbox.tool import Tool


_log = structlog.get_logger(__name__)

BROKEN_PROMPT: Final = (
    "My instructions are broken: a prompt cannot be read. The operator can find the details in the log."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltInAgentSet(AgentSet):
    """The agents by name, in the order of the settings."""

    agents: Mapping[str, BuiltinAgent] = field(default_factory=dict)
    toolbox: Toolbox | None = None


class LateAsk:
    """Asks people as soon as there is a service for it, because the agents start before the services."""

    def __init__(self) -> None:
        self._ask: AskPeople | None = None

    def connect(self, services: Services) -> None:
        """Sets the service."""
        self._ask = services.requests.ask_during_run

    async def __call__(self, run_id: str, tool: str, new: NewRequest) -> HumanRequest:
        """Asks a question of a run; see `swarm_agents.toolbox.people.AskPeople`."""
        if self._ask is None:
            raise Unavailable("The coordinator is still starting.")
        return await self._ask(run_id, tool, new)


@asynccontextmanager
async def hosted(host: AgentHost) -> AsyncIterator[AgentSet]:
    """Yields the built-in agents of a coordinator; see `opened`."""
    ask = LateAsk()
    async with opened(host.settings, host.database, host.deadline, ask) as agents:
        yield replace(agents, connections=(*agents.connections, ask.connect))


def routes(host: RouteHost) -> Sequence[BaseRoute]:
    """Returns the routes of AG-UI; none without built-in agents."""
    if not host.runs.names:
        return []
    from swarm_agents.agui.agui_api import AguiEntryPoint  # the protocol's types take a while to load

    return AguiEntryPoint(host.runs, host.identities).routes()


@asynccontextmanager
async def opened(
    settings: Settings,
    database: Database,
    deadline: StopDeadline | None = None,
    ask: AskPeople | None = None,
) -> AsyncIterator[BuiltInAgentSet]:
    """Yields all built-in agents, ready to run, or an empty set if none is configured. All their resources are released
    at the end.

    ``deadline`` limits the release; without a deadline, the limit is `shutdown.STOP_SECONDS`. ``ask`` asks people what
    MCP servers want to know from them; without it, nobody is asked. Raises ConfigurationError for an unusable model,
    prompt or file. Temporary failures, such as an unavailable model or server, are logged.
    """
    if not settings.agents.builtin:
        yield BuiltInAgentSet()
        return
    closings = ShutdownStack(deadline or StopDeadline())
    await register(settings, database)
    try:
        yield await _open(settings, database, closings, ask)
    finally:
        await closings.aclose()


async def _open(
    settings: Settings, database: Database, closings: ShutdownStack, ask: AskPeople | None
) -> BuiltInAgentSet:
    with loading.uncollected():
        from swarm_agents.app.built_in_tools import open_toolbox
        from swarm_agents.app.swarm_tools import TeamTools
        from swarm_agents.system_prompts.files import PromptFiles
        from swarm_agents.system_prompts.renderer import Renderer

    team = TeamTools()
    prompts = PromptFiles(_prompts_config(settings))
    renderer = Renderer()
    closings.add("prompts", renderer.aclose)
    preparing = asyncio.create_task(_models(settings, closings), name="models")  # while MCP servers start
    try:
        toolbox = await open_toolbox(settings, database, closings, team, ask)
        models = await preparing
    finally:
        await process.end(preparing)
    shared = _Shared(
        settings=settings, database=database, models=models, prompts=prompts, renderer=renderer, toolbox=toolbox
    )
    agents = {name: await shared.agent(name, chosen) for name, chosen in settings.agents.builtin.items()}
    for name, agent in agents.items():
        closings.add(f"agent {name}", agent.aclose)
    specs = {spec.name: spec for spec in settings_mapping.streaming_agents(settings)}
    hired = tuple(
        ManagedAgent(spec=specs[name], client=agent, conversation_id=conversation_id) for name, agent in agents.items()
    )
    return BuiltInAgentSet(
        toolbox=toolbox,
        agents=agents,
        hired=hired,
        callers=settings_mapping.caller_policies(settings),
        connections=(team.connect, lambda services: setattr(services.agents, "unoffered", toolbox.unoffered)),
    )


async def register(settings: Settings, database: Database) -> None:
    """Registers all built-in agents, because their memories go by their ids. Failures are logged."""
    for spec in settings_mapping.streaming_agents(settings):
        if spec.reach is Reach.BUILTIN:
            await attempt(database.write(streaming_agents.register, spec), "agent_register", agent=spec.name)


def conversation_id(*, team: str, channel: str, thread_ts: str) -> str:
    """Returns the id of a thread's conversation; see `swarm.services.runs.event_sources.NameConversation`."""
    return f"{channel}:{thread_ts}"


def _prompts_config(settings: Settings) -> Path:
    """Returns the path of the wordings file. The file may be missing unless the settings name it."""
    path = settings.tools.prompts_config
    if path != PROMPTS_CONFIG and not path.is_file():
        raise ConfigurationError(
            f"tools.prompts_config is {path}: there is no such file", hint="Create it, or unset it."
        )
    return path


async def _models(settings: Settings, closings: ShutdownStack) -> Mapping[str, Models]:
    """Returns the models by agent. Agents with the same model and fallbacks share it. Each model is checked with a
    short call.
    """
    of_agent = {name: tuple(settings_mapping.model_specs(settings, name)) for name in settings.agents.builtin}
    built = {specs: await _built(specs) for specs in dict.fromkeys(of_agent.values())}
    for specs, models in built.items():
        closings.add(f"model {', '.join(spec.label for spec in specs)}", models.aclose)
    for spec in {spec.label: spec for specs in built for spec in specs if spec.is_guessed}.values():
        _log.info("The provider of a model was guessed.", action="model_guess", model=spec.label, hint=spec.guess)
    if settings.model.check_at_start:
        await _checked(settings, of_agent)
    return {name: built[specs] for name, specs in of_agent.items()}


async def _built(specs: Sequence[ModelSpec]) -> Models:
    """Builds a model in a thread, because some libraries take seconds to load."""

    def build() -> Models:
        from swarm_agents.models import building

        return building.build(specs)

    with loading.uncollected():
        return await asyncio.to_thread(build)


async def _checked(settings: Settings, of_agent: Mapping[str, Sequence[ModelSpec]]) -> None:
    """Checks each model once, with the limits of the first agent that uses it."""
    from swarm_agents.models.check import check

    users = {specs: name for name, specs in reversed(list(of_agent.items()))}
    checks = (check(specs, limits=run_limits(settings, name)) for specs, name in users.items())
    await asyncio.gather(*checks)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shared:
    settings: Settings
    database: Database
    models: Mapping[str, Models]  # by agent
    prompts: PromptFiles
    renderer: Renderer
    toolbox: Toolbox

    async def agent(self, name: str, chosen: BuiltinAgentSettings) -> BuiltinAgent:
        from swarm_agents.builtin.agent import BuiltinAgent

        record = self._record(name, chosen)
        make = self._router if chosen.kind is Kind.ROUTER else self._assistant
        works = await make(name, chosen, record)
        return BuiltinAgent(
            name,
            works,
            record,
            run_limits(self.settings, name),
            day=day_limits(self.settings, name),
            explain=partial(_explained, self.models[name].specs),
        )

    def _record(self, name: str, chosen: BuiltinAgentSettings) -> RunStorage:
        from swarm.domain.model.sessions import SessionScope
        from swarm.services.builtin.model_usage import ModelUsageLog
        from swarm.services.builtin.sessions import BuiltInOwner, DatabaseMemory
        from swarm_agents.builtin.agent import RunStorage

        session = self.settings.runtime.session
        is_router = chosen.kind is Kind.ROUTER
        runs = ModelUsageLog(self.database)
        memory = DatabaseMemory(
            self.database,
            BuiltInOwner(name),
            None if is_router else self._summarise(name, runs),  # a router reads only the last messages
            compaction_threshold=session.compaction_threshold,
            keep_recent_messages=session.keep_recent_messages,
        )
        scope = SessionScope.THREAD if is_router else session.scope
        return RunStorage(memory=memory, runs=runs, scope=scope)

    async def _router(self, name: str, chosen: BuiltinAgentSettings, record: RunStorage) -> Works:
        from swarm_agents.models.usage import usage_of
        from swarm_agents.router.router import Router

        await self.renderer.check(self.prompts.current().router.decide)
        tools = self._limited(name, partial(self.toolbox.router_tools, name))
        return Router(
            self.models[name].model,
            memory=record.memory,
            tools=tools,
            wordings=self._wordings(name),
            usage_of=usage_of,
            most_characters=self.settings.tools.output_characters,
            approvals=self._approvals(name, chosen, tools),
        )

    async def _assistant(self, name: str, chosen: BuiltinAgentSettings, record: RunStorage) -> Works:
        from swarm_agents.builtin.assistant import Assistant
        from swarm_agents.models.usage import usage_of

        await self.renderer.check(_system_prompt(self.prompts, chosen))
        tools = self._limited(name, self.toolbox.assistant_tools(name, chosen.tools, chosen.role))
        return Assistant(
            self.models[name].model,
            memory=record.memory,
            tools=tools,
            prompt=assistant_prompt(self.prompts, self.renderer, name, chosen),
            usage_of=usage_of,
            scope=record.scope,
            most_characters=self.settings.tools.output_characters,
            approvals=self._approvals(name, chosen, tools),
            follow_ups=self.toolbox.team.follow_ups,
        )

    def _limited(self, name: str, tools: Callable[[], Sequence[Tool]]) -> Callable[[], Sequence[Tool]]:
        """Returns a function that lists an agent's tools with its limits for them."""
        from swarm_agents.toolbox.tool import limited

        limits = tool_limits(self.settings, name)
        return (lambda: [limited(tool, limits) for tool in tools()]) if limits else tools

    def _approvals(self, name: str, chosen: BuiltinAgentSettings, tools: Callable[[], Sequence[Tool]]) -> ApprovalRules:
        """Returns the calls that people approve. Warns of patterns that match none of the agent's current tools."""
        from swarm_agents.toolbox.approval_rules import ApprovalRules

        rules = ApprovalRules(patterns=None if chosen.approve is None else tuple(chosen.approve))
        if unused := rules.unused(tools()):
            _log.warning(
                "No tool matches what people should approve.",
                action="approve_unused",
                agent=name,
                setting=f"agents.builtin.{name}.approve",
                patterns=unused,
            )
        return rules

    def _wordings(self, name: str) -> FindWordings:
        async def found(run_input: RunInput, tools: Sequence[Tool]) -> Wordings:
            words = await wordings(self.prompts, self.renderer, name, run_input, tools)
            none_allowed = self.prompts.current().router.refuse.none_allowed
            return words if self.toolbox.servers.allow_any else replace(words, no_tools=none_allowed)

        return found

    def _summarise(self, name: str, runs: UsageRecorder) -> Summarise:
        from swarm_agents.builtin.summariser import Summariser

        models = self.models[name]
        return Summariser(
            name,
            models.model,
            runs,
            run_limits(self.settings, name),
            instructions=lambda: self.prompts.current().summary,
            explain=partial(_explained, models.specs),
        )


def assistant_prompt(
    files: PromptFiles, renderer: Renderer, name: str, chosen: BuiltinAgentSettings
) -> Callable[[RunInput, Sequence[Tool]], Awaitable[str]]:
    """Returns the function that makes an assistant's system prompt for a run, from the current prompts.

    The template comes first, then the role of an assistant that has a team, then its own instructions.
    """

    async def prompt(run_input: RunInput, tools: Sequence[Tool]) -> str:
        template = await asyncio.to_thread(_system_prompt, files, chosen)
        text = await renderer.render(template, _variables(name, run_input, tools))
        role = files.current().team[chosen.role] if LocalTool.SWARM in chosen.tools else ""
        return "\n\n".join(part for part in (text, role, chosen.instructions) if part)

    return prompt


def _system_prompt(files: PromptFiles, chosen: BuiltinAgentSettings) -> Template:
    """Returns the current template. Edits to the file take effect at the next run."""
    from swarm_agents.system_prompts.files import Template

    if chosen.prompt is None:
        return files.current().assistant
    return Template(name=str(chosen.prompt), text=_text_of(chosen.prompt))


async def wordings(
    files: PromptFiles, renderer: Renderer, name: str, run_input: RunInput, tools: Sequence[Tool]
) -> Wordings:
    """Returns a router's wordings for one run, from the current prompts."""
    from swarm_agents.router.router import Wordings

    prompts = files.current()
    router = prompts.router
    return Wordings(
        decide=await renderer.render(router.decide, _variables(name, run_input, tools)),
        result_of=prompts.result_of,
        refuse_intro=router.refuse.intro,
        refuse_outro=router.refuse.outro,
        no_tools=router.refuse.no_tools,
        ask=router.ask,
        stopped=router.stopped,
    )


def _explained(specs: Sequence[ModelSpec], error: BaseException) -> Trouble | None:
    """Returns a readable message for errors of models, limits and prompts. Returns None for a bug, which is logged in
    full."""
    from pydantic_ai.exceptions import AgentRunError

    from swarm_agents.builtin.agent import Trouble
    from swarm_agents.models.troubles import is_transport_error, trouble_of
    from swarm_agents.system_prompts.files import PromptError

    if isinstance(error, PromptError | ConfigurationError):  # of a prompt file, which the error names
        return Trouble(message=BROKEN_PROMPT, code="prompt", detail=error.message)
    if not isinstance(error, AgentRunError | ExceptionGroup) and not is_transport_error(error):
        return None
    trouble = trouble_of(error, specs)
    if trouble.code == "internal":
        return None
    return Trouble(message=trouble.message, code=trouble.code, is_limit=trouble.is_limit, limit=trouble.limit)


def _variables(name: str, run_input: RunInput, tools: Sequence[Tool]) -> dict[str, object]:
    """Returns the template variables. The user comes from our own data, the context from the client."""
    origin = run_input.origin
    return {
        "agent": name,
        "today": datetime.now(UTC).date().isoformat(),
        "user": {"name": origin.user_name, "id": origin.user_id, "email": origin.user_email},
        "client_context": dict(run_input.client_context),
        "tools": [{"name": tool.name, "description": tool.description} for tool in tools],
    }


def _text_of(path: Path) -> str:
    try:
        return path.expanduser().read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"The prompt {path} cannot be read: {reason}") from error
