"""``swarm conformance``: does an agent work well in Slack?"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm import log
from swarm.domain.errors import ConfigurationError
from swarm.domain.streaming.remote import Dialect, RemoteAgent

if TYPE_CHECKING:
    from swarm.conformance.run import Result
    from swarm.conformance.scenarios import Scenario

TOKEN_VARIABLE = "SWARM_CONFORMANCE_TOKEN"  # noqa: S105 - the name of one


class Named(StrEnum):
    """The scenarios, for the command line."""

    SIMPLE_CHAT = "simple-chat"
    OFF_TOPIC = "off-topic"
    RAG_SIMPLE = "rag-simple"
    RAG_COMPLEX = "rag-complex"


def conformance(
    *,
    agent: str,
    suite: Annotated[bool, Parameter(negative=())] = False,
    scenario: Annotated[list[Named] | None, Parameter(negative=())] = None,
    dialect: Dialect | None = None,
    token: Annotated[str | None, Parameter(env_var=TOKEN_VARIABLE, show_env_var=True)] = None,
    agent_id: str | None = None,
    timeout_seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 120.0,
    first_sign_seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 30.0,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Ask an AG-UI agent four questions, show its answers in a local Slack, and judge them by 22 checks.

    Neither Slack nor a running coordinator is needed: the answers go through the coordinator's own code into a Slack
    twin that lives as long as the command. The agent has to run, and to know what it is asked: a joke (simple-chat),
    the weather, which is not its business (off-topic), and two questions that it should look up in documents
    (rag-simple, rag-complex). The exit code is 0 only if all checks pass.

    For example, an AG-UI agent on this machine, a CAIPE service, and the agent `docs` of swarm.yaml:

    `swarm conformance --suite --agent http://127.0.0.1:8000/`

    `swarm conformance --scenario simple-chat --agent https://caipe.example.org --dialect caipe`

    `swarm conformance --suite --agent docs`

    Parameters
    ----------
    agent
        The agent's address, or its name below agents.remote in swarm.yaml.
    suite
        Run all scenarios, which is also what happens without --scenario.
    scenario
        Run this scenario only; may be given several times.
    dialect
        agui: the address takes runs of the AG-UI protocol 1.0 (the default); caipe: it is the base of CAIPE's chat API.
    token
        A bearer token for the agent. Better in the environment: arguments can be seen by others on the machine.
    agent_id
        Which agent of the service is meant; caipe only.
    timeout_seconds
        So long one answer may take.
    first_sign_seconds
        So long the first text or tool of an answer may take ("stream opened").
    as_json
        Print everything as JSON; progress still goes to standard error.
    """
    log.configure("error")
    chosen = _chosen(scenario or [], suite=suite)
    remote = _limited(_remote(agent, dialect, token, agent_id), timeout_seconds)
    results = asyncio.run(_examined(remote, chosen, first_sign_seconds))
    _show(remote.name, results, as_json=as_json)
    return 0 if all(result.passed for result in results) else 1


def _chosen(names: Sequence[Named], *, suite: bool) -> list[Scenario]:
    from swarm.conformance.scenarios import SCENARIOS

    if suite and names:
        raise ConfigurationError("--suite runs all scenarios; leave it out, or --scenario.")
    return [scenario for scenario in SCENARIOS if not names or Named(scenario.name) in names]


def _remote(agent: str, dialect: Dialect | None, token: str | None, agent_id: str | None) -> RemoteAgent:
    known = RemoteAgent(name=_host(agent), url=agent) if "://" in agent else _configured(agent)
    return replace(
        known,
        dialect=dialect or known.dialect,
        token=token or known.token,
        oauth=None if token else known.oauth,
        agent_id=agent_id or known.agent_id,
    )


def _host(url: str) -> str:
    """What is shown of an address, which may hold a password."""
    return urlsplit(url).netloc.rpartition("@")[2] or url


def _configured(name: str) -> RemoteAgent:
    from swarm import decisions
    from swarm.config import load

    remotes = {remote.name: remote for remote in decisions.remote_agents(load())}
    if name not in remotes:
        names = ", ".join(remotes) or "none"
        raise ConfigurationError(
            f"There is no agent '{name}' below agents.remote in swarm.yaml (there: {names}).",
            hint="Give its name, or its address, as http://127.0.0.1:8000/.",
        )
    return remotes[name]


def _limited(remote: RemoteAgent, seconds: float) -> RemoteAgent:
    return replace(remote, timeout_seconds=seconds, longest_run_seconds=seconds)


async def _examined(remote: RemoteAgent, scenarios: Sequence[Scenario], first_sign_seconds: float) -> list[Result]:
    from swarm.agents.agui import AguiAgent
    from swarm.agents.conversation import conversation_with
    from swarm.conformance.checks import Limits
    from swarm.conformance.report import Progress
    from swarm.conformance.run import Examination, examine
    from swarm.conformance.workspace import workspace

    agent = AguiAgent(remote)
    try:
        async with workspace() as slack:
            examination = Examination(
                agent,
                slack,
                lambda place: conversation_with(
                    remote, team=place.team, channel=place.channel, thread_ts=place.thread_ts
                ),
                name=remote.name,
                limits=Limits(first_sign_seconds=first_sign_seconds),
            )
            with Progress(scenarios) as progress:
                return await examine(examination, scenarios, begun=progress.begun, done=progress.done)
    finally:
        await agent.aclose()


def _show(agent: str, results: Sequence[Result], *, as_json: bool) -> None:
    from swarm.conformance import report

    if as_json:
        sys.stdout.write(report.as_json(agent, results) + os.linesep)
    else:
        report.show(agent, results)
