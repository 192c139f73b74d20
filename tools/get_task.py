"""get-task: returns one task."""

from __future__ import annotations

from swarm.domain.model.tasks import TaskView
from tools.tool import Arguments, CallContext, McpTool, TaskId


class _GetTask(Arguments):
    task_id: TaskId


async def _get_task(call: CallContext, said: _GetTask) -> TaskView:
    """Read a task: its description, state, progress, result or error, and dependencies. Leads may read all tasks;
    workers may read their own tasks, tasks that they have created, and the dependencies of both.
    """
    return await call.services.tasks.get(call.agent, said.task_id)


TOOL = McpTool(name="get-task", arguments=_GetTask, result=TaskView, run=_get_task)
