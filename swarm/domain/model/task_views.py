"""Tasks as agents and operators see them."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.model.tasks import TaskStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """A task that another one waits for."""

    id: str
    title: str
    status: TaskStatus
    result: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskView:
    """A task with names in place of ids."""

    id: str
    title: str
    description: str
    status: TaskStatus
    priority: int
    agent_id: str | None
    agent: str | None  # its worker's name
    created_by: str | None  # an agent's name; None: an operator
    requester: str | None  # a Slack user's id
    parent_id: str | None
    depends_on: tuple[Dependency, ...]
    thread_id: str | None
    inbox_message_id: str | None
    attempts: int
    progress: str | None
    percent: int | None
    result: str | None
    error: str | None
    created_at: int
    started_at: int | None
    ended_at: int | None
