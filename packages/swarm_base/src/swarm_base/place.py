"""Where a coordinator is, as its runners need to know. The coordinator's package tells it by an entry point."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

GROUP: Final = "swarm_runner.place"
"""The group of the entry point: a function without parameters that returns a `Place`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A coordinator on this machine or elsewhere."""

    home: Path  # its home folder, if it is on this machine
    url: str
    log_level: str = "info"
    problem: str = ""  # why its settings file does not count
