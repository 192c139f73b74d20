"""An MCP server as configured by the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CALL_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A server that runs as a program; messages go over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)  # arguments may hold secrets as well
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # the only variables beside PATH and HOME
    cwd: Path | None = None  # None: the coordinator's working directory


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A server reached over streamable HTTP."""

    url: str = field(repr=False)  # may hold a password, or a key in the query
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class McpServer:
    """A server and its allowed use."""

    name: str
    reached: Program | Address
    allowed: tuple[str, ...] = ()  # exact names of the tools that may be used; empty: none
    shares_list: bool = False  # the list is shared by all servers, so this server need not have each of its tools
    timeout_seconds: float = CALL_SECONDS  # of one call
    secrets: tuple[str, ...] = field(default=(), repr=False)  # in the program or address


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """The current status of a server."""

    name: str
    is_up: bool
    detail: str  # why the server is not up; empty if it is up
    allowed: tuple[str, ...]  # the server's tools that may be used; empty while it is not up
    others: tuple[str, ...]  # the server's other tools


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Time limits for servers."""

    start_seconds: float = 5.0  # the start of the coordinator waits this long for all servers
    connect_seconds: float = 30.0  # until a server has listed its tools
    first_pause_seconds: float = 1.0  # before the first new attempt to reach a server; doubled after each attempt
    longest_pause_seconds: float = 60.0
    refresh_seconds: float = 60.0  # between two reads of the list without a notification
    close_seconds: float = 5.0  # for closing the connection to an HTTP server
    end_seconds: float = 1.0  # for a program to end after its stdin is closed
    term_seconds: float = 2.0  # then until SIGKILL follows SIGTERM


USUAL_TIMEOUTS: Final = Timeouts()
