"""Processes as /proc shows them."""

from __future__ import annotations

import os
from pathlib import Path


def children_of(parent: int) -> list[int]:
    """The processes that ``parent`` has started and not yet waited for; without those that have ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (state := _state(int(entry.name))) and state == (parent, True):
            found.append(int(entry.name))
    return sorted(found)


def is_running(process: int) -> bool:
    state = _state(process)
    return state is not None and state[1]


def renderers_of_this_process() -> list[int]:
    """The processes that render for us, below their supervisors: told by the module that they run."""
    below = [child for supervisor in children_of(os.getpid()) for child in children_of(supervisor)]
    return [child for child in below if b"system_prompts.render_process" in _file(child, "cmdline")]


def environment_of(process: int) -> bytes:
    return _file(process, "environ")


def _state(process: int) -> tuple[int, bool] | None:
    """Its parent, and whether it runs."""
    fields = _file(process, "stat").rpartition(b")")[2].split()
    return (int(fields[1]), fields[0] != b"Z") if fields else None


def _file(process: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{process}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
