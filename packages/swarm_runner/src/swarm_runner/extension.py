"""What this package adds to ``swarm``, see `swarm.extensions`."""

from __future__ import annotations

from typing import Final

from swarm.extensions import Command, Extension

EXTENSION: Final = Extension(
    package="swarm-runner",
    commands={
        "run": Command(target="swarm_runner.cli:run", usage="Usage: swarm run NAME --provider PROVIDER [OPTIONS]"),
    },
)
