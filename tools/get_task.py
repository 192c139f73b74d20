"""get-task: returns one task."""

from __future__ import annotations

from swarm.domain.json_shapes import TaskShape, shape
from tools.tool import Arguments, CallContext, McpTool, TaskId


class _GetTask(Arguments):
    task_id: TaskId


async def _get_task(call: CallContext, said: _GetTask) -> TaskShape:
    """Read a task: its description, state, progress, result or error, and dependencies. Leads may read all tasks;
    workers may read their own tasks, tasks that they have created, and the dependencies of both.
    """
    return shape(TaskShape, await call.services.tasks.get(call.agent, said.task_id))


TOOL = McpTool(name="get-task", arguments=_GetTask, result=TaskShape, run=_get_task)
