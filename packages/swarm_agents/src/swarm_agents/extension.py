"""What this package adds to ``swarm``, see `swarm.extensions`."""

from __future__ import annotations

from typing import Final

from swarm.extensions import Command, Extension

EXTENSION: Final = Extension(
    package="swarm-agents",
    commands={
        "chat": Command(target="swarm.cli.chat:chat", usage="Usage: swarm chat [OPTIONS] [WORDS...]"),
        "eval": Command(target="swarm.cli.eval:evaluation"),
    },
)
