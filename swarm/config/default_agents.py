"""Default agents: with no settings but a model, agents work out of the box."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from swarm.config.builtin import BuiltinAgentSettings, Kind
from swarm.config.settings import Settings

ASSISTANT: Final = "assistant"
ROUTER: Final = "tools"


def with_default_agents(settings: Settings, folder: Path) -> Settings:
    """The settings, with an assistant added if there is a model but no agent in the coordinator.

    With MCP servers, a router is added too. The router comes first, so that it answers if no default is named and no
    other lead is older.
    """
    agents = settings.agents
    if not settings.model.name or agents.builtin or agents.remote:
        return settings
    builtin = {ASSISTANT: BuiltinAgentSettings(kind=Kind.ASSISTANT, description="Converses and uses tools.")}
    if (folder / settings.tools.servers_config).is_file():
        router = BuiltinAgentSettings(kind=Kind.ROUTER, description="Turns a sentence into a call of a tool.")
        builtin = {ROUTER: router, **builtin}
    return settings.model_copy(update={"agents": agents.model_copy(update={"builtin": builtin})})
