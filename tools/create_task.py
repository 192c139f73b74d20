"""create-task: gives work to a worker, or stores it for later assignment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from swarm.domain.shapes import TaskShape, shape
from swarm.services.tasks.tasks import brief
from tools.tool import CallContext, DependsOn, McpTool, Priority, WritingArguments


class CreateTask(WritingArguments):
    title: Annotated[str, Field(description="A line for lists.")]
    description: Annotated[str, Field(description="What is to be done, so that it can be done from this text alone.")]
    agent: Annotated[
        str | None, Field(description="The worker, by name or id; or leave it out, and use assign-task later.")
    ] = None
    priority: Priority = 50
    depends_on: DependsOn = ()
    parent_id: Annotated[str | None, Field(description="The task that it is a part of; cancelled with it.")] = None


async def create_task(call: CallContext, said: CreateTask) -> TaskShape:
    """Create a task for a worker. It belongs to the thread of your lease, which stays with its owner; inbox-delegate
    hands over a message together with its thread. You get a task_finished notice with the result. A worker may create
    parts of its own task, which is parent_id then.
    """
    wording = brief(said.description, said.title, said.priority, said.depends_on)
    task = await call.services.tasks.create(call, wording, agent=said.agent, parent_id=said.parent_id)
    return shape(TaskShape, task)


TOOL = McpTool(name="create-task", arguments=CreateTask, result=TaskShape, run=create_task)
