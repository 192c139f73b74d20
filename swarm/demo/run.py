"""``swarm demo``: twin, coordinator and demo agents as separate processes, and one address to open."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from swarm.demo.processes import Died, Parts
from swarm.twin.seed import DEFAULT

READY_SECONDS: Final = 60
AGENTS: Final = (("lead", "lead", "Answers by rules; a stand-in for a real agent."),)
"""Name, role and description of each demo agent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Where the demo runs."""

    port: int
    twin_port: int
    home: Path
    slack: bool  # real tokens are in the environment, so there is no twin

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def twin_url(self) -> str:
        return f"http://127.0.0.1:{self.twin_port}"


class NotReady(Exception):
    """A part did not come up in time."""


def plan(environment: Mapping[str, str]) -> Plan:
    """The plan that the environment asks for: PORT, TWIN_PORT, SWARM_HOME. Raises ValueError for a bad port."""
    return Plan(
        port=_port(environment, "PORT", 8080),
        twin_port=_port(environment, "TWIN_PORT", 8400),
        home=Path(environment.get("SWARM_HOME") or ".demo").absolute(),
        slack=bool(environment.get("SLACK_BOT_TOKEN") and environment.get("SLACK_APP_TOKEN")),
    )


async def run(demo: Plan) -> int:
    """Run until Ctrl-C (exit code 0) or until a part dies (exit code 1)."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    parts = Parts(demo.home / "logs")
    try:
        return await _run(demo, parts, stop)
    except Died as died:
        print("\n".join([f"{died}. Its last lines:", *died.last_lines]), file=sys.stderr)
        return 1
    except NotReady as error:
        print(f"{error} The logs are in {demo.home / 'logs'}.", file=sys.stderr)
        return 1
    finally:
        await parts.stop()


async def _run(demo: Plan, parts: Parts, stop: asyncio.Event) -> int:
    ports = (demo.port,) if demo.slack else (demo.port, demo.twin_port)
    for port in ports:
        _check_free(port)
    starting = asyncio.create_task(_start(demo, parts))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return 0
    await starting
    print(f"Open {demo.base_url if demo.slack else demo.twin_url}", flush=True)
    print('Type "@swarm hello" in #general. Ctrl-C ends everything.', flush=True)
    death = asyncio.create_task(parts.first_death())
    await asyncio.wait({death, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        death.cancel()
        return 0
    raise await death


async def _start(demo: Plan, parts: Parts) -> None:
    """Bring the parts up one after another, each once the one before is ready."""
    environment = {"PORT": str(demo.port), "SWARM_HOME": str(demo.home)}
    if not demo.slack:
        _say("starting the Slack twin")
        await parts.start("twin", ["swarm.twin", "--port", str(demo.twin_port)], {})
        await _until(parts, f"{demo.twin_url}/", "The Slack twin")
        environment |= _twin_tokens(demo)
    _say("starting the coordinator")
    await parts.start("coordinator", ["swarm.cli", "up"], environment)
    await _until(parts, f"{demo.base_url}/readyz", "The coordinator")
    operator = (demo.home / "operator.token").read_text().strip()
    async with httpx2.AsyncClient(base_url=demo.base_url, headers={"Authorization": f"Bearer {operator}"}) as http:
        for name, role, description in AGENTS:
            _say(f"starting the agent {name}")
            token = await _token(http, name, role, description)
            settings = {"SWARM_URL": demo.base_url, "SWARM_AGENT_TOKEN": token, "SWARM_AGENT_NAME": name}
            await parts.start(name, ["swarm.demo.agent"], settings)
        await _until_online(parts, http)


def _twin_tokens(demo: Plan) -> dict[str, str]:
    """The tokens of the twin's default seed."""
    app = DEFAULT.apps[0]
    return {
        "SLACK_BOT_TOKEN": app.bot_token,
        "SLACK_APP_TOKEN": app.app_token,
        "SLACK_SIGNING_SECRET": app.signing_secret,
        "SLACK_API_BASE_URL": f"{demo.twin_url}/api/",
    }


async def _token(http: httpx2.AsyncClient, name: str, role: str, description: str) -> str:
    """Register an agent; one of an earlier run gets a new token."""
    answer = await http.post("/agents", json={"name": name, "role": role, "description": description})
    if answer.status_code == httpx2.codes.CONFLICT:
        answer = await http.post(f"/agents/{name}/rotate")
    answer.raise_for_status()
    return str(answer.json()["token"])


async def _until(parts: Parts, url: str, what: str) -> None:
    """Wait until a URL answers 200, or a part dies."""
    async with httpx2.AsyncClient(timeout=5) as http:

        async def answers() -> bool:
            try:
                return (await http.get(url)).status_code == httpx2.codes.OK
            except httpx2.HTTPError:
                return False

        await _wait_for(parts, answers, what)


async def _until_online(parts: Parts, http: httpx2.AsyncClient) -> None:
    async def all_online() -> bool:
        listed = (await http.get("/agents")).json()["agents"]
        online = {agent["name"] for agent in listed if agent["status"] == "online"}
        return online >= {name for name, _, _ in AGENTS}

    await _wait_for(parts, all_online, "An agent")


async def _wait_for(parts: Parts, condition: Callable[[], Awaitable[bool]], what: str) -> None:
    death = asyncio.create_task(parts.first_death())
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not await condition():
                await asyncio.wait({death}, timeout=0.1)
                if death.done():
                    raise death.result()
    except TimeoutError as error:
        raise NotReady(f"{what} was not ready within {READY_SECONDS} seconds.") from error
    finally:
        death.cancel()


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isdecimal() or not 0 < int(value) < 65_536:
        raise ValueError(f"{name} is {value!r}; a port from 1 to 65535 is expected")
    return int(value)


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise NotReady(f"Port {port} is in use; choose others with PORT and TWIN_PORT.") from error


def _say(what: str) -> None:
    print(f"… {what}", flush=True)


def main(environment: Mapping[str, str] = os.environ) -> int:
    """The demo as a command; its exit code."""
    try:
        demo = plan(environment)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return asyncio.run(run(demo))
