"""The coordinator of this home, if one runs and has built-in agents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from swarm.app import home
from swarm.cli.client import CoordinatorClient, CoordinatorRefused, NoServer
from swarm.config import Settings
from swarm.domain.answers.agents import Dialect, RemoteAgent
from swarm.domain.errors import ConfigurationError

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
