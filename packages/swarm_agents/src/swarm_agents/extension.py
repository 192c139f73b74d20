"""What this package adds to ``swarm``, see `swarm.extensions`."""

from __future__ import annotations

from typing import Final

from swarm.extensions import Command, Extension

EXTENSION: Final = Extension(
    package="swarm-agents",
    commands={
        "chat": Command(target="swarm_agents.cli.chat:chat", usage="Usage: swarm chat [OPTIONS] [WORDS...]"),
        "eval": Command(target="swarm_agents.cli.eval:evaluation"),
    },
    agents="swarm_agents.app.built_in:hosted",
    routes="swarm_agents.app.built_in:routes",
)
