"""Agents that answer live: what the use case that runs them has to know. How they are reached is told by `remote`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.domain.model.agents import Reach, Role

PARALLEL_RUNS: Final = 20


class History(StrEnum):
    """What of a thread an agent gets with each run."""

    NEW = "new"  # what was said since its last run there: the agent remembers the conversation itself
    ALL = "all"  # everything, with each run: the agent remembers nothing


class OnRestart(StrEnum):
    """What becomes of a run that a restart of the coordinator has cut off."""

    RERUN = "rerun"  # it begins anew
    ASK = "ask"  # a Retry button is shown: the agent does what must not be done twice


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamingAgent:
    """An agent that the coordinator runs itself, one run for each trigger."""

    name: str
    role: Role = Role.LEAD
    reach: Reach = Reach.AGUI
    description: str = ""  # what it is good at, for the agents that delegate
    history: History = History.ALL
    parallel: int = PARALLEL_RUNS  # at most so many runs at once in one coordinator process; at least 1
    on_restart: OnRestart = OnRestart.RERUN
    footer: str = ""  # the operator's own words below every answer, mrkdwn
