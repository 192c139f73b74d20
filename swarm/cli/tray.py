"""``swarm tray``: shows an agent's tray, for the agent's user and for the hooks of coding CLIs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import httpx2
from cyclopts import Parameter
from rich.console import Console

from swarm.cli import in_one_line
from swarm.cli.operator_commands import CoordinatorClient, CoordinatorRefused
from swarm.cli.terminal import Terminal
from swarm.domain.errors import ConfigurationError
from swarm_base.characters import line_for_terminal

EXAMPLE_URL: Final = "http://127.0.0.1:8080"
TIMEOUT_SECONDS: Final = 5.0
"""Kept short, since a hook delays a person who is typing."""


def tray(
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet_when_empty: Annotated[bool, Parameter(negative=())] = False,
    hook: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show what is waiting for an agent: unread messages, mentions, tasks and threads.

    For the agent's user, and for the hooks of coding CLIs. SWARM_AGENT_TOKEN names the agent, SWARM_URL the coordinator
    (http://127.0.0.1:8080).

    Parameters
    ----------
    as_json
        Print the data of GET /tray.
    quiet_when_empty
        Print nothing if nothing is waiting.
    hook
        Always end with exit code 0, so that a coding CLI continues; errors are still printed.
    """
    return run(os.environ, Terminal(), as_json=as_json, quiet_when_empty=quiet_when_empty, hook=hook)


def run(environment: Mapping[str, str], out: Console, *, as_json: bool, quiet_when_empty: bool, hook: bool) -> int:
    """Prints the tray. Returns the exit code. Raises SwarmError or NoServer; for a hook, the error is printed on one
    line instead."""
    try:
        tray = _fetch(environment)
        if not (quiet_when_empty and _is_empty(tray)):
            _print(tray, out, as_json=as_json)
    except Exception as error:  # a coding CLI must continue despite any error here
        if not hook:
            raise
        sys.stderr.write(f"swarm tray: {in_one_line(error)}\n")
    return 0


def _fetch(environment: Mapping[str, str]) -> dict[str, Any]:
    """Returns the tray of the agent whose token is in the environment."""
    token = environment.get("SWARM_AGENT_TOKEN", "").strip()
    if not token:
        raise ConfigurationError(
            "SWARM_AGENT_TOKEN is not set.", hint="Set it to the token that `swarm agents add` printed for your agent."
        )
    if not (token.isascii() and token.isprintable()):
        raise ConfigurationError("SWARM_AGENT_TOKEN contains characters that are not valid in a token.")
    port = environment.get("PORT", "").strip() or "8080"
    url = environment.get("SWARM_URL", "").strip() or f"http://127.0.0.1:{port}"
    return _ask(url, token)


def _ask(url: str, token: str) -> dict[str, Any]:
    expected = ConfigurationError(f"SWARM_URL is {url!r}: an address such as {EXAMPLE_URL} is expected.")
    if not url.startswith(("http://", "https://")):
        raise expected
    try:
        with CoordinatorClient(url, token, timeout_seconds=TIMEOUT_SECONDS, of="SWARM_AGENT_TOKEN") as coordinator:
            tray = coordinator.call("GET", "/tray")
    except httpx2.InvalidURL as error:
        raise expected from error
    if not isinstance(tray, dict) or "unread" not in tray:
        raise CoordinatorRefused(f"The server at {url} is not a coordinator.")
    return tray


def _is_empty(tray: Mapping[str, Any]) -> bool:
    """Whether nothing is waiting. Threads that the agent owns do not by themselves require work."""
    return not (tray["unread"] or tray["mentions"] or tray["tasks"])


def _print(tray: Mapping[str, Any], out: Console, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(tray, indent=2) + "\n")
        return
    for line, style in _lines(tray):
        out.print(line, style=style, soft_wrap=True)


def _lines(tray: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield _counted(tray["unread"], "unread message"), "bold"
    yield from ((_preview(shown), None) for shown in tray["previews"])
    yield _counted(tray["mentions"], "unread message", " of other agents"), "bold"
    yield from ((_preview(shown), None) for shown in tray["messages"])
    tasks = ", ".join(f"{count} {status}" for status, count in sorted(tray["tasks"].items()))
    yield f"tasks: {tasks or 'none'}", "bold"
    yield f"threads owned: {tray['threads_owned']}", "bold"


def _counted(count: int, what: str, of_whom: str = "") -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}{of_whom}"


def _preview(shown: Mapping[str, Any]) -> str:
    """Returns one line, even if a name or text has several lines. External text must not control the terminal."""
    place = f" in {shown['channel']}" if shown["channel"] else ""
    of = shown.get("inbox_message_id") or shown["message_id"]
    return "  " + line_for_terminal(f"{of} {shown['from']}{place}: {shown['preview']}")
