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
"""So long a coordinator has to say who is there; what takes longer counts as not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoordinatorAccess:
    """A coordinator that lets us in."""

    url: str
    token: str = field(repr=False)
    agents: tuple[str, ...]  # the built-in ones, its default first; at least one

    def agent(self, name: str) -> RemoteAgent:
        """How one of its agents is reached."""
        return RemoteAgent(name=name, url=self.url, dialect=Dialect.CAIPE, token=self.token, agent_id=name)


def found(settings: Settings) -> CoordinatorAccess | None:
    """The coordinator; None if none answers, if it is not this home's, or has no built-in agents. Blocks.

    Raises NoServer where SWARM_URL (http.url) names one that does not answer.
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
