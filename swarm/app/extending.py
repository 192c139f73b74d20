"""What extensions add to a running coordinator: agents and routes. `swarm.extensions` finds the extensions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.routing import BaseRoute

from swarm import extensions
from swarm.app.process import StopDeadline
from swarm.config import Settings
from swarm.domain.answers.agents import AgentClient
from swarm.domain.errors import ConfigurationError
from swarm.domain.policy.access import CallerPolicy
from swarm.domain.policy.section import Section
from swarm.entrypoints.web.identity import Identities
from swarm.extensions import Extension
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.use_cases import Services
from swarm.store.bridge.database import Database


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentHost:
    """What an extension opens its agents with. The services exist later, see `AgentSet.connect`."""

    settings: Settings
    section: Section | None  # the extension's own settings
    database: Database
    deadline: StopDeadline  # by which everything is to be closed


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteHost:
    """What an extension makes its routes with. Each route identifies its callers by itself, with ``identities``."""

    settings: Settings
    section: Section | None
    services: Services
    identities: Identities
    runs: AgentRuns  # of the agents that clients may call


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSet:
    """Agents that the coordinator runs."""

    hired: Sequence[ManagedAgent] = ()  # those that work in Slack
    agents: Mapping[str, AgentClient] = field(default_factory=dict)  # those that clients may call; the default first
    callers: Mapping[str, CallerPolicy] = field(default_factory=dict)  # by the names of ``agents``
    connections: Sequence[Callable[[Services], None]] = ()

    def connect(self, services: Services) -> None:
        """Lets the agents use the services, because the agents are opened first."""
        for connect in self.connections:
            connect(services)


def own_section(settings: Settings, name: str) -> Section | None:
    """Returns the section ``extensions.NAME``, if there is one."""
    return getattr(settings.extensions, name, None)


@asynccontextmanager
async def opened(
    settings: Settings, database: Database, deadline: StopDeadline, taken: Collection[str]
) -> AsyncIterator[AgentSet]:
    """Yields the agents of all extensions. They are opened one after another, and closed in reverse.

    ``taken`` has the names of other agents. Raises ConfigurationError for an extension whose agents cannot be used, and
    for two agents of one name.
    """
    found, owners = AgentSet(), dict.fromkeys(taken, "swarm")
    async with AsyncExitStack() as stack:
        for name, extension in extensions.installed().items():
            if target := extension.agents:
                host = AgentHost(
                    settings=settings, section=own_section(settings, name), database=database, deadline=deadline
                )
                opening = _checked(extension, target, AbstractAsyncContextManager, extension.load(target)(host))
                added = _checked(extension, target, AgentSet, await stack.enter_async_context(opening))
                _claim(owners, {one.spec.name for one in added.hired} | added.agents.keys(), extension, "an agent {}")
                found = AgentSet(
                    hired=(*found.hired, *added.hired),
                    agents={**found.agents, **added.agents},
                    callers={**found.callers, **dict.fromkeys(added.agents, CallerPolicy()), **added.callers},
                    connections=(*found.connections, *added.connections),
                )
        yield found


def routes(host: RouteHost, taken: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Returns the routes of all extensions. ``taken`` are our own: the first part of a path belongs to one package.

    Raises ConfigurationError for routes that cannot be used.
    """
    found: list[BaseRoute] = []
    owners = dict.fromkeys(_first_parts(taken), "swarm")
    for name, extension in extensions.installed().items():
        if target := extension.routes:
            made = extension.load(target)(replace(host, section=own_section(host.settings, name)))
            added = [_checked(extension, target, BaseRoute, one) for one in _checked(extension, target, Sequence, made)]
            _claim(owners, _first_parts(added), extension, "routes below /{}")
            found += added
    return found


def _first_parts(routes: Sequence[BaseRoute]) -> set[str]:
    return {str(getattr(route, "path", "")).strip("/").partition("/")[0] for route in routes}


def _claim(owners: dict[str, str], names: Collection[str], extension: Extension, what: str) -> None:
    for name in names:
        if (owner := owners.setdefault(name, extension.package)) != extension.package:
            raise ConfigurationError(
                f"The package {extension.package} has {what.format(name)}, and so has {owner}.",
                hint=f"Choose another name, if it is yours to choose, or: pip uninstall {extension.package}",
            )


def _checked(extension: Extension, target: str, kind: Any, found: Any) -> Any:
    if not isinstance(found, kind):
        raise extension.unusable(target, f"it gives {type(found).__name__} in place of {kind.__name__}")
    return found
