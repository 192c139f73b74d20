"""What this package adds to ``swarm``, see `swarm.extensions`."""

from __future__ import annotations

from typing import Final

from swarm.extensions import Command, Extension

EXTENSION: Final = Extension(
    package="swarm-lab",
    commands={
        "bench": Command(target="swarm_lab.cli.bench:bench"),
        "conformance": Command(target="swarm_lab.cli.conformance:conformance"),
        "demo": Command(target="swarm_lab.cli.commands:demo"),
        "slack selftest": Command(target="swarm_lab.cli.commands:selftest"),
    },
)
