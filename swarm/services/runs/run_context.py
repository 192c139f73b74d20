"""What turns are made of: the agents that the coordinator runs, and what every turn works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from swarm.domain.access import Me
from swarm.domain.answers.agents import AgentClient, StreamingAgent
from swarm.domain.answers.showing import Stage
from swarm.domain.model.agents import Agent
from swarm.domain.model.triggers import Trigger
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.ports import Directory
from swarm.services.inbox.work import Work
from swarm.services.runs.run_recovery import Recovery
from swarm.store.bridge.database import Database

T = TypeVar("T")


class NameConversation(Protocol):
    """Names the conversation in a thread: the same for every run there."""

    def __call__(self, *, team: str, channel: str, thread_ts: str) -> str: ...


HandleNotifications = Callable[[Agent, Trigger], Awaitable[None]]
"""Acts on news that came with the renewal of a lease."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedAgent:
    """An agent that the coordinator runs, and how its conversations are named."""

    spec: StreamingAgent
    client: AgentClient
    conversation_id: NameConversation


@dataclass(frozen=True, kw_only=True, slots=True)
class RunContext:
    """What every turn works with. Without ``stop_button_seconds`` no Stop button is shown: Slack has its own."""

    database: Database
    stage: Stage
    work: Work
    directory: Directory
    me: Me
    conduct: OperatingPolicy
    recovery: Recovery
    stop_button_seconds: float | None = 5.0
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set, repr=False)

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something beside the turns, and keep it from being forgotten."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
