"""get-task: returns one task."""

from __future__ import annotations

from swarm.domain.shapes import TaskShape, shape
from tools.tool import Arguments, CallContext, McpTool, TaskId


class GetTask(Arguments):
    task_id: TaskId


async def get_task(call: CallContext, said: GetTask) -> TaskShape:
    """Read a task: its description, state, progress, result or error, and what it depends on. Leads may read all tasks,
    workers their own, those that they have created, and what these depend on.
    """
    return shape(TaskShape, await call.services.tasks.get(call.agent, said.task_id))


TOOL = McpTool(name="get-task", arguments=GetTask, result=TaskShape, run=get_task)
