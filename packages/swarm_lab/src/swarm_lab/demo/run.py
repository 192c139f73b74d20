"""``swarm demo``: runs the twin, the coordinator, the demo agents and a rule-driven model as processes, with one
address to open."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

import httpx2
import orjson

from swarm_lab.demo import home, settings_file, shop
from swarm_lab.demo.settings_file import ASSISTANT, ROUTER, WRITER, Plan, coordinator_settings, plan
from swarm_lab.demo.tools import Tools
from swarm_lab.programs import Died, Programs

READY_SECONDS: Final = 60
TOOL_SECONDS: Final = 20
DEATH_SECONDS: Final = 2
"""The time after a failed call within which the end of a part may still explain the failure."""

AGENTS: Final = (
    ("lead", "lead", "Answers by rules, and delegates work to the workers; represents a real agent."),
    ("counter", "worker", "Counts lines of code in the folder where the demo was started."),
    ("finder", "worker", "Finds words in the files of that folder."),
)
"""The name, role and description of each polling demo agent."""


class NotReady(Exception):
    """A part has not started in time."""


async def _run_until_stopped(demo: Plan) -> int:
    """Runs until Ctrl-C (exit code 0) or until a part dies (exit code 1)."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    os.umask(0o077)  # the home folder, logs and tokens are private
    try:
        with (
            home.held(demo.home, begins_anew=not demo.slack and demo.database_url is None),
            home.work_tree(Path.cwd(), demo.home) as tree,
        ):
            return await _run_parts(replace(demo, work_tree=tree, no_coder=_no_coder(demo)), stop)
    except (home.InUse, home.Unusable) as error:
        print(error, file=sys.stderr)
        return 1


def _no_coder(demo: Plan) -> str:
    """Makes the coder's repository. Returns why there can be no coder, or an empty string."""
    try:
        shop.make(demo.coder_home)
    except shop.NoRepository as error:
        return str(error)
    return ""


async def _run_parts(demo: Plan, stop: asyncio.Event) -> int:
    parts = Programs(demo.home / "logs")
    try:
        return await _run(demo, parts, stop)
    except Died as died:
        print(died, file=sys.stderr)
        return 1
    except (NotReady, settings_file.Unusable) as error:
        logs = demo.home / "logs"
        print(f"{error} The logs are in {logs}." if logs.exists() else str(error), file=sys.stderr)
        return 1
    finally:
        await parts.stop()


async def _run(demo: Plan, parts: Programs, stop: asyncio.Event) -> int:
    ports = (demo.port,) if demo.slack else (demo.port, demo.twin_port)
    for port in ports:
        _check_free(port)
    starting = asyncio.create_task(_start(demo, parts))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})  # a child that is being started is stopped as well
        return 0
    await starting
    print(f"Open {demo.base_url if demo.slack else demo.twin_url}", flush=True)
    first = "how many lines of Python are in this repository?" if demo.no_coder else "fix the failing test"
    print(
        f'Type "@swarm {first}" in #general, or "swarm#writer tell me about this repository". Ctrl-C ends everything.',
        f'With memory and tools: "swarm#{ROUTER} what is 6 times 7?", "swarm#{ASSISTANT} what is agntcy".',
        sep="\n",
        flush=True,
    )
    if demo.no_coder:
        print(f"There is no {shop.CODER} in this demo: {demo.no_coder}.", file=sys.stderr, flush=True)
    for trouble in filter(None, map(_trouble_of_model, parts.lines_of("coordinator"))):
        print(trouble, file=sys.stderr, flush=True)
    death = asyncio.create_task(parts.first_death())
    await asyncio.wait({death, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        death.cancel()
        return 0
    raise await death


async def _start(demo: Plan, parts: Programs) -> None:
    """Starts all parts concurrently. The coordinator takes longest to start, and does not need the other parts until
    then."""
    is_scripted = not (demo.own_model or settings_file.names_model(demo.own_settings))
    environment = coordinator_settings(demo, is_scripted=is_scripted)
    if not demo.slack:
        _say("starting the Slack twin")
        await parts.start("twin", ["slack_twin", "--port", str(demo.twin_port)], {})
    _say("starting the coordinator")
    await parts.start("coordinator", ["swarm.cli.main", "up"], environment)
    _say(f"starting the agent {WRITER}")
    await parts.start(
        WRITER, ["swarm_lab.demo.agents.streamer"], {"WRITER_PORT": str(demo.writer_port), "DEMO_ROOT": _root()}
    )
    if is_scripted:
        _say("starting rules instead of a model; set LLM_MODEL and a key to use a real model")
        await parts.start("model", ["swarm_lab.demo.rules.model_server"], {"MODEL_PORT": str(demo.model_port)})
        await _until(parts, demo.model_url, "The model")
    await _until(parts, demo.writer_url, "The writer")
    if not demo.slack:
        await _until(parts, f"{demo.twin_url}/", "The Slack twin")
    await _start_agents(demo, parts)
    await _until(parts, f"{demo.base_url}/readyz", "The coordinator")
    await _employ_agents(demo, parts)


def _trouble_of_model(line: str) -> str:
    """Extracts from a line of the coordinator's log why the model does not answer. Returns "" for other lines."""
    if '"model_check"' not in line:
        return ""
    said = orjson.loads(line)
    return f"{said.get('trouble', '')} {said.get('hint', '')}".strip()


async def _start_agents(demo: Plan, parts: Programs) -> None:
    """Starts the polling agents, which load at the same time as the coordinator and wait for their tokens."""
    for name, _, _ in AGENTS:
        _token_file(demo, name).unlink(missing_ok=True)  # from an earlier run, and no longer valid
        _say(f"starting the agent {name}")
        settings = {
            "SWARM_URL": demo.base_url,
            "SWARM_AGENT_TOKEN_FILE": str(_token_file(demo, name)),
            "SWARM_AGENT_NAME": name,
            "DEMO_ROOT": _root(),
        }
        await parts.start(name, ["swarm_lab.demo.agents.agent"], settings)


async def _employ_agents(demo: Plan, parts: Programs) -> None:
    """Registers the polling agents, passes them their tokens, and waits until all are online."""
    headers = {"Authorization": f"Bearer {_operator_token(demo)}"}
    async with httpx2.AsyncClient(base_url=demo.base_url, headers=headers, trust_env=False) as http:
        if not demo.no_coder:
            await _start_coder(demo, parts, http)
        for name, role, description in AGENTS:
            token = await _token(parts, http, name, role, description)
            _hand_over(token, _token_file(demo, name))
        await _until_online(demo, parts, http)
    await _try_tools(demo, token)


async def _start_coder(demo: Plan, parts: Programs, http: httpx2.AsyncClient) -> None:
    """Starts ``swarm run``, which, unlike the other agents, needs a coordinator from its start on."""
    _say(f"starting the agent {shop.CODER}")
    token = await _token(parts, http, shop.CODER, "worker", "Corrects code and writes tests, in a git repository.")
    settings = {"SWARM_TOKEN": token, "SWARM_HOME": str(demo.home), "SWARM_CONFIG": os.devnull}
    await parts.start(shop.CODER, shop.runner_arguments(demo.coder_home, demo.base_url), settings)


async def _try_tools(demo: Plan, token: str) -> None:
    """Calls an MCP tool as an agent would, since without working tools no agent could answer. Raises NotReady."""
    try:
        async with asyncio.timeout(TOOL_SECONDS), Tools.connected(demo.base_url, token, lease_token="") as tools:
            await tools.call("tray")
    except Exception as error:  # the library wraps errors in exception groups
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        raise NotReady(f"The agents cannot use their MCP tools: {cause or type(cause).__name__}.") from error


def _token_file(demo: Plan, name: str) -> Path:
    return demo.home / f"{name}.token"


def _hand_over(token: str, file: Path) -> None:
    """Writes a token to a file that only its agent can read. The file is never incomplete."""
    half = file.with_suffix(".new")
    half.unlink(missing_ok=True)
    half.touch(mode=0o600)
    half.write_text(token, encoding="utf-8")
    half.replace(file)


def _root() -> str:
    """Returns the folder that the agents examine."""
    return str(Path.cwd())


def _operator_token(demo: Plan) -> str:
    """Returns the coordinator's operator token from the environment, or else from its file. Raises NotReady if there is
    none."""
    if demo.operator_token:
        return demo.operator_token
    path = demo.home / "operator.token"
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise NotReady(
            f"There is no operator token: SWARM_OPERATOR_TOKEN is not in the environment (a .env file does not count "
            f"here), and {path} cannot be read."
        ) from error


async def _token(parts: Programs, http: httpx2.AsyncClient, name: str, role: str, description: str) -> str:
    """Registers an agent and returns its token. An agent from an earlier run gets a new token. Raises Died or
    NotReady."""
    try:
        answer = await http.post("/agents", json={"name": name, "role": role, "description": description})
        if answer.status_code == httpx2.codes.CONFLICT:
            answer = await http.post(f"/agents/{name}/rotate")
    except httpx2.HTTPError as error:
        raise await _reason(parts, error) from error
    if answer.status_code == httpx2.codes.UNAUTHORIZED:
        raise NotReady(
            "The coordinator refuses the operator token; does a .env file contain another SWARM_OPERATOR_TOKEN?"
        )
    if not answer.is_success:
        raise NotReady(f"The coordinator did not accept the agent {name}: HTTP {answer.status_code}.")
    return str(answer.json()["token"])


async def _reason(parts: Programs, error: httpx2.HTTPError) -> Died | NotReady:
    """Returns the reason why a call failed, which is usually the death of a part."""
    try:
        return await asyncio.wait_for(parts.first_death(), DEATH_SECONDS)
    except TimeoutError:
        return NotReady(f"The coordinator did not answer: {type(error).__name__} {error}.")


async def _until(parts: Programs, url: str, what: str) -> None:
    """Waits until a URL answers with status 200. Raises Died if a part dies, or NotReady."""
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:

        async def answers() -> bool:
            return (await http.get(url)).status_code == httpx2.codes.OK

        await _wait_for(parts, answers, what)


async def _until_online(demo: Plan, parts: Programs, http: httpx2.AsyncClient) -> None:
    async def all_online() -> bool:
        agents = (await http.get("/agents")).raise_for_status().json()["agents"]
        online = {agent["name"] for agent in agents if agent["status"] == "online"}
        built_in = {agent["name"] for agent in agents if agent["reach"] == "builtin"}
        coder = set() if demo.no_coder else {shop.CODER}
        return online >= {WRITER, *(name for name, _, _ in AGENTS)} | built_in | coder

    await _wait_for(parts, all_online, "An agent")


async def _wait_for(parts: Programs, condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits until a condition holds. A failed call means that the condition does not hold yet. Raises Died or
    NotReady."""
    death = asyncio.create_task(parts.first_death())
    try:
        async with asyncio.timeout(READY_SECONDS):
            while not await _holds(condition):
                await asyncio.wait({death}, timeout=0.1)
                if death.done():
                    raise death.result()
    except TimeoutError as error:
        raise NotReady(f"{what} was not ready within {READY_SECONDS} seconds.") from error
    finally:
        death.cancel()


async def _holds(condition: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await condition()
    except httpx2.HTTPError:
        return False


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
    """Runs the demo as a command. Returns its exit code."""
    try:
        demo = plan(environment)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not demo.slack:
        import_module("slack_twin")  # a missing package raises here, before anything starts
    return asyncio.run(_run_until_stopped(demo))
