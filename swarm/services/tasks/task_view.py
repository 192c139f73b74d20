"""Tasks in the form that agents see: visibility, names, and dependencies with their results."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.tasks import Dependency, TaskFacts, TaskView
from swarm.domain.views import facts_of
from swarm.store import agents, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.tasks import Task

__all__ = ["TaskView", "find_visible", "view", "view_of", "views_in_brief"]

Text = TypeVar("Text", str, str | None)

BRIEF_CHARACTERS: Final = 1_000
"""The maximum length of each text of a task in a list."""


def find_visible(tx: Transaction, agent: Agent | None, task_id: str) -> Task | None:
    """Returns a task if the agent may see it. ``agent`` is None for the operator.

    Leads and operators see all tasks; a worker sees its own tasks, the tasks it created, and the dependencies of its
    own tasks.
    """
    task = tasks.get(tx, task_id)
    if task is None or agent is None or agent.role is Role.LEAD or agent.id in (task.agent_id, task.created_by):
        return task
    return task if any(other.agent_id == agent.id for other in task_queries.dependents(tx, task_id)) else None


def view(tx: Transaction, task: Task) -> TaskView:
    """Returns the view of one task."""
    return _view(task, task_queries.dependencies(tx, task.id), agents.names(tx))


def view_of(tx: Transaction, task_id: str) -> TaskView:
    """Returns the current view of a task with a known id."""
    task = tasks.get(tx, task_id)
    assert task is not None  # tasks are never removed
    return view(tx, task)


def views_in_brief(tx: Transaction, found: list[Task]) -> list[TaskView]:
    """Returns the views of tasks in order, with at most `BRIEF_CHARACTERS` of every text."""
    names = agents.names(tx) if found else {}
    dependencies = task_queries.dependencies_of(tx, [task.id for task in found])
    return [_in_brief(_view(task, dependencies[task.id], names)) for task in found]


def _in_brief(whole: TaskView) -> TaskView:
    return replace(
        whole,
        description=_cut(whole.description),
        progress=_cut(whole.progress),
        result=_cut(whole.result),
        error=_cut(whole.error),
        dependencies=tuple(
            replace(other, result=_cut(other.result), error=_cut(other.error)) for other in whole.dependencies
        ),
    )


def _cut(text: Text) -> Text:
    return text[: BRIEF_CHARACTERS - 1] + "…" if text and len(text) > BRIEF_CHARACTERS else text


def _view(task: Task, dependencies: list[Task], names: dict[str, str]) -> TaskView:
    return TaskView(
        **facts_of(TaskFacts, task),
        agent=names.get(task.agent_id or ""),
        created_by=names.get(task.created_by or ""),
        depends_on=tuple(other.id for other in dependencies),
        dependencies=tuple(
            Dependency(id=other.id, title=other.title, status=other.status, result=other.result, error=other.error)
            for other in dependencies
        ),
    )
