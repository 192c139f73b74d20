"""An MCP server as its operator describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CALL_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A server that is a program of its own; it is spoken to over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)  # they, too, may hold secrets
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # beside PATH and HOME it gets no other
    cwd: Path | None = None  # None: where the coordinator was started


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A server that is reached over streamable HTTP."""

    url: str = field(repr=False)  # may hold a password, or a key in its query
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class McpServer:
    """A server and what it may be used for."""

    name: str
    reached: Program | Address
    allowed: tuple[str, ...] = ()  # its tools that may be used, by exactly their names; empty: none
    shares_list: bool = False  # that is a list for all servers, so nobody expects each of its tools here
    timeout_seconds: float = CALL_SECONDS  # of one call
    secrets: tuple[str, ...] = field(default=(), repr=False)  # in what it is started or reached with


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """What is known of a server at the moment."""

    name: str
    is_up: bool
    detail: str  # why it is not up; empty if it is
    allowed: tuple[str, ...]  # of the tools that it has, those that may be used; empty while it is not up
    others: tuple[str, ...]  # and those that may not


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """How long servers are waited for."""

    start_seconds: float = 5.0  # so long a start waits for all of them
    connect_seconds: float = 30.0  # until a server has named its tools
    first_pause_seconds: float = 1.0  # before a server that is away is tried again; doubled from time to time
    longest_pause_seconds: float = 60.0
    refresh_seconds: float = 60.0  # so often tools are asked for that no notification has told of
    close_seconds: float = 5.0  # for the farewell to a server that is reached over HTTP
    end_seconds: float = 1.0  # so long a program has to end by itself when its stdin is closed
    term_seconds: float = 2.0  # and so long after SIGTERM, before SIGKILL


USUAL_TIMEOUTS: Final = Timeouts()
