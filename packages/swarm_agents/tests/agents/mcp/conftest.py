"""What the tests of MCP servers need: real programs, and connections that do not wait for long."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from swarm.config.mcp_servers import Address, McpServer, Program
from swarm_agents.mcp.servers import McpServers
from swarm_agents.mcp.status import ServerStatus, Timeouts
from swarm_agents.toolbox.tool import Tool, ToolAnswer
from tests.support.waiting import wait_until

PROGRAMS = Path(__file__).parent / "programs"

QUICK = Timeouts(
    start_seconds=20.0,  # a busy machine may take long to start a program
    connect_seconds=20.0,
    first_pause_seconds=0.02,
    longest_pause_seconds=0.1,
    refresh_seconds=600.0,
    end_seconds=0.3,
    term_seconds=0.3,
)


@dataclass(frozen=True)
class Plain:
    """The program ``plain_server.py``, and what it has seen."""

    folder: Path
    options: tuple[str, ...] = ()

    def server(self, *allowed: str, name: str = "plain", **more: Any) -> McpServer:
        """What its operator says of it."""
        program, *args = self.command
        return McpServer(name=name, reached=Program(command=program, args=tuple(args)), allowed=allowed, **more)

    @property
    def command(self) -> tuple[str, ...]:
        """How it is started."""
        return (sys.executable, "-I", "-S", str(PROGRAMS / "plain_server.py"), str(self.folder), *self.options)

    def offer(self, *names: object) -> None:
        """These are its tools from now on; if it runs already, it does not say so."""
        beside = self.folder / "tools.new"
        beside.write_text(json.dumps(names))
        beside.rename(self.folder / "tools.json")

    def tell(self) -> None:
        """It says that its tools have changed."""
        os.kill(self.pids[0], signal.SIGUSR1)

    @property
    def pids(self) -> list[int]:
        """Itself and its children, over all its starts, oldest first."""
        path = self.folder / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def seen(self, method: str) -> list[dict[str, Any]]:
        """The messages of a kind that it has got, over all its starts."""
        path = self.folder / "seen.jsonl"
        messages = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [message for message in messages if message.get("method") == method]


@pytest.fixture
def plain(tmp_path: Path) -> Plain:
    """A program that has the tools "echo" and "remove"."""
    return plain_in(tmp_path / "plain")


def plain_in(folder: Path, *options: str, tools: Sequence[object] = ("echo", "remove")) -> Plain:
    """A program with a folder and manners of its own."""
    folder.mkdir()
    program = Plain(folder, options)
    program.offer(*tools)
    return program


def library(*allowed: str, **more: Any) -> McpServer:
    """A program that is written with the library."""
    reached = Program(command=sys.executable, args=("-I", str(PROGRAMS / "library_server.py")), **more)
    return McpServer(name="library", reached=reached, allowed=allowed)


def at(url: str, *allowed: str, headers: dict[str, str] | None = None, **more: Any) -> McpServer:
    """A server that is reached over HTTP."""
    return McpServer(name="web", reached=Address(url=f"{url}/mcp", headers=headers or {}), allowed=allowed, **more)


def names(servers: McpServers) -> list[str]:
    """Under which names tools are offered now."""
    return [tool.name for tool in servers.tools()]


def tool(servers: McpServers, name: str) -> Tool:
    """The tool that is offered under a name."""
    (found,) = [tool for tool in servers.tools() if tool.name == name]
    return found


async def call(servers: McpServers, name: str, **arguments: Any) -> ToolAnswer:
    """What a tool answers."""
    return await tool(servers, name).call(arguments)


async def until_offered(servers: McpServers, *expected: str) -> None:
    """Wait until exactly these tools are offered."""

    async def look() -> list[str]:
        return names(servers)

    await wait_until(look, lambda seen: seen == list(expected), what=f"{expected} are offered")


async def until_status(servers: McpServers, *, is_up: bool, at: int = 0) -> ServerStatus:
    """Wait until a server is up, or not."""

    async def look() -> ServerStatus:
        return servers.status()[at]

    return await wait_until(look, lambda status: status.is_up is is_up, what=f"is_up is {is_up}")


@contextmanager
def port_of_ours() -> Iterator[int]:
    """A port at which nobody answers, and that nobody takes but a server that is told to use it, time and again."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does, so that both may have it
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def alive(pids: Sequence[int]) -> list[int]:
    """Those of these processes that run; one that has ended and waits to be collected by init does not."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if runs(pid)]
