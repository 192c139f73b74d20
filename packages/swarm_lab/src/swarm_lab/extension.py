"""What this package adds to ``swarm``, see `swarm.extensions`."""

from __future__ import annotations

from typing import Final

from swarm.extensions import Command, Extension

EXTENSION: Final = Extension(
    package="swarm-lab",
    commands={
        "bench": Command(target="swarm.cli.bench:bench"),
        "conformance": Command(target="swarm.cli.conformance:conformance"),
    },
)
