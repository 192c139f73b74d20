"""The status of a server, and the time limits for servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The current status of a server."""

    name: str
    is_up: bool
    detail: str  # why the server is not up; empty if it is up
    allowed: tuple[str, ...]  # the server's tools that may be used; empty while it is not up
    others: tuple[str, ...]  # the server's other tools
    refused: Mapping[str, str] = field(default_factory=dict)  # why tools are not offered, by name


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Time limits for servers."""

    start_seconds: float = 5.0  # how long the start of the coordinator waits for all servers
    connect_seconds: float = 30.0  # the time until a server must have listed its tools
    first_pause_seconds: float = 1.0  # before the first new attempt to reach a server; doubled after each attempt
    longest_pause_seconds: float = 60.0
    refresh_seconds: float = 60.0  # between two reads of the list if there are no notifications
    close_seconds: float = 5.0  # for closing the connection to an HTTP server
    end_seconds: float = 1.0  # how long a program may take to exit after its stdin is closed
    term_seconds: float = 2.0  # the time between SIGTERM and SIGKILL


USUAL_TIMEOUTS: Final = Timeouts()
