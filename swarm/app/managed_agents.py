"""Builds the agents that the coordinator runs itself from the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from swarm.app import settings_mapping
from swarm.config import Settings
from swarm.domain.access import Me
from swarm.domain.answers.agents import StreamingAgent
from swarm.domain.answers.showing import Stage
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.services.runs.active_runs import ActiveRuns, RunNotifications
from swarm.services.runs.answer_run import RunContext
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.runs.run_recovery import Recovery
from swarm.services.runs.streaming_agents import StreamingAgentRuns
from swarm.services.use_cases import Services
from swarm.store.bridge.database import Database


def streaming_agents(
    settings: Settings,
    database: Database,
    services: Services,
    directory: Directory,
    stage: Stage,
    me: Me,
    operating_policy: OperatingPolicy,
    built_in: Sequence[ManagedAgent] = (),
) -> StreamingAgentRuns:
    """Returns the service that runs all agents, remote and built-in."""
    specs = {spec.name: spec for spec in settings_mapping.streaming_agents(settings)}
    recovery = Recovery(database, stage.slack, specs, operating_policy)
    run_context = RunContext(
        database=database,
        stage=stage,
        work=services.work,
        directory=directory,
        me=me,
        operating_policy=operating_policy,
        recovery=recovery,
        stop_button_seconds=None if settings.slack.agent_sessions else settings.slack.stop_button_after_seconds,
    )
    running = ActiveRuns(run_context)
    news = RunNotifications(services.work, services.tasks, services.delegations, running)
    return StreamingAgentRuns(database, services.polls, running, recovery, news, [*_remote(settings, specs), *built_in])


def _remote(settings: Settings, specs: Mapping[str, StreamingAgent]) -> list[ManagedAgent]:
    remotes = settings_mapping.remote_agents(settings)
    if not remotes:
        return []
    from swarm.agents.conversation import conversation_with
    from swarm.agents.remote.agui import AguiAgent  # loading the types takes a while, and many installations need none

    return [
        ManagedAgent(
            spec=specs[remote.name], client=AguiAgent(remote), conversation_id=partial(conversation_with, remote)
        )
        for remote in remotes
    ]
