"""The team: how much an agent has before it, so that others can tell whom to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What one agent has before it."""

    open_tasks: int = 0
    threads_owned: int = 0
    running: int = 0  # leases on work, each with a run behind it


IDLE: Final = Load()
