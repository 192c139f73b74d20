"""create-task: gives work to a worker, or stores it for later assignment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.model.tasks import TaskView
from swarm.services.tasks.tasks import brief
from tools.tool import CallContext, DependsOn, McpTool, Priority, WritingArguments


class _CreateTask(WritingArguments):
    title: Annotated[str, Field(description="A line for lists.")]
    description: Annotated[
        str, Field(description="What is to be done, in enough detail to do it from this text alone.")
    ]
    agent: Annotated[
        str | None, Field(description="The worker, by name or id. You can leave it out and use assign-task later.")
    ] = None
    priority: Priority = 50
    depends_on: DependsOn = ()
    parent_id: Annotated[
        str | None,
        Field(description="The task of which the new task is a part. Cancelling the former cancels the latter."),
    ] = None


async def _create_task(call: CallContext, said: _CreateTask) -> TaskView:
    """Create a task for a worker. The task belongs to the thread of your lease, and the thread stays with its owner; to
    hand over a message together with its thread, use inbox-delegate. You get a task_finished notice with the result. A
    worker may create subtasks of its own task, passed as parent_id.
    """
    wording = brief(said.description, said.title, said.priority, said.depends_on)
    return await call.services.tasks.create(call, wording, agent=said.agent, parent_id=said.parent_id)


TOOL = McpTool(name="create-task", arguments=_CreateTask, result=TaskView, run=_create_task)
