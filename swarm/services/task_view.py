"""Tasks as their agents see them: names looked up, dependencies with what came of them."""

from __future__ import annotations

from swarm.domain.task_views import Dependency, TaskView
from swarm.store import agents, task_queries
from swarm.store.tasks import Task
from swarm.store.transaction import Transaction

__all__ = ["TaskView", "view", "views"]


def view(tx: Transaction, task: Task) -> TaskView:
    """One task."""
    return views(tx, [task])[0]


def views(tx: Transaction, found: list[Task]) -> list[TaskView]:
    """Some tasks, in their order."""
    names = agents.names(tx) if found else {}
    return [_view(tx, task, names) for task in found]


def _view(tx: Transaction, task: Task, names: dict[str, str]) -> TaskView:
    return TaskView(
        id=task.id,
        title=task.title,
        description=task.description,
        status=task.status,
        priority=task.priority,
        agent_id=task.agent_id,
        agent=names.get(task.agent_id or ""),
        created_by=names.get(task.created_by or ""),
        requester=task.requester,
        parent_id=task.parent_id,
        depends_on=tuple(
            Dependency(id=other.id, title=other.title, status=other.status, result=other.result, error=other.error)
            for other in task_queries.dependencies(tx, task.id)
        ),
        thread_id=task.thread_id,
        inbox_message_id=task.inbox_message_id,
        attempts=task.attempts,
        progress=task.progress,
        percent=task.percent,
        result=task.result,
        error=task.error,
        created_at=task.created_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
    )
